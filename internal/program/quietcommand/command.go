// Package quietcommand implements the command quiet. The command keeps the exclusive CPUs of a node
// quiet, shows its status, and restores what it has changed. Package silencer is the process. The
// command has a package of its own because the program of the agent's image does not include it:
// cmd/paddock does, and cmd/paddock-quiet includes nothing else.
package quietcommand

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/program/quietstatus"
	"github.com/paddock-project/paddock/internal/silencer"
)

// quietCommand is one invocation of paddock quiet.
type quietCommand struct {
	file           string
	release, print bool
	value          silencer.Config
}

// New returns the command.
func New() *cobra.Command {
	c := &quietCommand{value: silencer.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "quiet",
		Short: "Keep interrupts and the kernel's work away from exclusive CPUs",
		Long: `Quiet keeps the exclusive CPUs of containers quiet: it takes them out of the affinity of device interrupts, of the
default for new ones, of unbound workqueues and of RPS, and lets irqbalance know. For pods that ask and may
ask, it makes the container's cgroup an isolated partition, limits the C-states, and sets the governor and the
frequencies. Pods ask with the annotations of CRI-O. paddock noise shows what reaches a container.

It runs on the node as root, beside the agent or beside a kubelet that decides, and follows which container has which
CPUs over their PodResources APIs. What a file contained before is saved before it is changed. When a container ends or
moves, the file gets it back. The end of the process changes nothing, so that an update does not disturb pods: the next start
goes on. With --release, it gives everything back and ends. After a restart of the machine, nothing is given back:
the kernel has its own values again.

A container without load balancing must pin its own threads: the kernel no longer moves them to a free CPU.`,
		Example: `  paddock quiet --config /etc/paddock/quiet.yaml
  paddock quiet status
  paddock quiet --release`,
		Args: console.NoArguments,
		RunE: c.run,
	}
	f := cmd.Flags()
	f.StringVar(&c.file, "config", "", "the configuration, a YAML `FILE`; flags override it")
	f.StringVar(&c.value.State, "state", c.value.State, "the `FILE` with what was there before")
	f.StringVar(&c.value.Root, "root", c.value.Root, "the `DIR` that has proc and sys of the node")
	f.StringVar(&c.value.Listen, "listen", c.value.Listen, "the `ADDR` for the status, metrics and health; empty: none")
	f.StringVar(&c.value.NodeName, "node-name", c.value.NodeName, "the `NAME` of this Kubernetes node, for events")
	f.BoolVar(&c.release, "release", false, "give every file what it contained before the first start, and end")
	f.BoolVar(&c.print, "print-config", false, "print the resolved configuration and exit")
	console.Exclude(cmd, "release", "print-config")
	cmd.AddCommand(newStatus())
	return cmd
}

// config returns the configuration of the file, with the given flags instead of its fields.
func (c *quietCommand) config(cmd *cobra.Command) (silencer.Config, error) {
	config := silencer.DefaultConfig()
	if c.file != "" {
		data, err := console.StreamsOf(cmd).Reader().File(c.file)
		if err != nil {
			return config, fmt.Errorf("--config: %w", err)
		}
		if config, err = silencer.ReadConfig(c.file, data); err != nil {
			return config, err
		}
	}
	for name, take := range map[string]func(){
		"state": func() { config.State = c.value.State }, "root": func() { config.Root = c.value.Root },
		"listen": func() { config.Listen = c.value.Listen }, "node-name": func() { config.NodeName = c.value.NodeName },
	} {
		if cmd.Flags().Changed(name) {
			take()
		}
	}
	return config, config.Check()
}

func (c *quietCommand) run(cmd *cobra.Command, _ []string) error {
	config, err := c.config(cmd)
	if err != nil {
		return err
	}
	s := console.StreamsOf(cmd)
	if c.print {
		return s.Print("yaml", config, nil)
	}
	log, err := config.NewLogger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	world := silencer.Here(&config)
	if c.release {
		return giveBack(s, config, world, log)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return silencer.Serve(ctx, config, world, log)
}

// giveBack restores everything.
func giveBack(s console.Streams, config silencer.Config, world silencer.World, log *slog.Logger) error {
	back, left, err := silencer.Release(config, world, log)
	if err != nil {
		return err
	}
	if err := s.Print("text", nil, func() string { return fmt.Sprintf("%d files contain again what they did before\n", back) }); err != nil {
		return err
	}
	if len(left) > 0 {
		s.Notes(left)
		return fmt.Errorf("%d files were not given back: mend the cause and run it again, or restart the machine", len(left))
	}
	return nil
}

// statusCommand is one invocation of paddock quiet status.
type statusCommand struct {
	address string
	output  console.Form
}

func newStatus() *cobra.Command {
	c := &statusCommand{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which files of the kernel are changed, for whom, and since when",
		Long: `Status asks paddock quiet on this node, and shows which containers have quiet CPUs, each file of the kernel that is
changed with what it contained before, which program changes a file back, and which wishes of pods are not carried out.
Exit code 2: the last round of paddock quiet could not do what was to be done.`,
		Example: `  paddock quiet status
  paddock quiet status -o json`,
		Args: console.NoArguments,
		RunE: c.run,
	}
	cmd.Flags().StringVar(&c.address, "address", silencer.DefaultConfig().Listen, "the `HOST:PORT` on which paddock quiet listens")
	c.output.Register(cmd, "text", "json", "yaml")
	return cmd
}

func (c *statusCommand) run(cmd *cobra.Command, _ []string) error {
	status, err := quietstatus.Ask(cmd.Context(), c.address)
	if err != nil {
		return fmt.Errorf("--address %w", err)
	}
	s := console.StreamsOf(cmd)
	if err := s.Document(c.output.Value, console.QuietStatus, status, func() string { return quietstatus.Text(status, s.Style()) }); err != nil {
		return err
	}
	if status.Waiting != "" {
		return &console.ExitError{Code: 2}
	}
	return nil
}
