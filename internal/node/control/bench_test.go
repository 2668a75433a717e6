package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
)

// BenchmarkStep measures one event on a node with the given number of containers, each in a pod of
// its own: an event that writes nothing, one that writes one record, and a round. The difference
// between the first two is the cost of leaving the earlier loop unchanged.
func BenchmarkStep(b *testing.B) {
	for _, containers := range []int{10, 1000, 5000} {
		w, shows := benchWorld(b, containers)
		for name, of := range map[string]Occurrence{
			"reads":  Glance{w.connection},
			"writes": Started{w.connection, shows.Boxes[0], Container{ID: "c-p-0", Pod: "p-0", Name: "app"}},
			"round":  Round{},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, containers), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					Step(w.loop, Event{Engine: w.engine(), Of: of}, w.now)
				}
			})
		}
	}
}

// BenchmarkCgroups measures the list of cgroups that a move needs, of one pod and of all pods.
func BenchmarkCgroups(b *testing.B) {
	for _, containers := range []int{10, 1000, 5000} {
		w, _ := benchWorld(b, containers)
		first := w.state.Grants()[:1]
		for name, list := range map[string]func() map[string][]string{
			"one": func() map[string][]string { return w.loop.cgroupsOf(first) },
			"all": func() map[string][]string { return w.loop.cgroups() },
		} {
			b.Run(fmt.Sprintf("%s/%d", name, containers), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					list()
				}
			})
		}
	}
}

// benchWorld returns a node with the given number of containers, each in a pod of its own, and what
// its runtime shows.
func benchWorld(b *testing.B, containers int) (*world, Synchronise) {
	b.Helper()
	w := newWorld(b)
	shows := Synchronise{Connection: w.connection}
	for i := range containers {
		uid := fmt.Sprint("p-", i)
		next, err := w.state.Apply(w.state.Plan(podOf(uid, "0")))
		if err != nil {
			b.Fatal(err)
		}
		w.apply(next)
		shows.Boxes = append(shows.Boxes, &Sandbox{ID: "box-" + uid, Pod: uid, Who: uid})
		shows.Containers = append(shows.Containers, Shown{
			Container: Container{ID: "c-" + uid, Name: "app", Path: uid}, Box: "box-" + uid, Life: IsRunning,
			Setting: converge.Setting{CPUs: w.state.SharedCPUs()},
		})
	}
	w.looks = 1 << 60
	w.step(shows)
	w.goOn()
	w.now = w.now.Add(time.Minute)
	return w, shows
}
