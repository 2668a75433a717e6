package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// Text formats the plan for people. If wide is set, it also has every CPU, the affinity, and why
// containers share CPUs.
func (p Plan) Text(style terminal.Style, wide bool) string {
	var out strings.Builder
	admitted, resized := 0, ""
	for _, pod := range p.Pods {
		if pod.Admitted {
			admitted++
		}
	}
	if n := p.resized(); n > 0 {
		resized = ", " + Number(n) + " of them resized"
	}
	unsure := ""
	if n := p.unsure(); n > 0 {
		unsure = "; " + Number(n) + " of these answers unsure"
	}
	out.WriteString(style.Paragraph("", "  ", terminal.Strong.Of(Number(admitted)+" admitted"+resized+", "+Number(len(p.Pods)-admitted)+" rejected"+unsure+p.notCounted())))
	kubelet := ""
	if p.Kubelet != nil {
		kubelet = p.Kubelet.Version
	}
	out.WriteString(head(style, p.Machine, p.Policy, kubelet, nil) + "\n")
	if admitted > 0 {
		table := style
		if wide {
			table.Width = 0 // In a wide table every row is one line.
		}
		out.WriteString(p.admitted(wide).Text(table) + "\n")
	}
	for _, pod := range p.Pods {
		if pod.Resize != nil {
			out.WriteString(pod.resizeText(style))
		}
	}
	for _, line := range slices.Concat(p.alignments(wide), p.certainties()) {
		out.WriteString(style.Paragraph("", "  ", line...))
	}
	for _, note := range p.notes() {
		out.WriteString(style.Paragraph("", "  ", note...))
	}
	for _, r := range p.rejections() {
		out.WriteString(r.text(style, wide) + "\n")
	}
	out.WriteString(p.Node.text(style))
	if p.Kubelet != nil {
		out.WriteString(p.Kubelet.text(style, wide))
	}
	for _, e := range p.Explanations {
		out.WriteByte('\n')
		out.WriteString(e.Text(style, wide))
	}
	return out.String()
}

// notCounted returns the end of the first line, which lists the extended resources that no
// inventory has. An unsure answer has them among its reasons.
func (p Plan) notCounted() string {
	var names []string
	for i := range p.Pods {
		if pod := &p.Pods[i]; pod.Admitted && !pod.Known && !pod.Certainty.IsUnsure() {
			names = append(names, pod.NotCounted...)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "; not counting " + strings.Join(slices.Compact(names), ", ") + ", which no device inventory has"
}

// head lists the machine, the policy, and the kubelet that decides, such as "kubelet-1.36.4". If
// kubelet is empty, Paddock decides. If certainty is not nil, it belongs to the only answer below.
func head(style terminal.Style, machine, policy, kubelet string, certainty *Certainty) string {
	t := terminal.Table{Columns: make([]terminal.Column, 2)}
	t.Cells(terminal.Faint.Of("Machine"), terminal.Plain.Of(machine))
	title := "Policy"
	for _, part := range PolicyList(policy) {
		t.Cells(terminal.Faint.Of(title), terminal.Plain.Of(part))
		title = ""
	}
	if version, is := strings.CutPrefix(kubelet, "kubelet-"); is {
		t.Cells(terminal.Faint.Of("Kubelet"), terminal.Plain.Of(version+" decides"))
	}
	if certainty != nil && certainty.Answer == Exact { // The others are sentences before the answer.
		t.Cells(terminal.Faint.Of("Answer"), terminal.Plain.Of("exact: this kubelet gives this answer on this state"))
	}
	return t.Text(style)
}

// PolicyList splits a policy, in the form of kubeletcfg.Describe, into lines: one for each manager.
// A sentence before the managers is a separate line.
func PolicyList(policy string) []string {
	return strings.Split(strings.Replace(policy, ": ", ":; ", 1), "; ")
}

func (p Plan) admitted(wide bool) *terminal.Table {
	t := &terminal.Table{Columns: terminal.Columns("POD / CONTAINER", "KIND", "ISOLATION", ">CPUS", "CPU SET", "NUMA", "MEMORY", "QUOTA", "DEVICES", "CACHE", "AFFINITY", "SHARES BECAUSE")}
	for _, pod := range p.Pods {
		if !pod.Admitted {
			continue
		}
		kind := pod.QoS
		switch {
		case pod.Known:
			kind += ", admitted before"
		case pod.Resize != nil:
			kind += ", resized"
		}
		var memory mask.Mask
		for _, b := range pod.PoolMemory {
			memory |= mask.Of(b.NUMANodes...)
		}
		pool := ""
		if pod.Pool != "" || len(pod.PoolMemory) > 0 {
			pool = "pool"
		}
		t.Cells(terminal.Strong.Of(pod.Pod), terminal.Faint.Of(kind), terminal.Faint.Of(pool),
			terminal.Cell{Text: cpuCount(pod.Pool)}, terminal.Cell{Text: cpuText(pod.Pool, wide)}, terminal.Cell{Text: nodesText(pod.NUMANodes, memory.Nodes())},
			terminal.Cell{Text: blocksText(pod.PoolMemory)}, terminal.Cell{Text: pod.Quota}, terminal.Cell{}, cacheCell(pod.PoolCache, pod.PoolCacheAsked, wide))
		for _, c := range pod.Containers {
			t.Cells(c.cells(wide)...)
		}
	}
	return t
}

func (c PlanContainer) cells(wide bool) []terminal.Cell {
	tone := terminal.Plain
	if c.Isolation == "container" {
		tone = terminal.Good
	}
	set := cpuText(c.CPUs, wide)
	if c.CPUs == "" {
		set = "shared"
	}
	cells := []terminal.Cell{
		{Text: "  " + c.Name},
		{Text: c.Kind},
		tone.Of(c.Isolation),
		{Text: cpuCount(c.CPUs)},
		{Text: set},
		{Text: nodesText(c.NUMANodes, c.MemoryNUMANodes)},
		{Text: blocksText(c.Memory)},
		{Text: c.Quota},
		devicesCell(c.AllDevices, wide),
		cacheCell(c.Cache, c.CacheAsked, wide),
	}
	if wide {
		cells = append(cells, terminal.Cell{Text: c.affinity()}, terminal.Faint.Of(ruled(c.Shares, c.Rule, wide)))
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

// cpuCount returns the number of CPUs of a set in list format.
func cpuCount(set string) string {
	if set == "" {
		return ""
	}
	parsed, err := cpuset.Parse(set)
	if err != nil {
		return "?" // The set itself is printed beside it.
	}
	return strconv.Itoa(parsed.Len())
}

// ShortCPUs shortens a set in list format for reading; see CPUs.
func ShortCPUs(list string) string {
	set, err := cpuset.Parse(list)
	if err != nil {
		return list
	}
	return CPUs(set)
}

// cpuText returns a set in list format, shortened unless wide is set.
func cpuText(list string, wide bool) string {
	if wide {
		return list
	}
	return ShortCPUs(list)
}

// nodesText returns the NUMA nodes of the CPUs and, if they differ, those of the memory.
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

func blocksText(blocks []PlanBlock) string {
	parts := make([]string, 0, len(blocks))
	for _, b := range blocks {
		parts = append(parts, explain.Amount{Resource: b.Type, Value: b.Bytes}.Text())
	}
	return strings.Join(parts, " + ")
}

func milliCPUs(milli int64) string {
	if milli == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64)
}

func number(resource string, n int64) string {
	if request.IsMemory(resource) {
		return request.RoundedBytes(n)
	}
	return strconv.FormatInt(n, 10)
}

func (n NodeTotals) text(style terminal.Style) string {
	var out strings.Builder
	if n.ManagesCPUs {
		shared := terminal.Plain.Of(ShortCPUs(n.SharedCPUs))
		if shared.Text == "" {
			shared = terminal.Bad.Of("empty")
		}
		reserved := ""
		if n.ReservedCPUs != "" {
			reserved = "(reserved for the system: " + ShortCPUs(n.ReservedCPUs) + ")"
		}
		out.WriteString(style.Paragraph("", "  ", terminal.Faint.Of("Node shared pool"), shared, terminal.Plain.Of(reserved)))
		if n.IsolatedCPUs != "" {
			free := "(free: " + cmp.Or(ShortCPUs(n.FreeIsolatedCPUs), "none") + ")"
			out.WriteString(style.Paragraph("", "  ", terminal.Faint.Of("Isolated CPUs"), terminal.Plain.Of(ShortCPUs(n.IsolatedCPUs)), terminal.Plain.Of(free)))
		}
	}
	out.WriteString(n.table().Text(style))
	if n.Classes > 0 {
		out.WriteString(style.Paragraph("", "  ", terminal.Faint.Of("Classes of the caches"), terminal.Plain.Of(fmt.Sprintf("%d of %d free", n.FreeClasses, n.Classes))))
	}
	for _, group := range n.Groups {
		out.WriteString(style.Paragraph("", "  ", terminal.Faint.Of("NUMA nodes "+nodeList(group)+" serve memory together: no pod of one NUMA node fits there until they are free")))
	}
	return out.String()
}

// table returns a table with a row for each NUMA node that has resources for pods.
func (n NodeTotals) table() *terminal.Table {
	t := &terminal.Table{Columns: terminal.Columns(">NUMA NODE", ">FREE CPUS")}
	for _, name := range n.types {
		t.Columns = append(t.Columns, terminal.Column{Title: "FREE " + strings.ToUpper(strings.TrimSuffix(name, unitOf(name))) + unitOf(name), Align: terminal.Right})
	}
	for _, resource := range n.devices {
		t.Columns = append(t.Columns, terminal.Column{Title: "FREE " + resource, Align: terminal.Right})
	}
	if n.Classes > 0 {
		t.Columns = append(t.Columns, terminal.Column{Title: "FREE L3 WAYS", Align: terminal.Right}, terminal.Column{Title: "FREE BANDWIDTH", Align: terminal.Right})
	}
	for _, node := range n.NUMANodes {
		row := []string{strconv.Itoa(node.Node), ""}
		if node.CPUs > 0 {
			row[1] = fmt.Sprintf("%d of %d", node.FreeCPUs, node.CPUs)
		}
		for _, name := range n.types {
			free := ""
			if at := slices.IndexFunc(node.Memory, func(t TypeTotal) bool { return t.Type == name && t.Total > 0 }); at >= 0 {
				free = request.RoundedBytes(node.Memory[at].Free) + " of " + request.RoundedBytes(node.Memory[at].Total)
			}
			row = append(row, free)
		}
		for _, resource := range n.devices {
			free := ""
			if at := slices.IndexFunc(node.Devices, func(d DeviceTotal) bool { return d.Resource == resource }); at >= 0 {
				free = fmt.Sprintf("%d of %d", node.Devices[at].Free, node.Devices[at].Total)
			}
			row = append(row, free)
		}
		if n.Classes > 0 {
			row = append(row, partOf(node.FreeWays, node.Ways, ""), partOf(node.FreeBandwidth, node.Bandwidth, "%"))
		}
		if slices.ContainsFunc(row[1:], func(cell string) bool { return cell != "" }) {
			t.Row(row...)
		}
	}
	return t
}

// unitOf returns the part of a huge page type that keeps its case: "2Mi" of "hugepages-2Mi".
func unitOf(typ string) string {
	_, size, _ := strings.Cut(typ, "-")
	return size
}
