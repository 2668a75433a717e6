package cpu

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Hints describes the NUMA masks on which request CPUs fit (R-HINT-24). A mask must contain all
// reusable CPUs, and its reusable and available CPUs together must be at least as many as
// requested. A CPU in both sets counts twice, as in the rule. A request of 0 or less gives kind
// Any, because the policy has no preference (R-HINT-20).
func Hints(m *machine.Machine, o Options, available, reusable cpuset.Set, request int) hint.Set {
	if request <= 0 {
		return hint.Set{Resource: resource}
	}
	nodes := m.CPUNodes()
	reused := reusable.IntersectionLen(m.AllCPUs())
	offer := make([]int64, nodes[len(nodes)-1].ID+1)
	free := 0
	var candidates mask.Mask
	for _, n := range nodes {
		candidates = candidates.With(n.ID)
		local := available.IntersectionLen(n.CPUs)
		offer[n.ID] = int64(local)
		free += local
	}
	which := ""
	if o.Isolated == IsolatedOnly {
		which = isolatedCPUs
	}
	needs := []hint.Need{{Resource: resource, Which: which, Amount: int64(max(0, request-reused)), Offer: offer}}
	if free+reused < request {
		return hint.Set{Resource: resource, Kind: hint.None, Why: scarce(o, request, free, reused), Needs: needs}
	}
	// The preferred size is the number of NUMA nodes that the request needs on the empty machine,
	// reserved CPUs included (R-HINT-26). If all NUMA nodes together are too small, it is the
	// number of all NUMA nodes.
	var buffer [mask.MaxNode + 1]int
	sizes := buffer[:0]
	for _, n := range nodes {
		size := n.Size
		if o.Isolated == IsolatedOnly { // R-CPU-134: the others can never become exclusive.
			size = m.Isolation().Isolated.IntersectionLen(n.CPUs)
		}
		sizes = append(sizes, size)
	}
	slices.SortFunc(sizes, func(a, b int) int { return cmp.Compare(b, a) })
	preferred := 0
	for left := request; left > 0 && preferred < len(sizes); preferred++ {
		left -= sizes[preferred]
	}
	return hint.Set{
		Resource:   resource,
		Kind:       hint.Fits,
		Candidates: candidates,
		Required:   m.NodesOf(reusable),
		Needs:      needs,
		Preferred:  preferred,
		Sockets:    socketRule(m, o, preferred),
	}
}

// resource exists because parameters in this file are called request and hide the package.
const resource = request.CPU

func scarce(o Options, request, free, reused int) string {
	kind := ""
	if o.Isolated == IsolatedOnly {
		kind = "isolated "
	}
	text := fmt.Sprintf("%d %s%s asked for, %d %s free for exclusive use", request, kind, form(request, "CPU is", "CPUs are"), free, form(free, "is", "are"))
	if reused > 0 {
		text += fmt.Sprintf(" and %d can be reused", reused)
	}
	return text
}

// form returns the singular for 1 and the plural for other numbers.
func form(n int, singular, plural string) string {
	if n == 1 {
		return singular
	}
	return plural
}

// socketRule returns the rule of align-by-socket: masks on exactly as many sockets as the preferred
// size needs are also preferred (R-HINT-25). It returns nil without the option, and on machines
// with more sockets than NUMA nodes.
func socketRule(m *machine.Machine, o Options, preferred int) *hint.SocketRule {
	if !o.AlignBySocket || m.NumSockets() == 0 {
		return nil
	}
	perSocket := len(m.CPUNodes()) / m.NumSockets()
	if perSocket == 0 {
		return nil
	}
	rule := &hint.SocketRule{Count: ceilDiv(preferred, perSocket)}
	for _, s := range m.Sockets() {
		rule.Sockets = append(rule.Sockets, m.NodesOf(s.CPUs))
	}
	return rule
}
