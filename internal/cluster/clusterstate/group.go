package clusterstate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
)

// groupNames names groups of nodes that have the same machine and policy, as people do: by the
// label with the instance type, or else by what the machine has. Names stay as they are while a
// Cluster changes.
type groupNames struct {
	machines func(digest string) (*machine.Machine, error)
	// texts has the descriptions of machines by digest, and keys the machines and policies of the
	// groups by base name.
	texts map[string]string
	keys  map[string][]string
}

func newGroupNames(machines func(digest string) (*machine.Machine, error)) groupNames {
	return groupNames{machines, map[string]string{}, map[string][]string{}}
}

// of returns the name of the group of a node. Where nodes with the same base name differ in machine
// or policy, the later ones get a number in brackets, which no label can have.
func (g groupNames) of(o *v1.Node, p *v1alpha1.PaddockNode) string {
	base := o.Labels[v1.LabelInstanceTypeStable]
	if base == "" {
		base = g.text(p)
	}
	key := p.Status.Machine + p.Status.PolicyDigest + strconv.Itoa(int(p.Status.MaxContainersPerPod))
	i := slices.Index(g.keys[base], key)
	if i < 0 {
		i = len(g.keys[base])
		g.keys[base] = append(g.keys[base], key)
	}
	if i == 0 {
		return base
	}
	return fmt.Sprintf("%s (%d)", base, i+1)
}

// text describes the machine and the devices of a node, such as "2 sockets, 96 cores, 8 NUMA nodes,
// 768Gi, 8 nvidia.com/gpu". If its machine is not known, the text is the beginning of the digest.
func (g groupNames) text(p *v1alpha1.PaddockNode) string {
	digest := p.Status.Machine
	text, known := g.texts[digest]
	if !known {
		m, err := g.machines(digest)
		if err != nil {
			return "machine-" + digest[:min(8, len(digest))]
		}
		text = machineText(m)
		g.texts[digest] = text
	}
	for i := range p.Status.Devices {
		if d := &p.Status.Devices[i]; len(d.Devices) > 0 {
			text += fmt.Sprintf(", %d %s", len(d.Devices), d.Resource)
		}
	}
	return text
}

func machineText(m *machine.Machine) string {
	var memory int64
	for _, n := range m.Nodes() {
		memory += n.Memory
	}
	count := func(n int, of string) string {
		if n == 1 {
			return "1 " + of
		}
		return fmt.Sprintf("%d %ss", n, of)
	}
	return strings.Join([]string{
		count(len(m.Sockets()), "socket"), count(len(m.Cores()), "core"), count(len(m.Nodes()), "NUMA node"), request.RoundedQuantity(memory),
	}, ", ")
}
