package objects_test

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// published is what a node publishes.
type published struct {
	Machine *v1alpha1.PaddockMachine `json:"machine"`
	Node    *v1alpha1.PaddockNode    `json:"node"`
}

// TestWithoutIsolatedCPUs checks that a node without the option isolated-cpus publishes the bytes
// that it published before there was the option: they are read, the node decides as before, and the
// result is written again.
func TestWithoutIsolatedCPUs(t *testing.T) {
	before, err := os.ReadFile("testdata/before-isolated.json")
	if err != nil {
		t.Fatal(err)
	}
	var read published
	if err := json.Unmarshal(before, &read); err != nil {
		t.Fatal(err)
	}
	m, err := objects.ReadMachine(read.Machine)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := objects.ReadPolicy(read.Node)
	if err != nil {
		t.Fatal(err)
	}
	g, err := objects.ReadGrant(read.Node.Status.Grants[0])
	if err != nil {
		t.Fatal(err)
	}
	again := published{Node: read.Node.DeepCopy()}
	if again.Machine, err = objects.Machine(m); err != nil {
		t.Fatal(err)
	}
	again.Node.Status.Machine = again.Machine.Name
	if again.Node.Status.Policy, again.Node.Status.PolicyDigest, err = objects.Policy(policy); err != nil {
		t.Fatal(err)
	}
	// Isolated CPUs change nothing without the option.
	for isolated, on := range map[string]*machine.Machine{
		"no": m, "some": scenario.Machine("sockets=2 cores=8 threads=2 memory=64Gi isolated=2-5,18-21"),
	} {
		s, err := node.New(on, policy)
		if err != nil {
			t.Fatal(err)
		}
		p := s.Plan(g.Pod)
		if p.Rejection != nil {
			t.Fatal(p.Rejection)
		}
		if again.Node.Status.Grants[0], err = objects.Grant(p.Grant); err != nil {
			t.Fatal(err)
		}
		text, err := json.MarshalIndent(again, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if text = append(text, '\n'); !bytes.Equal(text, before) {
			t.Errorf("with %s isolated CPUs, the node publishes\n%s", isolated, text)
		}
	}
}

// TestPolicyOfNewerAgent checks that a program, or a CRD, that does not know a field of the policy
// does not decide as if the agent had not set it: the digest is that of all fields.
func TestPolicyOfNewerAgent(t *testing.T) {
	policy, digest, err := objects.Policy(everyField)
	if err != nil {
		t.Fatal(err)
	}
	for i := range reflect.TypeFor[v1alpha1.Policy]().NumField() {
		field := reflect.TypeFor[v1alpha1.Policy]().Field(i).Name
		o := &v1alpha1.PaddockNode{Status: v1alpha1.PaddockNodeStatus{Policy: policy, PolicyDigest: digest}}
		o.Status.Policy = *policy.DeepCopy()
		reflect.ValueOf(&o.Status.Policy).Elem().Field(i).SetZero()
		if _, err := objects.ReadPolicy(o); err == nil || field == "IsolatedCPUs" && !strings.Contains(err.Error(), "update the CRD and this program") {
			t.Errorf("a policy without its %s is read: %v", field, err)
		}
	}
	o := &v1alpha1.PaddockNode{Status: v1alpha1.PaddockNodeStatus{Policy: policy, PolicyDigest: digest}}
	o.Status.Policy.IsolatedCPUs = "always"
	if _, err := objects.ReadPolicy(o); err == nil {
		t.Error("a value of isolated-cpus that is not known is ignored")
	}
}
