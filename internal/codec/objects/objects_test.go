package objects_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/classtest"
)

// machines returns all machines of the examples and of the recorded scenarios.
func machines(t *testing.T) map[string]*machine.Machine {
	t.Helper()
	out := map[string]*machine.Machine{}
	for _, pattern := range []string{"../../../examples/machines/*.json", "../../../testdata/golden/machines/*.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			found, err := discover.Read(name, data)
			if err != nil {
				t.Fatal(err)
			}
			out[name] = found.Machine
		}
	}
	return out
}

// TestMachine checks that the object of every machine describes the same machine, also if CPUs are
// offline.
func TestMachine(t *testing.T) {
	for name, m := range machines(t) {
		less, err := m.Without(cpuset.Of(m.AllCPUs().Lowest()))
		if err != nil {
			less = m // The machine has only one CPU.
		}
		for _, m := range []*machine.Machine{m, less} {
			o, err := objects.Machine(m)
			if err != nil {
				t.Fatal(err)
			}
			again, err := objects.ReadMachine(o)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !reflect.DeepEqual(m, again) {
				t.Errorf("%s is another machine:\n%s", name, cmp.Diff(m.CPUs(), again.CPUs()))
			}
			if second, err := objects.Machine(again); err != nil || second.Name != o.Name {
				t.Errorf("%s: %v, digests %s and %s", name, err, o.Name, second.Name)
			}
		}
	}
}

func TestChangedMachine(t *testing.T) {
	for name, m := range machines(t) {
		o, err := objects.Machine(m)
		if err != nil {
			t.Fatal(err)
		}
		o.Spec.Description = strings.Replace(o.Spec.Description, `"memory":`, `"memory":1`, 1)
		if _, err := objects.ReadMachine(o); err == nil || !strings.Contains(err.Error(), "PaddockMachine "+o.Name) {
			t.Errorf("%s: a changed description is read: %v", name, err)
		}
	}
}

// everyField is a policy in which every field has a value other than zero, except for the quota
// policy, on which no decision depends.
var everyField = node.Policy{
	Topology: node.TopologySingleNUMANode, Scope: node.PodScope, PreferClosest: true, StaticCPU: true,
	CPU: cpu.Options{
		FullPCPUsOnly: true, DistributeAcrossNUMA: true, DistributeAcrossCores: true, AlignBySocket: true, StrictReservation: true, PreferUncore: true,
		Isolated: cpu.IsolatedOnly, DividesCaches: true,
	},
	ReservedCPUs: cpuset.Of(0, 4, 5), StaticMemory: true, ReservedMemory: map[int]map[string]int64{2: {"memory": 1, "hugepages-1Gi": 7}},
	PodLevelResources: true, PodLevelManagers: true, LiftQuota: true,
	Moves: node.MovePolicy{Pods: 2, All: true, Bytes: 1 << 32, AnyKernel: true},
}

func TestPolicy(t *testing.T) {
	for _, p := range []node.Policy{{}, everyField} {
		policy, digest, err := objects.Policy(p)
		if err != nil {
			t.Fatal(err)
		}
		o := &v1alpha1.PaddockNode{Status: v1alpha1.PaddockNodeStatus{Policy: policy, PolicyDigest: digest}}
		got, err := objects.ReadPolicy(o)
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%v: %+v is read as %+v", err, p, got)
		}
		o.Status.MaxContainersPerPod, p.MaxContainers = 7, 7
		if got, err := objects.ReadPolicy(o); err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%v: %+v with a bound on containers is read as %+v", err, p, got)
		}
		o.Status.MaxContainersPerPod = -1
		if got, err := objects.ReadPolicy(o); err != nil || got.MaxContainers != 0 {
			t.Errorf("%v: a negative bound on containers is read as %d", err, got.MaxContainers)
		}
		o.Status.Policy.CPUManagerPolicyOptions = nil
		o.Status.Policy.ReservedCPUs = "1"
		if _, err := objects.ReadPolicy(o); err == nil || !strings.Contains(err.Error(), "update the CRD") {
			t.Errorf("a policy that lost a field is read: %v", err)
		}
		o.Status.Policy.FeatureGates = []string{"Unknown"}
		if _, err := objects.ReadPolicy(o); err == nil {
			t.Error("a gate that is not known is ignored")
		}
	}
}

func TestDevicesAndGrants(t *testing.T) {
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{
		{ID: 0, Memory: 1 << 34, Cores: []machine.CoreDescription{{Threads: []int{0, 1, 2, 3, 4, 5, 6, 7}}}}, {ID: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	resources := map[string][]device.Device{
		"example.com/gpu": {{ID: "gpu0", Healthy: true, Nodes: mask.Of(0, 1)}, {ID: "gpu1"}}, "example.com/none": {},
	}
	inv, err := device.NewInventory(m, resources)
	if err != nil {
		t.Fatal(err)
	}
	o := &v1alpha1.PaddockNode{Status: v1alpha1.PaddockNodeStatus{Devices: objects.Devices(inv)}}
	if again, err := objects.ReadDevices(m, o); err != nil || !reflect.DeepEqual(again, inv) {
		t.Errorf("%v: %+v", err, o.Status.Devices)
	}
	o.Status.Devices[0].Devices[0].NUMANodes = "64"
	if _, err := objects.ReadDevices(m, o); err == nil || !strings.Contains(err.Error(), "gpu0") {
		t.Errorf("NUMA node 64: %v", err)
	}

	s, err := node.New(m, node.Policy{StaticCPU: true, ReservedCPUs: cpuset.Of(0)})
	if err != nil {
		t.Fatal(err)
	}
	g := s.Plan(request.Pod{Identity: request.Identity{UID: "u", Namespace: "a", Name: "b"}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{{Name: "c", Type: request.App, CPUs: 2}}}}).Grant
	published, err := objects.Grant(g)
	if err != nil {
		t.Fatal(err)
	}
	again, err := objects.ReadGrant(published)
	if err != nil || !again.SameAssignments(g) || !again.Pod.Equal(g.Pod) || again.Sequence != g.Sequence {
		t.Errorf("%v: %s", err, published.Grant)
	}
	for _, g := range classtest.State(t).Grants() {
		divided, err := objects.Grant(g)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := objects.ReadGrant(divided); err != nil || !again.SameAssignments(g) || !again.Pod.Equal(g.Pod) {
			t.Errorf("%v: %s", err, divided.Grant)
		}
	}
	published.UID = "v"
	if _, err := objects.ReadGrant(published); err == nil {
		t.Error("a grant under another UID is read")
	}
}
