package journal

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/account"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Decode parses the bytes that Encode returned. The error wraps ErrDamaged or ErrNewer.
func Decode(data []byte) (Journal, error) {
	if len(data) > MaxSize {
		return Journal{}, fmt.Errorf("%w: more than the %d bytes that a journal has at most", ErrDamaged, MaxSize)
	}
	var head headText
	switch err := json.Unmarshal(data, &head); {
	case err != nil:
		return Journal{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	case head.Format != format || head.Version < 1:
		return Journal{}, fmt.Errorf("%w: it has format %q and version %d, expected %q and %d", ErrDamaged, head.Format, head.Version, format, version)
	case head.Version > version:
		return Journal{}, fmt.Errorf("%w: it has version %d, this one knows %d", ErrNewer, head.Version, version)
	}
	var text journalText
	if err := json.Unmarshal(data, &text); err != nil {
		return Journal{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	var r reader
	j := text.journal(&r)
	if r.err != nil {
		return Journal{}, fmt.Errorf("%w: %w", ErrDamaged, r.err)
	}
	return j, nil
}

func (x *journalText) journal(r *reader) Journal {
	r.want(len(x.Admissions) <= MaxAdmissions, "it has %d admissions, and the most is %d", len(x.Admissions), MaxAdmissions)
	r.want(len(x.Rejections) <= MaxRejections, "it has %d rejections, and the most is %d", len(x.Rejections), MaxRejections)
	var j Journal
	for _, a := range x.Admissions {
		r.want(a.UID != "", "an admission has no UID")
		j.Admissions = append(j.Admissions, Admission{a.UID, r.time(a.At), a.Revision})
	}
	number := 0
	for i := range x.Rejections {
		n := x.Rejections[i].rejection(r)
		r.want(n.Number > number, "rejection %d follows rejection %d", n.Number, number)
		number = n.Number
		j.Rejections = append(j.Rejections, n)
	}
	return j
}

func (x *rejectionText) rejection(r *reader) Rejection {
	r.want(x.Times > 0, "rejection %d happened %d times", x.Number, x.Times)
	if x.Rejection == nil {
		x.Rejection = x.Earlier
	}
	r.want((x.Rejection == nil) != (x.Error == ""), "rejection %d wants a reason, or an error", x.Number)
	return Rejection{
		Number: x.Number, Pod: x.Pod.pod(r), Revision: x.Revision, Rejection: x.Rejection.rejection(r), Error: x.Error,
		First: r.time(x.First), Last: r.time(x.Last), Times: x.Times,
	}
}

func (x *podText) pod(r *reader) request.Pod {
	r.want(x.UID != "", "pod %s/%s has no UID", x.Namespace, x.Name)
	r.counts("pod "+x.Name, int64(x.BudgetCPUs), x.BudgetMilli, x.LimitMilli)
	p := request.Pod{
		Identity: request.Identity{UID: x.UID, Namespace: x.Namespace, Name: x.Name},
		Ask: request.Ask{
			QoS: request.QoS(r.value(qosNames, x.QoS)), Kind: request.Kind(r.value(kindNames, x.Kind)),
			BudgetCPUs: x.BudgetCPUs, BudgetMemory: r.amounts(x.BudgetMemory), BudgetCPUMilli: x.BudgetMilli, CPULimit: x.LimitMilli,
			SharesIsolated: x.SharesIsolated, PoolCache: x.PoolCache.cache(r), CacheUnclear: x.CacheUnclear,
			Estimated: x.Estimated, DevicesUnknown: x.Unknown,
		}, Notes: request.Notes{Priority: x.Priority, Created: x.Created},
	}
	for i := range x.Stock {
		stock := request.Stock{Of: x.Stock[i].Of}
		for _, at := range x.Stock[i].Places {
			r.want(at.Devices > 0, "%s has %d devices on NUMA nodes %v", stock.Of, at.Devices, at.Nodes)
			stock.Places = append(stock.Places, request.Place{Nodes: r.nodes(at.Nodes), Devices: at.Devices})
		}
		p.Stock = append(p.Stock, stock)
	}
	for i := range x.Containers {
		c := &x.Containers[i]
		r.counts("container "+c.Name, int64(c.CPUs), c.RequestMilli, c.LimitMilli)
		p.Containers = append(p.Containers, request.Container{
			Name: c.Name, Type: request.ContainerType(r.value(typeNames, c.Type)), CPUs: c.CPUs,
			Sharing: request.Sharing(r.value(sharesNames, c.Shares)), Memory: r.amounts(c.Memory), Equivalent: c.Equivalent,
			HugePages: c.HugePages, Devices: r.amounts(c.Devices), Cache: c.Cache.cache(r), CPURequest: c.RequestMilli, CPULimit: c.LimitMilli, Given: r.given(c.Given),
			ContainerNotes: request.ContainerNotes{MemoryRequest: r.amounts(c.MemoryRequest), MemoryLimit: r.amounts(c.MemoryLimit), Claims: c.Claims},
		})
	}
	return p
}

func (x *cacheText) cache(r *reader) request.Cache {
	if x == nil {
		return request.Cache{}
	}
	r.counts("an annotation for the caches", int64(x.Ways), int64(x.Percent), int64(x.Bandwidth))
	return request.Cache{Ways: x.Ways, Percent: x.Percent, Bandwidth: x.Bandwidth}
}

func (x *whyText) rejection(r *reader) *rejection.Rejection {
	if x == nil {
		return nil
	}
	out := &rejection.Rejection{
		Reason: rejection.Reason(x.Reason), Rule: x.Rule, Container: x.Container, Resource: x.Resource, Wanted: x.Wanted, Detail: x.Detail,
	}
	for _, n := range x.Nodes {
		r.want(n.Node >= 0 && n.Node <= mask.MaxNode, "NUMA node %d is outside 0..%d", n.Node, mask.MaxNode)
		at := account.Node{Node: n.Node, Total: n.Total, Free: n.Free, Unhealthy: n.Unhealthy}
		for _, h := range n.Holders {
			at.Holders = append(at.Holders, account.Holder{Pod: h.Pod, Amount: h.Amount, Nodes: r.nodes(h.Nodes)})
		}
		out.Nodes = append(out.Nodes, at)
	}
	if m := x.Misfit; m != nil {
		out.Misfit = &rejection.Misfit{Devices: r.given(m.Devices), Nodes: r.nodes(m.Nodes), Final: m.Final}
		for _, s := range m.Short {
			r.counts(s.Resource, s.Wanted, s.Free, s.Total, int64(s.Preferred))
			out.Misfit.Short = append(out.Misfit.Short, rejection.Shortage(s))
		}
	}
	return out
}

// reader converts text into values and keeps the first error.
type reader struct{ err error }

func (r *reader) want(good bool, message string, args ...any) {
	if !good && r.err == nil {
		r.err = fmt.Errorf(message, args...)
	}
}

// counts rejects negative numbers, which the planner never produces.
func (r *reader) counts(who string, numbers ...int64) {
	for _, n := range numbers {
		r.want(n >= 0, "%s has %d of something", who, n)
	}
}

func (r *reader) value(names []string, name string) int {
	i := slices.Index(names, name)
	r.want(i >= 0, "%q is none of %q", name, names)
	return max(i, 0)
}

// time rejects years that could not be encoded again.
func (r *reader) time(t time.Time) time.Time {
	t = t.UTC()
	r.want(t.Year() >= 1970 && t.Year() <= 9999, "time %s is not between the years 1970 and 9999", t)
	return t
}

func (r *reader) nodes(ids []int) mask.Mask {
	var m mask.Mask
	for _, id := range ids {
		r.want(id >= 0 && id <= mask.MaxNode, "NUMA node %d is outside 0..%d", id, mask.MaxNode)
		if r.err == nil {
			m = m.With(id)
		}
	}
	return m
}

func (r *reader) given(list []givenText) []request.Given {
	var out []request.Given
	for _, g := range list {
		out = append(out, request.Given{Resource: g.Resource, Claim: g.Claim, Driver: g.Driver, Pool: g.Pool, Name: g.Name, Nodes: r.nodes(g.Nodes)})
	}
	return out
}

func (r *reader) amounts(m map[string]int64) request.Amounts {
	var out request.Amounts
	for _, resource := range slices.Sorted(maps.Keys(m)) {
		r.counts(resource, m[resource])
		out = append(out, request.Amount{Resource: resource, Value: m[resource]})
	}
	return out
}
