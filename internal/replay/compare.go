package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/node"
)

// Difference is one field in which an answer is not what is recorded.
type Difference struct {
	Scenario string
	// Event is the index of the event; -1 for the start.
	Event int
	Field string
	// Got and Want are JSON.
	Got, Want string
}

// String is one line.
func (d Difference) String() string {
	at := "start"
	if d.Event >= 0 {
		at = "event " + strconv.Itoa(d.Event)
	}
	return fmt.Sprintf("%s: %s: %s: got %s, want %s", d.Scenario, at, d.Field, d.Got, d.Want)
}

// comparison collects the differences of one scenario.
type comparison struct {
	scenario    string
	event       int
	differences []Difference
}

// Compare holds a result against the recorded one, by the rules of docs/rules/format.md.
func Compare(s *Scenario, got, want *Result) []Difference {
	c := &comparison{scenario: s.Name, event: -1}
	c.equal("startError", got.StartError != "", want.StartError != "")
	if got.StartError != "" || want.StartError != "" {
		return c.differences
	}
	if got.Start != nil && want.Start != nil {
		c.view("start.", *got.Start, *want.Start)
	}
	c.equal("allocatableCPUs", got.AllocatableCPUs, want.AllocatableCPUs)
	c.equal("events", len(got.Answers), len(want.Answers))
	c.answers(got.Answers, want.Answers)
	return c.differences
}

func (c *comparison) answers(got, want []Answer) {
	known := map[string]bool{}
	stale := false // the reference still holds what a refused pod had taken
	for i := range min(len(got), len(want)) {
		c.event = i
		g, w := &got[i], &want[i]
		if g.Op != w.Op {
			c.equal("op", g.Op, w.Op)
			return
		}
		admitted := w.Admitted != nil && *w.Admitted
		switch {
		case w.Op == Admit:
			stale = !admitted
		case w.Op == RemovePod || w.Op == DropStale:
			stale = false
		}
		if c.answer(g, w, known[w.Pod]); !stale {
			c.state(g, w)
		}
		switch {
		case admitted:
			known[w.Pod] = true
		case w.Op == RemovePod:
			delete(known, w.Pod)
		}
	}
}

func (c *comparison) answer(got, want *Answer, known bool) {
	c.equal("startError", got.StartError != "", want.StartError != "")
	c.equal("admitted", got.Admitted, want.Admitted)
	c.equal("qos", got.QoS, want.QoS)
	if !sameReason(got, want) {
		c.equal("reason", got.Reason, want.Reason)
	}
	if want.Admitted == nil || !*want.Admitted || got.Admitted == nil || !*got.Admitted {
		return
	}
	if !known {
		c.equal("affinity", got.Affinity, want.Affinity)
	}
	if want.Cgroup != nil {
		c.equal("cgroup", got.Cgroup, want.Cgroup)
	}
	if got.AtAdmit != nil && want.AtAdmit != nil {
		c.equal("atAdmit.cpu", clean(got.AtAdmit.CPU), clean(want.AtAdmit.CPU))
	}
}

// sameReason takes the reference's memory refusals for what they are.
func sameReason(got, want *Answer) bool {
	return got.Reason == want.Reason ||
		got.Reason == string(node.TopologyAffinityError) && want.Reason == string(node.UnexpectedAdmissionError) &&
			strings.Contains(want.Message, "[memorymanager]")
}

func (c *comparison) state(got, want *Answer) {
	c.view("", got.View, want.View)
	c.equal("isolation", got.Isolation, want.Isolation)
	c.equal("podQuotaDisabled", got.PodQuotaDisabled, want.PodQuotaDisabled)
}

func (c *comparison) view(prefix string, got, want View) {
	g, w := clean(got.CPU), clean(want.CPU)
	c.equal(prefix+"cpu.default", g.Default, w.Default)
	c.equal(prefix+"cpu.entries", g.Entries, w.Entries)
	c.equal(prefix+"cpu.podEntries", g.PodEntries, w.PodEntries)
	c.equal(prefix+"memory.entries", cleanBlocks(got.Memory.Entries), cleanBlocks(want.Memory.Entries))
	c.equal(prefix+"memory.podEntries", got.Memory.PodEntries, want.Memory.PodEntries)
	c.equal(prefix+"devices", got.Devices, want.Devices)
	if want.Memory.MachineState != nil {
		c.equal(prefix+"memory.machineState", grouped(got.Memory.MachineState), grouped(want.Memory.MachineState))
	}
}

// clean leaves out pods without entries.
func clean(v CPUView) CPUView {
	v.Entries = maps.Clone(v.Entries)
	maps.DeleteFunc(v.Entries, func(_ string, of map[string]string) bool { return len(of) == 0 })
	return v
}

// cleanBlocks leaves out containers that hold nothing, and orders blocks by type.
func cleanBlocks(entries map[string]map[string][]Block) map[string]map[string][]Block {
	out := map[string]map[string][]Block{}
	for uid, containers := range entries {
		for name, held := range containers {
			if len(held) == 0 {
				continue
			}
			held = slices.Clone(held)
			slices.SortFunc(held, func(a, b Block) int { return strings.Compare(a.Type, b.Type) })
			put(out, uid, name, held)
		}
	}
	return out
}

// grouped replaces what is reserved and free on a NUMA node by the sum over its group: inside a
// group the books drift.
func grouped(state map[string]NodeView) map[string]NodeView {
	out := map[string]NodeView{}
	for id, n := range state {
		sums := NodeView{NumberOfAssignments: n.NumberOfAssignments, Cells: n.Cells, Memory: map[string]Table{}}
		for typ, t := range n.Memory {
			t.Reserved, t.Free = 0, 0
			for _, cell := range n.Cells {
				member := state[strconv.Itoa(cell)].Memory[typ]
				t.Reserved += member.Reserved
				t.Free += member.Free
			}
			sums.Memory[typ] = t
		}
		out[id] = sums
	}
	return out
}

func (c *comparison) equal(field string, got, want any) {
	g, w := text(got), text(want)
	if g != w {
		c.differences = append(c.differences, Difference{c.scenario, c.event, field, g, w})
	}
}

// text is JSON in which no map and an empty one are the same.
func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if s := string(data); s != "null" {
		return s
	}
	return "{}"
}
