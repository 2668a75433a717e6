package treatment

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// Shown is the state of a kubelet, as far as its files show it.
type Shown struct {
	State *node.State
	// Notes are what the kubelet removes before its next admission.
	Notes []string
	// Faults are what is wrong with the files: the kubelet runs on and does not start again on
	// them. Lost is a sentence about what no pod gets until they are repaired, or empty.
	Faults []Fault
	Lost   string
	// Repair is the command, as arguments of paddock, that shows what a repair of the files
	// changes. It is empty if there are no faults.
	Repair string

	// Deleted is set if the files still list pods that were deleted. It is not set if none of their
	// pods is known, because then the files can be of another node.
	Deleted bool

	// doubts are why the kubelet can have another state.
	doubts  []view.Doubt
	devices *devices
}

// Fault is why a kubelet does not start again on a file.
type Fault struct {
	File    string `json:"file"`
	Kubelet string `json:"kubelet"`
	What    string `json:"what"`
}

// FaultNotes returns the faults as notes.
func (s *Shown) FaultNotes() []string {
	var notes []string
	for _, f := range s.Faults {
		notes = append(notes, fmt.Sprintf("%s: %s does not start on it again: %s", f.File, f.Kubelet, f.What))
	}
	if s.Lost != "" {
		notes = append(notes, s.Lost)
	}
	return notes
}

// Doubts returns why the kubelet can decide about a pod in another way than the state does.
func (s *Shown) Doubts(pod *request.Pod) []view.Doubt {
	all := slices.Clone(s.doubts)
	if s.devices != nil {
		all = append(all, s.devices.doubt(s.State, pod)...)
	}
	return all
}

// Unplaced reports whether Doubts has a doubt about the NUMA nodes of the devices of a resource.
func (s *Shown) Unplaced(resource string) bool {
	if s.devices == nil {
		return false
	}
	_, unplaced := s.devices.doubts[resource]
	return unplaced
}

// KnowsDevices reports whether a file lists the devices of all device plugins of the node.
func (s *Shown) KnowsDevices() bool { return s.devices != nil && s.devices.plugins != nil }

// ForPlans returns a state in place of one that was made from State, for plans. Devices of which
// some are in unknown places have no NUMA nodes there.
func (s *Shown) ForPlans(state *node.State) (*node.State, error) {
	if s.devices == nil {
		return state, nil
	}
	inventory, err := s.devices.withoutPlaces(state.Machine(), state.Devices().Inventory())
	if err != nil {
		return nil, err
	}
	return state.WithDevices(inventory)
}

// inventory returns the devices of the node: those that were given, with those of the files.
func (s *Shown) inventory(given *device.Inventory) *device.Inventory {
	if s.devices == nil {
		return given
	}
	return s.devices.inventory
}

// OfNode returns why the kubelet can have another state than the one that is shown.
func (s *Shown) OfNode() []view.Doubt { return s.doubts }

// strangers returns a doubt if the files have pods, and none of them is among the pods of the node:
// all were deleted, or the files and the pods are of different nodes or times.
func (f Found) strangers(whole *doctor.State) []view.Doubt {
	if !f.allUnknown(whole) {
		return nil
	}
	switch {
	case f.Unlinked && len(f.Pods) > 0:
		return []view.Doubt{{
			Reason: fmt.Sprintf("none of the pods in %s (%d) is among those that are given (%d): all of them were deleted, or these are the pods of another node", f.Path, len(whole.Pods()), len(f.Pods)),
			Give:   "add the Node with --pods, or as node.json in the folder of --state",
		}}
	case f.Copied && !f.Unlinked && !f.Unreleased:
		return []view.Doubt{{
			Reason: fmt.Sprintf("none of the pods in %s (%d) is among those that are given (%d): all of them were deleted, or the files and the pods are of different nodes or times", f.Path, len(whole.Pods()), len(f.Pods)),
			Give:   "collect the node again; the pod that collects makes the kubelet release what deleted pods had, and so does any new pod",
		}}
	}
	return nil
}

// allUnknown reports whether the files have pods, and none of them is among the pods of the node.
func (f Found) allUnknown(whole *doctor.State) bool {
	uids := whole.Pods()
	return len(uids) > 0 && !slices.ContainsFunc(uids, func(uid string) bool { return f.Pods[uid] != nil })
}

// absent returns a doubt if a pod runs that asks for CPUs or memory of its own, and the files have
// nothing of it: the files are older than the pods, or the pod is older than the policy.
func (f Found) absent(s *node.State, asked []request.Pod) []view.Doubt {
	for i := range asked {
		pod := &asked[i]
		if _, has := s.Grant(pod.UID); has || !f.runs(pod.UID) || !Owns(s, pod) {
			continue
		}
		return []view.Doubt{{
			Reason: fmt.Sprintf("%s runs and asks for CPUs or memory of its own, and %s has nothing of it: the files are older than the pod, or it has run since before the present policy", pod.ID(), f.Path),
			Give:   "collect the files and the pods at the same time",
		}}
	}
	return nil
}

// runs reports whether an app container of a pod runs.
func (f Found) runs(uid string) bool {
	pod := f.Pods[uid]
	if pod == nil {
		return false
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running != nil {
			return true
		}
	}
	return false
}

// Owns reports whether a pod gets CPUs or memory of its own when it is admitted.
func Owns(s *node.State, pod *request.Pod) bool {
	policy, demand := s.Policy(), s.Demand(pod)
	if demand.Together.CPUs > 0 && policy.StaticCPU {
		return true
	}
	for i := range demand.Containers {
		c := &demand.Containers[i]
		if pod.Containers[i].Type != request.Init && (policy.StaticCPU && c.CPUs > 0 || policy.StaticMemory && slices.ContainsFunc(c.Memory, func(a request.Amount) bool { return a.Value > 0 })) {
			return true
		}
	}
	return false
}

// Incomplete reports whether a grant is a part of what a kubelet assigns to its pod at admission:
// it writes each container in turn, and its CPUs before its memory.
func Incomplete(s *node.State, g *node.Grant) bool {
	policy, demand := s.Policy(), s.Demand(&g.Pod)
	has := func(a request.Amount) bool { return a.Value > 0 }
	none := len(g.PoolMemory) == 0
	for i := range g.Containers {
		c := &g.Containers[i]
		wants := policy.StaticMemory && slices.ContainsFunc(demand.Containers[i].Memory, has)
		if c.Removed || wants && len(c.Memory) == 0 && g.Pod.Containers[i].Type != request.Init {
			return true
		}
		none = none && len(c.Memory) == 0
	}
	return none && policy.StaticMemory && slices.ContainsFunc(demand.Together.Memory, has)
}
