package quota

import (
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// shares returns the quotas of the containers that run on the node shared pool: their shares of
// what the pod's limit leaves to them. The entries of other containers mean nothing. Containers
// that run at the same time form a phase: each standard init container forms one with the sidecars
// before it, and finally all sidecars and apps form one. Each phase is divided by itself, and a
// container gets the least of its shares in all phases, so that the limit is kept in each of them.
//
// If each phase were a list, the number of their members would be quadratic in the number of
// containers. So only the last phase is divided as a list. For the phase of an init container, only
// its level is computed, with sums over the sidecars so far (see levels). The share of a sidecar
// follows from the level alone, and grows with it, so the lowest level of its phases gives the
// least share.
func shares(g *node.Grant) []Quota {
	all := make([]Quota, len(g.Containers))
	rest := Of(g.Pod.CPULimit) - Quota(g.Pool.Len())*Period
	members, parts, sidecars := membersOf(g)
	of := make([]part, len(sidecars))
	for k, at := range sidecars {
		of[k] = parts[at]
	}
	l, n := newLevels(of), 0
	last := rest // the part of the limit that is left in the last phase
	for i := range g.Pod.Containers {
		c := &g.Pod.Containers[i]
		taken, shared := takes(g, i)
		switch {
		case c.Type != request.Init:
			last -= taken
			if c.Type == request.Sidecar {
				rest -= taken
				if shared {
					n++
				}
			}
		case shared:
			own := partOf(c)
			l.phase(rest, n, &own)
			all[i] = own.quota
		default:
			l.phase(rest-taken, n, nil)
		}
	}
	divide(max(last, 0), parts)
	for k, i := range members {
		all[i] = parts[k].quota
	}
	l.least(func(k int, q Quota) {
		i := members[sidecars[k]]
		all[i] = min(all[i], q)
	})
	return all
}

// membersOf returns the containers that share in the last phase, as indexes in the pod and as
// parts, and the positions of the sidecars among them.
func membersOf(g *node.Grant) (members []int, parts []part, sidecars []int) {
	for i := range g.Pod.Containers {
		c := &g.Pod.Containers[i]
		if _, shared := takes(g, i); !shared || c.Type == request.Init {
			continue
		}
		if c.Type == request.Sidecar {
			sidecars = append(sidecars, len(members))
		}
		members, parts = append(members, i), append(parts, partOf(c))
	}
	return members, parts, sidecars
}

// takes returns how much of the pod's limit container i takes for CPUs that it has, or had, alone.
// A container without such CPUs shares in what the others leave.
func takes(g *node.Grant, i int) (taken Quota, shared bool) {
	c, has := &g.Pod.Containers[i], &g.Containers[i]
	switch {
	case has.CPUs.IsEmpty() && (!has.Removed || c.CPUs <= 0):
		return 0, true
	case g.Pool.IsEmpty():
		return Quota(c.CPUs) * Period, false
	}
	return 0, false
}

// part is a container that shares in a division. A limit or request of Keep is not set. A
// request is at most the limit, which the API server enforces.
type part struct {
	limit, request Quota
	// quota is the result.
	quota Quota
	// base and weight determine the fair share: base, plus weight parts of what all bases leave.
	// least and most bound it.
	base, weight, least, most Quota
	done                      bool
}

func partOf(c *request.Container) part {
	p := part{limit: Of(c.CPULimit), request: Of(c.CPURequest)}
	if p.limit > 0 {
		p.request = min(p.request, p.limit)
	}
	return p
}

// rule is the rule by which a phase is divided.
type rule struct {
	by weighing
	// fit is set if the requests fit into the rest, so that each container gets its own.
	fit bool
}

type weighing int

const (
	evenly weighing = iota // in addition to the requests, if they fit
	byLimits
	byRequests
)

// phase has the inputs of the rule of a phase.
type phase struct {
	unlimited, unrequested bool  // a part has no limit, or no request
	requests               Quota // their sum
}

// with returns the phase with another part.
func (h phase) with(p *part) phase {
	h.unlimited, h.unrequested = h.unlimited || p.limit <= 0, h.unrequested || p.request <= 0
	if p.request > Least {
		h.requests += p.request
	}
	return h
}

// rule returns how the rest is divided: in proportion to the limits if all parts have one,
// otherwise in proportion to the requests if all parts have one, otherwise in equal parts.
func (h phase) rule(rest Quota) rule {
	switch fit := h.requests <= rest; {
	case !h.unlimited:
		return rule{byLimits, fit}
	case !h.unrequested:
		return rule{byRequests, fit}
	default:
		return rule{evenly, fit}
	}
}

// unbounded is above every quota. A part without a limit needs no bound: its fair share is never
// more than the rest, or its request.
const unbounded = 2 * most

// weigh sets the fair share of a part, and its bounds.
func (p *part) weigh(r rule) {
	p.base, p.weight, p.least, p.most = 0, 1, Least, unbounded
	if r.fit {
		p.least = max(p.request, Least)
	}
	switch {
	case r.by == byLimits:
		p.weight = p.limit
	case r.by == byRequests:
		p.weight = p.request
	case r.fit:
		p.base = p.request
	}
	if p.limit > 0 {
		p.most = max(p.limit, p.least)
	}
}

// divide splits rest by the rule of the phase. Every container gets at least its request, which the
// API server has checked to fit, and at most its limit. The difference to the fair share goes to or
// comes from the others. The sum is at most rest, except for what Least adds.
//
// Each turn ends with the bounds of some parts. The number of turns depends on the sizes of the
// quotas and hardly on the number of parts: all remaining parts share what a turn moves, so after a
// few dozen turns it is less than a microsecond, or no part is left.
func divide(rest Quota, parts []part) {
	var h phase
	for i := range parts {
		h = h.with(&parts[i])
	}
	for i, r := 0, h.rule(rest); i < len(parts); i++ {
		parts[i].weigh(r)
	}
	for {
		var weights, surplus Quota
		left := rest
		for i := range parts {
			if p := &parts[i]; p.done {
				left -= p.quota
			} else {
				left -= p.base
				weights += p.weight
			}
		}
		if weights == 0 {
			return
		}
		for i := range parts {
			if p := &parts[i]; !p.done {
				fair := p.fair(level{left, weights})
				p.quota = min(max(fair, p.least), p.most)
				surplus += p.quota - fair
			}
		}
		settle(parts, level{left, weights}, surplus)
	}
}

// settle finishes the parts whose bounds count: those at a lower bound if the bounds give out more
// than there is, those at an upper bound if they leave some, and all parts if they do neither.
func settle(parts []part, l level, surplus Quota) {
	for i := range parts {
		p := &parts[i]
		if p.done {
			continue
		}
		switch fair := p.fair(l); {
		case surplus == 0:
			p.quota, p.done = p.at(l), true
		case surplus > 0:
			p.done = p.quota > fair
		default:
			p.done = p.quota < fair
		}
	}
}

// fair returns the share of the part at a level, rounded down, without its bounds.
func (p *part) fair(l level) Quota { return p.base + l.times(p.weight) }

// at returns the share of the part at the level at which a division ends. It is a whole number of
// milliseconds, which systemd does not round up. A bound is exact, like the quota that the kubelet
// would write.
func (p *part) at(l level) Quota {
	switch fair := p.fair(l); {
	case fair < p.least:
		return p.least
	case fair > p.most:
		return p.most
	default:
		return max(fair/Least*Least, p.least)
	}
}
