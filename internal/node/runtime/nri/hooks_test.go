package nri_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// want compares the containers' settings with the expected ones.
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

// A neighbour leaves the CPUs of an exclusive container in the reply to the container's creation.
// It stays off them while the pod exists, and gets them back when the pod is gone.
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
	b.end("g")
	b.plugin.Reconcile(t.Context())
	b.want(t, "alone again", map[string]string{"b/web": "0-7 on {}"})
	if _, holds := b.engine.State().Grant("g"); holds {
		t.Error("the pod holds its grant")
	}
}

// Init containers lend their CPUs to the containers after them. A container that stops and starts
// again gets the same CPUs.
func TestContainersComeAndGo(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	pod := guaranteed("g", 2)
	pod.Containers = append([]request.Container{{Name: "init", Type: request.Init, CPUs: 2, Memory: pod.Containers[0].Memory, Equivalent: true}}, pod.Containers...)
	b.list(pod)
	b.mustRun(t, "g")
	before := b.shown()
	for range 3 {
		for _, id := range b.of("g") {
			name := b.runs[id].c.GetName()
			b.exit(id)
			b.plugin.Reconcile(t.Context())
			if _, err := b.create(b.box("g"), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.want(t, "after restarts", before)
}

// A sandbox that is created again keeps the grant, even if the source cannot be asked for a moment.
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

// Time spent waiting for the kubelet is measured apart from Paddock's own time. The source is not
// asked for a pod that has a grant.
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

// A pod whose containers still run keeps everything, even if it is no longer listed.
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

func TestRejection(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	b.list(guaranteed("g", 4), guaranteed("h", 4))
	b.mustRun(t, "g")
	err := b.run("h")
	if !errors.Is(err, nri.ErrRejected) {
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
	b.end("g")
	b.plugin.Reconcile(t.Context())
	b.mustRun(t, "h")
}

// TestRoomWithoutAnAnswer: a pod that fits only without a pod that ended is not rejected while the
// source does not answer whether that pod is gone.
func TestRoomWithoutAnAnswer(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	b.list(guaranteed("g", 4), guaranteed("h", 4))
	b.mustRun(t, "g")
	b.end("g")
	b.listing = errors.New("the kubelet does not answer in time")
	err := b.run("h")
	if err == nil || errors.Is(err, nri.ErrRejected) {
		t.Fatalf("error %v, want one that is no rejection", err)
	}
	for _, part := range []string{"default/h", b.listing.Error(), "the kubelet tries again"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %s", part, err)
		}
	}
	b.listing = nil
	b.mustRun(t, "h")
}

func TestUnknownPod(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	err := b.run("nobody")
	if !errors.Is(err, errUnlisted) || !strings.Contains(err.Error(), "tries again") {
		t.Errorf("error %v, want that it is not listed and the kubelet tries again", err)
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

// Another process writes to a container's cgroup. The next round repairs it.
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

// A container that the pod did not have when it was admitted runs on the node shared pool.
func TestEphemeralContainer(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	b.list(guaranteed("g", 2))
	b.mustRun(t, "g")
	if _, err := b.create(b.box("g"), "debugger"); err != nil {
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
	c := b.container(sandboxOf("b"), "web")
	c.c.Linux.Resources = &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: "0-1,7"}}
	adjust, updates, err := b.plugin.CreateContainer(t.Context(), c.box, c.c)
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

// asking returns a pod whose container requests devices.
func asking(uid string, devices request.Amounts, claims ...string) request.Pod {
	pod := guaranteed(uid, 2)
	pod.Containers[0].Devices, pod.Containers[0].Claims = devices, claims
	return pod
}

// TestDevicesOfOthers: the devices that other components allocated are looked up along with the
// pod, by its name, and added to its request. Without an answer the pod is admitted. Its account
// then names the devices and the reason, which is kept with the grant.
func TestDevicesOfOthers(t *testing.T) {
	long := strings.Repeat("ä", 400) + "\xff"
	for name, c := range map[string]struct {
		err  error
		cpus int
		why  string
	}{
		"an answer":     {nil, 3, ""},
		"an error":      {errors.New("no such socket"), 2, "no such socket"},
		"a long reason": {errors.New(long), 2, strings.Repeat("ä", 150) + "…"},
	} {
		b := newBench(t.Context(), func(config *nri.Config) {
			config.Devices = func(_ context.Context, namespace, name string) (func(request.Pod) request.Pod, error) {
				if namespace+"/"+name != "default/x" {
					t.Errorf("asked for %s/%s", namespace, name)
				}
				return func(pod request.Pod) request.Pod { return guaranteed(pod.UID, 3) }, c.err
			}
		})
		b.start()
		b.list(asking("x", request.Amounts{{Resource: "example.com/gpu", Value: 1}}, "train"))
		b.mustRun(t, "x")
		g, _ := b.engine.State().Grant("x")
		if got := g.Containers[0].CPUs.Len(); got != c.cpus || g.Pod.DevicesUnknown != c.why {
			t.Errorf("%s: %d CPUs, want %d; unknown for %q, want %q", name, got, c.cpus, g.Pod.DevicesUnknown, c.why)
		}
		note := "the devices of example.com/gpu and claim train (container app) are not known: " + c.why
		if got := strings.Join(b.engine.State().UnknownDevices(g), "\n"); strings.HasPrefix(got, note) != (c.why != "") {
			t.Errorf("%s: the account is %q", name, got)
		}
		b.check(t)
	}
}

// TestStalledDeviceSocket: a socket accepts requests and never answers. A pod with devices waits
// for half of the hook's time, which half of the runtime's own time limits too. Then a policy that
// admits pods that are not aligned admits it, with the account. A pod without devices does not
// wait, and the request that was sent for it ends.
func TestStalledDeviceSocket(t *testing.T) {
	gpu := request.Amounts{{Resource: "example.com/gpu", Value: 1}}
	for name, c := range map[string]struct {
		pod     request.Pod
		runtime time.Duration // how long the runtime waits for an answer
		wait    time.Duration
	}{
		"a device plugin's device":      {asking("x", gpu), 0, 500 * time.Millisecond},
		"a device of a claim":           {asking("x", nil, "train"), 0, 500 * time.Millisecond},
		"a runtime that waits for 1 s":  {asking("x", gpu), time.Second, 250 * time.Millisecond},
		"no devices":                    {guaranteed("x", 2), 0, 0},
		"no devices, a hurried runtime": {guaranteed("x", 2), time.Second, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			open := 0
			b := newBench(t.Context(), func(config *nri.Config) {
				config.Now, config.After = time.Now, time.After
				config.Devices = func(ctx context.Context, _, _ string) (func(request.Pod) request.Pod, error) {
					open++
					<-ctx.Done()
					open--
					return nil, context.Cause(ctx)
				}
			})
			b.hurry, b.policy.Topology = c.runtime, node.TopologyBestEffort
			b.start()
			b.list(c.pod)
			begin := time.Now()
			b.mustRun(t, "x")
			if took := time.Since(begin); took != c.wait {
				t.Errorf("%s: the hook took %v, want %v", name, took, c.wait)
			}
			g, _ := b.engine.State().Grant("x")
			want := ""
			if c.wait > 0 {
				want = "the kubelet's PodResources socket did not answer within " + c.wait.String()
			}
			if g.Pod.DevicesUnknown != want || g.Containers[0].CPUs.Len() != 2 {
				t.Errorf("%s: unknown for %q, want %q; %d CPUs", name, g.Pod.DevicesUnknown, want, g.Containers[0].CPUs.Len())
			}
			if synctest.Wait(); open != 0 {
				t.Errorf("%s: %d questions are still open", name, open)
			}
			// The account is kept: a sandbox that is created again sends no request, and the state
			// has the account.
			b.stop("x")
			begin = time.Now()
			b.mustRun(t, "x")
			if again, _ := b.disk.Load().Grant("x"); time.Since(begin) != 0 || again.Pod.DevicesUnknown != want {
				t.Errorf("%s: again after %v: unknown for %q, want %q", name, time.Since(begin), again.Pod.DevicesUnknown, want)
			}
			b.check(t)
		})
	}
}

// TestStalledDeviceSocketIsTriedAgain: a policy that rejects pods that are not aligned does not
// admit a pod with devices without them while the answer may still come. The next try gets the
// answer.
func TestStalledDeviceSocketIsTriedAgain(t *testing.T) {
	for _, topology := range []node.TopologyPolicy{node.TopologyRestricted, node.TopologySingleNUMANode} {
		synctest.Test(t, func(t *testing.T) {
			var answers, silent atomic.Bool
			b := newBench(t.Context(), func(config *nri.Config) {
				config.Now, config.After = time.Now, time.After
				config.Devices = func(ctx context.Context, _, _ string) (func(request.Pod) request.Pod, error) {
					switch {
					case silent.Load():
						return nil, fmt.Errorf("it is not asked for a while; %w", nri.ErrLater)
					case !answers.Load():
						<-ctx.Done()
						return nil, context.Cause(ctx)
					}
					return func(pod request.Pod) request.Pod { return guaranteed(pod.UID, 3) }, nil
				}
			})
			b.policy.Topology = topology
			b.start()
			b.list(asking("x", request.Amounts{{Resource: "example.com/gpu", Value: 1}}))
			begin := time.Now()
			const late = "is not known yet: it requests devices, and the kubelet's PodResources socket did not answer within 500ms; the kubelet tries again"
			if err := b.run("x"); err == nil || !strings.Contains(err.Error(), late) || time.Since(begin) != 500*time.Millisecond {
				t.Errorf("%v: after %v: %v", topology, time.Since(begin), err)
			}
			silent.Store(true)
			if err := b.run("x"); err == nil || !strings.Contains(err.Error(), "it is not asked for a while; it may answer later") {
				t.Errorf("%v: %v", topology, err)
			}
			if n := len(b.engine.State().Grants()); n != 0 {
				t.Errorf("%v: %d grants without the devices", topology, n)
			}
			answers.Store(true)
			silent.Store(false)
			b.mustRun(t, "x")
			if g, _ := b.engine.State().Grant("x"); g.Pod.DevicesUnknown != "" || g.Containers[0].CPUs.Len() != 3 {
				t.Errorf("%v: %d CPUs, unknown for %q", topology, g.Containers[0].CPUs.Len(), g.Pod.DevicesUnknown)
			}
			b.check(t)
		})
	}
}

// TestRejectedWithoutDevices: the event of a rejected pod has the account of its devices, and fits
// into an event.
func TestRejectedWithoutDevices(t *testing.T) {
	b := newBench(t.Context(), func(config *nri.Config) {
		config.Devices = func(context.Context, string, string) (func(request.Pod) request.Pod, error) {
			return nil, errors.New(strings.Repeat("no answer ", 50))
		}
	})
	b.start()
	defer b.check(t)
	for _, uid := range []string{"p", "q"} {
		b.list(guaranteed(strings.Repeat(uid, 60), 1))
		b.mustRun(t, strings.Repeat(uid, 60))
	}
	pod := guaranteed("big", 50)
	pod.Containers[0].Claims = []string{"train"}
	b.list(pod)
	err := b.run("big")
	if err == nil || len(err.Error()) > 1024 || !strings.Contains(err.Error(), "the devices that the pod requests are unknown: no answer") {
		t.Errorf("the event is %v", err)
	}
}
