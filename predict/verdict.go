package predict

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Certainty is how sure an answer is. The package comment explains the values.
type Certainty string

// The values of Certainty.
const (
	Certain   Certainty = "certain"
	Predicted Certainty = "predicted"
	Unsure    Certainty = "unsure"
)

// Verdict is the answer to one question.
type Verdict struct {
	// Fits is true if the node admits the pod.
	Fits bool
	// Reason is the reason in the status of the rejected pod, such as TopologyAffinityError.
	Reason string
	// Container is the container that could not be served, or "" if it is about the whole pod.
	// Message is a sentence for people. Only Plan and With set the two.
	Container, Message string
	// Resource is what is short, and Wanted how much of it was asked for: CPUs, bytes or devices.
	// They are empty and 0 if the reason is not an amount.
	Resource string
	Wanted   int64
	// Assignment is what the pod gets. It is nil if the pod does not fit. Only Plan and With set
	// it.
	Assignment *Assignment
	Certainty  Certainty
	// Doubts are sentences about what is not known, if the certainty is Unsure.
	Doubts []string
}

// Assignment is what a pod is assigned.
type Assignment struct {
	// Pool is the pool of a pod with a pod-level budget under scope pod. It is nil for other pods.
	Pool *Pool
	// Containers are those of the pod, in its order.
	Containers []ContainerAssignment
}

// Pool is what a pod has as a whole.
type Pool struct {
	// CPUs is a list such as "2-9".
	CPUs   string
	Memory []Memory
}

// ContainerAssignment is what a container is assigned.
type ContainerAssignment struct {
	Name string
	// CPUs are the CPUs that the container runs on, as a list such as "2-5": its own, or the part
	// of the pool of its pod that it shares. Empty means that it runs on the CPUs that no pod has.
	CPUs string
	// Exclusive is set if no other container runs on these CPUs at the same time.
	Exclusive bool
	// NUMANodes are the NUMA nodes of its memory (cpuset.mems), ascending. Empty means that its
	// memory is not pinned.
	NUMANodes []int
	// Memory has the amounts that are counted for the container.
	Memory []Memory
	// Devices are the ids of the devices that the node chose, ascending, by resource.
	Devices map[string][]string
	// Alignment is the choice of the Topology Manager. Nil means that it is not known.
	Alignment *Alignment
}

// Alignment is the choice of the Topology Manager for a container, or for the whole pod under scope
// pod.
type Alignment struct {
	// NUMANodes are the chosen NUMA nodes, ascending. All is set if nothing was chosen, and they
	// are all of the machine.
	NUMANodes []int
	All       bool
	// Preferred is set if every resource prefers them.
	Preferred bool
}

// Memory is an amount of memory, or of huge pages of one size, on NUMA nodes.
type Memory struct {
	// Resource is "memory", or a name such as "hugepages-1Gi".
	Resource  string
	Bytes     int64
	NUMANodes []int
}

// rejectedGates returns the verdict for a request that was made for other feature gates.
func (n *Node) rejectedGates(r *Request) (Verdict, bool) {
	if r.gates == n.policy.gates {
		return Verdict{}, false
	}
	return Verdict{
		Reason: "UnexpectedAdmissionError", Certainty: Unsure,
		Message: "the request was made for a policy with other feature gates: make one with NewRequest for the policy of this node",
		Doubts:  []string{"the request was made for a policy with other feature gates"},
	}, true
}

func (n *Node) verdict(r *Request, v node.Verdict) Verdict {
	out := Verdict{Fits: v.Fits, Reason: string(v.Reason), Resource: v.Resource, Wanted: v.Wanted, Certainty: n.policy.Certainty()}
	out.Doubts = append(append(out.Doubts, n.policy.doubts...), n.doubts...)
	out.Doubts = append(out.Doubts, node.DeviceDoubts(&r.pod, n.devices, n.policy.machine.machine.NodeMask())...)
	if len(out.Doubts) > 0 {
		out.Certainty = Unsure
	}
	return out
}

func assignmentOf(g *node.Grant) *Assignment {
	a := &Assignment{Containers: make([]ContainerAssignment, len(g.Containers))}
	if g.HasPool() {
		a.Pool = &Pool{CPUs: g.Pool.String(), Memory: memoryOf(g.PoolMemory)}
	}
	for i := range g.Containers {
		c := &g.Containers[i]
		out := ContainerAssignment{
			Name: g.Pod.Containers[i].Name, CPUs: c.CPUs.String(), Exclusive: g.Isolation(i) == node.ContainerIsolation,
			NUMANodes: c.MemoryNodes.Nodes(), Memory: memoryOf(c.Memory),
			Alignment: &Alignment{NUMANodes: c.Affinity.Mask.Nodes(), All: !c.Affinity.HasMask, Preferred: c.Affinity.Preferred},
		}
		for _, d := range c.Devices {
			if out.Devices == nil {
				out.Devices = map[string][]string{}
			}
			out.Devices[d.Resource] = slices.Clone(d.IDs)
		}
		a.Containers[i] = out
	}
	return a
}

func memoryOf(blocks []memory.Block) []Memory {
	var out []Memory
	for _, b := range blocks {
		out = append(out, Memory{b.Type, b.Size, b.Nodes.Nodes()})
	}
	return out
}

// guess is what an alignment that is not known may have been: whether it was preferred, and whether
// it was all NUMA nodes instead of those of what the pod has, chosen or not.
type guess struct{ preferred, all, chosen bool }

func guesses() []guess {
	return []guess{{true, false, true}, {false, false, true}, {true, true, false}, {false, true, false}, {true, true, true}, {false, true, true}}
}

// grant returns the assignment as a grant of the pod.
func (a *Assignment) grant(r *Request, n *Node, guessed guess) (*node.Grant, error) {
	if a == nil {
		return nil, errors.New("it is missing")
	}
	g := &node.Grant{Pod: r.pod, Containers: make([]node.ContainerGrant, len(r.pod.Containers))}
	if len(a.Containers) != len(r.pod.Containers) {
		return nil, fmt.Errorf("it has %d containers, and the pod has %d", len(a.Containers), len(r.pod.Containers))
	}
	var err error
	if a.Pool != nil {
		if g.Pool, err = cpuset.Parse(a.Pool.CPUs); err != nil {
			return nil, err
		}
		if g.PoolMemory, err = blocksOf(a.Pool.Memory); err != nil {
			return nil, err
		}
	}
	for i := range a.Containers {
		from, to := &a.Containers[i], &g.Containers[i]
		if name := r.pod.Containers[i].Name; from.Name != name {
			return nil, fmt.Errorf("container %d is %s, and that of the pod is %s", i, from.Name, name)
		}
		if err := from.grant(to); err != nil {
			return nil, fmt.Errorf("container %s: %w", from.Name, err)
		}
	}
	m := n.policy.machine.machine
	for i := range a.Containers {
		to := &g.Containers[i].Affinity
		to.Admit, to.HasMask, to.Preferred = true, true, guessed.preferred
		if known := a.Containers[i].Alignment; known != nil {
			if to.Mask, err = mask.Collect(known.NUMANodes); err != nil {
				return nil, err
			}
			to.HasMask, to.Preferred = !known.All, known.Preferred
			continue
		}
		has := g.Containers[i:][:1]
		if n.policy.policy.Scope == node.PodScope {
			has = g.Containers // The pod is aligned as one.
			to.Mask = m.NodesOf(g.Pool)
		}
		for j := range has {
			to.Mask |= m.NodesOf(has[j].CPUs) | has[j].MemoryNodes
			for _, d := range has[j].Devices {
				for _, id := range d.IDs {
					of, _ := n.devices.Device(d.Resource, id)
					to.Mask |= of.Nodes
				}
			}
		}
		if guessed.all || to.Mask.IsEmpty() {
			to.Mask, to.HasMask = m.NodeMask(), guessed.all && guessed.chosen
		}
	}
	return g, nil
}

func (c *ContainerAssignment) grant(to *node.ContainerGrant) (err error) {
	if to.CPUs, err = cpuset.Parse(c.CPUs); err != nil {
		return err
	}
	if to.Memory, err = blocksOf(c.Memory); err != nil {
		return err
	}
	if to.MemoryNodes, err = mask.Collect(c.NUMANodes); err != nil {
		return err
	}
	for name, ids := range c.Devices {
		to.Devices = append(to.Devices, device.Assigned{Resource: name, IDs: slices.Sorted(slices.Values(ids))})
	}
	slices.SortFunc(to.Devices, func(a, b device.Assigned) int { return strings.Compare(a.Resource, b.Resource) })
	return nil
}

func blocksOf(list []Memory) ([]memory.Block, error) {
	var out []memory.Block
	for _, m := range list {
		nodes, err := mask.Collect(m.NUMANodes)
		if err != nil {
			return nil, err
		}
		if m.Bytes < 0 || !request.IsMemory(m.Resource) {
			return nil, fmt.Errorf("%d bytes of %q are no memory", m.Bytes, m.Resource)
		}
		out = append(out, memory.Block{Type: m.Resource, Size: m.Bytes, Nodes: nodes})
	}
	slices.SortStableFunc(out, func(a, b memory.Block) int { return strings.Compare(a.Type, b.Type) })
	return out, nil
}
