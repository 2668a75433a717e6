package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/kernelfiles"
	"github.com/paddock-project/paddock/internal/node/noise"
	"github.com/paddock-project/paddock/internal/node/tracing"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// These are the limits of --for. In less time than shortestNoise, the measurement itself causes
// most of what the kernel counts.
const shortestNoise, longestNoise = 100 * time.Millisecond, 24 * time.Hour

// noiseCommand is one invocation of paddock noise.
type noiseCommand struct {
	agent             agentFlag
	cpus              string
	duration          time.Duration
	socket, state     string
	root              string
	withoutTrace, all bool
	output            console.Form
}

func (c *noiseCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "noise",
		Short: "Show what interrupts the exclusive CPUs of containers on this node",
		Long: `Noise watches the CPUs that only one container has, and shows who interrupted them, how often, what that cost
and which setting would stop it: device interrupts, timer ticks, interrupts between CPUs, softirqs, kernel
threads and other tasks, throttling, and moved memory. Tasks of the container itself are no noise.

It runs on the node, reads files of the kernel and changes nothing. It needs no agent and no Kubernetes. It
finds the containers with the agent's PodResources API, that of the kubelet, the kubelet's cpu_manager_state,
or the cgroups; --cpus watches CPUs without a container.

How often is counted by the kernel. What it cost is measured for tasks that only run there and for throttling,
and estimated for all others, from a typical cost of each interrupt: it is for sorting. As root, it also reads
the kernel's traces (tracefs), in an instance of its own that it removes at the end, and shows who woke a task
or sent an interrupt. Ctrl-C ends early, with what was measured so far.

Exit codes: 0 done, 1 error, 2 no container of this node has exclusive CPUs.`,
		Example: `  paddock noise
  paddock noise --agent --for 60s
  paddock noise --cpus 2-5 --for 1s -o json
  kubectl debug node/node7 -it --profile=sysadmin --image=IMAGE -- /paddock noise --root /host`,
		Args: console.NoArguments,
		RunE: c.run,
	}
	c.agent.register(cmd, "the containers of the agent that listens on `HOST:PORT` of this node")
	f := cmd.Flags()
	f.DurationVar(&c.duration, "for", 10*time.Second, "how long to watch")
	f.StringVar(&c.cpus, "cpus", "", "watch these CPUs, a `LIST` such as 2-5,8; programs that can run only there are taken for their owner")
	f.StringVar(&c.socket, "socket", "", "the containers of a PodResources API: the `PATH` of a unix socket")
	f.StringVar(&c.state, "state", "", "the containers of a state `FILE`: the kubelet's cpu_manager_state, or the agent's")
	f.StringVar(&c.root, "root", "/", "the `DIR` that has proc and sys of the node, such as /host in a debugging container")
	f.BoolVar(&c.withoutTrace, "no-trace", false, "do not use tracefs")
	f.BoolVarP(&c.all, "verbose", "v", false, "print every source and every setting")
	c.output.Register(cmd, "text", "json", "yaml")
	for _, others := range [][2]string{{"cpus", "agent"}, {"cpus", "socket"}, {"cpus", "state"}, {"socket", "agent"}, {"socket", "state"}} {
		console.Exclude(cmd, others[0], others[1])
	}
	return cmd
}

func (c *noiseCommand) run(cmd *cobra.Command, _ []string) error {
	if c.duration < shortestNoise || c.duration > longestNoise {
		return fmt.Errorf("--for %v: expected a time from %v to %v", c.duration, shortestNoise, longestNoise)
	}
	s := console.StreamsOf(cmd)
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	files := kernelfiles.FS{Root: c.root}
	online, err := files.Online()
	if err != nil {
		return fmt.Errorf("--root %s: expected the directory that has proc and sys of a Linux machine: %w", c.root, err)
	}
	found, err := c.find(ctx, cmd, files, online)
	if err != nil {
		return err
	}
	report, err := c.measure(ctx, s, files, found)
	if err != nil {
		return err
	}
	return s.Document(c.output.Value, console.NodeNoise, report, func() string { return view.NoiseText(report, s.Style(), c.all) })
}

// measure takes the measurements and compares them. If possible, it records traces at the same
// time.
func (c *noiseCommand) measure(ctx context.Context, s console.Streams, files kernelfiles.FS, found *noisy) (*noise.Report, error) {
	begin := time.Now()
	watch := kernelfiles.Watch{
		FS: files, Containers: found.containers, For: c.duration, Self: os.Getpid(),
		Since: func() time.Duration { return time.Since(begin) }, After: time.After,
	}
	var watched cpuset.Set
	for i := range found.containers {
		watched = watched.Union(found.containers[i].CPUs)
	}
	if s.IsTerminal() && c.output.Value == "text" {
		s.NoteNow(fmt.Sprintf("watching CPUs %s for %v; Ctrl-C shows what was measured until then", watched, c.duration))
	}
	var trace *tracing.Recording
	cause := errors.New("--no-trace is set")
	if !c.withoutTrace {
		trace, cause = tracing.Begin(files.Root, os.Getpid(), watched, time.After)
	}
	m := watch.Measure(ctx)
	m.From = found.from
	m.NotSeen = append(m.NotSeen, found.notes...)
	if trace == nil {
		m.NotSeen = append(m.NotSeen, noise.NotSeen{What: "who woke a task or sent an interrupt", Why: cause.Error()})
		return noise.Compare(m), nil
	}
	causes, missing, err := trace.End()
	if err != nil {
		s.Notes([]string{err.Error()})
	}
	m.Causes, m.NotSeen = causes, append(m.NotSeen, missing...)
	return noise.Compare(m), nil
}
