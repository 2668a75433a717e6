package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/rejection"
)

// Difference is one field in which an answer differs from the recording.
type Difference struct {
	Scenario string
	// Event is the index of the event, or -1 for the start.
	Event int
	Field string
	// Got and Want are JSON texts.
	Got, Want string
	// Follows is set if the states already differed before the event, so the difference follows
	// from an earlier one.
	Follows bool
}

// String formats the difference as one line.
func (d Difference) String() string {
	at := "start"
	if d.Event >= 0 {
		at = "event " + strconv.Itoa(d.Event)
	}
	return fmt.Sprintf("%s: %s: %s: got %s, expected %s", d.Scenario, at, d.Field, d.Got, d.Want)
}

// Comparison has the differences between a result and the recorded one.
type Comparison struct {
	Differences []Difference
	// Events counts the compared events. Apart counts those of them that began with different
	// states.
	Events, Apart int
	// Began reports for each of these events whether it began with equal states.
	Began []bool
}

// comparison is a Comparison in progress.
type comparison struct {
	Comparison
	scenario string
	event    int
	// apart is set while the states differ. It is cleared by the first event after which they are
	// equal again.
	apart bool
	// known are the pods that the reference has admitted and not removed.
	known map[string]bool
	// stale is set while the reference still has the resources of a rejected pod.
	stale bool
	// exact is set if reasons are compared literally, as TestQuirks does.
	exact bool
	// observed is set if the recording has only what an agent sees (Result.Observed). The state is
	// that of its last event.
	observed bool
}

// Compare compares a result of Follow with the recorded one, by the rules of docs/rules/format.md.
func Compare(s *Scenario, got, want *Result) Comparison {
	return compare(&comparison{scenario: s.Name, event: -1, known: map[string]bool{}}, got, want)
}

// CompareKubelet compares a result of Follow with Player.Kubelet as Compare does, but compares the
// reasons of rejections literally, and the accounting of memory NUMA node by NUMA node.
func CompareKubelet(s *Scenario, got, want *Result) Comparison {
	return compare(&comparison{scenario: s.Name, event: -1, known: map[string]bool{}, exact: true}, got, want)
}

func compare(c *comparison, got, want *Result) Comparison {
	c.equal("startError", got.StartError != "", want.StartError != "")
	if got.StartError != "" || want.StartError != "" {
		return c.Comparison
	}
	if got.Start != nil && want.Start != nil {
		c.view("start.", *got.Start, *want.Start)
	}
	if c.observed = want.Observed; !c.observed {
		c.equal("allocatableCPUs", got.AllocatableCPUs, want.AllocatableCPUs)
	}
	c.apart = len(c.Differences) > 0
	// Reserved CPUs affect every later decision but are in no later view.
	reserved := !c.observed && got.AllocatableCPUs != want.AllocatableCPUs
	for i := range min(len(got.Answers), len(want.Answers)) {
		c.event = i
		if !c.next(&got.Answers[i], &want.Answers[i]) {
			return c.Comparison
		}
		c.apart = c.apart || reserved
	}
	c.event = -1
	c.equal("events", len(got.Answers), len(want.Answers))
	return c.Comparison
}

// next compares one event. It reports whether another event can follow.
func (c *comparison) next(got, want *Answer) bool {
	c.Events++
	c.Began = append(c.Began, !c.apart)
	if c.apart {
		c.Apart++
	}
	if got.Op != want.Op {
		c.equal("op", got.Op, want.Op)
		return false
	}
	if got.ends() || want.ends() {
		c.equal("startError", got.StartError != "", want.StartError != "")
		c.equal("panic", got.Panic != "", want.Panic != "")
		c.equal("endless", got.Endless, want.Endless)
		return false
	}
	known := c.known[want.Pod]
	switch want.Op { // Track what the reference has after the event.
	case Admit:
		c.stale = !want.admitted()
		c.known[want.Pod] = want.admitted()
	case RemovePod:
		c.stale = false
		delete(c.known, want.Pod)
	case DropStale:
		c.stale = false
	case RemoveContainer, StopContainer, Reconcile, Restart:
	}
	c.answer(got, want, known)
	if !c.stale {
		before := len(c.Differences)
		c.state(got, want)
		c.apart = len(c.Differences) > before
	}
	return true
}

func (c *comparison) answer(got, want *Answer, known bool) {
	c.equal("admitted", got.Admitted, want.Admitted)
	if !c.observed {
		c.equal("qos", got.QoS, want.QoS)
	}
	// The reference reports memory that cannot be aligned as an unexpected error.
	same := got.Reason == want.Reason || !c.exact &&
		got.Reason == string(rejection.TopologyAffinityError) && want.Reason == string(rejection.UnexpectedAdmissionError) &&
		strings.Contains(want.Message, "[memorymanager]")
	if !same {
		c.equal("reason", got.Reason, want.Reason)
	}
	if !want.admitted() || !got.admitted() || c.observed {
		return
	}
	if !known {
		c.equal("affinity", got.Affinity, want.Affinity)
	}
	if want.Cgroup != nil {
		c.equal("cgroup", got.Cgroup, want.Cgroup)
	}
	c.equal("uncreated", slices.Sorted(maps.Keys(got.Uncreated)), slices.Sorted(maps.Keys(want.Uncreated)))
	if got.AtAdmit != nil && want.AtAdmit != nil {
		c.equal("atAdmit.cpu", clean(got.AtAdmit.CPU), clean(want.AtAdmit.CPU))
	}
}

func (c *comparison) state(got, want *Answer) {
	if c.observed && want.CPU.Entries == nil {
		return
	}
	c.view("", got.View, want.View)
	if c.observed {
		return
	}
	c.equal("isolation", leveled(got.Isolation, want.Isolation), want.Isolation)
	c.equal("podQuotaDisabled", got.PodQuotaDisabled, want.PodQuotaDisabled)
}

// leveled returns got without the isolation levels that the recording does not have: kubelets
// before 1.36 have none.
func leveled(got, want map[string]map[string]Isolation) map[string]map[string]Isolation {
	out := map[string]map[string]Isolation{}
	for uid, containers := range got {
		out[uid] = map[string]Isolation{}
		for name, is := range containers {
			if recorded, has := want[uid][name]; has && recorded.Level == "" {
				is.Level = ""
			}
			out[uid][name] = is
		}
	}
	return out
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
		if c.exact {
			c.equal(prefix+"memory.machineState", got.Memory.MachineState, want.Memory.MachineState)
		} else {
			c.equal(prefix+"memory.machineState", grouped(got.Memory.MachineState), grouped(want.Memory.MachineState))
		}
	}
}

// clean removes pods without entries.
func clean(v CPUView) CPUView {
	v.Entries = maps.Clone(v.Entries)
	maps.DeleteFunc(v.Entries, func(_ string, of map[string]string) bool { return len(of) == 0 })
	return v
}

// cleanBlocks removes containers without memory and sorts blocks by type.
func cleanBlocks(entries map[string]map[string][]Block) map[string]map[string][]Block {
	out := map[string]map[string][]Block{}
	for uid, containers := range entries {
		for name, assigned := range containers {
			if len(assigned) == 0 {
				continue
			}
			assigned = slices.Clone(assigned)
			slices.SortFunc(assigned, func(a, b Block) int { return strings.Compare(a.Type, b.Type) })
			put(out, uid, name, assigned)
		}
	}
	return out
}

// grouped replaces the reserved and free amounts of a NUMA node by the sums over its group, because
// the reference's accounting drifts within a group.
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
		c.Differences = append(c.Differences, Difference{c.scenario, c.event, field, g, w, c.apart})
	}
}

// text formats v as JSON. A nil map and an empty map have the same text.
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
