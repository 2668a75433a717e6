package nri_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// estimating returns a bench whose agent estimates the requests of pods that are not listed.
func estimating(t *testing.T) *bench {
	b := newBench(t.Context(), func(c *nri.Config) { c.Estimate = func(error) bool { return true } })
	b.start()
	return b
}

// brief formats an estimate in one line.
func brief(pod request.Pod, doubt error) string {
	if doubt != nil {
		return fmt.Sprintf("%s, in doubt", pod.QoS)
	}
	return fmt.Sprintf("%s %s, cpus=%d (%dm/%dm) %s", pod.QoS, pod.Kind, pod.BudgetCPUs, pod.BudgetCPUMilli, pod.CPULimit, pod.BudgetMemory)
}

// TestEstimatesOfRecordedPods compares the estimates with what containerd showed of pods' cgroups.
func TestEstimatesOfRecordedPods(t *testing.T) {
	b := newBench(t.Context())
	b.boot()
	got := map[string]string{}
	for _, file := range []string{"none", "static-pod-restricted", "apiserver-resize"} {
		for _, m := range messages(t, file) {
			if m.Event == "RunPodSandbox" {
				pod, doubt := nri.Estimate(m.Pod, b.engine.State())
				got[file+" "+m.Pod.GetName()] = brief(pod, doubt)
			}
		}
	}
	for name, want := range map[string]string{
		"none ctr-g-e2enode": "Guaranteed pod-level, cpus=2 (2000m/2000m) memory=128Mi",
		"none plr-g-e2enode": "Guaranteed pod-level, cpus=3 (3000m/3000m) memory=512Mi",
		"none plr-h-e2enode": "Guaranteed pod-level, cpus=1 (1000m/1000m) memory=256Mi", // Its huge pages are not shown.
		"none plr-b-e2enode": "Burstable plain, cpus=0 (0m/0m) none",
		// The kubelet's static policy has disabled the quota.
		"static-pod-restricted ctr-g-e2enode": "Guaranteed pod-level, cpus=2 (2000m/0m) memory=128Mi",
		"static-pod-restricted plr-g-e2enode": "Guaranteed pod-level, cpus=3 (3000m/3000m) memory=512Mi",
		"static-pod-restricted plr-b-e2enode": "Burstable plain, cpus=0 (0m/0m) none",
		"apiserver-resize ctr-g":              "Guaranteed pod-level, cpus=2 (2000m/2000m) memory=128Mi",
		"apiserver-resize plr-h":              "Guaranteed pod-level, cpus=1 (1000m/1000m) memory=256Mi",
		"apiserver-resize plr-b":              "Burstable plain, cpus=0 (0m/0m) none",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("nobody says what these are: %v", got)
	}
}

func TestEstimates(t *testing.T) {
	const mib = 1 << 20
	pages := func(r *api.LinuxResources, told ...*api.HugepageLimit) *api.LinuxResources {
		r.HugepageLimits = told
		return r
	}
	two := func(bytes uint64) *api.HugepageLimit { return &api.HugepageLimit{PageSize: "2MB", Limit: bytes} }
	const guaranteed, nothing = "/kubepods/podu", "Guaranteed, in doubt"
	for _, c := range []struct {
		parent string
		shown  *api.LinuxResources
		want   string
	}{
		{guaranteed, numbers(1536, 150_000, 100_000, mib), "Guaranteed pod-level, cpus=0 (1500m/1500m) memory=1Mi"},
		{guaranteed, numbers(2048, 20_000, 10_000, mib), "Guaranteed pod-level, cpus=2 (2000m/2000m) memory=1Mi"},
		{guaranteed, numbers(2048, 0, 0, mib), "Guaranteed pod-level, cpus=2 (2000m/0m) memory=1Mi"}, // cpuCFSQuota: false
		{guaranteed, pages(numbers(1024, 100_000, 100_000, mib), two(4*mib), &api.HugepageLimit{PageSize: "1GB"}, two(4*mib)), "Guaranteed pod-level, cpus=1 (1000m/1000m) hugepages-2Mi=4Mi memory=1Mi"},
		{"kubepods-podu_1.slice", numbers(1024, 100_000, 100_000, mib), "Guaranteed pod-level, cpus=1 (1000m/1000m) memory=1Mi"},
		{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu_1.slice", numbers(1024, 100_000, 100_000, mib), "Burstable plain, cpus=0 (0m/0m) none"},
		{"kubelet-kubepods-besteffort-podu.slice", numbers(2, 0, 0, 0), "BestEffort plain, cpus=0 (0m/0m) none"},
		{"/kubepods/besteffort/podu", nil, "BestEffort plain, cpus=0 (0m/0m) none"},
		{"/node/kubepods/podu", numbers(1024, 100_000, 100_000, mib), "Guaranteed pod-level, cpus=1 (1000m/1000m) memory=1Mi"},

		{guaranteed, nil, nothing},
		{guaranteed, numbers(0, 100_000, 100_000, mib), nothing},
		{guaranteed, numbers(1024, 100_000, 100_000, 0), nothing},
		{guaranteed, numbers(1024, 100_000, 100_000, -mib), nothing},
		{guaranteed, numbers(1024, 100_000, 100_000, math.MaxInt64), nothing},
		{guaranteed, numbers(1024, 200_000, 100_000, mib), nothing}, // The limit is 2 CPUs and the request is 1.
		{guaranteed, numbers(1024, 100_000, 0, mib), nothing},
		{guaranteed, numbers(1024, 100_000, -1, mib), nothing},
		{guaranteed, numbers(1024, -7, 100_000, mib), nothing},
		{guaranteed, numbers(1024, math.MaxInt64, 100_000, mib), nothing},
		{guaranteed, numbers(-1, -1, 100_000, mib), nothing},
		{guaranteed, numbers(1<<18, -1, 100_000, mib), nothing}, // 256 CPUs or more
		{guaranteed, numbers(9*1024, 0, 0, mib), nothing},       // The machine has 8 CPUs.
		{guaranteed, pages(numbers(1024, 100_000, 100_000, mib), two(mib), two(2*mib)), nothing},
		{guaranteed, pages(numbers(1024, 100_000, 100_000, mib), two(math.MaxUint64)), nothing},
		{guaranteed, pages(numbers(1024, 100_000, 100_000, mib), &api.HugepageLimit{PageSize: "1GB", Limit: 1}), nothing},
		{guaranteed, pages(numbers(1024, 100_000, 100_000, mib), &api.HugepageLimit{PageSize: "-3 MB x", Limit: 1}), nothing},
		{"", numbers(1024, 100_000, 100_000, mib), "Burstable, in doubt"},
		{"/", numbers(1024, 100_000, 100_000, mib), "Burstable, in doubt"},
		{"/machine.slice", numbers(1024, 100_000, 100_000, mib), "Burstable, in doubt"},
		{"/burstable/podu", numbers(1024, 100_000, 100_000, mib), "Burstable, in doubt"},
	} {
		b := newBench(t.Context())
		b.boot()
		pod, doubt := nri.Estimate(&api.PodSandbox{Uid: "u", Linux: &api.LinuxPodSandbox{CgroupParent: c.parent, PodResources: c.shown}}, b.engine.State())
		if got := brief(pod, doubt); got != c.want {
			t.Errorf("%s with %v is %q (%v), want %q", c.parent, c.shown, got, doubt, c.want)
		}
	}
}

// TestEstimateOfAnything: whatever the numbers are, no pod gets exclusive CPUs and every grant is
// valid. In doubt nothing is assigned and no pod is rejected. The numbers that a kubelet writes for
// a Guaranteed pod are read back exactly.
func TestEstimateOfAnything(t *testing.T) {
	number := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, 2, 1024, 2048, 100_000, 200_000, 1 << 18, 1 << 30, math.MaxInt64}))
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(t.Context())
		b.policy.Scope = rapid.SampledFrom([]node.Scope{node.PodScope, node.ContainerScope}).Draw(t, "scope")
		b.policy.Topology = rapid.SampledFrom([]node.TopologyPolicy{node.TopologyNone, node.TopologyBestEffort, node.TopologySingleNUMANode}).Draw(t, "topology")
		b.policy.PodLevelManagers = rapid.Bool().Draw(t, "gate")
		b.boot()
		s := b.engine.State()
		milli := rapid.Int64Range(10, 9000).Draw(t, "milli")
		shown := numbers(milli*1024/1000, milli*100, 100_000, 1<<20)
		known := rapid.Bool().Draw(t, "as the kubelet writes it")
		if !known {
			shown = numbers(number.Draw(t, "shares"), number.Draw(t, "quota"), number.Draw(t, "period"), number.Draw(t, "memory"))
			shown.HugepageLimits = []*api.HugepageLimit{{PageSize: rapid.SampledFrom([]string{"2MB", "1GB", "", "MB", "4096"}).Draw(t, "size"), Limit: uint64(number.Draw(t, "pages"))}}
		}
		pod, doubt := nri.Estimate(&api.PodSandbox{Uid: "u", Linux: &api.LinuxPodSandbox{CgroupParent: "/kubepods/podu", PodResources: shown}}, s)
		if known && (doubt == nil) != (milli <= 8000) {
			t.Fatalf("%dm on 8 CPUs: %v", milli, doubt)
		}
		if want := milli; known && doubt == nil && b.policy.PodLevelManagers && (pod.BudgetCPUMilli != want || pod.CPULimit != want || (pod.BudgetCPUs > 0) != (want%1000 == 0)) {
			t.Fatalf("%dm is read as %s", want, pod)
		}
		holdsAsAWhole(t, s, pod, doubt)
	})
}

func holdsAsAWhole(t *rapid.T, s *node.State, pod request.Pod, doubt error) {
	plan := s.Plan(pod)
	next, err := s.Apply(plan)
	if err == nil {
		err = next.Check()
	}
	if err != nil || !pod.Estimated {
		t.Fatalf("%v: %s", err, pod)
	}
	if plan.Rejection != nil {
		if doubt != nil {
			t.Fatalf("in doubt it is refused: %v", plan.Rejection)
		}
		return
	}
	policy := s.Policy()
	pools := policy.PodLevelManagers && policy.Scope == node.PodScope && policy.Topology != node.TopologyNone
	if plan.Grant.Isolation(0) == node.ContainerIsolation || quota.PodHasNone(plan.Grant, policy) || (!pools || doubt != nil) && (plan.Grant.HasPool() || !plan.Grant.CPUs().IsEmpty()) {
		t.Fatalf("%s holds %s under %+v", pod, plan.Grant.CPUs(), policy)
	}
}

// A pod that is not listed gets one pool of the size of its numbers for all its containers, and
// keeps its quota. It keeps the pool through a restart. When it is listed, the log reports once
// what it would get.
func TestEstimatedPodKeepsItsPool(t *testing.T) {
	b := estimating(t)
	defer b.check(t)
	b.list(burstable("b"))
	b.hide(guaranteed("g", 2))
	b.mustRun(t, "b", "g")
	want := map[string]string{"b/web": "0-1,4-7 on {}", "g/app": "2-3 on {0}", "g/log": "2-3 on {0}"}
	b.want(t, "unlisted", want)
	if !b.quotas["/kubepods/podg"] {
		t.Error("the pod's quota is lifted")
	}
	if said := b.said.String(); !strings.Contains(said, "estimated from cgroup numbers") || !strings.Contains(said, "pool=2-3") || !strings.Contains(said, "not listed") {
		t.Errorf("it is not said that it is an estimate, and why: %s", said)
	}
	b.disconnect()
	b.start()
	b.plugin.Reconcile(t.Context())
	if said := b.said.String(); strings.Contains(said, "the kubelet lists an estimated pod now") {
		t.Errorf("it is not listed, and this is said: %s", said)
	}
	b.list(guaranteed("g", 1))
	for range 2 {
		b.plugin.Reconcile(t.Context())
	}
	b.want(t, "listed", want)
	if said := b.said.String(); strings.Count(said, "the kubelet lists an estimated pod now") != 1 || !strings.Contains(said, "would_get=1") {
		t.Errorf("it is not said once what it would get: %s", said)
	}
	b.list(guaranteed("g", 3))
	err := b.plugin.UpdatePodSandbox(t.Context(), b.box("g"), nil, numbers(3072, 300_000, 100_000, 128<<20))
	if !errors.Is(err, nri.ErrResizeRejected) || !strings.Contains(err.Error(), "the request of the pod was estimated") {
		t.Errorf("an estimated pod is resized: %v", err)
	}
	b.plugin.Reconcile(t.Context())
	b.want(t, "resized", want)
	b.stop("g")
	b.plugin.Reconcile(t.Context())
	b.unlist("g")
	b.clock.pass(b.grace())
	b.plugin.Reconcile(t.Context())
	b.want(t, "gone", map[string]string{"b/web": "0-7 on {}"})
}

// A pod that the source never listed is not gone while it has a sandbox, even if pulling an image
// takes minutes. But a sandbox whose end was not reported does not keep CPUs for ever.
func TestEstimatedPodWaitsForItsImage(t *testing.T) {
	b := estimating(t)
	defer b.check(t)
	b.hide(guaranteed("g", 2))
	box, err := b.sandbox("g")
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		b.clock.pass(b.grace())
		b.plugin.Reconcile(t.Context())
	}
	if g, holds := b.engine.State().Grant("g"); !holds || g.Pool.String() != "2-3" {
		t.Errorf("it holds %v", g)
	}
	b.hide(guaranteed("lost", 1))
	if _, err := b.sandbox("lost"); err != nil {
		t.Fatal(err)
	}
	for range 11 {
		b.clock.pass(b.grace())
		b.plugin.Reconcile(t.Context())
	}
	if _, holds := b.engine.State().Grant("lost"); holds {
		t.Error("a sandbox that was lost keeps CPUs")
	}
	if err := b.plugin.RunPodSandbox(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	b.broke(b.plugin.StopPodSandbox(t.Context(), box))
	b.plugin.Reconcile(t.Context())
	if _, holds := b.engine.State().Grant("g"); !holds {
		t.Error("it was released before a new sandbox could follow")
	}
	b.clock.pass(b.grace())
	b.plugin.Reconcile(t.Context())
	if _, holds := b.engine.State().Grant("g"); holds {
		t.Error("it is gone and holds CPUs")
	}
}

// A pod that the source lists is not estimated. Nor is a pod that the source rejects for another
// reason, or a pod that runs already.
func TestEstimateIsTheLastResort(t *testing.T) {
	b := newBench(t.Context(), func(c *nri.Config) {
		c.Estimate = func(err error) bool { return !strings.Contains(err.Error(), "cannot be used") }
	})
	b.start()
	defer b.check(t)
	b.list(guaranteed("listed", 2))
	b.mustRun(t, "listed")
	if g, _ := b.engine.State().Grant("listed"); g == nil || g.Pod.Estimated {
		t.Errorf("a pod that is listed is held as %v", g)
	}
	b.deaf = errors.New("its specification cannot be used")
	b.hide(guaranteed("odd", 1))
	if err := b.run("odd"); err == nil || !strings.Contains(err.Error(), "cannot be used") {
		t.Errorf("a pod whose specification cannot be used is answered with %v", err)
	}
	b.deaf = nil
	b.disconnect()
	b.hide(guaranteed("missed", 1))
	b.mustRun(t, "missed")
	b.connect()
	b.plugin.Reconcile(t.Context())
	if g, holds := b.engine.State().Grant("missed"); holds {
		t.Errorf("a pod that started without the agent is held as %v", g.Pod)
	}
	b.list(guaranteed("missed", 1))
	b.clock.pass(b.grace())
	b.plugin.Reconcile(t.Context())
	if g, holds := b.engine.State().Grant("missed"); !holds || g.Pod.Estimated {
		t.Errorf("listed later it is held as %v", g)
	}
}

// In doubt a pod runs on the node shared pool. A pod whose numbers do not fit is rejected, and the
// error reports that they are an estimate.
func TestEstimateInDoubtAndTooLarge(t *testing.T) {
	b := estimating(t)
	defer b.check(t)
	odd := &api.PodSandbox{Id: "odd", Uid: "odd", Name: "odd", Namespace: "default", Linux: linux(guaranteed("odd", 2))}
	odd.Linux.PodResources.Cpu.Shares = api.UInt64(uint64(7))
	b.boxes["odd"] = odd
	if err := b.plugin.RunPodSandbox(t.Context(), odd); err != nil {
		t.Fatal(err)
	}
	if _, err := b.create(odd, "any"); err != nil {
		t.Fatal(err)
	}
	b.want(t, "in doubt", map[string]string{"odd/any": "0-7 on {}"})
	if said := b.said.String(); !strings.Contains(said, "CPU shares are 7") {
		t.Errorf("the doubt is not said: %s", said)
	}
	b.hide(guaranteed("large", 8))
	err := b.run("large")
	if err == nil || !errors.Is(err, nri.ErrRejected) || !strings.Contains(err.Error(), "estimated from cgroup numbers") {
		t.Errorf("8 CPUs of 7 are answered with %v", err)
	}
}

// Without the setting, a pod that is not listed waits, as before.
func TestNoEstimateUnlessAsked(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	b.hide(guaranteed("g", 2))
	if err := b.run("g"); err == nil || !strings.Contains(err.Error(), "is not known yet: not listed; the kubelet tries again") {
		t.Errorf("it is answered with %v", err)
	}
	if len(b.engine.State().Grants()) > 0 || strings.Contains(b.said.String(), "estimate") {
		t.Errorf("it holds something, or this is said: %s", b.said.String())
	}
}

// TestRecordedStockNodeEstimated plays the stock node again, with a kubelet that cannot be asked.
// Pods get pools in place of CPUs of their own, and pods that are listed later do not move.
func TestRecordedStockNodeEstimated(t *testing.T) {
	b := estimating(t)
	defer b.check(t)
	for _, m := range messages(t, "none") {
		b.play(t, m)
	}
	b.plugin.Reconcile(t.Context())
	want := map[string]string{
		"ctr-g-uid/main": "2-3 on {0}", "plr-h-uid/a": "1 on {0}", "plr-g-uid/excl": "4-6 on {1}", "plr-g-uid/shared": "4-6 on {1}",
		"plr-b-uid/a": "0,7 on {}", "plr-b-uid/b": "0,7 on {}",
	}
	b.want(t, "in the end", want)
	for parent, has := range b.quotas {
		if !has {
			t.Errorf("%s lost its quota", parent)
		}
	}
	b.listed(t, "none-pods")
	b.plugin.Reconcile(t.Context())
	b.want(t, "when they are listed", want)
	if g, _ := b.engine.State().Grant("plr-g-uid"); g == nil || g.PoolMemory[0].Type != machine.Memory || g.PoolMemory[0].Size != 512<<20 {
		t.Errorf("plr-g holds %v", g)
	}
}
