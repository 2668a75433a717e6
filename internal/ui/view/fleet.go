package view

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// Fleet is the result of placing pods on a fleet. `paddock fleet` prints it.
type Fleet struct {
	Question string `json:"question"` // fit, fill, now, size or mix
	Scoring  string `json:"scoring"`
	Order    string `json:"order"` // in which the pods were placed: given, largest-first or drawn
	// NotCounted lists the extended resources that pods ask for and that no node lists.
	NotCounted []string `json:"notCounted,omitempty"`
	// Unplaced lists the extended resources that pods ask for and that have devices with unknown
	// NUMA nodes.
	Unplaced []string `json:"unplaced,omitempty"`
	Seed     *uint64  `json:"seed,omitempty"`
	Nodes    int      `json:"nodes"`
	// LowerBound is a number of nodes below which the pods do not fit, whatever the placement is.
	// Optimal is set if Nodes equals it. Only answers to size have them.
	LowerBound int  `json:"lowerBound,omitempty"`
	Optimal    bool `json:"optimal,omitempty"`
	// LeftOut counts the rejected pods that no node of the kind, or of the kinds of a mix, takes,
	// however empty. Nodes is the number for all other pods. TooFew is set if Nodes, the largest
	// number that was tried, does not take these. Only answers to size have them.
	LeftOut int64 `json:"leftOut,omitempty"`
	TooFew  bool  `json:"tooFew,omitempty"`
	// AtMost is set for size if the search was interrupted, or ran out of time: Nodes takes all
	// pods, but a smaller number may do so, too.
	AtMost bool `json:"atMost,omitempty"`
	// Interrupted is set for all answers to size if the search was interrupted. It describes what
	// the answers leave open.
	Interrupted string `json:"interrupted,omitempty"`
	// Price is the price of the nodes, in the unit of the given prices.
	Price *float64     `json:"price,omitempty"` // for size
	Mix   *FleetMix    `json:"mix,omitempty"`   // for a mix of kinds
	Pods  FleetPods    `json:"pods"`
	CPUs  FleetAllCPUs `json:"cpus"`
	// Typical describes the requests that leave the stranded CPUs over.
	Typical   string          `json:"typical"`
	Stranding *FleetStranding `json:"stranding,omitempty"`
	// Scarcity describes what is missing for the rejected pods. It is nil if no pod is rejected.
	Scarcity   *FleetScarcity   `json:"scarcity,omitempty"`
	Kinds      []FleetKind      `json:"kinds"`
	Causes     []FleetCause     `json:"causes"`
	Placements []FleetPlacement `json:"placements,omitempty"`
}

// FleetMix describes how good a mix of kinds of nodes is.
type FleetMix struct {
	// LowerBound is a price below which the pods do not fit, whatever the placement is. Gap is how
	// far the price of the mix exceeds it, as a fraction of it. Tried is the number of mixes that
	// were tried.
	LowerBound float64 `json:"lowerBound"`
	Gap        float64 `json:"gap"`
	Tried      int     `json:"tried"`
}

// FleetPods counts pods.
type FleetPods struct {
	Asked    int64 `json:"asked"`
	Placed   int64 `json:"placed"`
	Rejected int64 `json:"rejected"`
	// Own counts the placed pods that have CPUs, memory or devices of their own. Aligned counts the
	// aligned ones among them, and AlignmentUnknown those for which this is unknown.
	Own              int64 `json:"own"`
	Aligned          int64 `json:"aligned"`
	AlignmentUnknown int64 `json:"alignmentUnknown"`
	// Never counts the rejected pods that even a node without pods would reject.
	Never int64 `json:"never"`
}

// FleetCPUs counts CPUs as the scheduler does: allocatable CPUs, and CPUs that placed pods request.
// Aligned is the part that aligned pods request, and AlignmentUnknown the part of pods for which
// alignment is unknown. Free counts whole CPUs that could become exclusive at the end. Stranded is
// the part of Free that typical requests leave over.
type FleetCPUs struct {
	Allocatable      float64 `json:"allocatable"`
	Placed           float64 `json:"placed"`
	Aligned          float64 `json:"aligned"`
	AlignmentUnknown float64 `json:"alignmentUnknown"`
	Free             int     `json:"free"`
	Stranded         float64 `json:"stranded"`
}

// FleetAllCPUs counts the CPUs of all nodes. Asked is the number that all pods request. Never is
// the part requested by pods that even a node without pods would reject.
type FleetAllCPUs struct {
	FleetCPUs
	Asked float64 `json:"asked"`
	Never float64 `json:"never"`
}

// FleetKind describes the pods and CPUs on the nodes of one kind.
type FleetKind struct {
	Kind   string        `json:"kind"`
	Nodes  int           `json:"nodes"`
	Policy string        `json:"policy"`
	Pods   FleetKindPods `json:"pods"`
	CPUs   FleetCPUs     `json:"cpus"`
}

// FleetKindPods counts the pods on the nodes of one kind, as FleetPods does.
type FleetKindPods struct {
	Placed           int64 `json:"placed"`
	Own              int64 `json:"own"`
	Aligned          int64 `json:"aligned"`
	AlignmentUnknown int64 `json:"alignmentUnknown"`
}

// FleetCause is a reason why every node rejects some pods.
type FleetCause struct {
	Reason string         `json:"reason"` // of the nodes that came nearest to taking them
	Pods   FleetCausePods `json:"pods"`
	// Nodes is the number of nodes that give this reason for the first of these pods, Example.
	// Others has the reasons of the other nodes.
	Nodes   int             `json:"nodes"`
	Others  []FleetNodeText `json:"others,omitempty"`
	Example string          `json:"example"`
	// Detail is the rejection by Node. Remedy is a change of the pod or of the node with which Node
	// would take the pod, verified by planning. Remedy is empty if there is none.
	Node   string `json:"node,omitempty"`
	Detail string `json:"detail,omitempty"`
	Remedy string `json:"remedy,omitempty"`
	// OneMore is a kind of node. One more node of that kind would take Example.
	OneMore string `json:"oneMore,omitempty"`
}

// FleetCausePods counts the pods that are rejected for one reason.
type FleetCausePods struct {
	Rejected int64 `json:"rejected"`
	// Never counts the pods that even a node without pods would reject.
	Never int64 `json:"never"`
}

// FleetNodeText is a reason and the number of nodes that give it.
type FleetNodeText struct {
	Reason string `json:"reason"`
	Nodes  int    `json:"nodes"`
}

// FleetPlacement is the place of a pod. If Node is empty, no node takes the pod, and Reason has the
// reason. CPUs are those that no other pod has.
type FleetPlacement struct {
	Pod    string `json:"pod"`
	Node   string `json:"node,omitempty"`
	CPUs   string `json:"cpus,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// FleetOf returns an answer without the parts that need a second look at a node, which are Detail
// and Remedy of causes. policies has the policy of each kind.
func FleetOf(question, scoring string, r *capacity.Result, policies map[string]string) Fleet {
	f := Fleet{
		Question: question, Scoring: scoring, Order: string(r.Order), Nodes: r.Nodes,
		Pods: *PodsOf(r), CPUs: allCPUs(r),
		LowerBound: r.LowerBound, Optimal: r.Optimal, LeftOut: r.LeftOut, TooFew: question == "size" && r.Rejected > r.LeftOut,
		Typical: typicalOf(r, question), Stranding: strandingOf(r.Stranded.Worst), Kinds: []FleetKind{}, Causes: []FleetCause{},
	}
	for _, k := range r.Kinds {
		f.Kinds = append(f.Kinds, FleetKind{k.Name, k.Nodes, policies[k.Name], FleetKindPods{k.Pods, k.Own, k.Aligned, k.Unknown}, fleetCPUs(k.AllocatableMilli, k.PlacedMilli, k.Alignment, k.Stranded)})
	}
	for _, c := range r.Causes {
		cause := FleetCause{Reason: capacity.Text(c.Nearest), Pods: FleetCausePods{c.Pods, c.Never}, Nodes: c.Nodes, Example: c.Example.ID(), Node: c.Node.Name, Detail: c.Detail, Remedy: c.Remedy, OneMore: c.OneMore}
		for _, o := range c.Rest {
			cause.add(capacity.Text(o.Why), o.Nodes)
		}
		f.Causes = append(f.Causes, cause)
	}
	for _, p := range r.Placements {
		out := FleetPlacement{Pod: p.Pod, Node: p.Node, Reason: p.Reason}
		if p.Grant != nil {
			out.CPUs = p.Grant.CPUs().String()
		}
		f.Placements = append(f.Placements, out)
	}
	return f
}

// add adds nodes that reject the example for a reason. Reasons with the same text are one.
func (c *FleetCause) add(reason string, nodes int) {
	if reason == c.Reason {
		c.Nodes += nodes
		return
	}
	if i := slices.IndexFunc(c.Others, func(o FleetNodeText) bool { return o.Reason == reason }); i >= 0 {
		c.Others[i].Nodes += nodes
		return
	}
	c.Others = append(c.Others, FleetNodeText{reason, nodes})
}

// maxRemedies limits how many causes are explained. A remedy takes up to 100 ms, and a reader fixes
// one cause at a time.
const maxRemedies = 10

// Explain adds what is missing for the rejected pods. To the first causes, it also adds the reason
// that the node's planner gives, and a remedy. It returns the error of the context.
func (f *Fleet) Explain(ctx context.Context, r *capacity.Result) error {
	scarcity, err := r.Scarcity(ctx)
	if err != nil {
		return err
	}
	f.Scarcity = scarcityOf(&scarcity)
	for i := range r.Causes[:min(maxRemedies, len(r.Causes))] {
		if r.Causes[i].Node.State == nil || r.Causes[i].Nearest.Rule != "" || r.Causes[i].Nearest.PerNode {
			continue
		}
		if err := f.Causes[i].explain(ctx, &r.Causes[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *FleetCause) explain(ctx context.Context, of *capacity.Cause) error {
	example := &of.Example
	if of.Node.State != nil {
		example = example.On(&of.Node)
	}
	switch {
	case of.Nearest.NotAllowed:
		if of.Example.Excluded == nil {
			return nil
		}
		if c.Detail, c.Remedy = of.Example.Excluded(&of.Node); !of.Takes {
			c.Remedy = ""
		}
	case of.Nearest.Amounts:
		resource := of.Nearest.Resource
		asks, has := example.Asks.Of(resource), of.Node.Allocatable.Of(resource)
		left := has - of.Node.Used.Of(resource)
		c.Detail = fmt.Sprintf("%s wanted, %s of %s left", counted(resource, asks), plain(resource, max(0, left)), plain(resource, has))
		if less, ok := explain.Less(ctx, of.Node.State, example.Pod, resource, asks-left); ok {
			c.Remedy = less.Text
		}
	default:
		plan := of.Node.State.Plan(example.Pod)
		if plan.Rejection == nil {
			return nil
		}
		c.Detail = plan.Rejection.Detail
		remedies, err := explain.Search(ctx, of.Node.State, example.Pod)
		if err != nil {
			return err
		}
		if len(remedies.Proposals) > 0 {
			c.Remedy = remedies.Proposals[0].Text
		}
	}
	return nil
}

// counted formats an amount of a resource: "2 CPUs", "16Gi of memory", "1 nvidia.com/gpu".
func counted(resource string, n int64) string {
	switch {
	case resource == request.CPU && n == 1000:
		return "1 CPU"
	case resource == request.CPU:
		return plain(resource, n) + " CPUs"
	case request.IsMemory(resource):
		return plain(resource, n) + " of " + resource
	case resource == "pods":
		return Count(int(n), "pod")
	case request.IsCache(resource):
		return request.Words(resource, n)
	}
	return plain(resource, n) + " " + resource
}

// plain formats the number alone.
func plain(resource string, n int64) string {
	if resource == request.CPU {
		return decimal(float64(n) / 1000)
	}
	return explain.Amount{Resource: resource, Value: n}.Quantity()
}

// PodsOf counts the pods of a result.
func PodsOf(r *capacity.Result) *FleetPods {
	return &FleetPods{r.Asked, r.Placed, r.Rejected, r.Own, r.Aligned, r.Unknown, r.Never}
}

func allCPUs(r *capacity.Result) FleetAllCPUs {
	return FleetAllCPUs{fleetCPUs(r.AllocatableMilli, r.PlacedMilli, r.Alignment, r.Stranded), float64(r.AskedMilli) / 1000, float64(r.NeverMilli) / 1000}
}

func fleetCPUs(allocatable, placed int64, a capacity.Alignment, s fleet.Stranded) FleetCPUs {
	return FleetCPUs{float64(allocatable) / 1000, float64(placed) / 1000, float64(a.AlignedMilli) / 1000, float64(a.UnknownMilli) / 1000, s.Free, rounded(s.CPUs)}
}

// Text formats the answer for people, with the summary first.
func (f *Fleet) Text(style terminal.Style) string {
	var out strings.Builder
	fmt.Fprintln(&out, style.Paint(terminal.Strong, f.Summary()))
	out.WriteString(style.Paragraph("", "  ", terminal.Plain.Of(f.StrandedText())))
	if shared := f.sharedText(); shared != "" {
		out.WriteString(style.Paragraph("", "  ", terminal.Plain.Of(shared)))
	}
	if f.Order == string(capacity.LargestFirst) && f.Question != "now" {
		out.WriteString(style.Paragraph("", "  ", terminal.Plain.Of(orderText(f.Order))))
	}
	if f.Scarcity != nil {
		out.WriteString("\n" + f.Scarcity.text(style))
	}
	for _, c := range f.Causes {
		out.WriteString("\n" + c.text(style))
	}
	out.WriteString("\n" + f.kinds().Text(style))
	if len(f.Placements) > 0 {
		out.WriteString("\n" + f.placements().Text(style))
	}
	return out.String()
}

// sharedText describes what limits pods that have no resources of their own.
func (f *Fleet) sharedText() string {
	if f.Question == "now" || f.Pods.Placed == 0 || f.Pods.Own > 0 {
		return ""
	}
	return "No placed pod has CPUs, memory or devices of its own: only the sums of the requests and the number of pods of a node limit such pods."
}

// Summary describes the answer in one line.
func (f *Fleet) Summary() string {
	if f.Question == "now" {
		return f.Now()
	}
	var b strings.Builder
	if f.Question == "size" && f.Pods.Rejected == 0 {
		fmt.Fprintf(&b, "%s for %s; one less is too few; at least %d are needed. ", Nodes(f.Nodes), podCount(f.Pods.Asked), f.LowerBound)
	}
	asked, rejected := podCount(f.Pods.Asked), grouped(f.Pods.Rejected)+" rejected by every node"
	if f.Question == "fill" { // A fleet is full when its nodes reject what is drawn.
		asked, rejected = grouped(f.Pods.Asked)+" drawn pods", "no room for "+grouped(f.Pods.Rejected)
	}
	fmt.Fprintf(&b, "%s of %s placed on %s: %s of %s CPUs (%s)", grouped(f.Pods.Placed), asked, Nodes(f.Nodes),
		amount(f.CPUs.Placed), amount(f.CPUs.Allocatable), share(f.CPUs.FleetCPUs))
	b.WriteString(f.Pods.aligned())
	if f.Pods.Rejected > 0 {
		b.WriteString("; " + rejected)
	}
	if len(f.Unplaced) > 0 && f.Pods.AlignmentUnknown > 0 {
		fmt.Fprintf(&b, "; the NUMA nodes of %s are not given", strings.Join(f.Unplaced, ", "))
	}
	if len(f.NotCounted) > 0 {
		fmt.Fprintf(&b, "; not counting %s, which no node lists", strings.Join(f.NotCounted, ", "))
	}
	return b.String()
}

// orderText describes the order in which pods were placed.
func orderText(order string) string {
	switch capacity.Order(order) {
	case capacity.LargestFirst:
		return "The pods were placed largest first, by the share of a node that they take."
	case capacity.MostMemoryFirst:
		return "The pods were placed in the order of their memory, most first."
	case capacity.MostCPUsFirst:
		return "The pods were placed in the order of their CPUs, most first."
	case capacity.Drawn:
		return "The pods were drawn at random."
	case capacity.Given:
	}
	return "The pods were placed in the given order. With --order largest-first, large pods do not find the nodes full of small ones."
}

// Now describes the present content of the nodes in one line.
func (f *Fleet) Now() string {
	return fmt.Sprintf("%s with %s, which request %s of %s CPUs (%s)", Nodes(f.Nodes), podCount(f.Pods.Placed), amount(f.CPUs.Placed), amount(f.CPUs.Allocatable), share(f.CPUs.FleetCPUs))
}

func (c *FleetCause) text(style terminal.Style) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s, %s\n", style.Paint(terminal.Bad, podCount(c.Pods.Rejected)+":"), style.Paint(terminal.Strong, c.Reason), style.Paint(terminal.Plain, which(c.Pods.Rejected, c.Example)))
	reasons := []string{fmt.Sprintf("%s: %s", Nodes(c.Nodes), c.Reason)}
	for _, o := range c.Others {
		reasons = append(reasons, fmt.Sprintf("%s: %s", Nodes(o.Nodes), o.Reason))
	}
	fmt.Fprintf(&b, "  %s\n", style.Paint(terminal.Faint, strings.Join(reasons, "; ")))
	if c.Detail != "" {
		fmt.Fprintf(&b, "  %s: %s\n", style.Paint(terminal.Plain, c.Node), style.Paint(terminal.Plain, c.Detail))
	}
	if c.Remedy != "" {
		fmt.Fprintf(&b, "  %s %s\n", style.Paint(terminal.Good, "to fit there:"), style.Paint(terminal.Plain, c.Remedy))
	}
	if c.OneMore != "" {
		fmt.Fprintf(&b, "  %s\n", style.Paint(terminal.Plain, "one more node of kind "+c.OneMore+" would take it"))
	}
	if c.Pods.Never > 0 {
		fmt.Fprintf(&b, "  %s\n", style.Paint(terminal.Bad, "no node would ever take "+ofThese(c.Pods.Never, c.Pods.Rejected)+", however empty"))
	}
	return b.String()
}

// ofThese returns a text for some of the pods of a cause, or for all of them.
func ofThese(n, all int64) string {
	switch {
	case n == all && all == 1:
		return "it"
	case n == all:
		return "any of them"
	}
	return grouped(n) + " of them"
}

func (f *Fleet) kinds() *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "KIND"},
		{Title: "NODES", Align: terminal.Right},
		{Title: "PODS", Align: terminal.Right},
		{Title: "ALIGNED", Align: terminal.Right},
		{Title: "CPUS PLACED", Align: terminal.Right},
		{Title: "OF", Align: terminal.Right},
		{Title: "", Align: terminal.Right},
		{Title: "STRANDED", Align: terminal.Right},
		{Title: "POLICY"},
	}}
	for _, k := range f.Kinds {
		t.Row(k.Kind, grouped(int64(k.Nodes)), grouped(k.Pods.Placed), alignedPods(k.Pods.Aligned, k.Pods.AlignmentUnknown, k.Pods.Own), amount(k.CPUs.Placed), amount(k.CPUs.Allocatable), share(k.CPUs), tenths(k.CPUs.Stranded), k.Policy)
	}
	return t
}

func (f *Fleet) placements() *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{{Title: "POD"}, {Title: "NODE"}, {Title: "CPUS"}}}
	for _, p := range f.Placements {
		node := terminal.Cell{Text: p.Node}
		if p.Node == "" {
			node = terminal.Bad.Of("rejected")
		}
		t.Cells(terminal.Cell{Text: p.Pod}, node, terminal.Cell{Text: ShortCPUs(p.CPUs)})
	}
	return t
}

func podCount(n int64) string {
	if n == 1 {
		return "1 pod"
	}
	return grouped(n) + " pods"
}

// Nodes formats a number of nodes: "1 node", "1,523 nodes".
func Nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return grouped(int64(n)) + " nodes"
}

// grouped formats a number with commas between thousands.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// amount formats a number of CPUs, without decimals if it is whole.
func amount(cpus float64) string {
	text := strconv.FormatFloat(cpus, 'f', 1, 64)
	whole, decimals, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return text // It is not finite, or has more than 18 digits.
	}
	if float64(int64(cpus)) == cpus {
		return grouped(n)
	}
	return grouped(n) + "." + decimals
}
