package filter_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/paddock-project/paddock/predict"
	"github.com/paddock-project/paddock/predict/examples/filter"
)

func pod(uid string, cpus int64) predict.Pod {
	limits := predict.Amounts{CPUMilli: cpus * 1000, Memory: 1 << 30}
	return predict.Pod{UID: uid, Name: uid, Namespace: "default", Containers: []predict.Container{{Name: "main", Resources: predict.Resources{Limits: limits}}}}
}

func TestPlugin(t *testing.T) {
	m, err := predict.Facts{Sockets: 2, CoresPerSocket: 8, Memory: 64 << 30}.Machine()
	if err != nil {
		t.Fatal(err)
	}
	policy, err := predict.NewPolicy(m, predict.PolicySpec{DecidedBy: "kubelet-1.36", TopologyManagerPolicy: "single-numa-node", CPUManagerPolicy: "static", ReservedCPUs: "0"})
	if err != nil {
		t.Fatal(err)
	}
	p := filter.New()
	if err := p.SetNode("node1", policy, nil); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		uid  string
		cpus int64
		want filter.Code
	}{
		{"a", 8, filter.Success},
		{"b", 7, filter.Success},
		{"c", 2, filter.Unschedulable},                 // Until a or b is gone.
		{"d", 9, filter.UnschedulableAndUnresolvable},  // No NUMA node has as many.
		{"e", -1, filter.UnschedulableAndUnresolvable}, // This is no pod.
	} {
		s := p.PreFilter(pod(step.uid, step.cpus))
		if got := p.Filter(s, "node1"); got.Code != step.want || got.Code != filter.Success && got.Reason == "" {
			t.Errorf("step %d: Filter of %d CPUs is %v, want code %v", i, step.cpus, got, step.want)
		}
		if got := p.Filter(s, "a node without a CPU Manager"); got.Code != filter.Success {
			t.Errorf("step %d: a node that is not known: %v", i, got)
		}
		if got := p.Reserve(s, "node1"); got.Code == filter.Success != (step.want == filter.Success) {
			t.Errorf("step %d: Reserve is %v", i, got)
		}
	}
	p.Unreserve("a", "node1")
	if got := p.Filter(p.PreFilter(pod("c", 2)), "node1"); got.Code != filter.Success {
		t.Errorf("after a is gone: %v", got)
	}
	if err := p.SetNode("node1", policy, map[string][]predict.Device{"gpu": nil}); err == nil {
		t.Error("a device that is no extended resource is accepted")
	}
}

// TestAtOnce filters and reserves from several goroutines.
func TestAtOnce(t *testing.T) {
	m, err := predict.Facts{Sockets: 2, CoresPerSocket: 32, Memory: 64 << 30}.Machine()
	if err != nil {
		t.Fatal(err)
	}
	policy, err := predict.NewPolicy(m, predict.PolicySpec{TopologyManagerPolicy: "restricted", CPUManagerPolicy: "static", ReservedCPUs: "0"})
	if err != nil {
		t.Fatal(err)
	}
	p := filter.New()
	if err := p.SetNode("node1", policy, nil); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			uid := fmt.Sprint("pod", i)
			s := p.PreFilter(pod(uid, 2))
			if p.Filter(s, "node1").Code == filter.Success && p.Reserve(s, "node1").Code == filter.Success {
				p.Unreserve(uid, "node1")
			}
		})
	}
	group.Wait()
	if got := p.Filter(p.PreFilter(pod("all", 32)), "node1"); got.Code != filter.Success {
		t.Errorf("after all are gone: %v", got)
	}
}
