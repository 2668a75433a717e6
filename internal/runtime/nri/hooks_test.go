package nri_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/runtime/nri"
)

// want compares what runs where.
func (b *bench) want(t *testing.T, what string, want map[string]string) {
	t.Helper()
	if got := b.shown(); !maps.Equal(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

func (b *bench) mustRun(t *testing.T, uids ...string) {
	t.Helper()
	for _, uid := range uids {
		if err := b.run(uid); err != nil {
			t.Fatal(err)
		}
	}
}

// A neighbour leaves the CPUs of an exclusive container in the reply to its creation, keeps away
// while the pod is there, and comes back when it is gone.
func TestNeighbourMoves(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	b.list(burstable("b"), guaranteed("g", 2))
	b.mustRun(t, "b")
	b.want(t, "alone", map[string]string{"b/web": "0-7 on {}"})
	b.mustRun(t, "g")
	pinned := map[string]string{"b/web": "0-1,4-7 on {}", "g/app": "2-3 on {0} no quota", "g/log": "0-1,4-7 on {0}"}
	b.want(t, "with a neighbour", pinned)
	if b.quotas["/kubepods/podg"] {
		t.Error("the pod's quota is not lifted")
	}
	if !b.quotas["/kubepods/burstable/podb"] {
		t.Error("a pod without exclusive containers lost its quota")
	}
	b.plugin.Reconcile(t.Context())
	b.want(t, "later", pinned)
	b.stop("g")
	b.unlist("g")
	b.plugin.Reconcile(t.Context())
	b.want(t, "alone again", map[string]string{"b/web": "0-7 on {}"})
	if _, holds := b.engine.State().Grant("g"); holds {
		t.Error("the pod holds its grant")
	}
}

// Init containers lend their CPUs to the containers after them; a container that stops and starts again has the
// same ones.
func TestContainersComeAndGo(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	pod := guaranteed("g", 2)
	pod.Containers = append([]request.Container{{Name: "init", Lane: request.Init, CPUs: 2, Memory: pod.Containers[0].Memory, Equivalent: true}}, pod.Containers...)
	b.list(pod)
	b.mustRun(t, "g")
	before := b.shown()
	for range 3 {
		for _, id := range b.of("g") {
			name := b.runs[id].c.GetName()
			box := b.boxes[b.runs[id].c.GetPodSandboxId()]
			b.exit(id)
			b.plugin.Reconcile(t.Context())
			if _, err := b.create(box, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.want(t, "after restarts", before)
}

// A sandbox that is made anew keeps the grant, also when the source cannot be asked for a moment.
func TestSandboxMadeAnew(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	b.list(guaranteed("g", 2), guaranteed("h", 2))
	b.mustRun(t, "g")
	before := b.shown()["g/app"]
	b.deaf = errors.New("the kubelet restarts")
	b.stop("g")
	b.clock.pass(29 * time.Second)
	if !b.plugin.Reconcile(t.Context()) {
		t.Error("nothing is expected soon")
	}
	b.deaf = nil
	b.mustRun(t, "h")
	b.stop("h")
	b.mustRun(t, "g")
	if now := b.shown()["g/app"]; now != before {
		t.Errorf("made anew it runs on %s, before on %s", now, before)
	}
	b.deaf = errors.New("the kubelet is gone")
	b.stop("g")
	b.clock.pass(time.Hour)
	b.plugin.Reconcile(t.Context())
	if n := len(b.engine.State().Grants()); n != 2 {
		t.Errorf("%d pods have a grant: a kubelet that does not answer took them", n)
	}
}

// Who waits for the kubelet is told apart from who waits for us; a pod that is held is not asked for.
func TestTimeOfAsking(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	b.list(guaranteed("g", 2))
	b.slow = 20 * time.Millisecond
	b.mustRun(t, "g")
	b.stop("g")
	b.mustRun(t, "g")
	if want := []time.Duration{b.slow}; !slices.Equal(b.observed.asked, want) {
		t.Errorf("asking took %v, want %v", b.observed.asked, want)
	}
}

// A pod that is gone from the list while its containers still run keeps everything.
func TestGoneFromTheListAndRunning(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	b.list(guaranteed("g", 2))
	b.mustRun(t, "g")
	b.unlist("g")
	b.clock.pass(time.Hour)
	b.plugin.Reconcile(t.Context())
	if _, holds := b.engine.State().Grant("g"); !holds {
		t.Error("the CPUs of running containers were given back")
	}
}

func TestRefusal(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	b.list(guaranteed("g", 4), guaranteed("h", 4))
	b.mustRun(t, "g")
	err := b.run("h")
	if !errors.Is(err, nri.ErrRefused) {
		t.Fatalf("error %v, want a refusal", err)
	}
	for _, part := range []string{"default/h", "TopologyAffinityError", "cpu wanted: 4", "NUMA node 0: 3 of 3 free", "NUMA node 1: 0 of 4 free, default/g has 4"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %s", part, err)
		}
	}
	looked, planned := b.looked, b.planned
	if again := b.run("h"); again == nil || again.Error() != err.Error() {
		t.Errorf("again: %v", again)
	}
	if b.looked != looked+1 || b.planned != planned {
		t.Errorf("a retry cost %d lookups and %d plans, want one lookup", b.looked-looked, b.planned-planned)
	}
	b.stop("g")
	b.unlist("g")
	b.plugin.Reconcile(t.Context())
	b.mustRun(t, "h")
}

func TestUnknownPod(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	err := b.run("nobody")
	if !errors.Is(err, errUnlisted) || !strings.Contains(err.Error(), "tried again") {
		t.Errorf("error %v, want that it is not listed and tried again", err)
	}
}

func TestNoPoolForSharedContainers(t *testing.T) {
	b := newBench(t.Context())
	b.policy.ReservedCPUs, b.policy.CPU.StrictReservation = cpuset.Of(0, 1, 2, 3), true
	b.policy.Topology = 0
	b.start()
	defer b.check(t)
	all := guaranteed("g", 4)
	all.Containers = all.Containers[:1]
	b.list(all, burstable("b"))
	b.mustRun(t, "g")
	if err := b.run("b"); err == nil || !strings.Contains(err.Error(), "shared pool is empty") {
		t.Errorf("error %v, want that the pool is empty", err)
	}
}

// A resize reaches the container without touching what is pinned, and it is said what it would need.
func TestResize(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	b.list(guaranteed("g", 2))
	b.mustRun(t, "g")
	id := b.of("g")[0]
	box := b.boxes[b.runs[id].c.GetPodSandboxId()]
	b.list(guaranteed("g", 3))
	asks := &api.LinuxResources{Cpu: &api.LinuxCPU{Quota: api.Int64(int64(300000)), Period: api.UInt64(uint64(100000))}, Memory: &api.LinuxMemory{Limit: api.Int64(int64(1 << 28))}}
	if err := b.plugin.UpdatePodSandbox(t.Context(), box, nil, asks); err != nil {
		t.Fatal(err)
	}
	updates, err := b.plugin.UpdateContainer(t.Context(), box, b.runs[id].c, asks)
	if err != nil || len(updates) != 1 || updates[0].GetContainerId() != id {
		t.Fatalf("updates %v, error %v", updates, err)
	}
	r := updates[0].GetLinux().GetResources()
	if r.GetCpu().GetCpus() != "4-5" && r.GetCpu().GetCpus() != "2-3" || r.GetCpu().GetQuota().GetValue() != -1 || r.GetMemory() != nil {
		t.Errorf("the resize is answered with %v", r)
	}
	b.quotas["/kubepods/podg"] = true // As the kubelet does at a resize.
	b.plugin.Reconcile(t.Context())
	if b.quotas["/kubepods/podg"] {
		t.Error("the pod's quota came back and stayed")
	}
	if !strings.Contains(b.said.String(), "the pod was resized and keeps what it has") {
		t.Errorf("nothing is said of the resize: %s", b.said.String())
	}
}

// Somebody writes to a container's cgroup. The next round repairs it.
func TestDrift(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	b.list(guaranteed("g", 2), burstable("b"))
	b.mustRun(t, "g", "b")
	before := b.shown()
	for _, id := range append(b.of("g"), b.of("b")...) {
		b.runs[id].setting = converge.Setting{CPUs: cpuset.Of(0, 1, 2, 3, 4, 5, 6, 7)}
	}
	b.clock.pass(time.Minute)
	b.plugin.Reconcile(t.Context())
	b.want(t, "repaired", before)
}

// A container that the pod did not have when it was admitted runs on the node's shared pool.
func TestEphemeralContainer(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	b.list(guaranteed("g", 2))
	b.mustRun(t, "g")
	if _, err := b.create(b.boxes[b.runs[b.of("g")[0]].c.GetPodSandboxId()], "debugger"); err != nil {
		t.Fatal(err)
	}
	if got := b.shown()["g/debugger"]; got != "0-3,6-7 on {}" && got != "0-1,4-7 on {}" {
		t.Errorf("it runs on %s, want the node shared pool", got)
	}
}

func TestStandsAsideForTheKubelet(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	b.list(burstable("b"))
	box := &api.PodSandbox{Id: "x", Uid: "b", Name: "b", Namespace: "default"}
	c := &api.Container{Id: "y", PodSandboxId: "x", Name: "web", Linux: &api.LinuxContainer{Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: "0-1,7"}}}}
	adjust, updates, err := b.plugin.CreateContainer(t.Context(), box, c)
	if adjust != nil || updates != nil || err != nil {
		t.Errorf("it was answered with %v, %v, %v; want nothing", adjust, updates, err)
	}
	if err := b.plugin.Ready(); err == nil || !strings.Contains(err.Error(), "cpuManagerPolicy: none") {
		t.Errorf("Ready says %v, want which setting to change", err)
	}
	if err := b.run("b"); err != nil || b.shown()["b/web"] != " on {}" {
		t.Errorf("a pod after that: %v, %v", b.shown(), err)
	}
}

func TestAccountIsBounded(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	for _, uid := range []string{"p", "q", "r", "s"} {
		pod := guaranteed(strings.Repeat(uid, 60), 1)
		pod.Containers[0].Memory = request.Amounts{{Resource: machine.Memory, Value: 1 << 20}}
		b.list(pod)
		b.mustRun(t, pod.UID)
	}
	b.list(guaranteed("big", 5))
	err := b.run("big")
	if err == nil || len(err.Error()) > 1024 {
		t.Errorf("%d bytes do not fit an event: %v", len(err.Error()), err)
	}
}
