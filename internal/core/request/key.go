package request

import (
	"bytes"
	"slices"
	"strconv"
)

// Key returns a text that two asks share exactly if all fields by which a node decides are equal:
// the node decides the same about both in the same state. Every call computes it from the fields.
// Empty and nil lists are the same.
func (a *Ask) Key() string { return string(a.AppendKey(a.room())) }

// room returns an empty slice with capacity for most keys.
func (a *Ask) room() []byte { return make([]byte, 0, 64+128*len(a.Containers)) }

// AppendKey appends the key to b. The key has all fields in their order, a mark at the end of each
// number, and the length before each text and list. So no key is a prefix of another one.
func (a *Ask) AppendKey(b []byte) []byte { return a.appendGiven(a.appendOwn(b)) }

// Own returns the ask without what others know or chose: given devices, their stock, and the notes
// of containers.
func (a *Ask) Own() Ask {
	own := *a
	own.Stock, own.DevicesUnknown, own.Containers = nil, "", slices.Clone(a.Containers)
	for i := range own.Containers {
		own.Containers[i].Given, own.Containers[i].ContainerNotes = nil, ContainerNotes{}
	}
	return own
}

// Equal reports whether p and q are the same pod and ask for the same themselves: the keys of Own
// are equal.
func (p Pod) Equal(q Pod) bool {
	return p.Identity == q.Identity && bytes.Equal(p.appendOwn(p.room()), q.appendOwn(q.room()))
}

// SameQuestion reports whether p and q are the same pod, and the keys are equal: they are Equal,
// and what is known about the devices that others chose is the same.
func (p Pod) SameQuestion(q Pod) bool {
	return p.Identity == q.Identity && bytes.Equal(p.AppendKey(p.room()), q.AppendKey(q.room()))
}

// appendOwn appends the part of the key that covers Own.
func (a *Ask) appendOwn(b []byte) []byte {
	b = appendInt(appendInt(b, a.QoS), a.Kind)
	b = a.BudgetMemory.AppendKey(appendInt(b, a.BudgetCPUs))
	b = appendInt(appendInt(b, a.BudgetCPUMilli), a.CPULimit)
	b = appendBool(appendBool(appendBool(b, a.SharesIsolated), a.Estimated), a.FractionalMemory)
	b = appendBool(a.PoolCache.appendKey(b), a.CacheUnclear != "")
	b = appendInt(b, len(a.Containers))
	for i := range a.Containers {
		b = a.Containers[i].appendOwn(b)
	}
	return b
}

func (c *Container) appendOwn(b []byte) []byte {
	b = appendInt(appendText(b, c.Name), c.Type)
	b = c.Memory.AppendKey(appendInt(appendInt(b, c.CPUs), c.Sharing))
	b = appendInt(appendBool(b, c.Equivalent), len(c.HugePages))
	for _, r := range c.HugePages {
		b = appendText(b, r)
	}
	b = c.Cache.appendKey(c.Devices.AppendKey(b))
	return appendBool(appendInt(appendInt(b, c.CPURequest), c.CPULimit), c.FractionalMemory)
}

func (c Cache) appendKey(b []byte) []byte {
	if c.IsZero() { // Most containers ask for nothing.
		return append(b, '0')
	}
	b = append(b, '1')
	return appendInt(appendInt(appendInt(b, c.Ways), c.Percent), c.Bandwidth)
}

// appendGiven appends the part of the key about what others know or chose. The part before it has
// the number of containers.
func (a *Ask) appendGiven(b []byte) []byte {
	for i := range a.Containers {
		given := a.Containers[i].Given
		b = appendInt(b, len(given))
		for k := range given {
			b = given[k].appendKey(b)
		}
	}
	b = appendInt(appendBool(b, a.DevicesUnknown != ""), len(a.Stock))
	for i := range a.Stock {
		b = a.Stock[i].appendKey(b)
	}
	return b
}

func (g *Given) appendKey(b []byte) []byte {
	b = appendText(appendText(b, g.Resource), g.Claim)
	b = appendText(appendText(b, g.Driver), g.Pool)
	return appendInt(appendText(b, g.Name), g.Nodes)
}

func (s *Stock) appendKey(b []byte) []byte {
	b = appendInt(appendText(b, s.Of), len(s.Places))
	for _, p := range s.Places {
		b = appendInt(appendInt(b, p.Nodes), p.Devices)
	}
	return b
}

// AppendKey appends to b a text that is no prefix of another one. Two lists share it exactly if
// they are equal. Empty and nil lists are equal.
func (a Amounts) AppendKey(b []byte) []byte {
	b = appendInt(b, len(a))
	for _, x := range a {
		b = appendInt(appendText(b, x.Resource), x.Value)
	}
	return b
}

func appendInt[N ~int | ~int64 | ~uint64](b []byte, n N) []byte {
	return append(strconv.AppendInt(b, int64(n), 10), ' ')
}

func appendBool(b []byte, is bool) []byte {
	if is {
		return append(b, '1')
	}
	return append(b, '0')
}

func appendText(b []byte, text string) []byte {
	return append(append(strconv.AppendInt(b, int64(len(text)), 10), ':'), text...)
}
