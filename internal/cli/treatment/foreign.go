package treatment

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// foreign returns the doubt about a file that no kubelet with the given machine and configuration
// can have written.
func foreign(name, why string) view.Doubt {
	return view.Doubt{
		Reason: fmt.Sprintf("%s: %s: it is of another machine or configuration", name, why),
		Give:   "give the machine and the configuration of its node; if these were changed since the kubelet started, ask again after its next start",
	}
}

// others returns why the files can be of another machine than that of the setup, and why they can
// be of a kubelet with another configuration.
func (f Found) others(verified []Verified, s doctor.Setup) (ofMachine, ofConfig []view.Doubt) {
	if whole := f.otherMachine(s.Machine); len(whole) > 0 { // The machine as a whole is the clearest reason.
		return whole, nil
	}
	var leaked cpuset.Set
	same := false
	for _, v := range verified {
		switch why := v.Diagnosis.Foreign(); {
		case why.Machine:
			ofMachine = append(ofMachine, foreign(v.Name, why.Why))
		case why.Why != "":
			ofConfig = append(ofConfig, foreign(v.Name, why.Why))
		}
		leaked, same = leaked.Union(v.Diagnosis.Leaked), same || v.Diagnosis.SameMemory
	}
	if len(ofMachine) == 0 && !same {
		ofMachine = f.larger(s.Machine, leaked)
	}
	if len(ofConfig) == 0 {
		ofConfig = f.otherReserved(s.Policy)
	}
	return ofMachine, ofConfig
}

// otherReserved returns a doubt if other CPUs are reserved than those of the policy, according to
// the configuration in the folder or to the Node. The files show only reserved CPUs that pods have.
func (f Found) otherReserved(policy *node.Policy) []view.Doubt {
	if policy == nil || !policy.StaticCPU {
		return nil
	}
	given := policy.ReservedCPUs
	if f.OwnPolicy != nil && f.OwnPolicy.StaticCPU && !f.OwnPolicy.ReservedCPUs.Equal(given) {
		return []view.Doubt{foreign(f.Path, fmt.Sprintf("its own configuration reserves CPUs %s, and the given one CPUs %s", f.OwnPolicy.ReservedCPUs, given))}
	}
	if !f.Copied || f.NextConfig || f.Node == nil {
		return nil
	}
	has, known := f.Node.Status.Capacity[v1.ResourceCPU]
	pods, both := f.Node.Status.Allocatable[v1.ResourceCPU]
	if !known || !both {
		return nil
	}
	has.Sub(pods)
	if has.Value() == int64(given.Len()) { // Value rounds up, as the kubelet does.
		return nil
	}
	return []view.Doubt{foreign(f.Path, fmt.Sprintf("its Node %s reserves %s, and the configuration CPUs %s", f.Node.Name, view.Count(int(has.Value()), "CPU"), given))}
}

// otherMachine returns a doubt if the folder describes another machine than the given one, or the
// Node has another number of CPUs.
func (f Found) otherMachine(m *machine.Machine) []view.Doubt {
	if f.Own != nil && !sameNodes(f.Own, m) {
		return []view.Doubt{foreign(f.Path, fmt.Sprintf("its own machine has CPUs %s on %s, and the given one CPUs %s on %s",
			f.Own.AllCPUs(), f.Own.NodeMask().Text(), m.AllCPUs(), m.NodeMask().Text()))}
	}
	if has, known := f.cpusOfNode(); known && has != int64(m.NumCPUs()) {
		return []view.Doubt{foreign(f.Path, fmt.Sprintf("its Node %s has %d CPUs, and the machine %d", f.Node.Name, has, m.NumCPUs()))}
	}
	return nil
}

// cpusOfNode returns how many CPUs the Node has. It reports false if that is not known.
func (f Found) cpusOfNode() (int64, bool) {
	if f.Node == nil {
		return 0, false
	}
	has, known := f.Node.Status.Capacity[v1.ResourceCPU]
	return has.Value(), known
}

// larger returns a doubt if the files lack the last CPUs of the machine, and nothing shows how many
// the node has. What the files lack can be lost, as after a restart that leaked CPUs, or the
// machine is another one.
func (f Found) larger(m *machine.Machine, lacks cpuset.Set) []view.Doubt {
	if _, known := f.cpusOfNode(); known || f.Own != nil {
		return nil
	}
	known := m.AllCPUs().Difference(lacks)
	if known.IsEmpty() || m.AllCPUs().Highest() == known.Highest() {
		return nil
	}
	return []view.Doubt{{
		Reason: fmt.Sprintf("%s has CPUs %s, and the machine %s: it is of another machine, or the others are leaked", f.Path, known, m.AllCPUs()),
		Give:   "give the machine of the node that the files are of, and its Node with --pods or as node.json in the folder of --state",
	}}
}

// sameNodes reports whether two machines have the same NUMA nodes with the same CPUs.
func sameNodes(a, b *machine.Machine) bool {
	return a.NodeMask() == b.NodeMask() && slices.EqualFunc(a.Nodes(), b.Nodes(), func(x, y machine.Node) bool { return x.CPUs.Equal(y.CPUs) })
}

// sameMachine is the flag of the commands about the start of a kubelet with which a machine counts
// as that of the files although it differs from what they have.
const sameMachine = "--same-machine"

// ofOtherMachine returns why it is not known what a kubelet does when it starts on the files: they
// can be of another machine. It returns nil if there is no such reason.
func (f Found) ofOtherMachine(verified []Verified, s doctor.Setup) *view.Doubt {
	if f.SameMachine {
		return nil
	}
	ofMachine, _ := f.others(verified, s)
	if len(ofMachine) == 0 {
		return nil
	}
	return &view.Doubt{
		Reason: ofMachine[0].Reason,
		Give:   "give the machine of their node with --machine; if it is this one, and was changed since, add " + sameMachine,
	}
}

// Verify is Verify for the files of a node. If they can be of another machine, this is the only
// finding about the CPU and the memory state, and it is not known whether the kubelet starts: the
// doubt is then what to give.
func (f Found) Verify(texts []Text, s doctor.Setup) ([]Verified, *view.Doubt) {
	verified := Verify(texts, s, f.Pods)
	doubt := f.ofOtherMachine(verified, s)
	if doubt == nil {
		f.addSteps(verified, texts, s)
		return verified, nil
	}
	for _, v := range verified {
		if !v.Diagnosis.Manager.HasDevices() {
			v.Diagnosis.Findings = []doctor.Finding{{Level: doctor.Doubt, Rule: "R-CPU-113", What: doubt.Reason, Do: doubt.Give}}
		}
	}
	return verified, doubt
}

// OtherMachineError is the error of a repair of files that can be of another machine.
type OtherMachineError struct{ view.Doubt }

// Error describes the reason and what to do.
func (e *OtherMachineError) Error() string { return "unsure how to repair: " + e.String() }
