package node

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/memory"
)

// Restore is a node on which the pods hold the grants, all of them and by all rules. Grants may
// come in any order. It is an error that names the pod when a grant does not hold here: CPUs
// that are not there, reserved or held twice, memory that is not there.
func Restore(m *machine.Machine, p Policy, grants []*Grant) (*State, error) {
	s, err := New(m, p)
	if err != nil {
		return nil, err
	}
	for _, g := range byAdmission(grants) {
		err := s.checkGrant(g, s.AvailableCPUs())
		if err == nil {
			err = s.checkMemory(g)
		}
		if err == nil {
			err = s.adopt(g)
		}
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", g.Pod.ID(), err)
		}
	}
	return s, s.Check()
}

// Finding is what a change of the machine, of the policy or of the devices means for one pod.
type Finding struct {
	Pod, UID string
	// Kept pods go on with what they hold; the others are not known any more.
	Kept bool
	// What does not hold, and what a person can do about it.
	What, Do string
}

// String is one line.
func (f Finding) String() string {
	verdict := "keeps what it holds"
	if !f.Kept {
		verdict = "is forgotten"
	}
	return fmt.Sprintf("pod %s %s: %s: %s", f.Pod, verdict, f.What, f.Do)
}

// Adopt is Restore for running pods after anything may have changed: what still holds is kept, and
// what cannot is told. A pod keeps CPUs that are reserved now, or that no policy gives out any more,
// until it ends; CPUs that are gone it loses, if every container that had some keeps one. Memory
// that is not there any more leaves its NUMA nodes overdrawn. The error is about the machine,
// the policy and the inventory, never about a pod.
func Adopt(m *machine.Machine, p Policy, inv *device.Inventory, grants []*Grant) (*State, []Finding, error) {
	s, err := New(m, p)
	if err != nil {
		return nil, nil, err
	}
	if s, err = s.WithDevices(inv); err != nil {
		return nil, nil, err
	}
	var findings []Finding
	free := m.AllCPUs()
	for _, old := range byAdmission(grants) {
		tell := func(kept bool, what, do string) {
			findings = append(findings, Finding{Pod: old.Pod.ID(), UID: old.Pod.UID, Kept: kept, What: what, Do: do})
		}
		g, gone := old.within(m.AllCPUs())
		err := s.checkGrant(g, free)
		if err == nil && !lives(old, g) {
			err = broken("all CPUs of a container are gone")
		}
		if err == nil {
			err = s.adopt(g)
		}
		if err != nil {
			tell(false, strings.TrimPrefix(err.Error(), ErrInvariant.Error()+": "), "delete the pod, so that it is made anew and planned on what is there now")
			continue
		}
		free = free.Difference(g.CPUs())
		s.tellChanges(g, gone, func(what, do string) { tell(true, what, do) })
	}
	return s, findings, s.Check()
}

// byAdmission orders grants as they were admitted.
func byAdmission(grants []*Grant) []*Grant {
	ordered := slices.Clone(grants)
	slices.SortFunc(ordered, func(a, b *Grant) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), strings.Compare(a.Pod.UID, b.Pod.UID))
	})
	return ordered
}

// checkMemory proves that the NUMA nodes have what g holds.
func (s *State) checkMemory(g *Grant) error {
	usage := s.usage
	for _, b := range g.charged() {
		if free := usage.Free(b.Nodes, b.Type); free < b.Size {
			return fmt.Errorf("it holds %s on NUMA nodes %s, which have %s free", amountText(b.Type, b.Size), b.Nodes, bytesText(free))
		}
		usage = usage.Charge([]memory.Block{b}, nil)
	}
	return nil
}

// adopt adds a grant to a state that is still being made.
func (s *State) adopt(g *Grant) error {
	if _, known := s.Grant(g.Pod.UID); known {
		return broken("UID %s occurs twice", g.Pod.UID)
	}
	devices, err := takeDevices(s.devices, g.Devices())
	if err != nil {
		return err
	}
	s.devices = devices
	s.usage = s.usage.Charge(g.charged(), nil)
	s.shared = s.shared.Difference(g.CPUs())
	s.generation = max(s.generation, g.Sequence)
	s.insert(g)
	return nil
}

// within is the grant on the CPUs that are there, and those that are gone.
func (g *Grant) within(there cpuset.Set) (*Grant, cpuset.Set) {
	gone := g.CPUs().Difference(there)
	if gone.IsEmpty() {
		return g, gone
	}
	less := *g
	less.Pool = g.Pool.Intersection(there)
	less.Containers = slices.Clone(g.Containers)
	for i := range less.Containers {
		less.Containers[i].CPUs = less.Containers[i].CPUs.Intersection(there)
	}
	return &less, gone
}

// lives tells whether every container that had CPUs of its own or its pod's still has some.
func lives(old, now *Grant) bool {
	for i := range old.Containers {
		if !old.Containers[i].CPUs.IsEmpty() && now.Containers[i].CPUs.IsEmpty() {
			return false
		}
	}
	return true
}

// tellChanges says what is odd about a grant that was kept.
func (s *State) tellChanges(g *Grant, gone cpuset.Set, tell func(what, do string)) {
	const anew = "delete the pod, so that it is made anew, when it can be spared"
	if !gone.IsEmpty() {
		tell(fmt.Sprintf("CPUs %s are offline or gone", gone), "bring them online and "+anew)
	}
	if reserved := g.CPUs().Intersection(s.policy.ReservedCPUs); !reserved.IsEmpty() {
		tell(fmt.Sprintf("CPUs %s are reserved for the system now", reserved), anew)
	}
	if !s.policy.StaticCPU && !g.CPUs().IsEmpty() {
		tell(fmt.Sprintf("the CPU policy is none now, and nobody is kept off its CPUs %s", g.CPUs()), anew)
	}
	for _, b := range g.charged() {
		if over := s.usage.Overdrawn(b.Nodes, b.Type); over > 0 {
			tell(fmt.Sprintf("NUMA nodes %s have %s less than is held there", b.Nodes, amountText(b.Type, over)), "nothing, if it is a few KiB that the kernel took; else "+anew)
		}
	}
}
