package view

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Text prints the plan for people. Wide adds what is left out otherwise: every CPU, the
// affinity, and why containers share.
func (p Plan) Text(style Style, wide bool) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s\n", style.Paint(Faint, "Machine"), style.Paint(Plain, p.Machine))
	fmt.Fprintf(&out, "%s  %s\n\n", style.Paint(Faint, "Policy"), style.Paint(Plain, p.Policy))
	if text := p.admitted(wide).Text(style); len(p.Pods) > 0 && p.anyAdmitted() {
		out.WriteString(text)
		out.WriteByte('\n')
	}
	for _, pod := range p.Pods {
		for _, note := range pod.Notes {
			fmt.Fprintf(&out, "%s %s: %s\n", style.Paint(Warn, "note"), style.Paint(Strong, pod.Pod), style.Paint(Plain, note))
		}
		if pod.Refusal != nil {
			out.WriteString(pod.refusal(style))
			out.WriteByte('\n')
		}
	}
	out.WriteString(p.Node.text(style))
	for _, e := range p.Explanations {
		out.WriteByte('\n')
		out.WriteString(e.Text(style, wide))
	}
	return out.String()
}

func (p Plan) anyAdmitted() bool {
	for _, pod := range p.Pods {
		if pod.Admitted {
			return true
		}
	}
	return false
}

func (p Plan) admitted(wide bool) *Table {
	t := &Table{Columns: []Column{
		{Title: "POD / CONTAINER"},
		{Title: "KIND"},
		{Title: "ISOLATION"},
		{Title: "CPUS", Align: Right},
		{Title: "CPU SET"},
		{Title: "NUMA"},
		{Title: "MEMORY"},
		{Title: "QUOTA"},
		{Title: "DEVICES"},
		{Title: "AFFINITY"},
		{Title: "SHARES BECAUSE"},
	}}
	for _, pod := range p.Pods {
		if !pod.Admitted {
			continue
		}
		kind := pod.QoS
		if pod.Known {
			kind += ", admitted before"
		}
		t.Cells(Cell{pod.Pod, Strong}, Cell{kind, Faint}, Cell{poolWord(pod), Faint},
			Cell{Text: cpuCount(pod.Pool)}, Cell{Text: cpuText(pod.Pool, wide)}, Cell{Text: nodesText(pod.NUMANodes, memoryNodes(pod.PoolMemory))},
			Cell{Text: blocksText(pod.PoolMemory)}, Cell{Text: quotaText(pod.Quota)})
		for _, c := range pod.Containers {
			t.Cells(c.cells(wide)...)
		}
	}
	return t
}

func poolWord(p PlanPod) string {
	if p.Pool != "" || len(p.PoolMemory) > 0 {
		return "pool"
	}
	return ""
}

func (c PlanContainer) cells(wide bool) []Cell {
	tone := Plain
	if c.Isolation == "container" {
		tone = Good
	}
	set := cpuText(c.CPUs, wide)
	if c.CPUs == "" {
		set = "shared"
	}
	cells := []Cell{
		{Text: "  " + c.Name},
		{Text: c.Kind},
		{c.Isolation, tone},
		{Text: cpuCount(c.CPUs)},
		{Text: set},
		{Text: nodesText(c.NUMANodes, c.MemoryNUMANodes)},
		{Text: blocksText(c.Memory)},
		{Text: quotaText(c.Quota)},
		{Text: devicesText(c.Devices)},
	}
	if wide {
		cells = append(cells, Cell{Text: c.affinity()}, Cell{c.Shares, Faint})
	}
	return cells
}

func (c PlanContainer) affinity() string {
	if c.Affinity == nil {
		return "not asked"
	}
	text := "none stored"
	if c.Affinity.NUMANodes != nil {
		text = mask.Of(c.Affinity.NUMANodes...).String()
	}
	if c.Affinity.Preferred {
		text += " preferred"
	}
	return text
}

// cpuCount is the number of CPUs of a set in list format.
func cpuCount(set string) string {
	if set == "" {
		return ""
	}
	parsed, err := cpuset.Parse(set)
	if err != nil {
		return "?" // Not of our making; the set itself is printed beside it.
	}
	return strconv.Itoa(parsed.Len())
}

func cpuText(set string, wide bool) string {
	parsed, err := cpuset.Parse(set)
	if wide || err != nil {
		return set
	}
	return CPUs(parsed)
}

// nodesText is where the CPUs are, and where the memory is if that is elsewhere.
func nodesText(cpus, memory []int) string {
	switch {
	case len(cpus) == 0 && len(memory) == 0:
		return ""
	case len(cpus) == 0:
		return "memory " + nodeList(memory)
	case len(memory) == 0 || nodeList(cpus) == nodeList(memory):
		return nodeList(cpus)
	}
	return nodeList(cpus) + ", memory " + nodeList(memory)
}

func nodeList(nodes []int) string { return strings.Trim(mask.Of(nodes...).String(), "{}") }

func memoryNodes(held []PlanBlock) []int {
	var nodes mask.Mask
	for _, b := range held {
		nodes |= mask.Of(b.NUMANodes...)
	}
	return nodes.Nodes()
}

func blocksText(held []PlanBlock) string {
	parts := make([]string, 0, len(held))
	for _, b := range held {
		parts = append(parts, amount(b.Type, b.Bytes))
	}
	return strings.Join(parts, " + ")
}

// amount is a quantity with its resource: "16 CPUs", "8 GiB", "1 GiB hugepages-2Mi".
func amount(resource string, n int64) string {
	switch resource {
	case request.CPU:
		return count(int(n), "CPU")
	case machine.Memory:
		return request.RoundedBytes(n)
	}
	return number(resource, n) + " " + resource
}

func milliCPUs(milli int64) string {
	if milli == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64)
}

// quotaText is a quota for reading: "lifted" is the word of the JSON for no CFS quota.
func quotaText(quota string) string {
	if quota == "lifted" {
		return "none"
	}
	return quota
}

func (p PlanPod) refusal(style Style) string {
	var out strings.Builder
	r := p.Refusal
	fmt.Fprintf(&out, "%s %s: %s\n", style.Paint(Bad, "rejected"), style.Paint(Strong, p.Pod), style.Paint(Bad, r.Reason))
	who := ""
	if r.Container != "" {
		who = "container " + r.Container + ": "
	}
	fmt.Fprintf(&out, "  %s\n", style.Paint(Plain, who+r.Message+" ("+r.Rule+")"))
	if len(r.Nodes) == 0 {
		return out.String()
	}
	t := Table{Columns: []Column{{Title: "  NUMA NODE", Align: Right}, {Title: "FOR PODS", Align: Right}, {Title: "FREE", Align: Right}, {Title: "ASSIGNED TO"}}}
	for _, n := range r.Nodes {
		if n.Total == 0 {
			continue
		}
		t.Row(strconv.Itoa(n.Node), number(r.Resource, n.Total), number(r.Resource, n.Free), holders(r.Resource, n.Holders))
	}
	out.WriteString(t.Text(style))
	return out.String()
}

func number(resource string, n int64) string {
	if request.IsMemory(resource) {
		return request.RoundedBytes(n)
	}
	return strconv.FormatInt(n, 10)
}

// maxHolders is how many pods are named for one NUMA node: the largest are what one can act on.
const maxHolders = 4

func holders(resource string, all []PlanHolder) string {
	var parts []string
	for i, h := range all {
		if i == maxHolders {
			parts = append(parts, fmt.Sprintf("and %d more pods", len(all)-i))
			break
		}
		text := h.Pod + " " + number(resource, h.Amount)
		if len(h.NUMANodes) > 0 {
			text += " on " + nodeList(h.NUMANodes)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func (n NodeTotals) text(style Style) string {
	var out strings.Builder
	if n.ManagesCPUs {
		shared := cpuText(n.SharedCPUs, false)
		if shared == "" {
			shared = style.Paint(Bad, "empty")
		}
		fmt.Fprintf(&out, "%s %s", style.Paint(Faint, "Node shared pool"), shared)
		if n.ReservedCPUs != "" {
			fmt.Fprintf(&out, " (reserved for the system: %s)", cpuText(n.ReservedCPUs, false))
		}
		out.WriteByte('\n')
	}
	out.WriteString(n.table().Text(style))
	for _, group := range n.Groups {
		fmt.Fprintf(&out, "%s\n", style.Paint(Faint, "NUMA nodes "+nodeList(group)+" serve memory together: no pod of one NUMA node fits there until they are free"))
	}
	return out.String()
}

// table has a line for each NUMA node that has anything for pods.
func (n NodeTotals) table() *Table {
	t := &Table{Columns: []Column{{Title: "NUMA NODE", Align: Right}, {Title: "FREE CPUS", Align: Right}}}
	for _, name := range n.types {
		t.Columns = append(t.Columns, Column{Title: "FREE " + strings.ToUpper(strings.TrimSuffix(name, unitOf(name))) + unitOf(name), Align: Right})
	}
	for _, resource := range n.devices {
		t.Columns = append(t.Columns, Column{Title: "FREE " + resource, Align: Right})
	}
	for _, node := range n.NUMANodes {
		row := []string{strconv.Itoa(node.Node), node.freeCPUs()}
		for _, name := range n.types {
			row = append(row, node.free(name))
		}
		for _, resource := range n.devices {
			row = append(row, node.freeDevices(resource))
		}
		if slices.ContainsFunc(row[1:], func(cell string) bool { return cell != "" }) {
			t.Row(row...)
		}
	}
	return t
}

func (n NodeTotal) freeCPUs() string {
	if n.CPUs == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", n.FreeCPUs, n.CPUs)
}

func (n NodeTotal) free(typ string) string {
	for _, t := range n.Memory {
		if t.Type == typ && t.Total > 0 {
			return request.RoundedBytes(t.Free) + " of " + request.RoundedBytes(t.Total)
		}
	}
	return ""
}

// unitOf is the part of a huge page type that keeps its case: "2Mi" of "hugepages-2Mi".
func unitOf(typ string) string {
	_, size, _ := strings.Cut(typ, "-")
	return size
}

func (n NodeTotal) freeDevices(resource string) string {
	for _, d := range n.Devices {
		if d.Resource == resource {
			return fmt.Sprintf("%d of %d", d.Free, d.Total)
		}
	}
	return ""
}

// devicesText is "nvidia.com/gpu gpu0,gpu1".
func devicesText(devices map[string][]string) string {
	var parts []string
	for _, resource := range slices.Sorted(maps.Keys(devices)) {
		parts = append(parts, resource+" "+strings.Join(devices[resource], ","))
	}
	return strings.Join(parts, "; ")
}
