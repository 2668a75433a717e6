package telemetry_test

import (
	"fmt"
	"testing"

	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
)

func smallPod(name string) request.Pod {
	return request.Pod{
		Identity: request.Identity{UID: name, Namespace: "default", Name: name}, Ask: request.Ask{
			QoS: request.Guaranteed, Kind: request.PodLevel, BudgetCPUs: 2, BudgetCPUMilli: 2000,
			BudgetMemory: request.Amounts{{Resource: "memory", Value: 1 << 20}},
			Containers: []request.Container{
				{Name: "a", Type: request.App, CPUs: 1, Memory: request.Amounts{{Resource: "memory", Value: 1 << 19}}, Equivalent: true},
				{Name: "b", Type: request.App, Sharing: request.NotEquivalent},
			},
		},
	}
}

// BenchmarkDecided measures what telemetry adds to an admission under the engine's lock.
func BenchmarkDecided(b *testing.B) {
	r := newRig(emptyNode(b, configs[1]))
	d := engine.Decision{Plan: r.engine.State().Plan(smallPod("a"))}
	b.ReportAllocs()
	for b.Loop() {
		r.telemetry.Decided(d)
	}
}

// BenchmarkScrape measures one scrape of a node with 15 pods that have exclusive CPUs and 200 that
// share CPUs.
func BenchmarkScrape(b *testing.B) {
	r := newRig(emptyNode(b, configs[1]))
	for i := range 215 {
		pod := smallPod(fmt.Sprint(i))
		if i >= 15 {
			pod.QoS, pod.Kind, pod.BudgetCPUs, pod.BudgetMemory = request.BestEffort, request.Plain, 0, nil
			pod.Containers = []request.Container{{Name: "a", Type: request.App, Sharing: request.QoSNotGuaranteed}}
		}
		if plan, err := r.engine.Admit(b.Context(), pod); err != nil || plan.Rejection != nil {
			b.Fatal(err, plan.Rejection)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if w := get(r.handler, "/metrics"); w.Code != 200 {
			b.Fatal(w.Code)
		}
	}
}
