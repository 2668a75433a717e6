package handover

import (
	"errors"
	"fmt"

	"github.com/paddock-project/paddock/internal/core/annotation"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Reason is why a node does not apply a grant that was handed over, but plans by itself.
type Reason int

//go:generate go tool stringer -type=Reason -linecomment -output=enum_string.go

// The reasons. Their names are metric labels.
const (
	// Applied means that there is no such reason: the grant is applied.
	Applied Reason = iota // applied
	// Absent means that the pod has no annotation.
	Absent // absent
	// UnknownVersion, TooLarge and Damaged mean that the text cannot be read.
	UnknownVersion // version
	TooLarge       // too-large
	Damaged        // damaged
	// OtherNode and OtherPod mean that the grant was planned for another node or another pod.
	OtherNode // node
	OtherPod  // pod
	// OtherMachine, OtherPolicy and OtherRequest mean that the grant was planned with other inputs.
	OtherMachine // machine
	OtherPolicy  // policy
	OtherRequest // request
	// Shape, CPUs, Memory, Devices, Caches and Alignment mean that the grant is against the rules.
	// See node.Misplaced.
	Shape     // shape
	CPUs      // cpus
	Memory    // memory
	Devices   // devices
	Caches    // caches
	Alignment // alignment
)

// Reasons returns all reasons.
func Reasons() []Reason {
	all := make([]Reason, 0, Alignment+1)
	for r := Applied; r <= Alignment; r++ {
		all = append(all, r)
	}
	return all
}

// Error is the error for a grant that is not applied.
type Error struct {
	Reason Reason
	Detail string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Reason, e.Detail) }

// Outcome describes how the plan of a pod came about on a node to which grants are handed over.
type Outcome struct {
	// Reason is why the grant of the pod's annotation is not applied, or Applied if it is.
	Reason Reason
	// Err has the details. It is nil if the grant is applied.
	Err error
}

// OutcomeOf returns the outcome for an error of Check.
func OutcomeOf(err error) *Outcome {
	var wrong *Error
	switch {
	case err == nil:
		return &Outcome{Reason: Applied}
	case errors.As(err, &wrong):
		return &Outcome{wrong.Reason, err}
	}
	return &Outcome{Shape, err}
}

// Applied reports whether the grant of the pod's annotation is applied.
func (o *Outcome) Applied() bool { return o.Reason == Applied }

// Contested reports whether the grant needs something that another pod has or that is not free.
func (o *Outcome) Contested() bool {
	switch o.Reason {
	case CPUs, Memory, Devices, Caches, Alignment:
		return true
	default:
		return false
	}
}

// Here is what a node compares a text with: its own name and the digests of its machine and policy.
type Here struct{ Node, Machine, Policy string }

// Check returns the plan that gives a pod the grant in its annotation. It returns an *Error unless
// the text is for this node and pod, was planned with the same machine, policy and request, and
// every rule of the node allows the grant in this state. Check changes nothing. For the empty text,
// the Reason is Absent.
func Check(s *node.State, here Here, pod request.Pod, text string) (*node.Plan, error) {
	if text == "" {
		return nil, &Error{Absent, "the pod has no annotation " + Annotation}
	}
	t, err := Decode(text)
	switch {
	case errors.Is(err, ErrVersion):
		return nil, &Error{UnknownVersion, err.Error()}
	case errors.Is(err, ErrTooLarge):
		return nil, &Error{TooLarge, err.Error()}
	case err != nil:
		return nil, &Error{Damaged, err.Error()}
	case t.Node != here.Node:
		return nil, &Error{OtherNode, fmt.Sprintf("it is for node %q, this is %q", t.Node, here.Node)}
	case t.Machine != here.Machine:
		return nil, &Error{OtherMachine, fmt.Sprintf("it was planned for the machine %s, this is %s", t.Machine, here.Machine)}
	case t.Policy != here.Policy:
		return nil, &Error{OtherPolicy, fmt.Sprintf("it was planned with the policy %s, this node has %s", t.Policy, here.Policy)}
	}
	g, err := t.For(pod)
	if other := (*annotation.OtherError)(nil); errors.As(err, &other) {
		reason := OtherPod
		if other.Request {
			reason = OtherRequest
		}
		return nil, &Error{reason, other.Detail}
	}
	p, err := s.PlanGrant(pod, g)
	if wrong := (*node.MisplacedError)(nil); errors.As(err, &wrong) {
		return nil, &Error{misplaced[wrong.Kind], wrong.Detail}
	}
	return p, err
}

var misplaced = map[node.Misplaced]Reason{
	node.MisplacedShape: Shape, node.MisplacedCPUs: CPUs, node.MisplacedMemory: Memory,
	node.MisplacedDevices: Devices, node.MisplacedCaches: Caches, node.MisplacedNodes: Alignment,
}
