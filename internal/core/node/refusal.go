package node

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/layout"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Reason is the short word that a refused pod's status shows. Users know most of them from the
// kubelet.
type Reason string

// The reasons (docs/rules/api-metrics.md, section 7).
const (
	TopologyAffinityError         Reason = "TopologyAffinityError"
	SMTAlignmentError             Reason = "SMTAlignmentError"
	EmptyPodSharedPoolError       Reason = "EmptyPodSharedPoolError"
	UnexpectedAdmissionError      Reason = "UnexpectedAdmissionError"
	PodLevelResourcesNotSupported Reason = "PodLevelResourcesNotSupported"
	// TopologySearchLimit is Paddock's own: the search for NUMA nodes used up its steps
	// without finding any answer (docs/rules/hints-search.md, Budget).
	TopologySearchLimit Reason = "TopologySearchLimit"
)

// Refusal is why a pod was not admitted, and the account of what was there.
type Refusal struct {
	Reason Reason
	// Rule is the rule that refused, as in docs/rules.
	Rule string
	// Container is who could not be served; empty: the pod as a whole.
	Container string
	// Resource is what was short, Wanted how much was asked for, in CPUs or bytes; empty and
	// 0 where the refusal is not about an amount.
	Resource request.Resource
	Wanted   int64
	// Detail says in words what is wrong and what would help.
	Detail string
	// Nodes is the account of Resource, one entry for each NUMA node, ascending by id.
	Nodes []NodeAccount
}

// NodeAccount is what one NUMA node has of a resource.
type NodeAccount struct {
	Node int
	// Total is what pods could ever have there, Free what they could have now.
	Total, Free int64
	// Unhealthy devices are neither free nor held.
	Unhealthy int64
	// Holders have the rest, the largest first. Bytes held by a group of NUMA
	// nodes are booked on its lowest nodes first.
	Holders []Holder
}

// Holder is a pod that holds Amount of a resource on a NUMA node.
type Holder struct {
	Pod    string // namespace/name
	Amount int64
	// Nodes is where the amount lies when it is not on this NUMA node alone.
	Nodes mask.Mask
}

// Error is the one-line form: reason, who, what.
func (r *Refusal) Error() string {
	var b strings.Builder
	b.WriteString(string(r.Reason))
	b.WriteString(": ")
	if r.Container != "" {
		b.WriteString("container ")
		b.WriteString(r.Container)
		b.WriteString(": ")
	}
	b.WriteString(r.Detail)
	return b.String()
}

func emptyText(resource request.Resource, e layout.Empty) string {
	if e == layout.EmptyForInit {
		return "exclusive sidecars take all of the pod's " + resource + ", none is left for an init container that shares"
	}
	return "exclusive containers take all of the pod's " + resource + ", none is left for the containers that share"
}

func (d *draft) refuseEmpty(resource request.Resource, l layout.Layout) *Refusal {
	rule := "R-DEM-62"
	if resource == request.CPU {
		rule = "R-DEM-61"
	}
	return &Refusal{
		Reason: EmptyPodSharedPoolError, Rule: rule, Resource: resource, Wanted: l.Budget,
		Detail: emptyText(resource, l.Empty) + ": raise the pod-level request, or give every container its own cpu and memory limits",
	}
}

func (d *draft) refuseOverdrawn(resource request.Resource, l layout.Layout) *Refusal {
	return &Refusal{
		Reason: UnexpectedAdmissionError, Rule: "R-DEM-94", Resource: resource, Wanted: l.Budget,
		Detail: fmt.Sprintf("exclusive containers want more than the pod-level request of %s: the API server refuses such a pod", amountText(resource, l.Budget)),
	}
}

// refuseCPU makes a refusal of an error of package cpu.
func (d *draft) refuseCPU(container string, n int, err error) *Refusal {
	r := &Refusal{
		Reason: UnexpectedAdmissionError, Rule: "R-CPU-40", Container: container,
		Resource: request.CPU, Wanted: int64(n), Detail: err.Error(),
	}
	var smt *cpu.SMTAlignmentError
	if errors.As(err, &smt) {
		r.Reason, r.Rule = SMTAlignmentError, "R-CPU-70"
		if smt.Scarce {
			r.Rule = "R-CPU-71"
		}
	}
	r.Nodes = d.s.account(request.CPU, d)
	return r
}

// refuseMemory makes a refusal of a *memory.PlacementError. The reference calls it
// UnexpectedAdmissionError; it is a matter of alignment like any other.
func (d *draft) refuseMemory(container string, err error) *Refusal {
	r := &Refusal{Reason: TopologyAffinityError, Rule: "R-MEM-33", Container: container, Detail: err.Error()}
	var short *memory.PlacementError
	if errors.As(err, &short) {
		r.Resource, r.Wanted = short.Type, short.Wanted
		switch short.Cause {
		case memory.NoSuchType:
			r.Rule = "R-HINT-35"
		case memory.NoRoom:
			r.Rule = "R-MEM-32"
		case memory.GroupConflict:
			r.Rule = "R-MEM-35"
		case memory.NoExtension, memory.NotPreferred:
		}
		r.Nodes = d.s.account(short.Type, d)
	}
	return r
}

// refuseApart rejects a pod whose containers want memory that fits no set of NUMA nodes together
// . It names the type that fits nowhere by itself, or all of them.
func (d *draft) refuseApart(want request.Amounts) *Refusal {
	short := want
	for _, a := range want {
		if d.usage.Hints(request.Amounts{a}, nil).Kind == hint.Any {
			short = request.Amounts{a}
			break
		}
	}
	texts := make([]string, len(short))
	for i, a := range short {
		texts[i] = amountText(a.Resource, a.Value)
	}
	who := ""
	if len(d.pod.Containers) > 1 {
		who = " by the containers together"
	}
	return &Refusal{
		Reason: TopologyAffinityError, Rule: d.alignmentRule(), Resource: short[0].Resource, Wanted: short[0].Value,
		Detail: fmt.Sprintf("%s wanted%s, and no set of NUMA nodes has so much free", strings.Join(texts, " and "), who) +
			d.groupsText(len(d.s.machine.Nodes())),
		Nodes: d.s.account(short[0].Resource, d),
	}
}

// refuseOutside rejects a container whose memory would lie on more than the aligned NUMA nodes.
func (d *draft) refuseOutside(container string, want request.Amounts, aligned, nodes mask.Mask) *Refusal {
	short := want[0]
	for _, a := range want {
		if d.usage.Free(aligned, a.Resource) < a.Value {
			short = a
			break
		}
	}
	return &Refusal{
		Reason: TopologyAffinityError, Rule: d.alignmentRule(), Container: container, Resource: short.Resource, Wanted: short.Value,
		Detail: fmt.Sprintf("%s wanted, NUMA nodes %s, which are aligned, have %s free; it would fit on NUMA nodes %s",
			amountText(short.Resource, short.Value), aligned, bytesText(d.usage.Free(aligned, short.Resource)), nodes),
		Nodes: d.s.account(short.Resource, d),
	}
}

// alignmentRule is the rule by which the policy rejects what is not aligned.
func (d *draft) alignmentRule() string {
	if d.s.policy.Topology == TopologySingleNUMANode {
		return "R-HINT-63"
	}
	return "R-HINT-62"
}

// refuseAlignment says which resource spoilt the merge: the first that has no preferred mask of its
// own, or, when each has one, that they have none in common.
func (d *draft) refuseAlignment(container string, families []hint.Set, choice hint.Choice) *Refusal {
	r := &Refusal{Reason: TopologyAffinityError, Rule: d.alignmentRule(), Container: container}
	if choice.Unsolved {
		r.Reason, r.Detail = TopologySearchLimit, choice.Why
		return r
	}
	for _, f := range families {
		if f.Kind == hint.None {
			if l, empty := d.emptyLayout(f.Resource); empty {
				r = d.refuseEmpty(f.Resource, l)
				r.Reason, r.Rule = TopologyAffinityError, "R-DEM-64"
				return r
			}
			r.Resource, r.Detail = f.Resource, f.Why
			r.Wanted = d.wanted(container, f.Resource)
			r.Nodes = d.s.account(f.Resource, d)
			return r
		}
	}
	var fitting []hint.Set
	for _, f := range families {
		if f.Kind != hint.Fits {
			continue
		}
		alone := hint.Merge([]hint.Set{f}, hint.Rules{Policy: d.s.policy.Topology.hintPolicy(), Nodes: d.s.machine.NodeMask()})
		if !alone.Preferred {
			return d.refuseUnaligned(r, f)
		}
		fitting = append(fitting, f)
		r.Resource, r.Wanted = f.Resource, d.wanted(container, f.Resource)
	}
	r.Detail = d.disagreement(container, fitting)
	r.Nodes = d.s.account(r.Resource, d)
	return r
}

// emptyLayout returns the layout of a pod-level pool that leaves a container nothing of the resource.
func (d *draft) emptyLayout(resource request.Resource) (layout.Layout, bool) {
	if resource == request.CPU {
		return d.trace.CPULayout, d.trace.CPULayout.Empty != layout.NotEmpty
	}
	for k, l := range d.trace.MemoryLayouts {
		if d.pod.BudgetMemory[k].Resource == resource && l.Empty != layout.NotEmpty {
			return l, true
		}
	}
	return layout.Layout{}, false
}

// disagreement says why families that can each be aligned cannot be aligned together.
func (d *draft) disagreement(container string, fitting []hint.Set) string {
	var parts []string
	same := true
	for _, f := range fitting {
		same = same && f.Preferred == fitting[0].Preferred
		parts = append(parts, fmt.Sprintf("%s on %s", amountText(f.Resource, d.wanted(container, f.Resource)), nodesText(f.Preferred)))
	}
	what := strings.Join(parts, " and ")
	if !same {
		return what + " are each the fewest possible; the policy wants one set of NUMA nodes that is the fewest for all of it"
	}
	return what + " would fit, each by itself, but no such set of NUMA nodes has room for all of it"
}

func nodesText(n int) string {
	if n == 1 {
		return "1 NUMA node"
	}
	return fmt.Sprintf("%d NUMA nodes", n)
}

func (d *draft) refuseUnaligned(r *Refusal, f hint.Set) *Refusal {
	size := f.Preferred
	if d.s.policy.Topology == TopologySingleNUMANode {
		size = 1
	}
	r.Resource = f.Resource
	for _, n := range f.Needs {
		if n.Resource == f.Resource || r.Wanted == 0 {
			r.Wanted = d.wanted(r.Container, n.Resource)
		}
	}
	r.Nodes = d.s.account(f.Resource, d)
	nodes := "one NUMA node has"
	if size > 1 {
		nodes = fmt.Sprintf("%d NUMA nodes together have", size)
	}
	r.Detail = fmt.Sprintf("%s wanted, but no %s so much free", amountText(r.Resource, r.Wanted), nodes)
	if !f.Required.IsEmpty() {
		r.Detail += fmt.Sprintf(" beside the init containers' CPUs on NUMA nodes %s, which are to be reused (R-HINT-24)", f.Required)
	}
	if isMemory(f.Resource) {
		r.Detail += d.groupsText(size)
	}
	return r
}

// groupsText says what the rule of groups keeps a request for size NUMA nodes from (R-MEM-22).
func (d *draft) groupsText(size int) string {
	var groups []string
	var single mask.Mask
	for _, n := range d.usage.Nodes() {
		switch {
		case n.Group.Len() > 1 && n.Group.Lowest() == n.ID:
			groups = append(groups, n.Group.String())
		case n.Group.Len() == 1 && n.Assignments > 0:
			single = single.With(n.ID)
		}
	}
	var text string
	if len(groups) > 0 {
		text = fmt.Sprintf("; NUMA nodes %s hold memory as a group and serve no other (R-MEM-22)", strings.Join(groups, " and "))
	}
	if size > 1 && !single.IsEmpty() {
		text += fmt.Sprintf("; NUMA nodes %s hold memory one by one and join no group (R-MEM-22)", single)
	}
	return text
}

// wanted is how much of a resource the container, or for an empty name the pod, asks for.
func (d *draft) wanted(container string, resource request.Resource) int64 {
	if _, i := d.pod.Container(container); i >= 0 {
		if resource == request.CPU {
			return int64(d.wantsCPUs(i))
		}
		if n, asked := d.wantsDevices(i).Get(resource); asked {
			return n
		}
		amount, _ := d.wantsMemory(i).Get(resource)
		return amount
	}
	if n, asked := d.deviceSum().Get(resource); asked {
		return n
	}
	amounts := d.memorySum()
	if d.pod.Kind == request.PodLevel {
		amounts = d.pod.BudgetMemory
	}
	switch {
	case resource != request.CPU:
		amount, _ := amounts.Get(resource)
		return amount
	case d.pod.Kind == request.PodLevel:
		return int64(d.pod.BudgetCPUs)
	}
	return layout.Budget(d.claims(func(i int) (int64, bool) { return int64(d.wantsCPUs(i)), true }))
}

func amountText(resource request.Resource, amount int64) string {
	switch {
	case resource == request.CPU && amount == 1:
		return "1 CPU"
	case resource == request.CPU:
		return fmt.Sprintf("%d CPUs", amount)
	}
	if !isMemory(resource) {
		return fmt.Sprintf("%d %s", amount, resource)
	}
	return fmt.Sprintf("%s of %s", bytesText(amount), resource)
}

// isMemory tells memory and huge pages from CPUs and devices.
func isMemory(resource request.Resource) bool {
	return resource == machine.Memory || strings.HasPrefix(resource, "hugepages-")
}

// bytesText is an amount of bytes for people, exact: "512Mi", "1Gi", "1000".
func bytesText(n int64) string {
	units := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}
	i := 0
	for n != 0 && n%1024 == 0 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return fmt.Sprintf("%d%s", n, units[i])
}

// account says for every NUMA node how much of a resource is free, and who holds the rest: the
// pods that are there, and what the refused pod itself had taken before it failed.
func (s *State) account(resource request.Resource, d *draft) []NodeAccount {
	if resource == request.CPU {
		return s.accountCPU(d)
	}
	if !isMemory(resource) {
		return s.accountDevices(resource, d)
	}
	t := s.machine.MemoryType(resource)
	if t < 0 {
		return nil
	}
	used := d.usage.Nodes()
	accounts := make([]NodeAccount, len(used))
	for i, n := range s.capacity.Nodes() {
		accounts[i] = NodeAccount{Node: n.ID, Total: n.Types[t].Allocatable, Free: used[i].Free[t]}
	}
	add := func(pod string, blocks []memory.Block) {
		for _, b := range blocks {
			for i := range accounts {
				if b.Type == resource && b.Nodes.Has(accounts[i].Node) && b.Size > 0 {
					accounts[i].hold(pod, b)
				}
			}
		}
	}
	for _, g := range s.grants {
		add(g.Pod.ID(), g.charged())
	}
	own := Grant{Pod: d.pod, PoolMemory: d.poolMemory, Containers: d.containers}
	add(d.pod.ID()+" (this pod)", own.charged())
	return largestFirst(accounts)
}

// hold adds a block of a pod, whose containers have one each, to what the pod holds.
func (a *NodeAccount) hold(pod string, b memory.Block) {
	for i := range a.Holders {
		if h := &a.Holders[i]; h.Pod == pod && h.Nodes == b.Nodes {
			h.Amount += b.Size
			return
		}
	}
	a.Holders = append(a.Holders, Holder{Pod: pod, Amount: b.Size, Nodes: b.Nodes})
}

func (s *State) accountCPU(d *draft) []NodeAccount {
	accounts := make([]NodeAccount, 0, len(s.machine.CPUNodes()))
	allocatable, available := s.AllocatableCPUs(), d.available()
	own := Grant{Pod: d.pod, Pool: d.pool, Containers: d.containers}
	held := make([]cpuset.Set, len(s.grants))
	for i, g := range s.grants {
		held[i] = g.CPUs()
	}
	for _, n := range s.machine.CPUNodes() {
		a := NodeAccount{Node: n.ID, Total: int64(allocatable.IntersectionLen(n.CPUs)), Free: int64(available.IntersectionLen(n.CPUs))}
		for i, g := range s.grants {
			if k := int64(held[i].IntersectionLen(n.CPUs)); k > 0 {
				a.Holders = append(a.Holders, Holder{Pod: g.Pod.ID(), Amount: k, Nodes: mask.Of(n.ID)})
			}
		}
		if k := int64(own.CPUs().IntersectionLen(n.CPUs)); k > 0 {
			a.Holders = append(a.Holders, Holder{Pod: d.pod.ID() + " (this pod)", Amount: k, Nodes: mask.Of(n.ID)})
		}
		accounts = append(accounts, a)
	}
	return largestFirst(accounts)
}

// largestFirst orders the holders: the largest are what one can act on.
func largestFirst(accounts []NodeAccount) []NodeAccount {
	for _, a := range accounts {
		slices.SortStableFunc(a.Holders, func(x, y Holder) int {
			if x.Amount != y.Amount {
				return cmp.Compare(y.Amount, x.Amount)
			}
			return strings.Compare(x.Pod, y.Pod)
		})
	}
	return accounts
}
