package quota_test

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/request"
)

// TestQuotasOneByOne compares the quotas of a pod, computed together, with those of each container
// computed alone.
func TestQuotasOneByOne(t *testing.T) {
	p := many(t, node.ContainerScope).Policy()
	rapid.Check(t, func(t *rapid.T) {
		g := wideGrant(t)
		got := quota.OfGrant(g, p).Containers
		for i := range g.Containers {
			if want := quotaAlone(g, p, i); got[i] != want {
				t.Fatalf("container %d has quota %s, alone %s; pod limit %dm, pool %s, containers %s", i, got[i], want, g.Pod.CPULimit, g.Pool, shown(g))
			}
		}
	})
}

// wideGrant draws the grant of a pod-level pod with a limit. Within one pod, the sizes of requests
// and limits are similar, and so is whether containers have them. So all ways to divide a limit
// occur.
func wideGrant(t *rapid.T) *node.Grant {
	sizes := rapid.SampledFrom([]int{3, 15, 60, 400, 5000}).Draw(t, "sizes")
	room := rapid.SampledFrom([]int{0, 2, 12, sizes}).Draw(t, "room")
	has := func(what string) func() bool {
		often := rapid.SampledFrom([]int{0, 5, 8, 9, 10}).Draw(t, "often "+what)
		return func() bool { return rapid.IntRange(0, 9).Draw(t, what) < often }
	}
	requested, limited, exclusive, removed := has("request"), has("limit"), has("exclusive"), has("removed")
	if rapid.Bool().Draw(t, "mostly shared") {
		exclusive = func() bool { return rapid.IntRange(0, 19).Draw(t, "exclusive one") == 0 }
		removed = exclusive
	}
	g := &node.Grant{Pod: request.Pod{Identity: request.Identity{UID: "u", Name: "p"}, Ask: request.Ask{QoS: request.Guaranteed, Kind: request.PodLevel}}}
	for i := range rapid.IntRange(1, rapid.SampledFrom([]int{6, 15, 60}).Draw(t, "most")).Draw(t, "containers") {
		c := request.Container{Name: fmt.Sprint(i), Type: request.ContainerType(rapid.IntRange(0, 8).Draw(t, "type") / 4)}
		if i > 0 && g.Pod.Containers[i-1].Type == request.App {
			c.Type = request.App
		}
		if requested() {
			c.CPURequest = int64(rapid.IntRange(1, sizes).Draw(t, "requests"))
		}
		if limited() {
			c.CPULimit = max(c.CPURequest, 1) + int64(rapid.IntRange(0, room).Draw(t, "limited to"))
		}
		var has node.ContainerGrant
		if exclusive() {
			c.CPUs = rapid.IntRange(1, 3).Draw(t, "CPUs")
			if rapid.Bool().Draw(t, "has them") {
				has.CPUs = cpuset.Of(i + 1)
			}
		}
		if has.Removed = removed(); has.Removed {
			has.CPUs = cpuset.Set{}
		}
		g.Pod.Containers, g.Containers = append(g.Pod.Containers, c), append(g.Containers, has)
	}
	// One container has its own CPUs, so that the pod has no quota.
	g.Pod.Containers = append(g.Pod.Containers, request.Container{Name: "exclusive", Type: request.App, CPUs: 1, CPURequest: 1000, CPULimit: 1000})
	g.Containers = append(g.Containers, node.ContainerGrant{CPUs: cpuset.Of(0)})
	g.Pod.CPULimit = tight(t, g, sizes)
	if rapid.IntRange(0, 9).Draw(t, "pool") == 0 {
		g.Pool = cpuset.Of(0, 50)
	}
	return g
}

// tight draws the limit of a pod: what the containers of one phase request, or a part of it, and a
// little for each container.
func tight(t *rapid.T, g *node.Grant, sizes int) int64 {
	phase := rapid.SampledFrom(running(g.Pod)).Draw(t, "phase")
	var sum int64
	for _, i := range phase {
		if c := g.Pod.Containers[i]; c.CPUs > 0 {
			sum += int64(c.CPUs) * 1000
		} else {
			sum += max(c.CPURequest, 10*min(c.CPURequest, 1))
		}
	}
	each := rapid.SampledFrom([]int{1, 4, 9, 11, sizes / 2, sizes * 2}).Draw(t, "for each")
	sum += int64(rapid.IntRange(0, each*len(phase)+1).Draw(t, "more"))
	if rapid.IntRange(0, 4).Draw(t, "less") == 0 {
		sum = sum * int64(rapid.IntRange(0, 9).Draw(t, "tenths")) / 10
	}
	return max(1, sum)
}

// shown returns the containers of a grant: type, request, limit, CPUs.
func shown(g *node.Grant) (text string) {
	for i, c := range g.Pod.Containers {
		text += fmt.Sprintf("%s %d/%d", c.Type, c.CPURequest, c.CPULimit)
		if c.CPUs > 0 {
			text += fmt.Sprintf(" exclusive %d has %q", c.CPUs, g.Containers[i].CPUs)
		}
		if g.Containers[i].Removed {
			text += " removed"
		}
		text += "; "
	}
	return text
}

// kubeletAlone returns the quota that the kubelet writes for a container.
func kubeletAlone(g *node.Grant, i int) quota.Quota {
	if own := quota.Of(g.Pod.Containers[i].CPULimit); own != quota.Keep {
		return own
	}
	return quota.Of(g.Pod.CPULimit)
}

// quotaAlone returns the quota of one container: it lists and divides every phase again for it.
func quotaAlone(g *node.Grant, p node.Policy, i int) quota.Quota {
	if quota.HasNone(g, p, i) {
		return quota.None
	}
	if !p.LiftQuota || !p.StaticCPU || g.Containers[i].Removed {
		return quota.Keep
	}
	c := g.Pod.Containers[i]
	kubelet := kubeletAlone(g, i)
	want := kubelet
	// A pod-level limit is divided among the containers on the node shared pool. In a plain pod,
	// the limits of the containers are the pod's limit, so there is nothing to divide.
	bounded := g.Pod.Kind == request.PodLevel && g.Pod.CPULimit > 0 && g.Containers[i].CPUs.IsEmpty()
	if p.Quota.Isolated && quota.PodHasNone(g, p) && bounded {
		want = shareAlone(g, i)
	}
	if want == kubelet && (c.CPUs == 0 || !g.Containers[i].CPUs.IsEmpty()) {
		return quota.Keep
	}
	return want
}

// shareAlone returns how much container i may use of what the pod's limit leaves to the containers
// on the node shared pool. Containers that run at the same time form a phase: each standard init
// container forms one with the sidecars before it, and finally all sidecars and apps form one. Each
// phase is divided by itself, and a container gets the least of its shares in all phases, so that
// the limit is kept in each of them.
func shareAlone(g *node.Grant, i int) quota.Quota {
	least := quota.Of(1 << 62)
	for _, phase := range running(g.Pod) {
		at := slices.Index(phase, i)
		if at < 0 {
			continue
		}
		var parts []part
		var rest quota.Quota
		if rest, parts, at = restOf(g, phase, i); at >= 0 {
			divide(rest, parts)
			least = min(least, parts[at].quota)
		}
	}
	return least
}

// restOf returns what the pod's limit leaves to the containers of a phase that run on the node
// shared pool, these containers, and the position of i among them.
func restOf(g *node.Grant, phase []int, i int) (rest quota.Quota, parts []part, at int) {
	rest, at = quota.Of(g.Pod.CPULimit)-quota.Quota(g.Pool.Len())*quota.Period, -1
	for _, k := range phase {
		c := g.Pod.Containers[k]
		has := g.Containers[k]
		switch {
		case !has.CPUs.IsEmpty() || has.Removed && c.Exclusive():
			if g.Pool.IsEmpty() {
				rest -= quota.Quota(c.CPUs) * quota.Period
			}
			continue
		case k == i:
			at = len(parts)
		}
		parts = append(parts, part{limit: quota.Of(c.CPULimit), request: quota.Of(c.CPURequest)})
	}
	return max(rest, 0), parts, at
}

// part is a container that shares in a division. A limit or request of quota.Keep is not set.
type part struct {
	limit, request quota.Quota
	// quota is the result.
	quota quota.Quota
	// base and weight determine the fair share: base, plus weight parts of what all bases leave.
	// least and most bound it.
	base, weight, least, most quota.Quota
	done                      bool
}

// divide splits rest in proportion to the limits if all containers have one, otherwise in
// proportion to the requests if all have one. Otherwise each gets its request, and an equal part of
// what the requests leave. Every container gets at least its request, which the API server has
// checked to fit, and at most its limit. The difference to the fair share goes to or comes from the
// others. The sum is at most rest, except for what quota.Least adds.
func divide(rest quota.Quota, parts []part) {
	weigh(rest, parts)
	for {
		var weights, surplus quota.Quota
		left := rest
		for _, p := range parts {
			if p.done {
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
				fair := p.base + proportion(left, p.weight, weights)
				p.quota = min(max(fair, p.least), p.most)
				surplus += p.quota - fair
			}
		}
		settle(parts, left, weights, surplus)
	}
}

// settle finishes the parts whose bounds count: those at a lower bound if the bounds give out more
// than there is, those at an upper bound if they leave some, and all parts if they do neither.
func settle(parts []part, left, weights, surplus quota.Quota) {
	for i := range parts {
		p := &parts[i]
		if p.done {
			continue
		}
		switch fair := p.base + proportion(left, p.weight, weights); {
		case surplus == 0:
			// It is a whole number of milliseconds, which systemd does not round up. A bound is
			// exact, like the quota that the kubelet would write.
			if p.quota == fair {
				p.quota = max(fair/quota.Least*quota.Least, p.least)
			}
			p.done = true
		case surplus > 0:
			p.done = p.quota > fair
		default:
			p.done = p.quota < fair
		}
	}
}

// weigh sets the fair shares, and the bounds.
func weigh(rest quota.Quota, parts []part) {
	limits, requests := true, true
	var sum quota.Quota
	for _, p := range parts {
		limits, requests = limits && p.limit > 0, requests && p.request > 0
		if p.request > quota.Least {
			sum += p.request
		}
	}
	for i := range parts {
		p := &parts[i]
		p.weight, p.least, p.most = 1, quota.Least, max(rest, quota.Least)
		if sum <= rest {
			p.least = max(p.request, quota.Least)
		}
		switch {
		case limits:
			p.weight = p.limit
		case requests:
			p.weight = p.request
		case sum <= rest:
			p.base = p.request
		}
		if p.limit > 0 {
			p.most = max(min(p.most, p.limit), p.least)
		}
	}
}

// proportion returns left·weight/weights, rounded down. A negative left counts as 0.
func proportion(left, weight, weights quota.Quota) quota.Quota {
	high, low := bits.Mul64(uint64(max(left, 0)), uint64(weight))
	quotient, _ := bits.Div64(high, low, uint64(weights))
	return quota.Quota(quotient)
}
