package program

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// checkConfigCommand is one invocation of paddock check-config.
type checkConfigCommand struct {
	machine string
	devices string
	as      asFlag
	output  console.Form
}

// checked is the output of check-config.
type checked struct {
	*kubeletcfg.Verdict
	// Quirks are the faults of the kubelet that pods can meet with this configuration. They are set
	// with --as.
	Quirks []quirk.Quirk `json:"quirks,omitempty"`
	// Devices are the devices of --devices.
	Devices []checkedDevices `json:"devices,omitempty"`
}

// checkedDevices are the devices of one extended resource.
type checkedDevices struct {
	Resource string `json:"resource"`
	Count    int    `json:"count"`
	// NUMANodes are the NUMA nodes near which there are devices.
	NUMANodes []int `json:"numaNodes,omitempty"`
}

func (c *checkConfigCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check-config FILE",
		Short: "Show whether a kubelet and Paddock would start with a KubeletConfiguration",
		Long: `Check-config checks the settings of the CPU, Memory and Topology Managers for a machine, as a
kubelet 1.36 does when it starts: policies, options and the gates that they need, combinations
that exclude each other, reserved CPUs, and the sum of reservedMemory, for which it shows valid
values. It warns about settings that have no effect or an unexpected effect. Every finding names
the field. With --as, it also lists the known faults of that kubelet that matter with this
configuration on this machine: which pods are affected, and how to avoid them.

A list of --devices is checked for the machine: its NUMA nodes, and ids that are there twice. The output shows
whether the policy aligns CPUs and memory with these devices.

FILE is a KubeletConfiguration, or the answer of a kubelet's /configz, which also has the flags of that
kubelet. It can be a directory: /configz there is preferred, then config.yaml or the only
KubeletConfiguration, with the drop-ins of config.yaml.d or another directory NAME.d merged into it as
by the kubelet's --config-dir. A finding in a drop-in names it. Of a directory that the script of "paddock collect"
made, the machine is used too.

Exit codes: 0 both start, 1 error, 2 one of them does not.`,
		Example: `  paddock check-config /var/lib/kubelet/config.yaml
  paddock check-config --machine node7.json kubelet.yaml
  kubectl get --raw /api/v1/nodes/node7/proxy/configz | paddock check-config --machine node7.json -`,
		Args: console.Arguments(1, 1, "FILE: a KubeletConfiguration, the answer of /configz, or a directory with one of them"),
		RunE: c.run,
	}
	machineFlag(cmd, &c.machine)
	cmd.Flags().StringVar(&c.devices, "devices", "", "check this list of the node's devices as well: an inventory `FILE` (see examples/devices)")
	c.as.register(cmd, "list the known faults of this kubelet that matter with the configuration")
	c.output.Register(cmd, "text", "json", "yaml")
	return cmd
}

func (c *checkConfigCommand) run(cmd *cobra.Command, args []string) error {
	if c.as.auto {
		return errors.New("--as auto: a configuration does not say which kubelet reads it; name the kubelet, such as --as " + newestKubelet())
	}
	s := console.StreamsOf(cmd)
	r := s.Reader()
	r.Minor = c.as.version.Minor
	r.Names.Policy = "" // The file is an argument, so no flag names it.
	config, err := r.KubeletConfig(args[0])
	if err != nil {
		return err
	}
	s.Notes(config.Notes())
	if folder, err := treatment.FolderOf(args[0]); err == nil {
		c.machine = folder.MachineOr(c.machine)
	}
	found, err := r.Machine(c.machine)
	if err != nil {
		return err
	}
	s.Notes(found.Notes)
	verdict, err := config.Verdict(found.Machine, found.Offline)
	if err != nil {
		return err
	}
	verdict.File, verdict.Machine = config.Name(), found.Name
	devices, err := r.Devices(c.devices, found.Machine)
	if err != nil {
		return err
	}
	result := checked{Verdict: verdict, Devices: checkedDevicesOf(devices)}
	aligns := false
	if policy, err := config.ResolveOffline(found.Machine, found.Offline); err == nil {
		aligns = policy.Topology != node.TopologyNone
	}
	if policy, err := config.ResolveOffline(found.Machine, found.Offline); err == nil && c.as.kubelet() {
		setup := quirk.Setup{ByNumber: !config.NamesReserved()}
		as := quirk.New(c.as.version)
		result.Quirks = append(as.Start(found.Machine, policy, setup), as.Of(found.Machine, policy)...)
	}
	text := func() string {
		return verdictText(c.judge(), verdict, s.Style()) + devicesText(result.Devices, verdict, aligns, s.Style()) + quirksText(c.as.version.Name(), result.Quirks, s.Style())
	}
	if err := s.Document(c.output.Value, console.ConfigurationCheck, result, text); err != nil {
		return err
	}
	if !verdict.KubeletStarts || !verdict.PaddockStarts {
		return &console.ExitError{Code: 2}
	}
	return nil
}

func checkedDevicesOf(inventory *device.Inventory) (all []checkedDevices) {
	for _, name := range inventory.Resources() {
		all = append(all, checkedDevices{Resource: name, Count: len(inventory.Devices(name)), NUMANodes: inventory.Nodes(name).Nodes()})
	}
	return all
}

// devicesText lists the devices and, if the configuration is valid, whether the policy aligns CPUs
// and memory with them.
func devicesText(all []checkedDevices, v *kubeletcfg.Verdict, aligns bool, style terminal.Style) string {
	if len(all) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteByte('\n')
	for _, d := range all {
		text := view.Number(d.Count) + " " + d.Resource + ", near no NUMA node"
		if near := mask.Of(d.NUMANodes...); !near.IsEmpty() {
			text = view.Number(d.Count) + " " + d.Resource + " on " + near.Text()
		}
		out.WriteString(style.Paragraph("  ", "    ", terminal.Plain.Of("devices: "+text)))
	}
	switch {
	case v.Policy == "":
	case aligns:
		out.WriteString(style.Paragraph("  ", "    ", terminal.Plain.Of("the policy aligns the CPUs and the memory of a container with its devices, if they are exclusive")))
	default:
		out.WriteString(style.Paragraph("  ", "    ", terminal.Warn.Of("warning:"), terminal.Plain.Of("topologyManagerPolicy none aligns nothing with devices")))
	}
	return out.String()
}

// judge returns the name of the kubelet to whose start the verdict applies.
func (c *checkConfigCommand) judge() string {
	if c.as.kubelet() {
		return c.as.version.Name()
	}
	return behavior.Golden().Name()
}

// verdictText formats a verdict for reading, with the answers first.
func verdictText(kubelet string, v *kubeletcfg.Verdict, style terminal.Style) string {
	var out strings.Builder
	answer := func(name string, starts bool) {
		word, tone := "starts with it", terminal.Good
		if !starts {
			word, tone = "does not start with it", terminal.Bad
		}
		fmt.Fprintf(&out, "  %s %s\n", name, style.Paint(tone, word))
	}
	fmt.Fprintf(&out, "%s on machine %s:\n", style.Paint(terminal.Strong, v.File), style.Paint(terminal.Plain, v.Machine))
	answer(kubelet, v.KubeletStarts)
	answer("Paddock     ", v.PaddockStarts)
	if v.Policy != "" {
		policy := terminal.Table{Columns: make([]terminal.Column, 2)}
		title := "  policy:"
		for _, part := range view.PolicyList(v.Policy) {
			policy.Row(title, part)
			title = ""
		}
		out.WriteString(policy.Text(style))
	}
	for _, p := range v.Problems {
		differs := ""
		switch {
		case p.Log == "":
			differs = " (the kubelet starts, but calculates wrongly)"
		case !p.Paddock:
			differs = " (Paddock has no such limit)"
		}
		out.WriteString("\n" + style.Paragraph("  ", "    ", terminal.Bad.Of("problem:"), terminal.Plain.Of(p.Field+in(p.File)+": "+p.Why+differs)))
		out.WriteString(style.Paragraph("    ", "    ", terminal.Plain.Of("do: "+p.Do)))
		if p.Log != "" {
			fmt.Fprintf(&out, "    log: %s\n", style.Paint(terminal.Faint, p.Log)) // On one line, to search for it.
		}
	}
	if len(v.Reserved) > 0 {
		out.WriteString("\n  valid values:\n    reservedMemory:\n")
		for _, r := range v.Reserved {
			fmt.Fprintf(&out, "      - %s\n", r)
		}
	}
	for _, w := range v.Warnings {
		out.WriteString("\n" + style.Paragraph("  ", "    ", terminal.Warn.Of("warning:"), terminal.Plain.Of(w.Field+in(w.File)+": "+w.Why)))
	}
	return out.String()
}

// in names the drop-in that set a field, if any.
func in(file string) string {
	if file == "" {
		return ""
	}
	return " in " + file
}

// quirksText lists the faults of a kubelet with their ids, which paddock rule explains.
func quirksText(kubelet string, quirks []quirk.Quirk, style terminal.Style) string {
	var out strings.Builder
	for _, q := range quirks {
		fmt.Fprintf(&out, "\n  %s %s\n    more: paddock rule %s\n", style.Paint(terminal.Warn, kubelet+":"), style.Paint(terminal.Plain, q.Text), q.ID)
	}
	return out.String()
}
