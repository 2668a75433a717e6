package quota_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/request"
)

// many returns a node with 64 CPUs, of which CPU 0 is reserved, with isolated quotas.
func many(t testing.TB, scope node.Scope) *node.State {
	t.Helper()
	d := machine.NodeDescription{Memory: 1 << 30}
	for id := range 64 {
		d.Cores = append(d.Cores, machine.CoreDescription{Threads: []int{id}, Uncore: machine.NoUncore})
	}
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{d}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{
		Topology: node.TopologyRestricted, Scope: scope, StaticCPU: true, ReservedCPUs: cpuset.Of(0),
		PodLevelResources: true, PodLevelManagers: true, LiftQuota: true, Quota: node.QuotaPolicy{Isolated: true, EphemeralMilli: quota.DefaultEphemeralMilli},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mixed draws a Guaranteed pod-level pod that the API server accepts: its limit is at least what
// its containers ask for at any time.
func mixed(t *rapid.T) request.Pod {
	pod := request.Pod{Identity: request.Identity{UID: "u", Name: "p", Namespace: "n"}, Ask: request.Ask{QoS: request.Guaranteed, Kind: request.PodLevel}}
	var sidecars, most, last int64
	for i := range rapid.IntRange(1, 6).Draw(t, "containers") {
		c := request.Container{Name: fmt.Sprint(i), Type: request.ContainerType(rapid.IntRange(0, 2).Draw(t, "type"))}
		if i > 0 && pod.Containers[i-1].Type == request.App {
			c.Type = request.App
		}
		if rapid.Bool().Draw(t, "exclusive") {
			c.CPUs = rapid.IntRange(1, 4).Draw(t, "CPUs")
			c.CPURequest, c.CPULimit, c.Equivalent = int64(c.CPUs)*1000, int64(c.CPUs)*1000, true
		} else {
			c.Sharing = request.NotEquivalent
			c.CPURequest = rapid.SampledFrom([]int64{0, 0, 1, 125, 700, 2300}).Draw(t, "request")
			if add := rapid.SampledFrom([]int64{0, 1, 33, 500, 5000}).Draw(t, "limit"); add > 1 {
				c.CPULimit = c.CPURequest + add
			}
		}
		switch c.Type {
		case request.Init:
			most = max(most, sidecars+c.CPURequest)
		case request.Sidecar:
			sidecars += c.CPURequest
		case request.App:
			last += c.CPURequest
		}
		pod.Containers = append(pod.Containers, c)
	}
	pod.CPULimit = max((max(most, sidecars+last)+999)/1000, 1)*1000 + rapid.SampledFrom([]int64{0, 1000, 3000}).Draw(t, "more")
	pod.BudgetCPUs, pod.BudgetCPUMilli = int(pod.CPULimit/1000), pod.CPULimit
	return pod
}

// running returns the containers that may run at the same time: each standard init container with
// the sidecars before it, and finally the sidecars and apps.
func running(pod request.Pod) [][]int {
	var phases [][]int
	for i := range len(pod.Containers) + 1 {
		var phase []int
		switch {
		case i == len(pod.Containers):
			for k, c := range pod.Containers {
				if c.Type != request.Init {
					phase = append(phase, k)
				}
			}
		case pod.Containers[i].Type == request.Init:
			for k := range i {
				if pod.Containers[k].Type == request.Sidecar {
					phase = append(phase, k)
				}
			}
			phase = append(phase, i)
		}
		phases = append(phases, phase)
	}
	return phases
}

// allowed returns how much CPU time a container may use in a period, in microseconds: its quota, or
// its CPUs.
func allowed(s *node.State, g *node.Grant, i int) int64 {
	c := g.Pod.Containers[i]
	switch q := quota.OfGrant(g, s.Policy()).Containers[i]; {
	case q == quota.None:
		return int64(g.Containers[i].CPUs.Len()) * quota.Period
	case q != quota.Keep:
		return int64(q)
	case c.CPULimit > 0:
		return int64(quota.Of(c.CPULimit))
	}
	return int64(quota.Of(g.Pod.CPULimit))
}

// TestQuotasNeverExceedTheLimit checks that containers that run at the same time never get more
// than the pod's limit, except for the kernel's smallest quota. No container gets less than its
// request or more than its limit, exclusive containers and the pod have no quota, and little of the
// limit is lost if a container could use it.
func TestQuotasNeverExceedTheLimit(t *testing.T) {
	empty := many(t, node.ContainerScope)
	rapid.Check(t, func(t *rapid.T) {
		plan := empty.Plan(mixed(t))
		s, err := empty.Apply(plan)
		if err != nil || plan.Grant == nil {
			t.Fatal(err, plan.Rejection)
		}
		g, exclusive := plan.Grant, false
		for i, c := range g.Pod.Containers {
			exclusive = exclusive || c.Exclusive()
			if q := quota.OfGrant(g, s.Policy()).Containers[i]; (q == quota.None) != c.Exclusive() {
				t.Fatalf("container %s has quota %s", c.Name, q)
			}
		}
		if quota.PodHasNone(g, s.Policy()) != exclusive {
			t.Fatalf("the pod's quota is no CFS quota: %v", !exclusive)
		}
		if !exclusive {
			return // The pod's own quota bounds all containers.
		}
		phases := running(g.Pod)
		for _, phase := range phases {
			checkPhase(t, s, g, phase)
		}
		if !slices.ContainsFunc(g.Pod.Containers, func(c request.Container) bool { return c.Type == request.Init }) {
			checkUsed(t, s, g)
		}
	})
}

// checkPhase checks one phase of TestQuotasNeverExceedTheLimit.
func checkPhase(t *rapid.T, s *node.State, g *node.Grant, phase []int) {
	var sum, small int64
	for _, i := range phase {
		c := g.Pod.Containers[i]
		us := allowed(s, g, i)
		if us < int64(quota.Of(c.CPURequest)) || c.CPULimit > 0 && us > int64(quota.Of(c.CPULimit)) {
			t.Fatalf("container %s gets %d µs, requests %dm, limit %dm", c.Name, us, c.CPURequest, c.CPULimit)
		}
		sum += us
		if us == int64(quota.Least) {
			small += us
		}
	}
	if limit := int64(quota.Of(g.Pod.CPULimit)); sum-small > limit {
		t.Fatalf("%v get %d µs, the pod's limit is %d", phase, sum, limit)
	}
}

// checkUsed checks a pod whose containers all run at the same time: if a container without a limit
// could use the pod's limit, all of it is given out, except for less than a millisecond per
// container.
func checkUsed(t *rapid.T, s *node.State, g *node.Grant) {
	sum, unlimited := int64(0), false
	for i, c := range g.Pod.Containers {
		sum += allowed(s, g, i)
		unlimited = unlimited || c.CPULimit == 0
	}
	if least := int64(len(g.Pod.Containers)) * int64(quota.Least); unlimited && sum+least < int64(quota.Of(g.Pod.CPULimit)) {
		t.Fatalf("all get %d µs, the pod's limit is %dm", sum, g.Pod.CPULimit)
	}
}

// TestQuotaInThePool checks that, in a pod's pool, only quotas of exclusive containers change, and
// that the pod has no quota.
func TestQuotaInThePool(t *testing.T) {
	empty := many(t, node.PodScope)
	rapid.Check(t, func(t *rapid.T) {
		plan := empty.Plan(mixed(t))
		g, p := plan.Grant, empty.Policy()
		if g == nil {
			return // Its pool would be empty.
		}
		if !quota.PodHasNone(g, p) || quota.OfPod(g, p) != quota.None {
			t.Fatal("the pod has a quota beside its pool")
		}
		if q := quota.OfGrant(g, p).Ephemeral; q != 100_000 {
			t.Fatalf("an ephemeral container gets %s", q)
		}
		for i, c := range g.Pod.Containers {
			want := quota.Keep
			if c.Exclusive() {
				want = quota.None
			}
			if q := quota.OfGrant(g, p).Containers[i]; q != want {
				t.Fatalf("container %s has quota %s, want %s", c.Name, q, want)
			}
		}
	})
}

// TestQuotaOfWhoLostItsCPUs checks that a container whose CPUs are all offline gets its quota back,
// and so does a pod-level pod when none of its containers has its own CPUs any more.
func TestQuotaOfWhoLostItsCPUs(t *testing.T) {
	s := many(t, node.ContainerScope)
	p := s.Policy()
	exclusive := func(name string) request.Container {
		return request.Container{Name: name, Type: request.App, CPUs: 2, CPURequest: 2000, CPULimit: 2000, Equivalent: true}
	}
	g := *s.Plan(request.Pod{
		Identity: request.Identity{UID: "u"}, Ask: request.Ask{
			QoS: request.Guaranteed, Kind: request.PodLevel, BudgetCPUs: 6, CPULimit: 6000,
			Containers: []request.Container{exclusive("a"), exclusive("b"), {Name: "log", Type: request.App, Sharing: request.NotEquivalent}},
		},
	}).Grant
	shown := func() string {
		q := quota.OfGrant(&g, p)
		return fmt.Sprint(q.Containers[0], q.Containers[1], q.Containers[2], " pod ", q.Pod, " ephemeral ", q.Ephemeral)
	}
	for _, step := range []struct{ loses, want string }{
		{"", "none none 200000 pod none ephemeral 100000"},
		// a may use its 2 CPUs on the node shared pool, and 2 of 6 are left to log.
		{"a", "200000 none 200000 pod none ephemeral 100000"},
		{"b", "200000 200000 keep pod 600000 ephemeral keep"},
	} {
		for i, c := range g.Pod.Containers {
			if c.Name == step.loses {
				g.Containers[i].CPUs = cpuset.Set{}
			}
		}
		if got := shown(); got != step.want {
			t.Errorf("after %q lost its CPUs: %s, want %s", step.loses, got, step.want)
		}
	}
}

func TestQuotaIn(t *testing.T) {
	for _, c := range []struct {
		quota, period int64
		want          quota.Quota
	}{
		{-1, 100_000, quota.None},
		{0, 100_000, quota.Keep},
		{150_000, 100_000, 150_000},
		{15_000, 10_000, 150_000},
		{1 << 62, 1, 1 << 43},
		{1, 1_000_000, 1},
	} {
		if got := quota.In(c.quota, c.period); got != c.want {
			t.Errorf("%d in %d is %s, want %s", c.quota, c.period, got, c.want)
		}
	}
	if got := fmt.Sprint(quota.Of(1), quota.Of(1500), quota.Of(0), quota.Of(1<<62), quota.Of(1500).Milli()); got != "1000 150000 keep 8796093022208 1500" {
		t.Error(got)
	}
}
