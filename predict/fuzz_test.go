package predict_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/paddock-project/paddock/predict"
)

// hostile is everything that a caller can hand in.
type hostile struct {
	Facts       predict.Facts
	Description string
	Policy      predict.PolicySpec
	Devices     map[string][]predict.Device
	Pods        []predict.Pod
	Known       predict.Assignment
	Shown       predict.Published
	Annotation  string
}

// The texts of a grant of pod a, as published and as handed over.
const (
	publishedGrant = `{"uid":"a","namespace":"prod","name":"a","sequence":1,"qos":"Guaranteed","kind":"plain","cpuLimitMilli":2000,"containers":[` +
		`{"name":"main","lane":"app","asks":{"cpus":2,"memory":{"memory":1073741824},"equivalent":true,"cpuRequestMilli":2000,"cpuLimitMilli":2000},` +
		`"has":{"cpus":"1,9","memory":[{"type":"memory","bytes":1073741824,"nodes":[0]}],"memoryNodes":[0],"affinity":{"nodes":[0],"hasMask":true,"preferred":true,"admit":true}}}]}`
	handedGrant = `{"v":1,"node":"n","uid":"a","machine":"m","policy":"p","request":"r","containers":[{"cpus":"1,9","memory":[{"type":"memory","bytes":1073741824,"nodes":[0]}],"nodes":[0],"aligned":true}]}`
)

// FuzzQuestions asks about values that nobody checked. Each is an error that wraps ErrInvalid, or a
// value; no question panics, and a rejection has a reason.
func FuzzQuestions(f *testing.F) {
	for _, seed := range []hostile{
		{
			Facts: predict.Facts{Sockets: 2, CoresPerSocket: 4, ThreadsPerCore: 2, Memory: 16 << 30, HugePages: map[string]int64{"hugepages-2Mi": 1 << 30}},
			Policy: predict.PolicySpec{
				DecidedBy: "kubelet-1.36", TopologyManagerPolicy: "restricted", TopologyManagerScope: "pod", CPUManagerPolicy: "static", ReservedCPUs: "0",
				MemoryManagerPolicy: "Static", ReservedMemory: map[int]map[string]int64{0: {"memory": 1 << 30}}, FeatureGates: []string{"PodLevelResources", "PodLevelResourceManagers"},
			},
			Devices: map[string][]predict.Device{"example.com/gpu": {{ID: "0", NUMANodes: []int{1}}}},
			Pods:    []predict.Pod{pod("a", 2, 1<<30), pod("b", 4, 1<<30)},
			Known:   predict.Assignment{Containers: []predict.ContainerAssignment{{Name: "main", CPUs: "1-2", NUMANodes: []int{0}, Memory: []predict.Memory{{Resource: "memory", Bytes: 1 << 30, NUMANodes: []int{0}}}}}},
		},
		{
			Facts: predict.Facts{Sockets: 2, CoresPerSocket: 4, ThreadsPerCore: 2, Memory: 16 << 30}, Annotation: handedGrant,
			Policy: predict.PolicySpec{DecidedBy: "kubelet-1.36", CPUManagerPolicy: "static", ReservedCPUs: "0"},
			Shown: predict.Published{
				Name: "n", SharedCPUs: "1-7", Grants: map[string]string{"a": publishedGrant},
				Memory: []predict.AccountedMemory{{NUMANode: 0, Together: []int{0, 1}, Assignments: 1, Assigned: map[string]int64{"memory": 1 << 30}}},
			},
			Pods: []predict.Pod{pod("a", 2, 1<<30), pod("b", 4, 1<<30)},
		},
		{Description: `{"num_cores":2,"num_sockets":1,"topology":[{"node_id":0,"memory":1073741824,"cores":[{"thread_ids":[0,1],"socket_id":0}]}]}`, Policy: predict.PolicySpec{CPUManagerPolicy: "static", ReservedCPUCount: 1}, Pods: []predict.Pod{pod("a", 1, 1<<20)}},
	} {
		data, err := json.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var in hostile
		if json.Unmarshal(data, &in) != nil {
			return
		}
		m, err := in.Facts.Machine()
		if in.Description != "" {
			m, err = predict.ParseMachine([]byte(in.Description))
		}
		var p *predict.Policy
		var n *predict.Node
		if err == nil {
			p, err = predict.NewPolicy(m, in.Policy)
		}
		if err == nil {
			n, err = predict.NewNode(p, in.Devices)
		}
		if err == nil {
			err = ask(t, n, p, &in)
		}
		if err != nil && !errors.Is(err, predict.ErrInvalid) {
			t.Fatalf("an error of another kind: %v", err)
		}
	})
}

func ask(t *testing.T, n *predict.Node, p *predict.Policy, in *hostile) error {
	var bound []predict.BoundPod
	for _, pod := range in.Pods {
		r, err := predict.NewRequest(pod, p)
		if err != nil {
			return err
		}
		bound = append(bound, predict.BoundPod{Request: r, Grant: in.Annotation})
	}
	restored, err := predict.Restore(p, in.Devices, &in.Shown, bound)
	for _, b := range bound {
		r := b.Request
		if err == nil {
			restored.Node.Without(r.UID()).Plan(r)
		}
		short := n.Admits(r)
		next, v := n.With(r)
		if short.Fits != v.Fits || v.Fits != (v.Assignment != nil) || v.Fits == (v.Reason != "") {
			t.Fatalf("Admits %+v, With %+v", short, v)
		}
		if _, err := n.WithAssigned(r, &in.Known); err != nil && !errors.Is(err, predict.ErrInvalid) {
			return err
		}
		n = next.Without("a")
	}
	return err
}
