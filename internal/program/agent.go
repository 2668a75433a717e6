package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"

	nrilog "github.com/containerd/log"
	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/agent"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/node/telemetry"
)

// garbagePercent is GOGC of an agent. With 250 pods of four containers, 12 MiB are live. Go's
// default of 100 lets the memory grow to 40 MiB while the pods are admitted, and 50 to 32 MiB
// (TestFootprint). The cost is 2 ms of CPU time per pod.
const garbagePercent = 50

// agentCommand is one invocation of paddock agent.
type agentCommand struct {
	agentFlags
	print bool
}

func (c *agentCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Admit a node's pods, keep their assignments across restarts, and serve them",
		Long: `Agent admits the pods of a node, keeps their assignments in one durable file, and serves them: as
the PodResources API on a unix socket, and as metrics on a loopback address.

With --runtime sim, the pods come from a directory of manifests, and the runtime and the kubelet are
simulated: the agent needs no cluster, no root and no container, and runs the same control loop. With
--runtime nri, the agent is a plugin of containerd or CRI-O, and the kubelet lists the pods. The kubelet's
own managers must be off. Every container is created with its CPUs, memory nodes and quota. A pod that
does not fit is rejected before it starts.

With --observe, the kubelet decides, with its own managers, and the agent only reads: the kubelet's files, pods,
configuration and metrics. It serves the map, reports and explanations of the node as the kubelet has it, and
compares each decision of the kubelet with its prediction: see "paddock trust". It needs no runtime.

If the kubelet does not list a pod yet, or does not answer, the pod waits: the agent does not guess. With
--estimate, the pod starts anyway, and the agent estimates its request from the numbers of its cgroup. If the
policy has pools, a Guaranteed pod gets one pool of this size. Any other pod runs on the node shared pool. No
container gets exclusive CPUs. The state marks the pod as estimated as long as it runs.

An agent that is killed and restarted has all assignments again. SIGTERM and SIGINT end it within a second,
within 6 s while the disk stalls, and within 25 s with --release-on-exit. A second signal ends it at once.
SIGHUP makes it read the configuration and the manifests again. A new log level applies at once. The other
changed fields apply after a restart, and the log names them.`,
		Example: `  paddock agent --machine examples/machines/epyc-2s-nps4.json \
      --kubelet-config examples/kubelet/pod-scope.yaml --pods examples/pods \
      --state /tmp/paddock/state.json --podresources-socket /tmp/paddock/podresources.sock
  paddock pods --socket /tmp/paddock/podresources.sock
  paddock agent --runtime nri --kubelet-config /etc/paddock/policy.yaml \
      --kubelet-token-file /etc/paddock/token --kubelet-ca-file /etc/paddock/ca.crt`,
		Args: console.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := c.config(cmd)
			if c.print {
				return c.printConfig(console.StreamsOf(cmd), config, err)
			}
			if err != nil {
				return err
			}
			return c.run(cmd, config)
		},
	}
	cmd.Flags().BoolVar(&c.print, "print-config", false, "print the resolved configuration and exit")
	c.register(cmd)
	return cmd
}

// printConfig prints a configuration that is usable, or would be usable with manifests.
func (c *agentCommand) printConfig(s console.Streams, config agent.Config, invalid error) error {
	if invalid != nil && len(config.Pods) == 0 {
		complete := config
		complete.Pods = []string{"pods"}
		if complete.Check() == nil {
			s.Notes([]string{"the agent does not start with this configuration: " + invalid.Error()})
			invalid = nil
		}
	}
	if invalid != nil {
		return invalid
	}
	return s.Print("yaml", config, nil)
}

// agentFlags override the fields of the file of --config.
type agentFlags struct {
	file    string
	observe bool
	value   agent.Config
}

func (f *agentFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.file, "config", "", "the agent's own configuration, a YAML `FILE`; flags override it")
	f.value = agent.DefaultConfig()
	v := &f.value
	flags.BoolVar(&f.observe, "observe", false, "the kubelet decides: only observe it, and compare its decisions with their predictions")
	flags.StringVar(&v.Kubelet.Dir, "kubelet-dir", v.Kubelet.Dir, "the kubelet's `DIR`, with its state files")
	flags.StringVar(&v.Machine, "machine", v.Machine, machineUsage)
	flags.StringVar(&v.KubeletConfig, "kubelet-config", v.KubeletConfig, kubeletConfigUsage)
	flags.StringVar(&v.Devices, "devices", v.Devices, "the node's devices: an inventory `FILE`")
	flags.StringVar(&v.State, "state", v.State, "the `FILE` with the assignments")
	flags.BoolVar(&v.Strict, "strict", v.Strict, "do not start if a part of the state is no longer valid")
	flags.StringSliceVar(&v.Pods, "pods", v.Pods, "a `DIR` or file of manifests; may be given several times")
	flags.StringVar(&v.Runtime, "runtime", v.Runtime, "the runtime to drive: sim, or nri for containerd and CRI-O")
	flags.StringVar(&v.NRI.Socket, "nri-socket", v.NRI.Socket, "the container runtime's unix socket for plugins, a `PATH`")
	flags.StringVar(&v.Kubelet.URL, "kubelet-url", v.Kubelet.URL, "where the kubelet lists its pods, a `URL`; http, its read-only port, is accepted with a warning: any process that takes the port first can answer")
	flags.StringVar(&v.Kubelet.TokenFile, "kubelet-token-file", v.Kubelet.TokenFile, "a `FILE` with the bearer token for the kubelet")
	flags.StringVar(&v.Kubelet.CAFile, "kubelet-ca-file", v.Kubelet.CAFile, "a `FILE` with the CA that signed the kubelet's certificate")
	flags.BoolVar(&v.Kubelet.Insecure, "kubelet-insecure", v.Kubelet.Insecure, "accept any certificate of the kubelet: for loopback only")
	flags.StringVar(&v.NodeName, "node-name", v.NodeName, "the `NAME` of this Kubernetes node; the agent reads its ResourceSlices from the API server")
	flags.BoolVar(&v.ReleaseOnExit, "release-on-exit", v.ReleaseOnExit, "on exit, let every container run on all CPUs again and drop all assignments: to remove the agent, not to update it")
	flags.BoolVar(&v.Estimate, "estimate", v.Estimate, "with --runtime nri: if the kubelet does not list a pod or does not answer, estimate the pod's request from the numbers of its cgroup, and mark the pod as estimated")
	flags.StringVar(&v.CPUQuota.Mode, "cpu-quota", v.CPUQuota.Mode, quotaUsage)
	flags.StringVar(&v.CgroupRoot, "cgroup-root", v.CgroupRoot, "the `DIR` where cgroups are mounted")
	flags.StringVar(&v.Listen, "listen", v.Listen, "the `ADDR` for the live map, metrics and health; empty: none")
	flags.StringVar(&v.Map, "map", v.Map, "who can see the live map on the listen address: loopback, only clients on the node, or everywhere")
	flags.BoolVar(&v.Profile, "profile", v.Profile, "serve /debug/pprof on the listen address")
	flags.StringVar(&v.PodResources.Socket, "podresources-socket", v.PodResources.Socket, "the `PATH` of the PodResources API; empty: none")
	flags.StringVar(&v.Log.Format, "log-format", v.Log.Format, "text or json")
	flags.StringVar(&v.Log.Level, "log-level", v.Log.Level, "debug, info, warn or error")
	console.CompleteWords(cmd, "runtime", agent.RuntimeSim, agent.RuntimeNRI)
	console.CompleteWords(cmd, "cpu-quota", agent.QuotaIsolated, agent.QuotaKubelet)
	console.CompleteWords(cmd, "map", agent.MapLoopback, agent.MapEverywhere)
	console.CompleteWords(cmd, "log-format", telemetry.Formats...)
	console.CompleteWords(cmd, "log-level", telemetry.Levels...)
}

// hideAgentOnly hides the flags that matter only to a running agent from the help of a command that
// accepts all of them.
func (f *agentFlags) hideAgentOnly(cmd *cobra.Command) {
	for _, name := range []string{
		"observe", "kubelet-dir", "strict", "pods", "runtime", "nri-socket", "release-on-exit", "estimate", "listen", "map", "profile", "log-format", "log-level",
	} {
		if err := cmd.Flags().MarkHidden(name); err != nil {
			panic(err) // register defined the flag.
		}
	}
}

// config returns the configuration of the file, with the given flags instead of its fields.
func (f *agentFlags) config(cmd *cobra.Command) (agent.Config, error) {
	config := agent.DefaultConfig()
	if f.file != "" {
		data, err := console.StreamsOf(cmd).Reader().File(f.file)
		if err != nil {
			return config, fmt.Errorf("--config: %w", err)
		}
		if config, err = agent.ReadConfig(f.file, data); err != nil {
			return config, err
		}
	}
	given := f.value
	for name, take := range map[string]func(){
		"observe": func() {
			config.Decides = agent.DecidesPaddock
			if f.observe {
				config.Decides = agent.DecidesKubelet
			}
		},
		"kubelet-dir": func() { config.Kubelet.Dir = given.Kubelet.Dir },
		"machine":     func() { config.Machine = given.Machine }, "kubelet-config": func() { config.KubeletConfig = given.KubeletConfig },
		"devices": func() { config.Devices = given.Devices }, "state": func() { config.State = given.State },
		"strict": func() { config.Strict = given.Strict }, "pods": func() { config.Pods = given.Pods },
		"runtime": func() { config.Runtime = given.Runtime }, "listen": func() { config.Listen = given.Listen },
		"nri-socket": func() { config.NRI.Socket = given.NRI.Socket }, "kubelet-url": func() { config.Kubelet.URL = given.Kubelet.URL },
		"kubelet-token-file": func() { config.Kubelet.TokenFile = given.Kubelet.TokenFile },
		"kubelet-ca-file":    func() { config.Kubelet.CAFile = given.Kubelet.CAFile },
		"kubelet-insecure":   func() { config.Kubelet.Insecure = given.Kubelet.Insecure },
		"estimate":           func() { config.Estimate = given.Estimate },
		"node-name":          func() { config.NodeName = given.NodeName },
		"release-on-exit":    func() { config.ReleaseOnExit = given.ReleaseOnExit },
		"cpu-quota":          func() { config.CPUQuota.Mode = given.CPUQuota.Mode },
		"cgroup-root":        func() { config.CgroupRoot = given.CgroupRoot },
		"map":                func() { config.Map = given.Map },
		"profile":            func() { config.Profile = given.Profile }, "podresources-socket": func() { config.PodResources.Socket = given.PodResources.Socket },
		"log-format": func() { config.Log.Format = given.Log.Format }, "log-level": func() { config.Log.Level = given.Log.Level },
	} {
		if cmd.Flags().Changed(name) {
			take()
		}
	}
	return config, config.Check()
}

// silence discards the log of NRI's transport, which writes abandoned requests to standard error,
// between the lines of the agent's log. It does so only once, because the transport logs in
// goroutines that outlive a command.
var silence = sync.OnceFunc(func() { nrilog.L.Logger.SetOutput(io.Discard) })

// run runs an agent until a signal ends it.
func (c *agentCommand) run(cmd *cobra.Command, config agent.Config) error {
	silence()
	ctx := cmd.Context()
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(garbagePercent)
	}
	hangup := make(chan os.Signal, 1) // A signal during the handling of another one requests the same.
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	at, err := telemetry.Level(config.Log.Level)
	if err != nil {
		return err
	}
	var level slog.LevelVar
	level.Set(at)
	log, err := telemetry.NewLogger(cmd.ErrOrStderr(), config.Log.Format, &level)
	if err != nil {
		return err
	}
	again := func() (agent.Config, error) {
		if c.file == "-" {
			return agent.Config{}, errors.New("--config -: standard input cannot be read again: name a file, or restart the agent")
		}
		return c.config(cmd)
	}
	started, err := start(ctx, config, agent.Reload{Asked: hangup, Read: again, Level: &level}, log)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	logged := make(chan struct{})
	asked := context.AfterFunc(ctx, func() {
		defer close(logged)
		stop() // The next signal has its default effect.
		log.Info("the agent ends; another signal ends it at once", "cause", context.Cause(ctx))
	})
	defer func() {
		if !asked() {
			<-logged // An agent that has nothing to wait for can end before the line is written.
		}
	}()
	return started.Run(ctx)
}

// runner is an agent of either kind.
type runner interface {
	Run(ctx context.Context) error
}

// start returns the agent that manages the node, or the one that observes its kubelet.
func start(ctx context.Context, config agent.Config, reload agent.Reload, log *slog.Logger) (runner, error) {
	if config.Decides == agent.DecidesKubelet {
		return agent.NewObserving(config, agent.Here(), built(), log)
	}
	a, err := agent.New(ctx, config, agent.Here(), built(), log)
	if err != nil {
		return nil, err
	}
	a.ReloadWith(reload)
	return a, nil
}
