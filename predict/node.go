package predict

import (
	"fmt"
	"slices"
	"sync"

	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Device is a device of a node that the node assigns itself, as a device plugin reports it.
type Device struct {
	ID string
	// Unhealthy devices are not assigned.
	Unhealthy bool
	// NUMANodes are the NUMA nodes that the device is near. Empty means none: it can be assigned,
	// and nothing is aligned with it.
	NUMANodes []int
}

// Node is a node with its pods. It is immutable: With and Without return another one.
type Node struct {
	policy  *Policy
	state   *node.State
	devices *device.Inventory
	// doubts are those of every verdict about the node.
	doubts []string
}

// NewNode returns a node without pods. devices are the devices of each extended resource that the
// node has; a nil map means that it has none.
func NewNode(p *Policy, devices map[string][]Device) (*Node, error) {
	n := &Node{policy: p, state: p.empty}
	if len(devices) == 0 {
		return n, nil
	}
	all := map[string][]device.Device{}
	for name, list := range devices {
		all[name] = []device.Device{}
		for _, d := range list {
			nodes, err := mask.Collect(d.NUMANodes)
			if err != nil {
				return nil, fmt.Errorf("node: device %s of %s: %w: %w", d.ID, name, ErrInvalid, err)
			}
			all[name] = append(all[name], device.Device{ID: d.ID, Healthy: !d.Unhealthy, Nodes: nodes})
		}
	}
	var err error
	if n.devices, err = device.NewInventory(p.machine.machine, all); err == nil {
		n.state, err = p.empty.WithDevices(n.devices)
	}
	if err != nil {
		return nil, fmt.Errorf("node: %w: %w", ErrInvalid, err)
	}
	return n, nil
}

// scratch keeps the memory of Admits between questions.
var scratch = sync.Pool{New: func() any { return new(node.Scratch) }}

// Admits returns whether the pod fits beside the pods of the node, and the reason if not, without
// an assignment and without a message. A pod that the node has fits.
func (n *Node) Admits(r *Request) Verdict {
	if v, ok := n.rejectedGates(r); ok {
		return v
	}
	in, _ := scratch.Get().(*node.Scratch)
	v := n.verdict(r, n.state.Admits(&r.pod, in))
	scratch.Put(in)
	return v
}

// AdmitsEach returns the verdict of Admits for each pod. Each is alone beside the pods of the node.
func (n *Node) AdmitsEach(requests []*Request) []Verdict {
	out := make([]Verdict, len(requests))
	var in node.Scratch
	for i, r := range requests {
		v, rejected := n.rejectedGates(r)
		if !rejected {
			v = n.verdict(r, n.state.Admits(&r.pod, &in))
		}
		out[i] = v
	}
	return out
}

// Plan returns whether the pod fits beside the pods of the node, with its assignment, or with the
// reason and a sentence about what is short. A pod that the node has fits, with the assignment that
// it has.
func (n *Node) Plan(r *Request) Verdict {
	if v, ok := n.rejectedGates(r); ok {
		return v
	}
	return n.planned(r, n.state.Preview(r.pod))
}

func (n *Node) planned(r *Request, p *node.Plan) Verdict {
	v := n.verdict(r, p.Verdict())
	if p.Rejection != nil {
		v.Container, v.Message = p.Rejection.Container, p.Rejection.Detail
		return v
	}
	v.Assignment = assignmentOf(p.Grant)
	return v
}

// With returns the node after it admitted the pod, and the verdict of Plan. If the pod does not
// fit, the node is the same.
func (n *Node) With(r *Request) (*Node, Verdict) {
	if !n.Admits(r).Fits { // This costs much less than a plan with its account.
		return n, n.Plan(r)
	}
	p := n.state.Plan(r.pod)
	v := n.planned(r, p)
	next, err := n.state.Apply(p)
	if err != nil { // The state has counted all its revisions.
		v.Fits, v.Assignment, v.Message, v.Reason = false, nil, err.Error(), "UnexpectedAdmissionError"
		return n, v
	}
	return n.at(next), v
}

// WithAssigned returns the node on which the pod has a known assignment, such as one from the
// PodResources API or from an earlier verdict. Where the alignment is not known, the pod is taken
// to be aligned with what it has. That can be wrong for a pod whose containers were aligned each
// by itself, and not all of them as preferred, under best-effort: give the alignment there.
//
// The error wraps ErrInvalid: the assignment is not one that the policy allows for the pod, or
// something of it is not free.
func (n *Node) WithAssigned(r *Request, a *Assignment) (*Node, error) {
	if v, ok := n.rejectedGates(r); ok {
		return nil, fmt.Errorf("pod %s: %w: %s", r.pod.ID(), ErrInvalid, v.Message)
	}
	var first error
	for _, g := range guesses() { // They only differ where the alignment is not known.
		next, err := n.assigned(r, a, g)
		if err == nil {
			return next, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, fmt.Errorf("pod %s: assignment: %w: %w", r.pod.ID(), ErrInvalid, first)
}

func (n *Node) assigned(r *Request, a *Assignment, guessed guess) (*Node, error) {
	g, err := a.grant(r, n, guessed)
	if err != nil {
		return nil, err
	}
	p, err := n.state.PlanGrant(r.pod, g)
	if err != nil {
		return nil, err
	}
	if p.Rejection != nil {
		return nil, p.Rejection
	}
	next, err := n.state.Apply(p)
	if err != nil {
		return nil, err
	}
	return n.at(next), nil
}

// Without returns the node without the pod. If the node does not have it, it returns the same node.
func (n *Node) Without(uid string) *Node {
	next := n.state.Release(uid)
	if next == n.state {
		return n
	}
	return n.at(next)
}

// Fill admits the pods one after the other. It returns the node with those that fit, and the
// verdict of each pod beside those before it that fit.
func (n *Node) Fill(requests []*Request) (*Node, []Verdict) {
	out := make([]Verdict, len(requests))
	for i, r := range requests {
		n, out[i] = n.With(r)
	}
	return n, out
}

func (n *Node) at(s *node.State) *Node {
	next := *n
	next.state = s
	return &next
}

// Has reports whether the node has the pod.
func (n *Node) Has(uid string) bool {
	_, ok := n.state.Grant(uid)
	return ok
}

// Len returns the number of pods of the node.
func (n *Node) Len() int { return n.state.NumGrants() }

// UIDs returns the UIDs of the pods of the node, ascending.
func (n *Node) UIDs() []string {
	out := make([]string, 0, n.state.NumGrants())
	for g := range n.state.AllGrants() {
		out = append(out, g.Pod.UID)
	}
	return slices.Clip(out)
}

// FreeCPUs returns the CPUs that pods can get now, as a list such as "2-31".
func (n *Node) FreeCPUs() string { return n.state.FreeCPUs().String() }
