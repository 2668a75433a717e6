package journal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Encode returns the bytes of a journal, at most MaxSize, with the newest entries. It does not
// change the journal. It fails if an entry has a value that has no name in the form. The error
// names the entry.
func Encode(j Journal) ([]byte, error) {
	admissions := slices.Clone(j.Admissions)
	slices.SortFunc(admissions, func(a, b Admission) int {
		return cmp.Or(cmp.Compare(b.Revision, a.Revision), cmp.Compare(a.UID, b.UID))
	})
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"format\":%q,\"version\":%d,\n\"admissions\":[", format, version)
	newest := list{most: MaxAdmissions, room: maxAdmissionBytes}
	for _, a := range admissions {
		if err := newest.add(admissionText{a.UID, a.At.UTC(), a.Revision}); err != nil {
			return nil, fmt.Errorf("admission of the pod with UID %s: %w", a.UID, err)
		}
	}
	newest.print(&b)
	b.WriteString("],\n\"rejections\":[")
	const end = "]}\n"
	newest = list{most: MaxRejections, room: MaxSize - b.Len() - len(end)}
	for _, r := range slices.Backward(j.Rejections) {
		text, err := r.text()
		if err == nil {
			err = newest.add(text)
		}
		if err != nil {
			return nil, fmt.Errorf("rejection %d, of pod %s: %w", r.Number, r.Pod.ID(), err)
		}
	}
	newest.print(&b)
	b.WriteString(end)
	return b.Bytes(), nil
}

// list has as many entries as fit, the newest first.
type list struct {
	entries    [][]byte
	most, room int
}

// add appends an entry if it fits.
func (l *list) add(entry any) error {
	if len(l.entries) == l.most {
		return nil
	}
	data, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	if need := len(data) + len(",\n"); need <= l.room {
		l.entries, l.room = append(l.entries, data), l.room-need
	}
	return nil
}

// print appends the entries to b, the oldest first.
func (l *list) print(b *bytes.Buffer) {
	separator := "\n"
	for _, entry := range slices.Backward(l.entries) {
		b.WriteString(separator)
		b.Write(entry)
		separator = ",\n"
	}
}

func (r Rejection) text() (rejectionText, error) {
	pod, err := podTextOf(r.Pod)
	return rejectionText{
		Number: r.Number, First: r.First.UTC(), Last: r.Last.UTC(), Times: r.Times, Revision: r.Revision,
		Pod: pod, Rejection: whyTextOf(r.Rejection), Error: r.Error,
	}, err
}

func podTextOf(p request.Pod) (podText, error) {
	var n namer
	out := podText{
		UID: p.UID, Namespace: p.Namespace, Name: p.Name,
		QoS: n.name(qosNames, int(p.QoS)), Kind: n.name(kindNames, int(p.Kind)),
		BudgetCPUs: p.BudgetCPUs, BudgetMemory: mapOf(p.BudgetMemory), BudgetMilli: p.BudgetCPUMilli, LimitMilli: p.CPULimit,
		SharesIsolated: p.SharesIsolated, PoolCache: cacheTextOf(p.PoolCache), CacheUnclear: p.CacheUnclear,
		Estimated: p.Estimated, Priority: p.Priority, Created: p.Created, Unknown: p.DevicesUnknown, Containers: make([]containerText, len(p.Containers)),
	}
	for _, s := range p.Stock {
		stock := stockText{Of: s.Of, Places: []placeText{}}
		for _, at := range s.Places {
			stock.Places = append(stock.Places, placeText{at.Nodes.Nodes(), at.Devices})
		}
		out.Stock = append(out.Stock, stock)
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		out.Containers[i] = containerText{
			Name: c.Name, Type: n.name(typeNames, int(c.Type)), CPUs: c.CPUs, Shares: n.name(sharesNames, int(c.Sharing)),
			Memory: mapOf(c.Memory), Equivalent: c.Equivalent, HugePages: c.HugePages, Devices: mapOf(c.Devices), Cache: cacheTextOf(c.Cache),
			RequestMilli: c.CPURequest, LimitMilli: c.CPULimit,
			MemoryRequest: mapOf(c.MemoryRequest), MemoryLimit: mapOf(c.MemoryLimit), Claims: c.Claims, Given: givenTextOf(c.Given),
		}
	}
	return out, n.err
}

func whyTextOf(r *rejection.Rejection) *whyText {
	if r == nil {
		return nil
	}
	out := &whyText{
		Reason: string(r.Reason), Rule: r.Rule, Container: r.Container, Resource: r.Resource, Wanted: r.Wanted, Detail: r.Detail,
	}
	for _, n := range r.Nodes {
		account := accountText{Node: n.Node, Total: n.Total, Free: n.Free, Unhealthy: n.Unhealthy}
		for _, h := range n.Holders {
			account.Holders = append(account.Holders, holderText{h.Pod, h.Amount, h.Nodes.Nodes()})
		}
		out.Nodes = append(out.Nodes, account)
	}
	if m := r.Misfit; m != nil {
		out.Misfit = &misfitText{Devices: givenTextOf(m.Devices), Nodes: m.Nodes.Nodes(), Final: m.Final}
		for _, s := range m.Short {
			out.Misfit.Short = append(out.Misfit.Short, shortageText(s))
		}
	}
	return out
}

func givenTextOf(list []request.Given) []givenText {
	var out []givenText
	for _, g := range list {
		out = append(out, givenText{g.Resource, g.Claim, g.Driver, g.Pool, g.Name, g.Nodes.Nodes()})
	}
	return out
}

func cacheTextOf(c request.Cache) *cacheText {
	if c.IsZero() {
		return nil
	}
	return &cacheText{c.Ways, c.Percent, c.Bandwidth}
}

func mapOf(a request.Amounts) map[string]int64 {
	if len(a) == 0 {
		return nil
	}
	out := make(map[string]int64, len(a))
	for _, x := range a {
		out[x.Resource] = x.Value
	}
	return out
}

// namer returns the names of values and keeps the first error.
type namer struct{ err error }

func (n *namer) name(names []string, value int) string {
	if value >= 0 && value < len(names) {
		return names[value]
	}
	if n.err == nil {
		n.err = fmt.Errorf("value %d has no name among %q", value, names)
	}
	return ""
}
