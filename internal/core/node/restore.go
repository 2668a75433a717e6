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
	"github.com/paddock-project/paddock/internal/core/request"
)

// Restore is a node on which the pods hold the grants, all of them and by all rules. Grants may
// come in any order. It is an error that names the pod when a grant does not hold here: CPUs
// that are not there, reserved or held twice, memory that is not there, or what the pod asks for
// and does not have.
func Restore(m *machine.Machine, p Policy, grants []*Grant) (*State, error) {
	s, err := New(m, p)
	if err != nil {
		return nil, err
	}
	for _, g := range byAdmission(grants) {
		err := s.checkGrant(g, s.AvailableCPUs())
		if err == nil {
			err = s.checkRoom(g)
		}
		if lacks := s.lacks(g); err == nil && len(lacks) > 0 {
			err = broken("%s", lacks[0])
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
	verdict := "keeps what it has"
	if !f.Kept {
		verdict = "is forgotten"
	}
	return fmt.Sprintf("pod %s %s: %s: %s", f.Pod, verdict, f.What, f.Do)
}

// Adopt is Restore for running pods after anything may have changed: what still holds is kept, and
// what cannot is told. A pod keeps CPUs that are reserved now, or that no policy gives out any more,
// until it ends, and CPUs that are offline, which nobody else gets meanwhile: with all CPUs back the
// state is the one of before. Memory that is not there any more leaves its NUMA nodes overdrawn. A
// grant that contradicts itself is mended where no container that runs is moved by that. The error is about the machine, the policy and the inventory, never about a pod.
func Adopt(m *machine.Machine, p Policy, inv *device.Inventory, grants []*Grant) (*State, []Finding, error) {
	s, err := New(m, p)
	if err != nil {
		return nil, nil, err
	}
	if s, err = s.WithDevices(inv); err != nil {
		return nil, nil, err
	}
	var findings []Finding
	free := m.AllCPUs().Union(assigned(grants))
	for _, old := range byAdmission(grants) {
		tell := func(kept bool, what, do string) {
			findings = append(findings, Finding{Pod: old.Pod.ID(), UID: old.Pod.UID, Kept: kept, What: what, Do: do})
		}
		g, mended := s.mended(old, free)
		err := s.checkGrant(g, free)
		if err == nil {
			err = s.adopt(g)
		}
		if err != nil {
			tell(false, strings.TrimPrefix(err.Error(), ErrInvariant.Error()+": "), "delete the pod, so that it is created again and planned on what is there now")
			continue
		}
		free = free.Difference(g.CPUs())
		for _, what := range mended {
			tell(true, what, "nothing, it is corrected; keep a copy of the state file for a report")
		}
		s.tellChanges(g, func(what, do string) { tell(true, what, do) })
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

// checkRoom proves that the NUMA nodes have what g holds.
func (s *State) checkRoom(g *Grant) error {
	usage := s.usage
	for _, b := range g.Charged() {
		if free := usage.Free(b.Nodes, b.Type); free < b.Size {
			return fmt.Errorf("it has %s on NUMA nodes %s, which have %s free", amountText(b.Type, b.Size), b.Nodes, request.Bytes(free))
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
	s.usage = s.usage.Charge(g.Charged(), nil)
	s.shared = s.shared.Difference(g.CPUs())
	s.generation = max(s.generation, g.Sequence)
	s.insert(g)
	return nil
}

// mended is what is left of a grant that contradicts itself, with a line for each correction.
func (s *State) mended(g *Grant, free cpuset.Set) (*Grant, []string) {
	better, lines := mend(g, false)
	if len(lines) == 0 {
		return g, nil
	}
	if s.checkGrant(better, free) == nil {
		return better, lines
	}
	return mend(g, true)
}

// tellChanges says what is odd about a grant that was kept.
func (s *State) tellChanges(g *Grant, tell func(what, do string)) {
	const anew = "delete the pod when that is acceptable, so that it is created again"
	if offline := s.OfflineOf(g); !offline.IsEmpty() {
		tell(fmt.Sprintf("CPUs %s are offline or gone", offline), "bring them online: the pod has them again then; if they are gone for good, "+anew)
	}
	if lacks := s.lacks(g); s.OfflineOf(g).IsEmpty() && len(lacks) > 0 {
		tell(strings.Join(lacks, "; "), anew)
	}
	if reserved := g.CPUs().Intersection(s.policy.ReservedCPUs); !reserved.IsEmpty() {
		tell(fmt.Sprintf("CPUs %s are reserved for the system now", reserved), anew)
	}
	if !s.policy.StaticCPU && !g.CPUs().IsEmpty() {
		tell(fmt.Sprintf("the CPU policy is none now, and other pods may use its CPUs %s", g.CPUs()), anew)
	}
	for _, b := range g.Charged() {
		if over := s.usage.Overdrawn(b.Nodes, b.Type); over > 0 {
			tell(fmt.Sprintf("NUMA nodes %s have %s less than is assigned there", b.Nodes, amountText(b.Type, over)), "nothing, if it is a few KiB that the kernel took; else "+anew)
		}
	}
}
