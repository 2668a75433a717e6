package hollow

import (
	"fmt"
	"maps"
	"slices"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
)

// inspect returns the node's state, and what is wrong with it.
func (n *Node) inspect() NodeState {
	out := NodeState{Name: n.Name, Kind: n.Kind.Name, Grants: map[string]string{}}
	n.host.inspect(&out)
	return out
}

// inspect implements host. The agent's state is judged by its own check, by counts that share no
// code with that check, and by the cgroups.
func (n *managed) inspect(out *NodeState) {
	s := n.state()
	if out.see(s) {
		out.Wrong = append(out.Wrong, doubleBytes(s, chargedBy(s.Grants()))...)
		out.Wrong = append(out.Wrong, wrongCgroups(s, n.runtime.Observe())...)
	}
}

// see takes in the state that an agent has, and judges it, apart from the bytes that are assigned.
// It reports whether there is one.
func (out *NodeState) see(s *node.State) bool {
	if s == nil {
		out.Away = true
		return false
	}
	if err := s.Check(); err != nil {
		out.Wrong = append(out.Wrong, err.Error())
	}
	for _, g := range s.Grants() {
		text, err := grantform.Encode(g)
		if err != nil {
			out.Wrong = append(out.Wrong, fmt.Sprintf("pod %s: %v", g.Pod.ID(), err))
		}
		out.Grants[g.Pod.UID] = string(text)
	}
	out.Wrong = append(out.Wrong, doubleCPUs(s.Grants())...)
	out.Wrong = append(out.Wrong, doubleDevices(s.Grants())...)
	return true
}

// doubleCPUs returns the CPUs that are assigned to two pods.
func doubleCPUs(grants []*node.Grant) (wrong []string) {
	owner := map[int]string{}
	for _, g := range grants {
		for _, cpu := range g.CPUs().IDs() {
			if before, taken := owner[cpu]; taken {
				wrong = append(wrong, fmt.Sprintf("CPU %d is assigned to %s and to %s", cpu, before, g.Pod.ID()))
			}
			owner[cpu] = g.Pod.ID()
		}
	}
	return wrong
}

// doubleDevices returns the devices that are assigned to two pods.
func doubleDevices(grants []*node.Grant) (wrong []string) {
	owner := map[string]string{}
	for _, g := range grants {
		for _, c := range g.Containers {
			for _, a := range c.Devices {
				for _, id := range a.IDs {
					name := a.Resource + " " + id
					if before, taken := owner[name]; taken && before != g.Pod.UID {
						wrong = append(wrong, fmt.Sprintf("device %s is assigned to %s and to %s", name, before, g.Pod.UID))
					}
					owner[name] = g.Pod.UID
				}
			}
		}
	}
	return wrong
}

// charge is what bytes are charged to: a type of memory of a set of NUMA nodes.
type charge struct {
	kind  string
	nodes mask.Mask
}

// chargedBy sums up the bytes of grants.
func chargedBy(grants []*node.Grant) map[charge]int64 {
	sums := map[charge]int64{}
	for _, g := range grants {
		for _, b := range g.Charged() {
			sums[charge{b.Type, b.Nodes}] += b.Size
		}
	}
	return sums
}

// doubleBytes returns the sets of NUMA nodes that have more bytes assigned than they have. The
// amounts that are charged to NUMA nodes of a set, and to no other, must fit into the set.
func doubleBytes(s *node.State, charged map[charge]int64) (wrong []string) {
	reserved := s.Policy().ReservedMemory
	for set := range maps.Keys(charged) {
		used, there := int64(0), int64(0)
		for k, bytes := range charged {
			if k.kind == set.kind && set.nodes.Contains(k.nodes) {
				used += bytes
			}
		}
		for _, unit := range s.Machine().Nodes() {
			if set.nodes.Has(unit.ID) {
				there += amount(unit, set.kind) - reserved[unit.ID][set.kind]
			}
		}
		if used > there {
			wrong = append(wrong, fmt.Sprintf("NUMA nodes %s have %d bytes of %s, and %d are assigned", set.nodes, there, set.kind, used))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// amount returns the amount of a type of memory on a NUMA node.
func amount(n machine.Node, kind string) int64 {
	rest := n.Memory
	for _, pages := range n.HugePages {
		bytes := pages.SizeKiB << 10 * pages.Count
		if machine.HugePageType(pages.SizeKiB) == kind {
			return bytes
		}
		rest -= bytes
	}
	return rest
}

// wrongCgroups returns the containers that do not run where their grants are, and those that run on
// the CPUs of another pod.
func wrongCgroups(s *node.State, running []converge.Observed) (wrong []string) {
	wanted := converge.Want(s)
	for _, o := range running {
		who := o.Pod + "/" + o.Container
		if want := wanted.Setting(o.Pod, o.Container); !want.CPUs.Equal(o.CPUs) || want.Mems != o.Mems {
			wrong = append(wrong, fmt.Sprintf("container %s runs on CPUs %s and NUMA nodes %s; expected %s and %s", who, o.CPUs, o.Mems, want.CPUs, want.Mems))
		}
		for _, g := range s.Grants() {
			if g.Pod.UID != o.Pod && g.CPUs().Intersects(o.CPUs) {
				wrong = append(wrong, fmt.Sprintf("container %s runs on CPUs %s of pod %s", who, g.CPUs().Intersection(o.CPUs), g.Pod.ID()))
			}
		}
	}
	return wrong
}
