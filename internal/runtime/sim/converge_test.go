package sim_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/runtime/sim"
)

// world is a node of eight CPUs, four on each of two NUMA nodes, and its runtime. CPU 0 is reserved.
type world struct {
	state *node.State
	rt    *sim.Runtime
}

func newWorld(policy node.Policy) (*world, error) {
	var d machine.Description
	for n := range 2 {
		nd := machine.NodeDescription{ID: n, Memory: 1 << 30}
		for id := range 4 {
			nd.Cores = append(nd.Cores, machine.CoreDescription{Threads: []int{4*n + id}, Uncore: machine.NoUncore})
		}
		d.Nodes = append(d.Nodes, nd)
	}
	m, err := machine.New(d)
	if err != nil {
		return nil, err
	}
	w := &world{}
	w.state, err = node.New(m, policy)
	w.rt = sim.New(w.creating)
	return w, err
}

// static is CPU policy static with CPU 0 reserved.
func static() node.Policy {
	return node.Policy{StaticCPU: true, ReservedCPUs: cpuset.Of(0), LiftQuota: true}
}

func (w *world) creating(uid, name string) (converge.Setting, error) {
	g, known := w.state.Grant(uid)
	if !known {
		return converge.Setting{}, fmt.Errorf("pod %s has no grant", uid)
	}
	_, i := g.Pod.Container(name)
	return converge.Desired(w.state, g, i), nil
}

// start admits a Guaranteed pod with a container app of that many CPUs, and log that shares, and
// starts it unless it was refused.
func (w *world) start(uid string, cpus int) error {
	pod := request.Pod{UID: uid, Name: uid, QoS: request.Guaranteed, Containers: []request.Container{
		{Name: "init", Lane: request.Init, CPUs: cpus}, {Name: "log", Lane: request.Sidecar}, {Name: "app", Lane: request.App, CPUs: cpus},
	}}
	plan := w.state.Plan(pod)
	next, err := w.state.Apply(plan)
	if err != nil {
		return err
	}
	w.state = next
	if _, admitted := next.Grant(uid); !admitted {
		return nil
	}
	return w.rt.StartPod(uid, pod.Containers)
}

func (w *world) compare() converge.Report { return converge.Compare(w.state, w.rt.Observe()) }

// An update of a container gets lost when another pod takes CPUs away. The comparison that
// comes next finds that, and repairs it.
func Example() {
	w, err := newWorld(static())
	if err != nil {
		panic(err)
	}
	show := func(what string) {
		fmt.Println(what)
		for _, o := range w.rt.Observe() {
			fmt.Printf("  %s/%s runs on %s\n", o.Pod, o.Container, o.CPUs)
		}
	}
	update := func() {
		if err := w.rt.Update(w.compare().Updates); err != nil {
			panic(err)
		}
	}
	if err := w.start("web", 0); err != nil {
		panic(err)
	}
	show("one pod shares the node:")
	w.rt.LoseNextUpdate("web", "app")
	if err := w.start("db", 2); err != nil {
		panic(err)
	}
	update()
	show("a pod with two CPUs of its own came, and an update got lost:")
	update()
	show("compared again:")
	fmt.Println("what web/app was told:", w.rt.History("web", "app"))
	// Output:
	// one pod shares the node:
	//   web/app runs on 0-7
	//   web/log runs on 0-7
	// a pod with two CPUs of its own came, and an update got lost:
	//   db/app runs on 1-2
	//   db/log runs on 0,3-7
	//   web/app runs on 0-7
	//   web/log runs on 0,3-7
	// compared again:
	//   db/app runs on 1-2
	//   db/log runs on 0,3-7
	//   web/app runs on 0,3-7
	//   web/log runs on 0,3-7
	// what web/app was told: [created cpus 0-7 lost cpus 0,3-7 updated cpus 0,3-7]
}

// TestNothingIsLeft: whatever happened, and however many updates got lost, comparing and updating
// ends, and then everybody runs on what the state says.
func TestNothingIsLeft(t *testing.T) {
	uid := rapid.SampledFrom([]string{"p", "q", "r", "s"})
	name := rapid.SampledFrom([]string{"init", "log", "app"})
	rapid.Check(t, func(t *rapid.T) {
		policy := static()
		policy.StaticCPU = rapid.IntRange(0, 5).Draw(t, "policy") > 0
		policy.CPU.StrictReservation = policy.StaticCPU && rapid.Bool().Draw(t, "strict")
		w, err := newWorld(policy)
		if err != nil {
			t.Fatal(err)
		}
		losses := 0
		t.Repeat(map[string]func(*rapid.T){
			"start": func(t *rapid.T) {
				id := uid.Draw(t, "pod")
				if _, known := w.state.Grant(id); known {
					return
				}
				if err := w.start(id, rapid.IntRange(0, 4).Draw(t, "CPUs")); err != nil {
					t.Fatal(err)
				}
			},
			"stop": func(t *rapid.T) {
				id := uid.Draw(t, "pod")
				w.rt.StopPod(id)
				w.state = w.state.Release(id)
			},
			"restart": func(t *rapid.T) { _ = w.rt.RestartContainer(uid.Draw(t, "pod"), name.Draw(t, "container")) },
			"drift": func(t *rapid.T) {
				cpus := cpuset.Of(rapid.SliceOfN(rapid.IntRange(0, 7), 0, 4).Draw(t, "CPUs")...)
				s := converge.Setting{CPUs: cpus, Mems: mask.Mask(rapid.Uint64Range(0, 3).Draw(t, "mems")), LiftQuota: rapid.Bool().Draw(t, "quota")}
				_ = w.rt.Drift(uid.Draw(t, "pod"), name.Draw(t, "container"), s)
			},
			"lose": func(t *rapid.T) {
				w.rt.LoseNextUpdate(uid.Draw(t, "pod"), name.Draw(t, "container"))
				losses++
			},
			"converge": func(t *rapid.T) { settled(t, w, losses) },
		})
		settled(t, w, losses)
	})
}

func settled(t *rapid.T, w *world, losses int) {
	for range losses + 1 {
		if err := w.rt.Update(w.compare().Updates); err != nil {
			t.Fatal(err)
		}
	}
	report := w.compare()
	if len(report.Updates)+len(report.Strangers) > 0 {
		t.Fatalf("left: %+v", report)
	}
	for _, o := range w.rt.Observe() {
		want, err := w.creating(o.Pod, o.Container)
		if err != nil {
			t.Fatal(err)
		}
		if !want.CPUs.IsEmpty() && (!o.CPUs.Equal(want.CPUs) || o.LiftQuota != want.LiftQuota) {
			t.Fatalf("%s/%s runs on %s, want %s", o.Pod, o.Container, o.CPUs, want.CPUs)
		}
	}
}
