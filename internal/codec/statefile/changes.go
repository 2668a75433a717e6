package statefile

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Changes returns the differences between this machine and policy and those for which the file was
// written, as one line per change. Not every change matters; node.Restore checks that.
func (f *File) Changes(m *machine.Machine, p node.Policy) []string {
	now := Describe(m, p)
	if !f.Policy.CPU.DividesCaches || !p.CPU.DividesCaches {
		now.Caches = f.Machine.Caches // That the option has changed is among the settings.
	}
	lines := machineChanges(f.Machine, now)
	if was, is := f.Machine.Isolated, m.Isolation().Isolated; f.knowsIsolated() && !was.Equal(is) {
		lines = append(lines, fmt.Sprintf("isolated CPUs (boot parameter isolcpus): was %s, now %s", orNone(was.String()), orNone(is.String())))
	}
	then := grantform.Settings(f.Policy)
	for i, s := range grantform.Settings(p) {
		if s.Value != then[i].Value {
			lines = append(lines, fmt.Sprintf("%s: was %s, now %s", s.Name, orNone(then[i].Value), orNone(s.Value)))
		}
	}
	return lines
}

// knowsIsolated reports whether the file has the isolated CPUs of the machine. With
// cpu.IsolatedOnly there are always some, so a file without any does not record them.
func (f *File) knowsIsolated() bool {
	return !f.Machine.Isolated.IsEmpty() || f.Policy.CPU.Isolated == cpu.IsolatedFirst
}

// OtherSettings returns the settings of a policy that another one does not have, each as "name
// value".
func OtherSettings(p, other node.Policy) []string {
	var found []string
	others := grantform.Settings(other)
	for i, s := range grantform.Settings(p) {
		if s.Value != others[i].Value {
			found = append(found, s.Name+" "+orNone(s.Value))
		}
	}
	return found
}

func machineChanges(then, now Machine) []string {
	var lines []string
	differ := func(what, was, is string) {
		if was != is {
			lines = append(lines, fmt.Sprintf("%s: was %s, now %s", what, orNone(was), orNone(is)))
		}
	}
	differ("CPUs", then.CPUs.String(), now.CPUs.String())
	differ("division of the L3 caches", caches(then.Caches), caches(now.Caches))
	for _, n := range then.Nodes {
		if now.node(n.ID) == nil {
			lines = append(lines, fmt.Sprintf("NUMA node %d with CPUs %s and %s is gone", n.ID, orNone(n.CPUs.String()), n.Memory))
		}
	}
	for _, n := range now.Nodes {
		old := then.node(n.ID)
		if old == nil {
			lines = append(lines, fmt.Sprintf("NUMA node %d with CPUs %s and %s is new", n.ID, orNone(n.CPUs.String()), n.Memory))
			continue
		}
		differ(fmt.Sprintf("CPUs of NUMA node %d", n.ID), old.CPUs.String(), n.CPUs.String())
		differ(fmt.Sprintf("memory of NUMA node %d", n.ID), old.Memory.String(), n.Memory.String())
	}
	return lines
}

// caches describes how caches can be divided, as /sys/fs/resctrl/info lists it. It returns "" if
// they cannot be divided.
func caches(c machine.Caches) string {
	if c.IsEmpty() {
		return ""
	}
	text := fmt.Sprintf("%d classes", c.Classes)
	if c.Ways > 0 {
		text += fmt.Sprintf(", %d ways from %d on, hardware uses %s", c.Ways, c.LeastWays, cache.Ways(c.HardwareWays))
	}
	if c.DividesBandwidth() {
		text += fmt.Sprintf(", memory bandwidth from %d%% on in steps of %d%%", c.LeastBandwidth, c.BandwidthStep)
	}
	for _, x := range []struct {
		is   bool
		text string
	}{{c.Sparse, "ways with gaps"}, {c.CodeAndData, "code and data apart"}, {c.AbsoluteBandwidth, "memory bandwidth in GB/s"}} {
		if x.is {
			text += ", " + x.text
		}
	}
	return text
}

func (m *Machine) node(id int) *Node {
	for i := range m.Nodes {
		if m.Nodes[i].ID == id {
			return &m.Nodes[i]
		}
	}
	return nil
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
