package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// topologyCommand is one invocation of paddock topology.
type topologyCommand struct {
	machine string
	made    string
	nps     int
	output  console.Form
}

func (c *topologyCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Show a machine's sockets, NUMA nodes, caches, cores and memory",
		Long: `Topology shows the machine as the kubelet's CPU, Memory and Topology Managers see
it: this one, or a recorded one. Of a node without Paddock, it combines the files that the node has, and
notes what they leave open. With --nps, it shows the machine with another number of NUMA nodes per socket, and what
is assumed: to compare modes, save each with -o json and plan on it.

With --make, it shows a regular machine made of a few facts, as lscpu counts them: sockets, cores of a socket, threads
of a core, numa (the NUMA nodes of the machine), memory and gpus of the machine, and uncore (the cores of an uncore
cache). What is not given is 1; numa is then the number of sockets. Each NUMA node gets an equal part.

  tree   for reading; sets of CPUs are shortened to patterns such as 0,2,…,62. GPUs, NICs, NVMe
         disks and accelerators have their NUMA node and their PCIe root
  table  a line for each NUMA node with exact values, for scripts
  json   cAdvisor's MachineInfo with the PCI devices, which --machine reads back; yaml is the same for reading. For the
         live machine, it has no names, ids, network addresses or disks, so you can share it.`,
		Example: `  paddock topology
  paddock topology --machine examples/machines/epyc-2s-nps4.json
  paddock topology --machine node7.json --nps 1 -o json > node7-nps1.json
  paddock topology --make sockets=2,cores=48,threads=2,numa=2,memory=1Ti,gpus=8 -o json > made.json
  paddock topology -o json > node7.json
  ssh node7 paddock topology -o json | paddock topology --machine -
  mkdir node7                                  # of a node without Paddock
  ssh node7 lscpu -J -e=CPU,NODE,SOCKET,CORE,CACHE,ONLINE > node7/lscpu.json
  ssh node7 numactl -H > node7/numactl.txt     # the distances
  ssh node7 grep -H . /sys/devices/system/cpu/isolated /proc/cmdline > node7/isolation.txt
  ssh node7 grep -rH . /sys/fs/resctrl/info /sys/fs/resctrl/schemata > node7/resctrl.txt   # if it is mounted
  ssh node7 sudo cat /var/lib/kubelet/memory_manager_state > node7/memory_manager_state
  paddock topology --machine node7`,
		Args: console.NoArguments,
		RunE: c.run,
	}
	machineFlag(cmd, &c.machine)
	cmd.Flags().StringVar(&c.made, "make", "", "show a machine made of `FACTS`, such as sockets=2,cores=48,threads=2,numa=2,memory=1Ti,gpus=8")
	console.Exclude(cmd, "machine", "make")
	cmd.Flags().IntVar(&c.nps, "nps", 0, "show the machine with `N` NUMA nodes per socket: another NPS mode (AMD) or SNC mode (Intel)")
	c.output.Register(cmd, "tree", "table", "json", "yaml")
	return cmd
}

// read reads the machine, or makes it.
func (c *topologyCommand) read(cmd *cobra.Command, s console.Streams) (*discover.Found, error) {
	if !cmd.Flags().Changed("make") {
		return s.Reader().Machine(c.machine)
	}
	facts, err := discover.ParseFacts(c.made)
	if err != nil {
		return nil, fmt.Errorf("--make: %w", err)
	}
	found, err := discover.Made("made of "+c.made, facts)
	if err != nil {
		return nil, fmt.Errorf("--make: %w", err)
	}
	return found, nil
}

func (c *topologyCommand) run(cmd *cobra.Command, _ []string) error {
	s := console.StreamsOf(cmd)
	found, err := c.read(cmd, s)
	if err != nil {
		return err
	}
	s.Notes(found.Notes)
	if cmd.Flags().Changed("nps") {
		if found, err = found.InMode(c.nps); err != nil {
			return fmt.Errorf("--nps %d: %w", c.nps, err)
		}
		if c.output.Value != "tree" { // The tree has the remarks.
			s.Notes(found.Remarks)
		}
	}
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
