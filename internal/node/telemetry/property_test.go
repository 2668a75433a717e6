package telemetry_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

const hardware = "sockets=2 cores=8 threads=2 memory=8Gi hugepages-2Mi=512 uncore=4 caches=ways:11,classes:16,hardware:600,mb:10"

// emptyNode returns a node without pods. All tests that play no scenario create their nodes with
// it.
func emptyNode(t fataler, config string) *node.State {
	n := scenario.New(nil)
	answers := n.Run(scenario.Command{Name: "machine", Args: strings.Fields(hardware)})
	answers += n.Run(scenario.Command{Name: "config", Args: strings.Fields(config)})
	if n.State() == nil {
		t.Fatal(answers)
	}
	return n.State()
}

var configs = []string{
	"",
	"topology=restricted scope=pod cpu=static memory=Static",
	"topology=single-numa-node scope=pod cpu=static memory=Static options=full-pcpus-only",
	"topology=single-numa-node scope=container cpu=static memory=Static",
	"topology=best-effort scope=pod cpu=static options=distribute-cpus-across-numa",
	"topology=none cpu=static memory=Static",
	divided,
}

// divided is a configuration of a node that divides its caches.
const divided = "topology=restricted scope=pod cpu=static memory=Static options=cache-allocation=true"

// TestGaugesAreTheStateAndCountersAddUp plays random histories in which writes sometimes fail.
func TestGaugesAreTheStateAndCountersAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(emptyNode(t, rapid.SampledFrom(configs).Draw(t, "config")))
		var expected ledger
		last := series(scrape(t, r.handler))
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			r.broken = rapid.IntRange(0, 4).Draw(t, "disk") == 0
			name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "pod")
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				_ = r.engine.Release(t.Context(), name) // A broken disk is part of the history.
			default:
				plan, err := r.engine.Admit(t.Context(), drawPod(t, name))
				expected.add(plan, err)
			}
			now := series(scrape(t, r.handler))
			checkGauges(t, now, r)
			checkCounters(t, last, now, expected)
			last = now
		}
	})
}

func drawPod(t *rapid.T, name string) request.Pod {
	p := request.Pod{Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{QoS: request.Guaranteed}}
	amount := func(label string, most int) int { return rapid.IntRange(0, most).Draw(t, label) }
	for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
		c := request.Container{Name: fmt.Sprintf("c%d", i), Type: request.ContainerType(amount("lane", 2)), CPUs: amount("cpus", 10)}
		if amount("pinned", 2) > 0 {
			c.Memory = request.Amounts{{Resource: machine.Memory, Value: int64(amount("memory", 9)) << 30}}
		}
		if c.CPUs == 0 {
			c.Sharing = request.Sharing(1 + amount("sharing", 4))
		}
		p.Containers = append(p.Containers, c)
	}
	if rapid.Bool().Draw(t, "pod-level") {
		p.Kind, p.BudgetCPUs = request.PodLevel, amount("budget", 20)
		p.BudgetMemory = request.Amounts{{Resource: machine.Memory, Value: int64(1+amount("budget memory", 9)) << 30}}
	}
	return p
}

// ledger counts admitted, rejected and lost pods from the answers alone.
type ledger struct{ asked, admitted, known, rejected, lost float64 }

func (l *ledger) add(p *node.Plan, err error) {
	l.asked++
	switch {
	case err != nil:
		l.lost++
	case p.Rejection != nil:
		l.rejected++
	case p.Known:
		l.known++
	default:
		l.admitted++
	}
}

// checkGauges compares the gauges with a count of the state, CPU by CPU.
func checkGauges(t *rapid.T, got map[string]float64, r *rig) {
	s := r.engine.State()
	want := map[string]float64{
		"paddock_state_revision": float64(s.Generation()), "paddock_pods": float64(len(s.Grants())),
		"paddock_unreleased_pods":                            float64(len(r.engine.Snapshot().Unreleased)),
		"kubelet_cpu_manager_exclusive_cpu_allocation_count": 0, "kubelet_cpu_manager_shared_pool_size_millicores": 0,
		`kubelet_cpu_manager_allocation_per_numa{numa_node="0"}`: 0, `kubelet_cpu_manager_allocation_per_numa{numa_node="1"}`: 0,
		`paddock_allocatable_cpus{numa_node="0"}`: 0, `paddock_allocatable_cpus{numa_node="1"}`: 0,
		`paddock_containers{isolation="host"}`: 0, `paddock_containers{isolation="pod"}`: 0, `paddock_containers{isolation="container"}`: 0,
	}
	for _, cpu := range s.Machine().CPUs() {
		at := fmt.Sprintf(`{numa_node="%d"}`, cpu.Node)
		for _, g := range s.Grants() {
			if g.CPUs().Has(cpu.ID) {
				want["kubelet_cpu_manager_exclusive_cpu_allocation_count"]++
				want["kubelet_cpu_manager_allocation_per_numa"+at]++
			}
		}
		if s.AvailableCPUs().Has(cpu.ID) {
			want["kubelet_cpu_manager_shared_pool_size_millicores"] += 1000
		}
		if s.Policy().StaticCPU && !s.Policy().ReservedCPUs.Has(cpu.ID) {
			want["paddock_allocatable_cpus"+at]++
		}
	}
	for _, g := range s.Grants() {
		for i, c := range g.Containers {
			if !c.Removed {
				want[fmt.Sprintf("paddock_containers{isolation=%q}", g.Isolation(i))]++
			}
			countAssigned(want, "cpu", c.CPUs.Len(), g.Pool.Len(), g.Pod.Containers[i].CPUs)
			countAssigned(want, "memory", len(c.Memory), len(g.PoolMemory), len(g.Pod.Containers[i].Memory))
		}
	}
	for name, value := range want {
		if got[name] != value {
			t.Fatalf("%s is %v, the state says %v", name, got[name], value)
		}
	}
}

// countAssigned counts a container if it has some of the resource. The kind depends on whether its
// pod has a pool and whether the container requests resources of its own.
func countAssigned(want map[string]float64, resource string, has, pool, asks int) {
	kind := "pod_shared"
	if pool == 0 {
		kind = "node_exclusive"
	} else if asks > 0 {
		kind = "pod_exclusive"
	}
	for _, k := range []string{"node_exclusive", "pod_exclusive", "pod_shared"} {
		name := fmt.Sprintf("paddock_container_assignments{assignment_type=%q,resource_name=%q}", k, resource)
		if want[name] += 0; has > 0 && k == kind {
			want[name]++
		}
	}
}

func checkCounters(t *rapid.T, last, now map[string]float64, l ledger) {
	for name := range last {
		if !isGauge(name) && now[name] < last[name] {
			t.Fatalf("%s went from %v to %v", name, last[name], now[name])
		}
	}
	if len(now) != len(last) {
		t.Fatalf("%d series became %d", len(last), len(now))
	}
	sum := func(prefix string) (total float64) {
		for name := range maps.Keys(now) {
			if strings.HasPrefix(name, prefix) {
				total += now[name]
			}
		}
		return total
	}
	own := `resource_manager_container_assignments{assignment_type="node_exclusive"`
	equal := []struct {
		what      string
		got, want float64
	}{
		{"requests", now["kubelet_topology_manager_admission_requests_total"], l.asked},
		{"durations in ms", now["kubelet_topology_manager_admission_duration_ms_count"], l.asked},
		{"durations in s", now["paddock_admission_duration_seconds_count"], l.asked},
		{"rejections", sum("kubelet_admission_rejections_total"), l.rejected + l.lost},
		{"exclusive assignments", sum(own) + sum(strings.Replace(own, "node_", "pod_", 1)), sum("resource_manager_allocations_total")},
		{"allocation errors", sum("resource_manager_allocation_errors_total"), sum("kubelet_cpu_manager_pinning_errors_total") + sum("kubelet_memory_manager_pinning_errors_total")},
	}
	for _, e := range equal {
		if e.got != e.want {
			t.Fatalf("%s: %v, want %v", e.what, e.got, e.want)
		}
	}
	for _, m := range []string{"cpu_manager_pinning", "memory_manager_pinning", "topology_manager_admission"} {
		if errs, requests := now["kubelet_"+m+"_errors_total"], now["kubelet_"+m+"_requests_total"]; errs > requests {
			t.Fatalf("%s: %v errors of %v requests", m, errs, requests)
		}
	}
}

// TestScrapingWhileWriting runs scrapes and writes concurrently for the race detector.
func TestScrapingWhileWriting(t *testing.T) {
	r := newRig(emptyNode(t, configs[1]))
	var group sync.WaitGroup
	group.Go(func() {
		for i := range 100 {
			name := fmt.Sprint(i % 5)
			pod := request.Pod{Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{Name: "c", Type: request.App, CPUs: 2}}}}
			if _, err := r.engine.Admit(t.Context(), pod); err != nil {
				t.Error(err)
			}
			if i%3 == 0 {
				_ = r.engine.Release(t.Context(), name)
			}
		}
	})
	for range 2 {
		group.Go(func() {
			for range 20 {
				now := series(scrape(t, r.handler))
				free, assigned := now["kubelet_cpu_manager_shared_pool_size_millicores"], now["kubelet_cpu_manager_exclusive_cpu_allocation_count"]
				if free+assigned*1000 != 31000 {
					t.Errorf("%v millicores free and %v CPUs held: not of one snapshot", free, assigned)
				}
			}
		})
		group.Go(func() {
			for range 100 {
				r.telemetry.Served("List", "v1", nil)
				r.telemetry.Limited("Get", "v1")
			}
		})
	}
	group.Wait()
	if n := series(scrape(t, r.handler))[`kubelet_pod_resources_endpoint_requests_total{server_api_version="v1"}`]; n != 200 {
		t.Errorf("%v calls were counted", n)
	}
}

// TestUnknownWordsMakeNoSeries checks that no input creates a new series.
func TestUnknownWordsMakeNoSeries(t *testing.T) {
	r := newRig(emptyNode(t, configs[1]))
	before := len(series(scrape(t, r.handler)))
	for i := range 50 {
		word := fmt.Sprint("word-", i)
		r.telemetry.Served(word, word, nil)
		r.telemetry.Limited(word, word)
		r.telemetry.Released(word)
		r.telemetry.Decided(engine.Decision{Plan: &node.Plan{Rejection: &rejection.Rejection{Reason: rejection.Reason(word)}}})
	}
	after := series(scrape(t, r.handler))
	if len(after) != before || after[`kubelet_admission_rejections_total{reason="Other"}`] != 50 {
		t.Errorf("%d series became %d, %v rejections for other reasons", before, len(after), after[`kubelet_admission_rejections_total{reason="Other"}`])
	}
}

// TestEstimatedPodsAreCounted checks that a pod is counted once when it is admitted, not when it is
// rejected, and not again when it is admitted again.
func TestEstimatedPodsAreCounted(t *testing.T) {
	r := newRig(emptyNode(t, configs[1]))
	guess := func(name string, cpus int) request.Pod {
		p := smallPod(name)
		p.Estimated, p.BudgetCPUs, p.BudgetCPUMilli = true, cpus, int64(1000*cpus)
		p.Containers = []request.Container{{Name: request.AnyContainer, Type: request.App, Sharing: request.Estimated}}
		return p
	}
	for _, p := range []request.Pod{smallPod("listed"), guess("a", 2), guess("a", 2), guess("b", 1), guess("large", 10_000)} {
		if _, err := r.engine.Admit(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	shown := get(r.handler, "/metrics").Body.String()
	for _, want := range []string{"paddock_estimated_pods_total 2", `paddock_shared_containers_total{why="estimated"} 2`} {
		if !strings.Contains(shown, "\n"+want+"\n") {
			t.Errorf("%s is not there", want)
		}
	}
}
