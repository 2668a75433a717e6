package stateview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/request"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// Diff has the differences between two state files.
type Diff struct {
	Old     string   `json:"old"`
	New     string   `json:"new"`
	Changes []Change `json:"changes"`
}

// Change is one difference. Old or New is empty if only the other file has the thing.
type Change struct {
	// Pod is the namespace and name, or the UID. It is empty for a property of the node.
	Pod string `json:"pod,omitempty"`
	// Container is empty for a property of the pod.
	Container string `json:"container,omitempty"`
	// What is "policy", "node shared pool", "pod", "pool CPUs", "CPUs", "pool memory", "memory",
	// "pool cache" or "cache".
	What string `json:"what"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// DiffOf compares what both files have: CPUs if both have CPUs, memory if both have memory. It
// returns an error if the files have nothing in common.
func DiffOf(before, now *State) (Diff, error) {
	d := Diff{Old: before.File, New: now.File, Changes: []Change{}}
	memory := kubeletstate.MemoryManager.String()
	cpus, bytes := before.Manager != memory && now.Manager != memory, before.Manager != kubeletstate.CPUManager.String() && now.Manager != kubeletstate.CPUManager.String()
	if !cpus && !bytes {
		return d, fmt.Errorf("%s is a state of the %s and %s of the %s: they have nothing in common; name two files of one manager", before.File, before.Manager, now.File, now.Manager)
	}
	if before.Manager == now.Manager && before.Manager != "Paddock" {
		d.add(Change{What: "policy", Old: before.Policy, New: now.Policy})
		if before.Valid != now.Valid { // A kubelet does not start with the one that is not valid.
			d.add(Change{What: "checksum", Old: validity(before), New: validity(now)})
		}
	}
	if cpus {
		d.add(Change{What: "node shared pool", Old: pooled(before), New: pooled(now)})
	}
	old, all := podsByUID(before), podsByUID(now)
	for _, uid := range slices.Sorted(maps.Keys(union(old, all))) {
		b, wasThere := old[uid]
		n, isThere := all[uid]
		title := cmp.Or(n.Name, b.Name, uid)
		if wasThere != isThere {
			d.add(Change{Pod: title, What: "pod", Old: there(wasThere), New: there(isThere)})
		}
		if cpus {
			d.assigned(title, b, n, "CPUs", func(a Assigned) string { return a.CPUs })
		}
		if bytes {
			d.assigned(title, b, n, "memory", memoryText)
		}
		if before.Manager == "Paddock" && now.Manager == "Paddock" {
			d.assigned(title, b, n, "cache", func(a Assigned) string { return view.SharesText(a.Cache) })
		}
	}
	return d, nil
}

// validity describes the checksum of a file.
func validity(s *State) string {
	if s.Valid {
		return "valid"
	}
	return "not valid: " + cmp.Or(s.DataChecksum, s.Checksum)
}

// add adds a change if old and new differ.
func (d *Diff) add(c Change) {
	if c.Old != c.New {
		d.Changes = append(d.Changes, c)
	}
}

// assigned compares the CPUs or the memory of the pool and the containers of a pod.
func (d *Diff) assigned(title string, before, now Pod, what string, text func(Assigned) string) {
	var pools [2]string
	for i, p := range []Pod{before, now} {
		if p.Pool != nil {
			pools[i] = text(*p.Pool)
		}
	}
	d.add(Change{Pod: title, What: "pool " + what, Old: pools[0], New: pools[1]})
	old, all := containersByName(before), containersByName(now)
	for _, name := range slices.Sorted(maps.Keys(union(old, all))) {
		d.add(Change{Pod: title, Container: name, What: what, Old: text(old[name]), New: text(all[name])})
	}
}

// Text formats the diff for reading.
func (d Diff) Text(style terminal.Style) string {
	if len(d.Changes) == 0 {
		return "no difference\n"
	}
	t := terminal.Table{Columns: terminal.Columns("POD / CONTAINER", "WHAT", "OLD", "NEW")}
	last := ""
	for _, c := range d.Changes {
		if c.Pod != last && c.Container != "" {
			t.Cells(terminal.Cell{Text: c.Pod, Tone: terminal.Strong})
		}
		name := c.Pod
		switch last = c.Pod; {
		case c.Container != "":
			name = "  " + c.Container
		case c.Pod == "":
			name = "the node"
		}
		t.Cells(terminal.Cell{Text: name, Tone: terminal.Strong}, terminal.Cell{Text: c.What}, terminal.Cell{Text: c.Old, Tone: terminal.Bad}, terminal.Cell{Text: c.New, Tone: terminal.Good})
	}
	return t.Text(style)
}

// podsByUID returns the pods of a file by UID. CPU states of version 1 have no pods and identify
// containers by id, so each container is a pod.
func podsByUID(s *State) map[string]Pod {
	pods := map[string]Pod{}
	for _, p := range s.Pods {
		if p.UID == "" {
			p.UID = p.Containers[0].Name
		}
		pods[p.UID] = p
	}
	return pods
}

func containersByName(p Pod) map[string]Assigned {
	containers := map[string]Assigned{}
	for _, c := range p.Containers {
		containers[c.Name] = c.Assigned
	}
	return containers
}

func union[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func there(is bool) string {
	if is {
		return "there"
	}
	return ""
}

// pooled returns the node shared pool of a file.
func pooled(s *State) string {
	if s.SharedPool == nil {
		return ""
	}
	return *s.SharedPool
}

// memoryText formats memory: "1 GiB of memory on NUMA 0".
func memoryText(a Assigned) string {
	var blocks []string
	for _, b := range a.Memory {
		blocks = append(blocks, fmt.Sprintf("%s of %s on NUMA %s", request.RoundedBytes(int64(b.Bytes)), b.Type, nodeList(b.NUMANodes)))
	}
	return strings.Join(blocks, ", ")
}
