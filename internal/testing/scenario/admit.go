package scenario

import (
	"errors"
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// runAdmission plans a pod and, for the command "admit", applies the plan.
func (n *Node) runAdmission(c Command) ([]string, error) {
	if len(c.Args) != 1 {
		return nil, fmt.Errorf("%s: want the name of one pod", c.Name)
	}
	pod, err := n.Request(c.Args[0])
	if err != nil {
		return nil, err
	}
	plan := n.state.Plan(pod)
	if c.Name == "plan" {
		return n.describePlan(plan), nil
	}
	next, err := n.state.Apply(plan)
	if err != nil {
		return n.describePlan(plan), err
	}
	n.state = next
	return n.describePlan(plan), nil
}

// runResize resizes an admitted pod. It resizes it twice: the second time nothing may change.
func (n *Node) runResize(c Command) ([]string, error) {
	if len(c.Args) != 1 {
		return nil, errors.New("resize: want the name of one pod")
	}
	pod, err := n.Request(c.Args[0])
	if err != nil {
		return nil, err
	}
	plan := n.state.Resize(pod.UID, pod)
	next, err := n.state.Apply(plan)
	if err != nil {
		return n.describePlan(plan), err
	}
	n.state = next
	if again := next.Resize(pod.UID, pod); plan.Rejection == nil && !again.Known {
		return n.describePlan(plan), errors.New("resized again, the pod changes again")
	}
	return n.describePlan(plan), nil
}

// runMove moves an admitted pod to where it would be if it were admitted now.
func (n *Node) runMove(c Command) ([]string, error) {
	if len(c.Args) != 1 {
		return nil, errors.New("move: want the name of one pod")
	}
	g, known := n.state.Grant(c.Args[0])
	if !known {
		return nil, fmt.Errorf("pod %q is not on the node", c.Args[0])
	}
	plan := n.state.Release(g.Pod.UID).Replan(g)
	if plan.Rejection != nil {
		return describeRejection(plan.Rejection), nil //nolint:nilerr // A rejection is an answer.
	}
	next, err := n.state.Move(plan.Grant)
	if err != nil {
		return nil, err
	}
	return n.change(g, next), nil
}

// runContainer reports a container, "pod/container", as created or removed.
func (n *Node) runContainer(c Command) ([]string, error) {
	if len(c.Args) != 1 {
		return nil, fmt.Errorf("%s: want POD/CONTAINER", c.Name)
	}
	podName, name, _ := strings.Cut(c.Args[0], "/")
	g, ok := n.state.Grant(podName)
	if !ok {
		return nil, fmt.Errorf("pod %q is not on the node", podName)
	}
	if _, i := g.Pod.Container(name); i < 0 {
		return nil, fmt.Errorf("pod %q has no container %q", podName, name)
	}
	if c.Name == "created" {
		return n.change(g, n.state.ContainerCreated(podName, name)), nil
	}
	return n.change(g, n.state.RemoveContainer(podName, name)), nil
}

func (n *Node) runRemove(c Command) ([]string, error) {
	if len(c.Args) != 1 {
		return nil, fmt.Errorf("%s: want the name of one pod", c.Name)
	}
	g, known := n.state.Grant(c.Args[0])
	if !known {
		return []string{"nothing to release"}, nil
	}
	return n.change(g, n.state.Release(g.Pod.UID)), nil
}

// change sets the next state and describes what changed for the pod and for the node shared pool.
func (n *Node) change(pod *node.Grant, next *node.State) []string {
	before := n.state
	n.state = next
	if next == before {
		return []string{"nothing changes"}
	}
	var lines []string
	if g, still := next.Grant(pod.Pod.UID); still {
		lines = append(lines, n.describeGrant(g.Pod.Name, g)...)
	} else {
		lines = append(lines, "released")
	}
	if back := next.SharedCPUs().Difference(before.SharedCPUs()); !back.IsEmpty() {
		lines = append(lines, fmt.Sprintf("CPUs %s go back: node shared pool %s", back, next.SharedCPUs()))
	}
	old, now := before.Memory().Nodes(), next.Memory().Nodes()
	for t, name := range next.Memory().Capacity().Types() {
		var more int64 // bytes that have become free
		for i := range now {
			more += now[i].Free[t] - old[i].Free[t]
		}
		if more > 0 {
			lines = append(lines, fmt.Sprintf("%s of %s go back", request.Bytes(more), name))
		}
	}
	return append(lines, devicesChange(before.Devices(), next.Devices())...)
}

func (n *Node) describePlan(p *node.Plan) []string {
	var lines []string
	switch {
	case p.Rejection != nil:
		lines = describeRejection(p.Rejection)
	case p.Known:
		lines = n.describeGrant("already admitted", p.Grant)
	case p.Before != nil:
		lines = n.describeGrant("resized", p.Grant)
		if !p.Delta.SharedAfter.Equal(p.Delta.SharedBefore) {
			lines = append(lines, fmt.Sprintf("node shared pool %s", orNone(p.Delta.SharedAfter.String())))
		}
	default:
		lines = n.describeGrant("admitted", p.Grant)
		if !p.Delta.SharedAfter.Equal(p.Delta.SharedBefore) {
			lines = append(lines, fmt.Sprintf("node shared pool %s", orNone(p.Delta.SharedAfter.String())))
		}
	}
	lines = append(lines, alignmentLines(p)...)
	for _, note := range p.Trace.Notes {
		lines = append(lines, "note: "+note)
	}
	return lines
}

// alignmentLines describes the choice of the Topology Manager for everything that had a preference.
func alignmentLines(p *node.Plan) []string {
	if p.Rejection != nil {
		return nil
	}
	t := table{}
	for _, a := range p.Trace.Alignments {
		if len(a.HintSets) == 0 {
			continue
		}
		who, where := a.Container, "preferred"
		if who == "" {
			who = "pod"
		}
		if !a.Choice.Preferred {
			where = "not preferred"
		}
		mask := a.Choice.Mask.String()
		if !a.Choice.HasMask {
			mask = "anywhere"
		}
		t.add("aligned", who, mask, where)
	}
	return t.lines()
}

func describeRejection(r *rejection.Rejection) []string {
	who := ""
	if r.Container != "" {
		who = "container " + r.Container + ": "
	}
	lines := []string{fmt.Sprintf("rejected: %s (%s)", r.Reason, r.Rule), "  " + who + r.Detail}
	t := nodeTable{indent: "  "}
	for _, a := range r.Nodes {
		free := fmt.Sprintf("%s of %s %s free", amount(r.Resource, a.Free), amount(r.Resource, a.Total), r.Resource)
		if a.Unhealthy > 0 {
			free += fmt.Sprintf(", %d unhealthy", a.Unhealthy)
		}
		row := []string{free}
		var holders []string
		for _, h := range a.Holders {
			text := strings.TrimPrefix(h.Pod, "default/") + " " + amount(r.Resource, h.Amount)
			if h.Nodes.Len() > 1 {
				text += " on " + h.Nodes.String()
			}
			holders = append(holders, text)
		}
		if len(holders) > 0 {
			row = append(row, "assigned: "+strings.Join(holders, ", "))
		}
		t.add(mask.Of(a.Node), row...)
	}
	return append(lines, t.lines()...)
}

func amount(resource string, n int64) string {
	if request.IsMemory(resource) {
		return request.Bytes(n)
	}
	return fmt.Sprint(n)
}
