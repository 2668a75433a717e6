package scenario

import (
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

func (n *Node) runPlan(c Command) ([]string, error) {
	plan, err := n.plan(c)
	if err != nil {
		return nil, err
	}
	return n.describePlan(plan), nil
}

func (n *Node) runAdmit(c Command) ([]string, error) {
	plan, err := n.plan(c)
	if err != nil {
		return nil, err
	}
	next, err := n.state.Apply(plan)
	if err != nil {
		return n.describePlan(plan), err
	}
	n.state = next
	return n.describePlan(plan), nil
}

func (n *Node) plan(c Command) (*node.Plan, error) {
	pod, err := n.pod(c)
	if err != nil {
		return nil, err
	}
	asked, err := n.request(pod)
	if err != nil {
		return nil, err
	}
	return n.state.Plan(asked), nil
}

func (n *Node) runCreated(c Command) ([]string, error) {
	g, i, err := n.container(c)
	if err != nil {
		return nil, err
	}
	return n.change(g, n.state.ContainerCreated(g.Pod.UID, g.Pod.Containers[i].Name)), nil
}

func (n *Node) runRemoveContainer(c Command) ([]string, error) {
	g, i, err := n.container(c)
	if err != nil {
		return nil, err
	}
	return n.change(g, n.state.RemoveContainer(g.Pod.UID, g.Pod.Containers[i].Name)), nil
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

// change takes the next state and says what it did to the pod and to the shared pool.
func (n *Node) change(old *node.Grant, next *node.State) []string {
	before := n.state
	n.state = next
	if next == before {
		return []string{"nothing changes"}
	}
	var lines []string
	if g, still := next.Grant(old.Pod.UID); still {
		lines = append(lines, n.describeGrant(g.Pod.Name, g)...)
	} else {
		lines = append(lines, "released")
	}
	if back := next.SharedCPUs().Difference(before.SharedCPUs()); !back.IsEmpty() {
		lines = append(lines, fmt.Sprintf("CPUs %s go back: node shared pool %s", back, next.SharedCPUs()))
	}
	lines = append(lines, memoryChange(before, next)...)
	return append(lines, devicesChange(before.Devices(), next.Devices())...)
}

// memoryChange tells what is free that was not before.
func memoryChange(before, next *node.State) []string {
	var lines []string
	old, now := before.Memory().Nodes(), next.Memory().Nodes()
	for t, name := range next.Memory().Capacity().Types() {
		var more int64
		for i := range now {
			more += now[i].Free[t] - old[i].Free[t]
		}
		if more > 0 {
			lines = append(lines, fmt.Sprintf("%s of %s go back", request.Bytes(more), name))
		}
	}
	return lines
}

func (n *Node) describePlan(p *node.Plan) []string {
	var lines []string
	switch {
	case p.Refusal != nil:
		lines = describeRefusal(p.Refusal)
	case p.Known:
		lines = n.describeGrant("already admitted", p.Grant)
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

// alignmentLines tell what the Topology Manager chose, for everybody who had a preference.
func alignmentLines(p *node.Plan) []string {
	if p.Refusal != nil {
		return nil
	}
	t := table{}
	for _, a := range p.Trace.Alignments {
		if len(a.Families) == 0 {
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

func describeRefusal(r *node.Refusal) []string {
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
