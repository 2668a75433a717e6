package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/paddock-project/paddock/internal/agent"
	"github.com/paddock-project/paddock/internal/bounded"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/devicefile"
	"github.com/paddock-project/paddock/internal/discover"
	"github.com/paddock-project/paddock/internal/view"
)

// maxFile bounds what is read of a file that a flag names, in bytes. The MachineInfo
// of the largest machines is below 1 MiB.
const maxFile = 64 << 20

// machineFlag is --machine, the same in every command.
type machineFlag struct{ from string }

func (f *machineFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.from, "machine", discover.LiveName,
		"\"live\" for this machine, a `FILE` written by \"paddock topology -o json\", or \"-\" for standard input")
}

// load reads the machine that the flag names.
func (f *machineFlag) load(stdin io.Reader) (*discover.Found, error) {
	switch f.from {
	case discover.LiveName:
		return discover.Live(os.DirFS("/"))
	case "":
		return nil, fmt.Errorf(`--machine is empty; want "live" or the name of a file`)
	}
	data, err := readInput(f.from, stdin)
	if err != nil {
		return nil, fmt.Errorf("--machine: %w", err)
	}
	return discover.Read(f.from, data)
}

// quotaUsage is the help of --cpu-quota, the same in every command.
const quotaUsage = "whose CFS quotas apply beside exclusive containers: isolated, so that no sibling can throttle them, or kubelet, as the kubelet does"

// quotaFlag is --cpu-quota. The zero value is the default.
type quotaFlag struct{ mode string }

func (f *quotaFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.mode, "cpu-quota", agent.QuotaIsolated, quotaUsage)
}

// policy is what the flag means.
func (f *quotaFlag) policy() (node.QuotaPolicy, error) {
	config := agent.DefaultCPUQuota()
	if f.mode == agent.QuotaKubelet || f.mode == agent.QuotaIsolated || f.mode == "" {
		config.Mode = cmp.Or(f.mode, config.Mode)
		return config.Policy()
	}
	return node.QuotaPolicy{}, fmt.Errorf("--cpu-quota: %q is unknown; want %s or %s", f.mode, agent.QuotaIsolated, agent.QuotaKubelet)
}

// noArguments is for commands that are told everything by flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q: %s takes no arguments, only flags; see %s --help", args[0], cmd.Name(), cmd.CommandPath())
	}
	return nil
}

// readInput reads a file that was named on the command line, "-" being stdin.
func readInput(name string, stdin io.Reader) ([]byte, error) {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		stdin = file
	}
	data, err := bounded.Read(name, stdin, maxFile)
	if err != nil {
		return nil, err
	}
	return data, nil
}

// outputFlag is -o, --output: one of a few words, the first being the default.
type outputFlag struct {
	value   string
	allowed []string
}

func (f *outputFlag) register(cmd *cobra.Command, allowed ...string) {
	f.value, f.allowed = allowed[0], allowed
	cmd.Flags().VarP(f, "output", "o", "form of the output: "+f.words())
	complete := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return allowed, cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(err) // The flag was defined three lines above.
	}
}

func (f *outputFlag) words() string {
	last := len(f.allowed) - 1
	return strings.Join(f.allowed[:last], ", ") + " or " + f.allowed[last]
}

// String, Set and Type make it a pflag.Value.
func (f *outputFlag) String() string { return f.value }

// Set takes one of the words; see String.
func (f *outputFlag) Set(value string) error {
	if !slices.Contains(f.allowed, value) {
		return fmt.Errorf("want %s", f.words())
	}
	f.value = value
	return nil
}

// Type is what help prints for the value; see String.
func (f *outputFlag) Type() string { return "FORM" }

// styleFor asks for colours where out is a terminal and nobody minds
// (https://no-color.org).
func styleFor(out io.Writer) view.Style {
	file, ok := out.(*os.File)
	return view.Style{Color: ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))}
}

// readDevices reads the inventory that --devices names; none is an empty one.
func readDevices(name string, m *machine.Machine, stdin io.Reader) (*device.Inventory, error) {
	if name == "" {
		return device.NewInventory(m, nil)
	}
	data, err := readInput(name, stdin)
	if err != nil {
		return nil, fmt.Errorf("--devices: %w", err)
	}
	return devicefile.Inventory(m, name, data)
}
