package explain

import (
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// PodMove describes the move of a running pod.
type PodMove struct {
	Pod       string `json:"pod"`
	UID       string `json:"uid"`
	FromCPUs  string `json:"fromCPUs,omitempty"`
	ToCPUs    string `json:"toCPUs,omitempty"`
	FromNodes []int  `json:"fromNUMANodes,omitempty"`
	ToNodes   []int  `json:"toNUMANodes,omitempty"`
	// Bytes is the amount of memory that would move to other NUMA nodes. Consents reports whether
	// the pod consents to the move.
	Bytes    int64 `json:"bytes,omitempty"`
	Consents bool  `json:"consents"`
}

// maxMovePlans bounds the plans of the search for moves. A node with 200 pods needs only a few.
const maxMovePlans = 2000

// moves looks for the cheapest moves of at most two running pods. It first considers only pods that
// consent, then all pods whose owners could consent.
func (x *search) moves() ([]Proposal, string) {
	if x.state.NumGrants() == 0 || x.trace.Cause == rejection.ResourcesOff || x.trace.Cause == rejection.ContainersAboveBound {
		return nil, ""
	}
	x.what, x.limit = "moves of running pods", x.allowed(maxMovePlans)
	terms := moves.Terms{Bytes: 1 << 62, Plans: x.limit, Stop: func() bool { return x.ctx.Err() != nil }}
	found := moves.Find(x.state, x.pod, terms)
	x.plans += found.Plans
	if found.Set == nil {
		terms.Consent = unlessNever
		found = moves.Find(x.state, x.pod, terms)
		x.plans += found.Plans
	}
	switch {
	case found.Set != nil:
		return []Proposal{x.moveProposal(found.Set)}, countText(len(found.Set.Moves), "move") + " would admit it"
	case found.Cut:
		return nil, "none found; " + notFurther
	}
	return nil, "none of at most two pods admits it"
}

// unlessNever is the consent that is asked of the owner of a pod. Who has answered that the pod
// never moves is not asked.
func unlessNever(g *node.Grant) request.Consent {
	if g.Pod.Moves == request.NeverMoves {
		return request.NeverMoves
	}
	return request.MoveMemory
}

func (x *search) moveProposal(set *moves.Set) Proposal {
	p := Proposal{Kind: Moves, Outcome: outcome(set.After, set.Plan)}
	m := x.state.Machine()
	var texts, asked []string
	for _, move := range set.Moves {
		from, to := move.From, move.To
		pod := podMove(m, move)
		p.Moves, p.moved = append(p.Moves, pod), append(p.moved, to)
		texts = append(texts, moveText(&pod, from.CPUs(), to.CPUs()))
		if !pod.Consents {
			asked = append(asked, pod.Pod)
		}
	}
	p.Text = strings.Join(texts, ", then ")
	if len(asked) > 0 {
		p.Text += "; " + strings.Join(asked, " and ") + " would have to consent"
	}
	return p
}

// podMove converts a move for output.
func podMove(m *machine.Machine, move moves.Move) PodMove {
	from, to := move.From, move.To
	return PodMove{
		Pod: to.Pod.ID(), UID: to.Pod.UID, FromCPUs: from.CPUs().String(), ToCPUs: to.CPUs().String(), Bytes: move.Bytes,
		FromNodes: nodesOf(m, from).Nodes(), ToNodes: nodesOf(m, to).Nodes(),
		Consents: from.Pod.Moves == request.MoveMemory || from.Pod.Moves == request.MoveCPUs && !move.Across,
	}
}

// moveText returns a text such as "move default/a from CPUs 3-4 on NUMA 0 to 8-9 on NUMA 1, with 1
// GiB of memory".
func moveText(p *PodMove, from, to cpuset.Set) string {
	place := func(cpus cpuset.Set, nodes []int) string {
		if cpus.IsEmpty() {
			return mask.Of(nodes...).Text()
		}
		return "CPUs " + cpus.String() + " on " + mask.Of(nodes...).Text()
	}
	text := fmt.Sprintf("move %s from %s to %s", p.Pod, place(from, p.FromNodes), place(to, p.ToNodes))
	if p.Bytes > 0 {
		text += ", with " + request.RoundedBytes(p.Bytes) + " of memory"
	}
	return text
}

func nodesOf(m *machine.Machine, g *node.Grant) mask.Mask {
	return m.NodesOf(g.CPUs()) | g.MemoryNodes()
}
