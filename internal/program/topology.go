package program

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// topologyCommand is one invocation of paddock topology.
type topologyCommand struct {
	machine string
	output  console.Form
}

func (c *topologyCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Show a machine's sockets, NUMA nodes, caches, cores and memory",
		Long: `Topology shows the machine as the kubelet's CPU, Memory and Topology Managers see
it: this one, or a recorded one. Of a node without Paddock, it combines the files that the node has, and
notes what they leave open.

  tree   for reading; sets of CPUs are shortened to patterns such as 0,2,…,62. GPUs, NICs, NVMe
         disks and accelerators have their NUMA node and their PCIe root
  table  a line for each NUMA node with exact values, for scripts
  json   cAdvisor's MachineInfo with the PCI devices, which --machine reads back; yaml is the same for reading. For the
         live machine, it has no names, ids, network addresses or disks, so you can share it.`,
		Example: `  paddock topology
  paddock topology --machine examples/machines/epyc-2s-nps4.json
  paddock topology -o json > node7.json
  ssh node7 paddock topology -o json | paddock topology --machine -
  mkdir node7                                  # of a node without Paddock
  ssh node7 lscpu -J -e=CPU,NODE,SOCKET,CORE,CACHE,ONLINE > node7/lscpu.json
  ssh node7 numactl -H > node7/numactl.txt     # the distances
  ssh node7 sudo cat /var/lib/kubelet/memory_manager_state > node7/memory_manager_state
  paddock topology --machine node7`,
		Args: console.NoArguments,
		RunE: c.run,
	}
	machineFlag(cmd, &c.machine)
	c.output.Register(cmd, "tree", "table", "json", "yaml")
	return cmd
}

func (c *topologyCommand) run(cmd *cobra.Command, _ []string) error {
	s := console.StreamsOf(cmd)
	found, err := s.Reader().Machine(c.machine)
	if err != nil {
		return err
	}
	s.Notes(found.Notes)
	switch c.output.Value {
	case "json":
		return found.WriteJSON(s.Stdout)
	case "yaml":
		var data bytes.Buffer
		if err := found.WriteJSON(&data); err != nil {
			return err
		}
		return s.Print("yaml", json.RawMessage(data.Bytes()), nil)
	}
	shown := view.Topology{Name: found.Name, Machine: found.Machine, Remarks: found.Remarks}
	for _, d := range found.PCI {
		id := strings.TrimPrefix(d.Vendor, "0x") + ":" + strings.TrimPrefix(d.Device, "0x")
		shown.PCI = append(shown.PCI, view.PCIDevice{
			Address: d.Address, Kind: d.Kind(), ID: id, NUMANode: d.NUMANode, Root: d.Root, Physical: d.Physical,
		})
	}
	text := shown.Table()
	if c.output.Value == "tree" {
		text = shown.Tree(s.Style())
	}
	_, err = io.WriteString(s.Stdout, text)
	return err
}
