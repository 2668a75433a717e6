package view

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// Report describes how a node is used. `paddock report` prints it.
type Report struct {
	Machine string `json:"machine"`
	Policy  string `json:"policy"`
	// Kubelet is the kubelet that decides, such as "kubelet-1.36.4". If empty, Paddock decides.
	Kubelet string         `json:"kubelet,omitempty"`
	Usage   explain.Report `json:"usage"`
	// Stranded is nil if the policy gives no exclusive CPUs.
	Stranded *StrandedCPUs `json:"stranded,omitempty"`
	// Like has the largest pods like the requested one, and LikePod has the name of that pod.
	LikePod string        `json:"likePod,omitempty"`
	Like    *explain.Like `json:"like,omitempty"`
	// Certainty is nil where Paddock decides, unless the report is unsure.
	Certainty *Certainty `json:"certainty,omitempty"`
	// ReservedAndIdle has the measurements of an agent. It is nil without an agent.
	ReservedAndIdle *OwnersUse `json:"reservedAndIdle,omitempty"`
}

// StrandedCPUs describes the free CPUs of a node that typical requests leave over: requests like
// those of its pods or, if none has exclusive CPUs, for 1, 2, 4, 8, 16 and 32 CPUs.
type StrandedCPUs struct {
	Free      int             `json:"free"`
	Stranded  float64         `json:"stranded"`
	Typical   string          `json:"typical"` // the requests, in words
	Nodes     []StrandedNode  `json:"numaNodes"`
	Stranding *FleetStranding `json:"stranding,omitempty"`
}

// StrandedNode is one NUMA node.
type StrandedNode struct {
	Node     int     `json:"numaNode"`
	Free     int     `json:"free"`
	Stranded float64 `json:"stranded"`
}

// ReportOf returns the report on a node in a state.
func ReportOf(machine, policy string, s *node.State, usage explain.Report) Report {
	r := Report{Machine: machine, Policy: policy, Usage: usage}
	if !usage.ManagesCPUs {
		return r
	}
	v := fleet.Alone(s)
	all := fleet.StrandedOn([]*fleet.View{v})
	r.Stranded = &StrandedCPUs{Free: all.Free, Stranded: rounded(all.CPUs), Typical: typicalRunning, Stranding: strandingOf(all.Worst)}
	if all.Assumed {
		r.Stranded.Typical = typicalAssumed
	}
	for _, n := range v.Stock() {
		r.Stranded.Nodes = append(r.Stranded.Nodes, StrandedNode{n.NUMANode, n.Free, rounded(n.Stranded)})
	}
	return r
}

// Text formats the report for people.
func (r Report) Text(style terminal.Style) string {
	var out strings.Builder
	out.WriteString(head(style, r.Machine, r.Policy, r.Kubelet, r.Certainty))
	if r.Certainty.IsUnsure() {
		out.WriteString("\n" + r.Certainty.unsureLines(style))
	}
	if r.Like != nil {
		out.WriteString("\n" + style.Paint(terminal.Strong, "The largest pods like "+r.LikePod+" that would be admitted now") + "\n" + likeText(r.Like, false, style))
		return out.String()
	}
	if r.Usage.ManagesCPUs {
		out.WriteString("\n" + r.cpus().Text(style))
	}
	if text := r.isolatedText(); text != "" {
		out.WriteString(style.Paragraph("", "  ", terminal.Plain.Of(text)))
	}
	if r.Stranded != nil {
		out.WriteString(style.Paragraph("", "  ", terminal.Plain.Of(strandedText(r.Stranded.Free, r.Stranded.Stranded, r.Stranded.Typical, r.Stranded.Stranding))))
	}
	if r.Usage.ManagesMemory {
		out.WriteString("\n" + r.memory().Text(style))
	}
	if c := r.Usage.Caches; c != nil {
		out.WriteString("\n" + CachesTable(c).Text(style))
		out.WriteString(style.Paragraph("", "  ", terminal.Plain.Of(ClassesText(c)+".")))
		for i := range c.L3 {
			if text := fragmentsText(&c.L3[i], c.Kept); text != "" {
				out.WriteString(style.Paragraph("", "  ", terminal.Warn.Of("fragmented"), terminal.Plain.Of(text)))
			}
		}
	}
	for _, n := range r.Usage.Nodes {
		if n.Lost != "" {
			out.WriteString(style.Paragraph("", "  ", terminal.Warn.Of("lost to alignment"), terminal.Plain.Of(fmt.Sprintf("NUMA node %d: %s", n.Node, lostText(n)))))
		}
	}
	for _, i := range r.Usage.Idle {
		out.WriteString(style.Paragraph("", "  ", terminal.Warn.Of("idle in the pool"), terminal.Strong.Of(i.Pod+":"), terminal.Plain.Of(idleText(i))))
	}
	if r.ReservedAndIdle != nil {
		out.WriteString(r.ReservedAndIdle.text(style))
	}
	if len(r.Usage.Remote) > 0 {
		out.WriteString("\n" + style.Paragraph("", "  ", terminal.Strong.Of("Devices on other NUMA nodes than the CPUs or memory of their containers")))
		out.WriteString(r.remote().Text(style))
	}
	for _, u := range r.Usage.Unknown {
		for _, remark := range u.Remarks {
			out.WriteString(style.Paragraph("", "  ", terminal.Warn.Of("unknown"), terminal.Strong.Of(u.Pod+":"), terminal.Plain.Of(remark)))
		}
	}
	if r.Usage.ManagesCPUs || r.Usage.ManagesMemory {
		out.WriteString("\n" + style.Paragraph("", "  ", terminal.Strong.Of("The largest pod of one container that would be admitted now, by topology policy")))
		out.WriteString(r.largest().Text(style))
	}
	return out.String()
}

func lostText(n explain.NodeReport) string {
	var parts []string
	if n.LostCPUs > 0 {
		parts = append(parts, Count(n.LostCPUs, "CPU"))
	}
	if n.LostMemory > 0 {
		parts = append(parts, request.RoundedBytes(n.LostMemory))
	}
	return strings.Join(parts, " and ") + ": " + n.Lost
}

func idleText(i explain.Idle) string {
	var parts []string
	if i.Count > 0 {
		parts = append(parts, fmt.Sprintf("%d of its pool's %d CPUs (%s)", i.Count, i.Pool, ShortCPUs(i.CPUs)))
	}
	for _, m := range i.Memory {
		parts = append(parts, m.Text())
	}
	return strings.Join(parts, " and ") + ": no container shares the pool's rest (KEP-5526, Underutilization); lower the pod-level request"
}

func (r Report) cpus() *terminal.Table {
	t := &terminal.Table{Columns: terminal.Columns(">NUMA NODE")}
	for _, title := range []string{"CPUS", "EXCLUSIVE", "POOLED", "IDLE IN POOLS", "RESERVED", "FREE", "STRANDED", "SHARED POOL"} {
		t.Columns = append(t.Columns, terminal.Column{Title: title, Align: terminal.Right})
	}
	var sum explain.CPUReport
	row := func(name string, c explain.CPUReport, stranded float64) {
		cells := []string{name}
		for _, n := range []int{c.Total, c.Exclusive, c.Pooled, c.Idle, c.Reserved, c.Free} {
			cells = append(cells, strconv.Itoa(n))
		}
		t.Row(append(cells, tenths(stranded), strconv.Itoa(c.Shared))...)
	}
	for _, n := range r.Usage.Nodes {
		if c := n.CPUs; c.Total > 0 {
			row(strconv.Itoa(n.Node), c, r.strandedOn(n.Node))
			sum = explain.CPUReport{
				Total: sum.Total + c.Total, Exclusive: sum.Exclusive + c.Exclusive, Pooled: sum.Pooled + c.Pooled, Idle: sum.Idle + c.Idle,
				Reserved: sum.Reserved + c.Reserved, Free: sum.Free + c.Free, Shared: sum.Shared + c.Shared,
			}
		}
	}
	all := 0.0
	if r.Stranded != nil {
		all = r.Stranded.Stranded
	}
	row("all", sum, all)
	return t
}

// isolatedText describes the isolated CPUs of the NUMA nodes. It returns "" if there are none.
func (r Report) isolatedText() string {
	var parts []string
	onlyShared := 0
	for _, n := range r.Usage.Nodes {
		if k := n.CPUs.Isolated; k > 0 {
			parts = append(parts, fmt.Sprintf("%d on NUMA node %d", k, n.Node))
		}
		onlyShared += n.CPUs.OnlyShared
	}
	if len(parts) == 0 {
		return ""
	}
	text := "Isolated CPUs (boot parameter isolcpus): " + strings.Join(parts, ", ") + "."
	if onlyShared > 0 {
		text += fmt.Sprintf(" %d more CPUs that no pod has never become exclusive, because they are not isolated.", onlyShared)
	}
	return text
}

func (r Report) strandedOn(numaNode int) float64 {
	if r.Stranded == nil { // The report of an older agent.
		return 0
	}
	for _, n := range r.Stranded.Nodes {
		if n.Node == numaNode {
			return n.Stranded
		}
	}
	return 0
}

func (r Report) memory() *terminal.Table {
	t := &terminal.Table{Columns: terminal.Columns(">NUMA NODE", "TYPE", ">TOTAL", ">EXCLUSIVE", ">POOLED", ">RESERVED", ">FREE", "GROUP")}
	for _, n := range r.Usage.Nodes {
		for _, m := range n.Memory {
			group := ""
			if len(m.Group) > 0 {
				group = nodeList(m.Group)
			}
			t.Row(strconv.Itoa(n.Node), m.Type, request.RoundedBytes(m.Total), request.RoundedBytes(m.Exclusive), request.RoundedBytes(m.Pooled), request.RoundedBytes(m.Reserved), request.RoundedBytes(m.Free), group)
		}
	}
	return t
}

func (r Report) largest() *terminal.Table {
	t := &terminal.Table{Columns: terminal.Columns("POLICY", ">MOST CPUS", ">WITH AT LEAST", ">LOST", ">MOST MEMORY, NO CPUS", ">LOST", ">IN PROPORTION", ">LOST", "")}
	for _, l := range r.Usage.Largest {
		name := terminal.Cell{Text: l.Policy}
		if l.Now {
			name = terminal.Strong.Of(l.Policy + " (now)")
		}
		if l.Wrong != "" {
			t.Cells(name, terminal.Cell{}, terminal.Cell{}, terminal.Cell{}, terminal.Cell{}, terminal.Cell{}, terminal.Cell{}, terminal.Cell{}, terminal.Faint.Of(l.Wrong))
			continue
		}
		least, share := "", ""
		if l.Memory > 0 {
			least = request.RoundedBytes(l.Memory)
		}
		if r.Usage.ManagesMemory && r.Usage.ManagesCPUs {
			share = orMore(fmt.Sprintf("%d CPUs, %s", l.Share, request.RoundedBytes(l.ShareBytes)), l.MoreShare)
		}
		cells := []terminal.Cell{name, {Text: orMore(strconv.Itoa(l.CPUs), l.MoreCPUs)}, {Text: least}, terminal.Warn.Of(lostCount(l.LostCPUs, request.CPU))}
		if r.Usage.ManagesMemory {
			cells = append(cells, terminal.Cell{Text: orMore(request.RoundedBytes(l.Bytes), l.MoreBytes)}, terminal.Warn.Of(lostCount(int(l.LostBytes), "memory")), terminal.Cell{Text: share}, terminal.Warn.Of(lostCount(l.LostShare, request.CPU)))
		}
		t.Cells(cells...)
	}
	return t
}

// orMore marks an amount if the search ended before it had tried all larger ones.
func orMore(text string, more bool) string {
	if more {
		return text + " or more"
	}
	return text
}

func lostCount(n int, resource string) string {
	if n <= 0 {
		return ""
	}
	return number(resource, int64(n))
}
