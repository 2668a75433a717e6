package statefile

import (
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/form"
	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// content is a file with the members that have no field in File.
type content struct {
	File
	format, checksum string
}

// fileFields are the members of a file. Assemble writes them, because it has the bytes of each pod
// already.
var fileFields = form.Object[content]{
	form.Text("format", func(c *content) *string { return &c.format }).Always(),
	form.Number("version", func(c *content) *int { return &c.Version }).Always(),
	form.Number("generation", func(c *content) *uint64 { return &c.Generation }).Always(),
	form.Nested("machine", machineFields, func(c *content) *Machine { return &c.Machine }).Always(),
	form.Nested("policy", grantform.PolicyFields, func(c *content) *node.Policy { return &c.Policy }).Always(),
	(&form.List[content, node.Grant]{
		Name: "grants", Members: grantform.GrantFields,
		Len: func(c *content) int { return len(c.Grants) },
		At:  func(c *content, i int) *node.Grant { return c.Grants[i] },
		Add: func(c *content) { c.Grants = append(c.Grants, &node.Grant{}) },
		Who: func(g *node.Grant) string { return "pod " + g.Pod.ID() },
	}).Field().Always(),
	form.Text("checksum", func(c *content) *string { return &c.checksum }).Always(),
}

var machineFields = form.Object[Machine]{
	form.CPUs("cpus", func(m *Machine) *cpuset.Set { return &m.CPUs }),
	form.CPUs("isolated", func(m *Machine) *cpuset.Set { return &m.Isolated }),
	form.Nested("caches", cachesFields, func(m *Machine) *machine.Caches { return &m.Caches }),
	(&form.List[Machine, Node]{
		Name: "nodes", Indent: "\n ", Members: form.Object[Node]{
			form.Number("id", func(n *Node) *int { return &n.ID }).Always(),
			form.CPUs("cpus", func(n *Node) *cpuset.Set { return &n.CPUs }),
			form.Amounts("memory", func(n *Node) *request.Amounts { return &n.Memory }),
		},
		Len: func(m *Machine) int { return len(m.Nodes) },
		At:  func(m *Machine, i int) *Node { return &m.Nodes[i] },
		Add: func(m *Machine) { m.Nodes = append(m.Nodes, Node{}) },
	}).Field().Always(),
}

var cachesFields = form.Object[machine.Caches]{
	form.Number("classes", func(c *machine.Caches) *int { return &c.Classes }),
	form.Number("ways", func(c *machine.Caches) *int { return &c.Ways }),
	form.Number("leastWays", func(c *machine.Caches) *int { return &c.LeastWays }),
	form.Ways("hardwareWays", func(c *machine.Caches) *uint32 { return &c.HardwareWays }),
	form.Flag("sparse", func(c *machine.Caches) *bool { return &c.Sparse }),
	form.Flag("codeAndData", func(c *machine.Caches) *bool { return &c.CodeAndData }),
	form.Number("leastBandwidth", func(c *machine.Caches) *int { return &c.LeastBandwidth }),
	form.Number("bandwidthStep", func(c *machine.Caches) *int { return &c.BandwidthStep }),
	form.Flag("absoluteBandwidth", func(c *machine.Caches) *bool { return &c.AbsoluteBandwidth }),
}
