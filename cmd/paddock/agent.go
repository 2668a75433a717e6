package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/agent"
	"github.com/paddock-project/paddock/internal/store"
	"github.com/paddock-project/paddock/internal/telemetry"
)

// agentFlags override the file of --config, field by field.
type agentFlags struct {
	file  string
	print bool
	value agent.Config
}

func newAgentCommand() *cobra.Command {
	f := agentFlags{value: agent.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Admit a node's pods, keep their assignments across restarts, serve them",
		Long: `Agent admits the pods of a node, keeps what they got in one durable file, and serves it: as
the PodResources API on a unix socket, as metrics on a loopback address.

With --runtime sim the pods are those of a manifest directory, and the runtime and the kubelet are simulated,
so it needs no cluster, no root and no container; the control loop is the same. With --runtime nri it is a plugin of containerd or CRI-O,
and the kubelet, whose own managers are off, lists the pods: every container is created with
its CPUs, memory nodes and quota, and a pod that does not fit is rejected before it starts.

A pod that the kubelet does not list yet, or that it cannot be asked about, waits: nothing is guessed. With
--estimate it starts all the same. What it asks for is read from its cgroup's numbers: a Guaranteed pod gets
them as a whole, as one pool, where the policy has pools, any other runs on the node shared pool, and no
container has CPUs of its own. The state says so for as long as the pod runs.

Killed and started again, it keeps all assignments. SIGTERM and SIGINT end it within a second, within
6 s while the disk stalls, and within 25 s with --release-on-exit; a second one at once. SIGHUP lets it read the configuration and the manifests again: it takes the log level
over, and logs which other fields have changed and wait for a restart.`,
		Example: `  paddock agent --machine examples/machines/epyc-2s-nps4.json \
      --kubelet-config examples/kubelet/pod-scope.yaml --pods examples/pods \
      --state /tmp/paddock/state.json --podresources-socket /tmp/paddock/podresources.sock
  paddock pods --socket /tmp/paddock/podresources.sock
  paddock agent --runtime nri --kubelet-config /etc/paddock/policy.yaml \
      --kubelet-token-file /etc/paddock/token --kubelet-ca-file /etc/paddock/ca.crt`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := f.config(cmd)
			if err != nil {
				return err
			}
			if f.print {
				return printConfig(cmd.OutOrStdout(), config)
			}
			return runAgent(cmd.Context(), cmd.ErrOrStderr(), config, func() (agent.Config, error) { return f.again(cmd) })
		},
	}
	f.register(cmd)
	return cmd
}

func (f *agentFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.file, "config", "", "the agent's own configuration, a YAML `FILE`; flags override it")
	flags.BoolVar(&f.print, "print-config", false, "show the resolved configuration and end")
	v := &f.value
	flags.StringVar(&v.Machine, "machine", v.Machine, `"live" for this machine, or a `+"`FILE`"+` written by "paddock topology -o json"`)
	flags.StringVar(&v.KubeletConfig, "kubelet-config", v.KubeletConfig, "how the node decides: a KubeletConfiguration `FILE`; without it a usual one")
	flags.StringVar(&v.Devices, "devices", v.Devices, "the node's devices: an inventory `FILE`")
	flags.StringVar(&v.State, "state", v.State, "the `FILE` with the assignments")
	flags.BoolVar(&v.Strict, "strict", v.Strict, "do not start when a part of the state is not valid any more")
	flags.StringSliceVar(&v.Pods, "pods", v.Pods, "a `DIR` or file of manifests; may be given several times")
	flags.StringVar(&v.Runtime, "runtime", v.Runtime, "the runtime to drive: sim, or nri for containerd and CRI-O")
	flags.StringVar(&v.NRI.Socket, "nri-socket", v.NRI.Socket, "the container runtime's unix socket for plugins, a `PATH`")
	flags.StringVar(&v.Kubelet.URL, "kubelet-url", v.Kubelet.URL, "where the kubelet lists its pods, a `URL`; http, its read-only port, is taken with a warning: whoever takes the port first can answer")
	flags.StringVar(&v.Kubelet.TokenFile, "kubelet-token-file", v.Kubelet.TokenFile, "a `FILE` with the bearer token for the kubelet")
	flags.StringVar(&v.Kubelet.CAFile, "kubelet-ca-file", v.Kubelet.CAFile, "a `FILE` with the CA that signed the kubelet's certificate")
	flags.BoolVar(&v.Kubelet.Insecure, "kubelet-insecure", v.Kubelet.Insecure, "take any certificate of the kubelet's: for loopback only")
	flags.BoolVar(&v.ReleaseOnExit, "release-on-exit", v.ReleaseOnExit, "at the end hand every container back to all CPUs and drop all assignments: for an end for good, not for an update")
	flags.BoolVar(&v.Estimate, "estimate", v.Estimate, "with --runtime nri: where the kubelet does not list a pod or cannot be asked, estimate its request from its cgroup's numbers, and mark it so")
	flags.StringVar(&v.CPUQuota.Mode, "cpu-quota", v.CPUQuota.Mode, quotaUsage)
	flags.StringVar(&v.CgroupRoot, "cgroup-root", v.CgroupRoot, "the `DIR` where cgroups are mounted")
	flags.StringVar(&v.Listen, "listen", v.Listen, "the `ADDR` for the live map, metrics and health; empty: none")
	flags.StringVar(&v.Map, "map", v.Map, "who may see the live map on the listen address: loopback, those on the node, or everywhere")
	flags.BoolVar(&v.Profile, "profile", v.Profile, "serve /debug/pprof on the listen address")
	flags.StringVar(&v.PodResources.Socket, "podresources-socket", v.PodResources.Socket, "the `PATH` of the PodResources API; empty: none")
	flags.StringVar(&v.Log.Format, "log-format", v.Log.Format, "text or json")
	flags.StringVar(&v.Log.Level, "log-level", v.Log.Level, "debug, info, warn or error")
}

// config is the file with the flags that were given in place of its fields.
func (f *agentFlags) config(cmd *cobra.Command) (agent.Config, error) {
	config := agent.DefaultConfig()
	if f.file != "" {
		data, err := readInput(f.file, cmd.InOrStdin())
		if err != nil {
			return config, fmt.Errorf("--config: %w", err)
		}
		if config, err = agent.ReadConfig(f.file, data); err != nil {
			return config, err
		}
	}
	given := f.value
	for name, take := range map[string]func(){
		"machine": func() { config.Machine = given.Machine }, "kubelet-config": func() { config.KubeletConfig = given.KubeletConfig },
		"devices": func() { config.Devices = given.Devices }, "state": func() { config.State = given.State },
		"strict": func() { config.Strict = given.Strict }, "pods": func() { config.Pods = given.Pods },
		"runtime": func() { config.Runtime = given.Runtime }, "listen": func() { config.Listen = given.Listen },
		"nri-socket": func() { config.NRI.Socket = given.NRI.Socket }, "kubelet-url": func() { config.Kubelet.URL = given.Kubelet.URL },
		"kubelet-token-file": func() { config.Kubelet.TokenFile = given.Kubelet.TokenFile },
		"kubelet-ca-file":    func() { config.Kubelet.CAFile = given.Kubelet.CAFile },
		"kubelet-insecure":   func() { config.Kubelet.Insecure = given.Kubelet.Insecure },
		"estimate":           func() { config.Estimate = given.Estimate },
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

func printConfig(out io.Writer, c agent.Config) error {
	data, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	_, err = out.Write(data)
	return err
}

// again is config for an agent that runs: what came from standard input cannot be read twice.
func (f *agentFlags) again(cmd *cobra.Command) (agent.Config, error) {
	if f.file == "-" {
		return agent.Config{}, errors.New("--config -: standard input cannot be read again: name a file, or restart the agent")
	}
	return f.config(cmd)
}

// runAgent runs an agent until a signal ends it. again reads its configuration once more.
func runAgent(ctx context.Context, stderr io.Writer, c agent.Config, again func() (agent.Config, error)) error {
	hangup := make(chan os.Signal, 1) // one that comes while another is worked on asks for the same
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	at, err := telemetry.Level(c.Log.Level)
	if err != nil {
		return err
	}
	var level slog.LevelVar
	level.Set(at)
	log, err := telemetry.NewLogger(stderr, c.Log.Format, &level)
	if err != nil {
		return err
	}
	a, err := agent.New(ctx, c, store.OS(), build(), log)
	if err != nil {
		return err
	}
	a.ReloadWith(agent.Reload{Asked: hangup, Read: again, Level: &level})
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	asked := context.AfterFunc(ctx, func() {
		stop() // The next signal has its default effect.
		log.Info("ending; another signal ends at once", "cause", context.Cause(ctx))
	})
	defer asked()
	return a.Run(ctx)
}

func build() telemetry.Build {
	b := telemetry.Build{Version: buildVersion(), GoVersion: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	return b
}
