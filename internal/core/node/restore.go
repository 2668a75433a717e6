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

// Restore returns the state in which the pods have exactly these grants, by all rules. Grants may
// come in any order. The error names the pod whose grant is not valid here: it has CPUs that do not
// exist, are reserved or are assigned twice, has memory that does not exist, or lacks something
// that the pod asks for.
func Restore(m *machine.Machine, p Policy, grants []*Grant) (*State, error) {
	return restore(m, p, grants, false)
}

// RestoreKubelet is Restore for what a kubelet has assigned. Its memory may be overdrawn: a kubelet
// charges a block on several NUMA nodes to them in turn and takes it back in another order, and can
// then assign more on one of them than is left. What it counts as free is set by Found.
func RestoreKubelet(m *machine.Machine, p Policy, grants []*Grant) (*State, error) {
	return restore(m, p, grants, true)
}

func restore(m *machine.Machine, p Policy, grants []*Grant, overdraws bool) (*State, error) {
	s, err := New(m, p)
	if err != nil {
		return nil, err
	}
	for _, g := range byAdmission(grants) {
		err := s.checkGrant(g, s.FreeCPUs())
		usage := s.usage
		for _, b := range g.Charged() {
			if err != nil {
				break
			}
			free := usage.Free(b.Nodes, b.Type)
			if usage = usage.Charge([]memory.Block{b}, nil); usage.Overcommitted(b.Type) && !overdraws {
				err = fmt.Errorf("it has %s on %s, and %s is free there", request.Words(b.Type, b.Size), b.Nodes.Text(), request.Bytes(free))
			}
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

// Finding describes the effect of a change of the machine, of the policy or of the devices on one
// pod.
type Finding struct {
	Pod, UID string
	// Kept is set if the pod keeps its grant. Otherwise the pod is not in the state any more.
	Kept bool
	// What describes what is no longer valid. Do describes what a person can do about it.
	What, Do string
}

// restart is what a person can do about a pod that keeps what it has.
const restart = "delete the pod when that is acceptable, so that it is created again"

// String returns the finding in one line.
func (f Finding) String() string {
	verdict := "keeps what it has"
	if !f.Kept {
		verdict = "is forgotten"
	}
	return fmt.Sprintf("pod %s %s: %s: %s", f.Pod, verdict, f.What, f.Do)
}

// Adopt restores the state of running pods after any change. Unlike Restore, it keeps what is still
// valid, and returns a finding for everything else. A pod keeps CPUs that are reserved now, or that
// no policy assigns any more, until it ends. It keeps CPUs that are offline, and no other pod gets
// them: when all CPUs are back, the state is the same as before. Memory that no longer exists
// leaves its NUMA nodes overdrawn. A grant that contradicts itself is corrected if that moves no
// running container. The error is about the machine, the policy and the inventory, never about a
// pod.
func Adopt(m *machine.Machine, p Policy, inv *device.Inventory, grants []*Grant) (*State, []Finding, error) {
	s, err := New(m, p)
	if err != nil {
		return nil, nil, err
	}
	if s, err = s.WithDevices(inv); err != nil {
		return nil, nil, err
	}
	var findings []Finding
	free := m.AllCPUs().Union(assigned(slices.Values(grants)))
	for _, old := range byAdmission(grants) {
		report := func(kept bool, what, do string) {
			findings = append(findings, Finding{Pod: old.Pod.ID(), UID: old.Pod.UID, Kept: kept, What: what, Do: do})
		}
		g, mended := s.mended(old, free)
		if fitted, err := s.fitClasses(g); err == nil {
			if fitted != g {
				report(true, "it has a share of caches that its CPUs do not use, which is free again", "nothing: a resize keeps such a share while CPUs are offline")
			}
			g = fitted
		} else {
			g = g.withoutClasses()
			report(true, "its part of the caches is not possible any more, and it runs in the default class: "+err.Error(), restart)
		}
		err := s.checkGrant(g, free)
		if err == nil {
			err = s.adopt(g)
		}
		if err != nil {
			report(false, strings.TrimPrefix(err.Error(), ErrInvariant.Error()+": "), "delete the pod, so that it is created again and planned on what is there now")
			continue
		}
		free = free.Difference(g.CPUs())
		for _, what := range mended {
			report(true, what, "nothing, it is corrected; keep a copy of the state file for a report")
		}
		s.reportChanges(g, func(what, do string) { report(true, what, do) })
	}
	return s, findings, s.Check()
}

// byAdmission returns the grants in the order of their admission.
func byAdmission(grants []*Grant) []*Grant {
	ordered := slices.Clone(grants)
	slices.SortFunc(ordered, func(a, b *Grant) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), strings.Compare(a.Pod.UID, b.Pod.UID))
	})
	return ordered
}

// adopt adds a grant to a state that is still under construction.
func (s *State) adopt(g *Grant) error {
	if _, known := s.Grant(g.Pod.UID); known {
		return broken("UID %s occurs twice", g.Pod.UID)
	}
	devices, err := takeDevices(s.devices, g.Devices())
	if err != nil {
		return err
	}
	caches, err := takeClasses(s.caches, g)
	if err != nil {
		return broken("%w", err)
	}
	s.devices, s.caches = devices, caches
	s.usage = s.usage.Charge(g.Charged(), nil)
	s.unassigned = s.unassigned.Difference(g.CPUs())
	s.generation = max(s.generation, g.Sequence, g.Resized)
	s.grants = s.grants.with(g)
	return nil
}

// mended returns a grant with its contradictions corrected, and a line for each correction.
func (s *State) mended(g *Grant, free cpuset.Set) (*Grant, []string) {
	if g.Moving != nil && s.checkGrant(g, free) != nil {
		better, lines := s.mended(g.Staying(), free)
		return better, append(lines, "it was being moved to a place that is not valid: it stays where it was")
	}
	better, lines := mend(g, false)
	if len(lines) == 0 {
		return g, nil
	}
	if s.checkGrant(better, free) == nil {
		return better, lines
	}
	return mend(g, true)
}

// reportChanges reports what is unusual about a grant that was kept.
func (s *State) reportChanges(g *Grant, report func(what, do string)) {
	if offline := s.OfflineOf(g); !offline.IsEmpty() {
		report(fmt.Sprintf("CPUs %s are offline or gone", offline), "bring them online: the pod has them again then; if they are gone for good, "+restart)
	}
	if lacks := s.lacks(g); s.OfflineOf(g).IsEmpty() && len(lacks) > 0 {
		report(strings.Join(lacks, "; "), restart)
	}
	if reserved := g.CPUs().Intersection(s.policy.ReservedCPUs); !reserved.IsEmpty() {
		report(fmt.Sprintf("CPUs %s are reserved for the system now", reserved), restart)
	}
	s.reportIsolation(g, func(what string) { report(what, restart) })
	if !s.policy.StaticCPU && !g.CPUs().IsEmpty() {
		report(fmt.Sprintf("the CPU policy is none now, and other pods may use its CPUs %s", g.CPUs()), restart)
	}
	for _, b := range g.Charged() {
		if over := s.usage.Overdrawn(b.Nodes, b.Type); over > 0 {
			report(fmt.Sprintf("pods have %s more on %s than is there", request.Words(b.Type, over), b.Nodes.Text()), "nothing, if it is a few KiB that the kernel took; else "+restart)
		}
	}
}
