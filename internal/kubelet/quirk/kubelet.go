package quirk

import (
	"fmt"
	"maps"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Request is a pod as the kubelet reads it.
type Request struct {
	Pod request.Pod
	// Fractions are the containers with an amount of memory that is no whole number of bytes, ""
	// for the pod-level request (podspec.Fractions).
	Fractions []string
}

// Kubelet is what a kubelet keeps between admissions beside its state. The zero value is one that
// has just started.
type Kubelet struct {
	cpus     leftCPUs
	memories leftMemory
	// broken is why its files do not pass the checks of its next start; empty: they do.
	broken []fault
	// stale is what a pod has that was rejected when it was admitted again, until the next pod
	// comes or goes. lost are CPUs that are then lost to the kubelet.
	stale *node.Grant
	lost  cpuset.Set
	// before reports that its files were written before feature gate PodLevelResourceManagers was
	// on.
	before bool
}

// leftCPUs and leftMemory are what the init containers of one pod left. The kubelet keeps them for
// the pod that it served last, also after the pod is gone.
type leftCPUs struct {
	uid  string
	cpus cpuset.Set
}

type leftMemory struct {
	uid   string
	reuse memory.Reuse
}

// Admit names the quirks that give a pod another answer than plan, which was made on s, and returns
// the kubelet after the admission. A pod that s has is admitted again, as after a restart.
func (k Kubelet) Admit(s *node.State, r Request, plan *node.Plan) ([]Quirk, Kubelet) {
	d := decide(s, r, k)
	var found []Quirk
	if k.stale == nil || k.stale.Pod.UID != r.Pod.UID {
		found = k.sweep()
		k.stale, k.lost = nil, cpuset.Set{}
	}
	effect, changed := d.compare(plan)
	k.cpus, k.memories = d.left()
	if d.verdict == admits && plan.Grant != nil && (!plan.Grant.CPUs().IsEmpty() || len(plan.Grant.Charged()) > 0) {
		k.before = false // Its files are written again.
	}
	if d.had != nil && d.asked.Path == node.AsPool && (!d.pool.IsEmpty() || d.poolNodes != 0) {
		k.broken = append(slices.Clip(k.broken), fault{id: SecondPool})
	}
	if !changed {
		return found, k
	}
	if d.verdict == rejects && d.had != nil {
		k.stale, k.lost = d.had, cpuset.Set{}
		if !d.pool.IsEmpty() {
			k.lost = d.had.Pool
		}
	}
	k.broken = append(slices.Clip(k.broken), d.breaking()...)
	return append(found, quirks(d.faults, effect)...), k
}

// Remove names the quirks that show when a pod is gone, and returns the kubelet after that.
func (k Kubelet) Remove(s *node.State, uid string) ([]Quirk, Kubelet) {
	found := k.sweep()
	if g, known := s.Grant(uid); known && (!g.CPUs().IsEmpty() || len(g.Charged()) > 0) {
		k.before = false
	}
	k.stale, k.lost = nil, cpuset.Set{}
	return found, k
}

// sweep is what the kubelet does first when a pod comes or goes: it releases what pods have that
// are gone. Of two pools of one pod it releases the second.
func (k Kubelet) sweep() []Quirk {
	if k.lost.IsEmpty() {
		return nil
	}
	return []Quirk{{
		ID: SecondPool, Effect: Lost, Certain: true,
		Text: "kubelet 1.36 loses CPUs " + k.lost.String() + ": it assigned a second pool to " + k.stale.Pod.ID() + ", and does not release the first",
	}}
}

// Restart names the quirks that keep the kubelet from starting on the state with a policy, and
// returns the kubelet after the restart.
func (k Kubelet) Restart(s *node.State, policy node.Policy) ([]Quirk, Kubelet) {
	var found []Quirk
	say := func(id ID, certain bool, text string) {
		found = append(found, Quirk{ID: id, Effect: NoStart, Certain: certain, Text: "kubelet 1.36 does not start: " + text})
	}
	old := s.Policy()
	if old.PodLevelManagers && !policy.PodLevelManagers && !k.before {
		say(GateOff, true, "its state files were written with feature gate PodLevelResourceManagers, which is off now; drain the node and delete both files")
	}
	assigned := slices.ContainsFunc(s.Grants(), func(g *node.Grant) bool { return !g.CPUs().IsEmpty() })
	if policy.StaticCPU && policy.CPU.StrictReservation && assigned && s.SharedCPUs().IsEmpty() {
		say(EmptyDefault, true, "all CPUs that are not reserved are assigned, and with strict-cpu-reservation its start wants one that is not; end a pod before")
	}
	if why := changedConfig(&old, &policy); why != "" {
		say(ChangedConfig, true, why+" while its state files are there; drain the node and delete the file")
	}
	for _, f := range k.broken {
		if groups, _ := s.Memory().Serving(f.nodes); f.id == SingleOfGroup && len(groups) == 0 {
			continue
		}
		say(f.id, !f.unsure, "its state files do not pass its checks, because "+reasons[f.id])
	}
	k.before = !old.PodLevelManagers && policy.PodLevelManagers || k.before && policy.PodLevelManagers
	k.cpus, k.memories = leftCPUs{}, leftMemory{}
	return found, k
}

// changedConfig is a change of the configuration that a kubelet does not accept beside its state
// files.
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

// Changed is what a restart of the kubelet does to a pod that runs.
type Changed struct {
	Pod    string  `json:"pod"`
	Quirks []Quirk `json:"quirks"`
}

// Again names the pods that get another answer when the kubelet admits them again, which it does
// with each pod after a restart.
func Again(s *node.State) []Changed {
	var found []Changed
	for _, g := range s.Grants() {
		pod := g.Pod
		quirks, _ := Kubelet{}.Admit(s, Request{Pod: pod}, s.Plan(pod))
		if len(quirks) > 0 {
			found = append(found, Changed{pod.ID(), quirks})
		}
	}
	return found
}

// Setup is what a kubelet knows of its configuration beside the policy.
type Setup struct {
	// ByNumber: the configuration gives the number of reserved CPUs, not which these are.
	ByNumber bool
	// TooManyNodes: no max-allowable-numa-nodes allows as many NUMA nodes as the machine has.
	TooManyNodes bool
}

// Start names the quirks by which a kubelet does not start, or reserves other CPUs than the policy
// has.
func Start(m *machine.Machine, p node.Policy, c Setup) []Quirk {
	if c.TooManyNodes {
		return []Quirk{{ID: ManyNodes, Effect: NoStart, Certain: true, Text: fmt.Sprintf(
			"kubelet 1.36 does not start on %d NUMA nodes: set max-allowable-numa-nodes, or topologyManagerPolicy to none", len(m.Nodes()))}}
	}
	if !p.StaticCPU || p.ReservedCPUs.IsEmpty() || !c.ByNumber {
		return nil
	}
	t := taker{m: m, o: p.CPU}
	got, err := t.take(m.AllCPUs(), p.ReservedCPUs.Len())
	chosen, reserveErr := cpu.Reserve(m, p.CPU, p.ReservedCPUs.Len())
	if err != nil || reserveErr != nil || !chosen.Equal(p.ReservedCPUs) || got.Equal(chosen) {
		return nil
	}
	found := quirks(t.faults, OtherCPUs)
	for i := range found {
		found[i].Text = "kubelet 1.36 reserves CPUs " + got.String() + " in place of " + chosen.String() + ": " + reasons[found[i].ID]
	}
	return found
}

// compare reports whether the kubelet's answer is another one than the plan.
func (d *decision) compare(plan *node.Plan) (Effect, bool) {
	switch {
	case d.verdict == down:
		return Down, true
	case plan.Rejection != nil:
		return Admitted, d.verdict == admits
	case d.verdict == rejects:
		return Rejected, true
	}
	if !d.pool.Equal(plan.Grant.Pool) {
		return OtherCPUs, true
	}
	memory := d.poolNodes != nodesOf(plan.Grant.PoolMemory)
	if d.had == nil && d.asked.Path != node.AsPool && d.sameUID {
		next, err := d.s.Apply(plan)
		memory = memory || err != nil || !next.Memory().Equal(d.usage) // It accounts for less.
	}
	for i := range d.containers {
		got, want := &d.containers[i], &plan.Grant.Containers[i]
		if want.Removed {
			continue
		}
		if !got.CPUs.Equal(want.CPUs) {
			return OtherCPUs, true
		}
		if d.asked.Path != node.AsPool {
			memory = memory || nodesOf(got.Memory) != nodesOf(want.Memory)
			continue
		}
		// Of a second pool, init containers that have ended get memory again.
		ended := d.pod.Containers[i].Type == request.Init && len(want.Memory) == 0 && !want.MemoryNodes.IsEmpty()
		memory = memory || d.had != nil && d.poolNodes != 0 && ended
	}
	if !memory && d.had != nil && d.poolNodes != 0 {
		return CountedTwice, true
	}
	return OtherMemory, memory
}

func nodesOf(blocks []memory.Block) mask.Mask {
	if len(blocks) == 0 {
		return 0
	}
	return blocks[0].Nodes
}

// breaking are the faults after which the files of the kubelet do not pass its own checks: CPUs
// that are reserved and assigned, and accounts of memory that do not add up. The last depends on
// which pod is removed first.
func (d *decision) breaking() []fault {
	var found []fault
	for _, f := range d.faults {
		switch {
		case f.id == AverageUnits && d.verdict == admits && d.assigned().Intersects(d.policy.ReservedCPUs):
			found = append(found, f)
		case f.id == SingleOfGroup:
			f.unsure = true
			found = append(found, f)
		case f.id == SameUID && d.policy.StaticMemory:
			f.unsure = d.verdict != admits
			found = append(found, f)
		}
	}
	return found
}
