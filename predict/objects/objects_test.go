package objects_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/predict"
	"github.com/paddock-project/paddock/predict/objects"
)

const description = `{"num_cores":4,"num_sockets":1,"topology":[{"node_id":0,"memory":8589934592,"hugepages":[],"cores":[` +
	`{"core_id":0,"thread_ids":[0,2],"uncore_caches":[{"id":0}],"socket_id":0},{"core_id":1,"thread_ids":[1,3],"uncore_caches":[{"id":0}],"socket_id":0}],"distances":[10]}]}`

func machineObject() *v1alpha1.PaddockMachine {
	sum := sha256.Sum256([]byte(description))
	return &v1alpha1.PaddockMachine{ObjectMeta: metav1.ObjectMeta{Name: hex.EncodeToString(sum[:])}, Spec: v1alpha1.PaddockMachineSpec{Description: description}}
}

// TestObjects asks about a pod on a node as a cluster shows it.
func TestObjects(t *testing.T) {
	m, err := objects.Machine(machineObject())
	if err != nil {
		t.Fatal(err)
	}
	node := &v1alpha1.PaddockNode{Status: v1alpha1.PaddockNodeStatus{
		Policy: v1alpha1.Policy{
			CPUManagerPolicy: "static", ReservedCPUs: "0", TopologyManagerPolicy: "restricted",
			MemoryManagerPolicy: "Static", ReservedMemory: []v1alpha1.ReservedMemory{{Limits: map[string]int64{"memory": 1 << 30}}},
		},
		DecidedBy: &v1alpha1.DecidedBy{Manager: "kubelet", Version: "1.36.4"},
		Devices:   []v1alpha1.DeviceResource{{Resource: "example.com/nic", Devices: []v1alpha1.Device{{ID: "0", NUMANodes: "0"}, {ID: "1"}}}},
	}}
	p, err := predict.NewPolicy(m, objects.PolicySpec(node))
	if err != nil {
		t.Fatal(err)
	}
	devices, err := objects.Devices(node)
	if err != nil {
		t.Fatal(err)
	}
	n, err := predict.NewNode(p, devices)
	if err != nil {
		t.Fatal(err)
	}
	limits := predict.Amounts{CPUMilli: 2000, Memory: 1 << 30, Others: map[string]int64{"example.com/nic": 1}}
	r, err := predict.NewRequest(predict.Pod{UID: "u", Containers: []predict.Container{{Name: "c", Resources: predict.Resources{Limits: limits}}}}, p)
	if err != nil {
		t.Fatal(err)
	}
	v := n.Plan(r)
	if c := v.Assignment.Containers[0]; c.CPUs != "1,3" || fmt.Sprint(c.Devices) != "map[example.com/nic:[0]]" || v.Certainty != predict.Predicted {
		t.Errorf("got %+v", v)
	}
}

// TestHostile reads objects that were changed.
func TestHostile(t *testing.T) {
	changed := machineObject()
	changed.Spec.Description += " "
	if _, err := objects.Machine(changed); !errors.Is(err, predict.ErrInvalid) {
		t.Errorf("a changed machine: %v", err)
	}
	for _, text := range []string{"x", "0-64", "3-1", "-1", "0-9999999999", ",", "0,"} {
		o := &v1alpha1.PaddockNode{Status: v1alpha1.PaddockNodeStatus{Devices: []v1alpha1.DeviceResource{{Resource: "example.com/nic", Devices: []v1alpha1.Device{{ID: "0", NUMANodes: text}}}}}}
		if _, err := objects.Devices(o); !errors.Is(err, predict.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// nodeObject returns a node of Paddock on the machine of machineObject, without pods.
func nodeObject(t *testing.T) *v1alpha1.PaddockNode {
	t.Helper()
	o := &v1alpha1.PaddockNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1alpha1.PaddockNodeStatus{
		Machine: machineObject().Name, Policy: v1alpha1.Policy{CPUManagerPolicy: "static", ReservedCPUs: "0", TopologyManagerPolicy: "restricted"},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionManaging, Status: metav1.ConditionTrue}, {Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue}},
	}}
	sign(t, o)
	return o
}

// sign sets the digest of the policy.
func sign(t *testing.T, o *v1alpha1.PaddockNode) {
	t.Helper()
	text, err := json.Marshal(&o.Status.Policy)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	o.Status.PolicyDigest = hex.EncodeToString(sum[:])
}

// restored reads a node with one bound pod of two CPUs, which has the annotation.
func restored(t *testing.T, o *v1alpha1.PaddockNode, annotation string) (*predict.Policy, *predict.Restored, error) {
	t.Helper()
	m, err := objects.Machine(machineObject())
	if err != nil {
		t.Fatal(err)
	}
	p, err := objects.Policy(o, m)
	if err != nil {
		return nil, nil, err
	}
	r, err := objects.Node(o, p, []predict.BoundPod{{Request: request(t, p, "a"), Grant: annotation}})
	return p, r, err
}

func request(t *testing.T, p *predict.Policy, uid string) *predict.Request {
	t.Helper()
	limits := predict.Amounts{CPUMilli: 2000, Memory: 1 << 30}
	r, err := predict.NewRequest(predict.Pod{UID: uid, Namespace: "prod", Name: uid, Containers: []predict.Container{{Name: "c", Resources: predict.Resources{Limits: limits}}}}, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestNode reads a node with a pod that has no grant and with one that has an annotation that is
// damaged. internal/testing/predict compares nodes with those of the scheduler.
func TestNode(t *testing.T) {
	for annotation, certainty := range map[string]predict.Certainty{"": predict.Certain, "{": predict.Unsure} {
		p, r, err := restored(t, nodeObject(t), annotation)
		if err != nil {
			t.Fatal(err)
		}
		v := r.Node.Plan(request(t, p, "b"))
		if !r.Node.Has("a") || r.Node.FreeCPUs() != "2" || fmt.Sprint(r.Planned) != "[a]" || v.Fits || v.Certainty != certainty {
			t.Errorf("annotation %q: %+v, free %s, verdict %+v", annotation, r, r.Node.FreeCPUs(), v)
		}
	}
}

// TestNodeErrors reads nodes that cannot be planned for. Each error names the node and what to do
// or what is wrong.
func TestNodeErrors(t *testing.T) {
	kubelet := &v1alpha1.DecidedBy{Manager: "kubelet", Version: "1.36.4", SharedCPUs: "0-3"}
	with := func(change func(*v1alpha1.DecidedBy)) func(*v1alpha1.PaddockNode) {
		return func(o *v1alpha1.PaddockNode) {
			d := kubelet.DeepCopy()
			change(d)
			o.Status.DecidedBy = d
		}
	}
	for want, change := range map[string]func(*v1alpha1.PaddockNode){
		"update the CRD and this program": func(o *v1alpha1.PaddockNode) { o.Status.PolicyDigest = "0" },
		"ask paddock predict serve": func(o *v1alpha1.PaddockNode) {
			o.Status.Policy.CPUManagerPolicyOptions = []string{"cache-allocation"}
			sign(t, o)
		},
		"does not decide about pods (paused)": func(o *v1alpha1.PaddockNode) {
			o.Status.Conditions[0].Status, o.Status.Summary.Condition = metav1.ConditionFalse, "paused"
		},
		"condition Complete":          func(o *v1alpha1.PaddockNode) { o.Status.Conditions = o.Status.Conditions[:1] },
		`manager "other"`:             with(func(d *v1alpha1.DecidedBy) { d.Manager = "other" }),
		"one of kubelet-1.33":         with(func(d *v1alpha1.DecidedBy) { d.Version = "1.99.0" }),
		"sharedCPUs":                  with(func(d *v1alpha1.DecidedBy) { d.SharedCPUs = "3-1" }),
		"no NUMA node 7":              with(func(d *v1alpha1.DecidedBy) { d.Memory = []v1alpha1.AccountedMemory{{NUMANode: 7}} }),
		"no NUMA node -1":             with(func(d *v1alpha1.DecidedBy) { d.Memory = []v1alpha1.AccountedMemory{{Together: []int32{-1}}} }),
		"grant of the pod with UID x": func(o *v1alpha1.PaddockNode) { o.Status.Grants = []v1alpha1.PublishedGrant{{UID: "x", Grant: "{"}} },
		"written by a newer Paddock": func(o *v1alpha1.PaddockNode) {
			o.Status.Grants = []v1alpha1.PublishedGrant{{UID: "x", Grant: `{"warp":1}`}}
		},
		"device 0 of example.com/nic": func(o *v1alpha1.PaddockNode) {
			o.Status.Devices = []v1alpha1.DeviceResource{{Resource: "example.com/nic", Devices: []v1alpha1.Device{{ID: "0", NUMANodes: "x"}}}}
		},
	} {
		o := nodeObject(t)
		change(o)
		if _, _, err := restored(t, o, ""); !errors.Is(err, predict.ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "ode n") {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

// TestDoubts checks that verdicts about a node of a kubelet have what is not known of it.
func TestDoubts(t *testing.T) {
	exact := &v1alpha1.Certainty{Answer: v1alpha1.CertaintyExact}
	for want, c := range map[string]struct {
		certainty       *v1alpha1.Certainty
		version, digest string
	}{
		"has not published how surely":                 {nil, "1.36.4", "0"},
		"its files changed":                            {&v1alpha1.Certainty{Answer: v1alpha1.CertaintyUnsure, Reasons: []string{"its files changed"}}, "1.36.4", "0"},
		"knows other rules":                            {exact, "1.36.4", "0"},
		"has not published by which rules":             {exact, "1.36.4", ""},
		"it is not known how kubelet 1.99.0 decides":   {exact, "1.99.0", "0"},
		"other rules of kubelet 1.99.0":                {exact, "1.99.0", "0"},
		`"next" is no version of Kubernetes: expected`: {exact, "next", "0"},
	} {
		o := nodeObject(t)
		o.Status.DecidedBy = &v1alpha1.DecidedBy{Manager: "kubelet", Version: c.version, SharedCPUs: "0-3", RulesDigest: c.digest}
		o.Status.Certainty = c.certainty
		p, r, err := restored(t, o, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []*predict.Node{r.Node, r.Node.Without("a")} {
			if v := n.Admits(request(t, p, "b")); v.Certainty != predict.Unsure || !strings.Contains(strings.Join(v.Doubts, "; "), want) {
				t.Errorf("got %+v, want the doubt %q", v, want)
			}
		}
	}
}
