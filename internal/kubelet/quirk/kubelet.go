package quirk

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Kubelet has what is known about a kubelet in addition to its state (a node.State with a
// Behavior): its version, and what its state files have that the state lacks.
type Kubelet struct {
	version behavior.Version
	// before is set if the state files were written before the feature gate
	// PodLevelResourceManagers was on.
	before bool
}

// New returns a kubelet of a version whose state files have never differed from its state.
func New(version behavior.Version) Kubelet { return Kubelet{version: version} }

// Version returns the kubelet's version.
func (k Kubelet) Version() behavior.Version { return k.version }

// Admit decides about a pod as the kubelet does on its state s, and names the quirks because of
// which the answer differs from Paddock's on the same state. It returns the kubelet after the
// admission. If s already has the pod, the pod is admitted again, as after a restart.
func (k Kubelet) Admit(s *node.State, pod request.Pod) (*node.Plan, []Quirk, Kubelet) {
	plan, ours := s.Plan(pod), s.PlanAs(node.Behavior{}, pod)
	found := k.loses(s, pod.UID)
	if g := plan.Grant; g != nil && (!g.CPUs().IsEmpty() || len(g.Charged()) > 0) {
		k.before = false // The kubelet writes its files again.
	}
	if effect, changed := compare(ours, plan); changed {
		found = append(found, k.quirks(s, pod, plan, effect)...)
	}
	return plan, found, k
}

// Remove returns the quirks that take effect when a pod is removed, and the kubelet after that.
func (k Kubelet) Remove(s *node.State, uid string) ([]Quirk, Kubelet) {
	if g, known := s.Grant(uid); known && (!g.CPUs().IsEmpty() || len(g.Charged()) > 0) {
		k.before = false
	}
	return k.loses(s, ""), k
}

// loses returns the quirk for CPUs that are lost when the next pod is added or removed: the kubelet
// then releases what rejected pods have. If a pod has two pools, it releases only the second.
func (k Kubelet) loses(s *node.State, comes string) []Quirk {
	stale := s.Stale()
	if stale == nil || stale.Pod.UID == comes && comes != "" {
		return nil
	}
	for _, r := range s.Residue() {
		if r.Cause == node.FaultAdmitsAgain && r.Pod == stale.Pod.ID() && !r.CPUs.IsEmpty() {
			return []Quirk{{
				ID: SecondPool, Effect: Lost, Certain: true,
				Text: k.version.Name() + " loses CPUs " + r.CPUs.String() + ": it assigned a second pool to " + r.Pod + ", and does not release the first",
			}}
		}
	}
	return nil
}

// Restart returns the quirks that prevent the kubelet from starting on its state with a policy, and
// the kubelet after the restart.
func (k Kubelet) Restart(s *node.State, policy node.Policy) ([]Quirk, Kubelet) {
	var found []Quirk
	say := func(id ID, certain bool, text string) {
		found = append(found, Quirk{ID: id, Effect: NoStart, Certain: certain, Text: k.version.Name() + " does not start: " + text})
	}
	old := s.Policy()
	if why := k.gateOff(s, &policy); why != "" {
		say(GateOff, true, why)
	}
	has := func(g *node.Grant) bool { return g != nil && !g.CPUs().IsEmpty() }
	assigned := slices.ContainsFunc(s.Grants(), has) || has(s.Stale())
	if policy.StaticCPU && policy.CPU.StrictReservation && assigned && s.SharedCPUs().IsEmpty() {
		say(EmptyDefault, true, "all CPUs that are not reserved are assigned, and with strict-cpu-reservation its start wants one that is not; end a pod before")
	}
	if why := changedConfig(&old, &policy); why != "" {
		say(ChangedConfig, true, why+" while its state files are there; drain the node and delete the file")
	}
	for _, r := range s.Residue() {
		if r.StopsStart(&old) {
			say(ids[r.Cause], true, "its state files do not pass its checks, because "+cmp.Or(reasons[ids[r.Cause]], "CPUs or memory in them are neither free nor assigned"))
		}
	}
	if alone, left := s.Memory().Alone(); !alone.IsEmpty() {
		say(SingleOfGroup, alone != left, "its state files do not pass its checks, because "+reasons[SingleOfGroup])
	}
	k.before = !old.PodLevelManagers && policy.PodLevelManagers || k.before && policy.PodLevelManagers
	return found, k
}

// gateOff returns why the kubelet does not start after PodLevelResourceManagers was turned off, or
// "" if it does. 1.36 cannot read its files then. 1.37 reads them, but does not count the pools in
// them.
func (k Kubelet) gateOff(s *node.State, policy *node.Policy) string {
	const gate = "feature gate PodLevelResourceManagers, which is off now"
	old := s.Policy()
	switch {
	case !old.PodLevelManagers || policy.PodLevelManagers:
		return ""
	case k.version.Before(behavior.Version{Minor: 37}):
		if k.before {
			return ""
		}
		return "its state files were written with " + gate + "; drain the node and delete both files"
	}
	for g := range s.AllGrants() {
		if policy.StaticMemory && len(g.PoolMemory) > 0 {
			return "the memory of " + g.Pod.ID() + " was assigned to its pool with " + gate + ", so that it does not add up; drain the node before"
		}
	}
	return ""
}

// changedConfig describes a change of the configuration that a kubelet does not accept with
// existing state files. It returns "" if there is none.
func changedConfig(old, policy *node.Policy) string {
	switch {
	case old.StaticMemory != policy.StaticMemory:
		return "memoryManagerPolicy was changed"
	case old.StaticMemory && !maps.EqualFunc(old.ReservedMemory, policy.ReservedMemory, maps.Equal[map[string]int64]):
		return "reservedMemory was changed"
	case old.StaticCPU && policy.StaticCPU && old.CPU.StrictReservation != policy.CPU.StrictReservation:
		return "strict-cpu-reservation was changed"
	}
	return ""
}

// Changed is what a restart of the kubelet does to a running pod.
type Changed struct {
	Pod    string  `json:"pod"`
	Quirks []Quirk `json:"quirks"`
}

// Again returns the pods that get a different answer when the kubelet admits them again, which it
// does with each pod after a restart.
func (k Kubelet) Again(s *node.State) []Changed {
	s = s.Restarted()
	late, err := s.WithDevices(nil) // No device plugin has registered.
	if err != nil {
		late = s
	}
	var found []Changed
	for g := range s.AllGrants() {
		_, quirks, _ := k.Admit(s, g.Pod)
		if len(quirks) == 0 {
			_, quirks, _ = k.Admit(late, g.Pod)
		}
		if len(quirks) > 0 {
			found = append(found, Changed{g.Pod.ID(), quirks})
		}
	}
	return found
}

// Setup is what a kubelet knows of its configuration apart from the policy.
type Setup struct {
	// ByNumber is set if the configuration gives the number of reserved CPUs instead of naming
	// them.
	ByNumber bool
	// TooManyNodes is set if max-allowable-numa-nodes does not allow as many NUMA nodes as the
	// machine has.
	TooManyNodes bool
}

// behavior returns how the kubelet decides. A version without recordings decides as Paddock does.
func (k Kubelet) behavior() node.Behavior {
	b, err := behavior.Of(k.version)
	if err != nil {
		return node.Behavior{}
	}
	return b
}

// Policy returns the policy with which the kubelet decides. It has the kubelet's behavior and, if
// the configuration gives the number of reserved CPUs, the CPUs that the kubelet chooses.
func (k Kubelet) Policy(m *machine.Machine, p node.Policy, c Setup) node.Policy {
	as := p.As(k.behavior())
	if p.StaticCPU && c.ByNumber {
		if got, err := cpu.Take(m, as.CPU, m.AllCPUs(), p.ReservedCPUs.Len()); err == nil {
			as.ReservedCPUs = got
		}
	}
	return as
}

// Start returns the quirks because of which a kubelet does not start, or reserves other CPUs than
// the policy.
func (k Kubelet) Start(m *machine.Machine, p node.Policy, c Setup) []Quirk {
	if c.TooManyNodes {
		return []Quirk{{ID: ManyNodes, Effect: NoStart, Certain: true, Text: fmt.Sprintf(
			"%s does not start on %d NUMA nodes: set max-allowable-numa-nodes, or topologyManagerPolicy to none", k.version.Name(), len(m.Nodes()))}}
	}
	p = p.As(node.Behavior{})
	if !p.StaticCPU || p.ReservedCPUs.IsEmpty() || !c.ByNumber {
		return nil
	}
	chosen, err := cpu.Reserve(m, p.CPU, p.ReservedCPUs.Len())
	got := k.Policy(m, p, c).ReservedCPUs
	if err != nil || !chosen.Equal(p.ReservedCPUs) || got.Equal(chosen) {
		return nil
	}
	id := LastSubset
	if p.CPU.Behavior.AverageUnits = true; takes(m, p.CPU, got) {
		id = AverageUnits
	}
	return []Quirk{{ID: id, Effect: OtherCPUs, Certain: true, Text: k.version.Name() + " reserves CPUs " + got.String() + " in place of " + chosen.String() + ": " + reasons[id]}}
}

// takes reports whether the CPU allocator chooses this set on the empty machine with these options.
func takes(m *machine.Machine, o cpu.Options, set cpuset.Set) bool {
	got, err := cpu.Take(m, o, m.AllCPUs(), set.Len())
	return err == nil && got.Equal(set)
}

// compare reports whether the kubelet's answer differs from Paddock's, and how.
func compare(ours, theirs *node.Plan) (Effect, bool) {
	switch {
	case theirs.Trace.Cause.Down():
		return Down, true
	case ours.Rejection != nil:
		return Admitted, theirs.Rejection == nil
	case theirs.Rejection != nil:
		return Rejected, true
	case !theirs.Grant.Pool.Equal(ours.Grant.Pool):
		return OtherCPUs, true
	}
	other := first(theirs.Grant.PoolMemory) != first(ours.Grant.PoolMemory)
	for i := range ours.Grant.Containers {
		got, want := &theirs.Grant.Containers[i], &ours.Grant.Containers[i]
		if want.Removed {
			continue
		}
		if !got.CPUs.Equal(want.CPUs) {
			return OtherCPUs, true
		}
		other = other || first(got.Memory) != first(want.Memory)
	}
	switch {
	case other:
		return OtherMemory, true
	case ours.Known && len(theirs.Grant.PoolMemory) > 0:
		return CountedTwice, true
	}
	return OtherMemory, !ours.Known && !theirs.Memory().Equal(ours.Memory()) // The kubelet accounts for less.
}

// first returns the NUMA nodes of the first block, or the empty mask.
func first(blocks []memory.Block) mask.Mask {
	if len(blocks) == 0 {
		return 0
	}
	return blocks[0].Nodes
}
