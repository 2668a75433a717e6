package converge_test

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/request"
)

// wide returns a state with one pod of n containers, and these containers on other CPUs than they
// should have. The pod has a limit that is divided among the containers on the node shared pool:
// half of them are init containers, and half sidecars.
func wide(t testing.TB, n int) (*node.State, []converge.Observed) {
	t.Helper()
	s := state(t, false, 1)
	p := s.Policy()
	p.PodLevelManagers, p.Topology = true, node.TopologyBestEffort
	p.Quota = node.QuotaPolicy{Isolated: true, EphemeralMilli: quota.DefaultEphemeralMilli}
	s, err := node.New(s.Machine(), p)
	if err != nil {
		t.Fatal(err)
	}
	pod := request.Pod{Identity: request.Identity{UID: "wide"}, Ask: request.Ask{QoS: request.Guaranteed, Kind: request.PodLevel, BudgetCPUs: 3, BudgetCPUMilli: 3000, CPULimit: 3000}}
	var seen []converge.Observed
	for i := range n {
		c := request.Container{Name: fmt.Sprintf("c%d", i), Type: request.Sidecar, Sharing: request.NotEquivalent, CPULimit: int64(100 + i)}
		switch {
		case i == n-1:
			c = request.Container{Name: c.Name, Type: request.App, CPUs: 1, CPURequest: 1000, CPULimit: 1000, Equivalent: true}
		case i%2 == 0:
			c.Type, c.CPULimit = request.Init, int64(n-i)
		}
		pod.Containers = append(pod.Containers, c)
		seen = append(seen, observed("wide", c.Name, "3", quota.Keep))
	}
	plan := s.Plan(pod)
	if s, err = s.Apply(plan); err != nil || plan.Rejection != nil {
		t.Fatal(err, plan.Rejection)
	}
	return s, seen
}

// TestCompareWide checks that the allocations of a comparison are linear in the number of
// containers of a pod. They would be quadratic if it made, for each container, a list of what runs
// at the same time.
func TestCompareWide(t *testing.T) {
	allocated := func(n int) float64 {
		s, seen := wide(t, n)
		if report := converge.Want(s).Compare(seen); len(report.Updates) != n {
			t.Fatalf("%d of %d containers are updated", len(report.Updates), n)
		}
		return testing.AllocsPerRun(1, func() { converge.Want(s).Compare(seen) })
	}
	if few, many := allocated(100), allocated(400); many > 5*few {
		t.Errorf("100 containers allocate %.0f times, 400 allocate %.0f times", few, many)
	}
}

// TestWantedIsComputedOnce checks that the answers about a pod after the first one compute nothing.
func TestWantedIsComputedOnce(t *testing.T) {
	s, seen := wide(t, 400)
	w := converge.Want(s)
	all := func() {
		for _, o := range seen {
			w.Setting(o.Pod, o.Container)
			w.Owns(o.Pod, o.Container)
			w.PodQuota(o.Pod)
			w.KubeletQuota(o.Pod, o.Container)
		}
	}
	all()
	// One container has its own CPUs: the online ones of them are a new set each time.
	if n := testing.AllocsPerRun(1, all); n > 1 {
		t.Errorf("%d containers allocate %.0f times", len(seen), n)
	}
}

// TestWantedOwns checks which containers own CPUs, and the quotas that the kubelet wrote for them.
func TestWantedOwns(t *testing.T) {
	w := converge.Want(quotaState(t, node.QuotaPolicy{Isolated: true, EphemeralMilli: 500}))
	for _, c := range []struct {
		pod, container string
		owns           bool
		kubelet        quota.Quota
	}{
		{"own", "app", true, quota.Keep}, // Its limit is not known.
		{"own", "log", false, quota.Keep},
		{"own", "debugger-x7", false, quota.None},
		{"other", "debugger-x7", false, quota.Keep},
		{"other", "c", false, quota.Keep},
		{"gone", "c", false, quota.Keep},
	} {
		if owns, kubelet := w.Owns(c.pod, c.container), w.KubeletQuota(c.pod, c.container); owns != c.owns || kubelet != c.kubelet {
			t.Errorf("%s/%s owns CPUs: %v, the kubelet wrote %s; want %v, %s", c.pod, c.container, owns, kubelet, c.owns, c.kubelet)
		}
	}
	s, _ := wide(t, 5)
	if q := converge.Want(s).KubeletQuota("wide", "c4"); q != 100_000 {
		t.Errorf("the kubelet wrote %s for a container with a limit of 1 CPU", q)
	}
	if q := converge.Want(s).KubeletQuota("wide", "debugger-x7"); q != 300_000 {
		t.Errorf("the kubelet wrote %s for an ephemeral container of a pod with a limit", q)
	}
}

// BenchmarkCompareContainers compares all containers of one pod.
func BenchmarkCompareContainers(b *testing.B) {
	for _, n := range []int{10, 1000, 5000} {
		b.Run(fmt.Sprintf("containers=%d", n), func(b *testing.B) {
			s, seen := wide(b, n)
			b.ReportAllocs()
			for b.Loop() {
				converge.Want(s).Compare(seen)
			}
		})
	}
}
