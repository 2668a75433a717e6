package objects_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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
