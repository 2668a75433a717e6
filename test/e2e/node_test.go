package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/test/e2e/parts"
	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// node is a machine with what runs on it.
type node struct {
	vm   *vm.VM
	dir  string
	pods map[string]*v1.Pod // by name
	// settings are those of the agent's configuration; nil: there was no agent yet.
	settings settings
	// metrics is where the agent answers, while it runs.
	running bool
}

const (
	patience     = 5 * time.Minute
	podResSocket = "/run/paddock/podresources.sock"
	metricsURL   = "http://127.0.0.1:9925"
	kubeletFile  = "/etc/paddock/kubelet.json"
	stateFile    = "/var/lib/paddock/state.json"
)

func newNode(ctx context.Context, m vm.Machine, p *parts.Parts, dir string) (*node, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	machine, err := vm.Boot(ctx, m, p, dir, vm.Options{})
	if err != nil {
		console, _ := os.ReadFile(filepath.Join(dir, "console.log"))
		return nil, fmt.Errorf("%w\n%s", err, console)
	}
	n := &node{vm: machine, dir: dir, pods: map[string]*v1.Pod{}}
	if err := n.startContainerd(ctx); err != nil {
		return nil, errors.Join(err, machine.Kill())
	}
	if _, err := n.exec(ctx, "/usr/bin/ctr", "-n", "k8s.io", "images", "import", "/in/image.tar"); err != nil {
		return nil, errors.Join(err, machine.Kill())
	}
	return n, nil
}

func (n *node) startContainerd(ctx context.Context) error {
	if err := n.start(ctx, "containerd", "log:containerd successfully booted", "/usr/bin/containerd", "--log-level", "info"); err != nil {
		return err
	}
	// It answers before it has found out what runs; then CRI reports that it is not initialized
	// yet.
	deadline := time.Now().Add(patience)
	for {
		_, err := n.observe(ctx)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func (n *node) start(ctx context.Context, name, ready string, argv ...string) error {
	p := wire.Process{Name: name, Argv: argv, Ready: ready, Timeout: patience}
	if name != "agent" { // The agent runs as users run it.
		p.Env = []string{wire.LessGarbage}
	}
	_, err := vm.Do[wire.Nothing](ctx, n.vm, wire.OpStart, p)
	return err
}

func (n *node) stop(ctx context.Context, name string, signal syscall.Signal) (int, error) {
	ended, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpStop, wire.Stop{Name: name, Signal: int(signal), Timeout: patience})
	return ended.Code, err
}

// exec runs a command on the node that must end with 0.
func (n *node) exec(ctx context.Context, argv ...string) (string, error) {
	ended, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpExec, wire.Exec{Argv: argv, Timeout: patience})
	if err == nil && ended.Code != 0 {
		err = fmt.Errorf("%s ended with %d: %s%s", strings.Join(argv, " "), ended.Code, ended.Stdout, ended.Stderr)
	}
	return ended.Stdout, err
}

// reset leaves containerd and nothing else.
func (n *node) reset(ctx context.Context) error {
	if _, err := n.observe(ctx); err != nil {
		return fmt.Errorf("containerd does not answer: %w", err)
	}
	if err := n.stopKubelet(ctx); err != nil {
		return err
	}
	if _, err := vm.Do[wire.Nothing](ctx, n.vm, wire.OpForget, wire.Nothing{}); err != nil {
		return err
	}
	n.pods = map[string]*v1.Pod{}
	n.collectHooks()
	if _, err := n.stop(ctx, "agent", syscall.SIGTERM); err != nil {
		return err
	}
	n.running = false
	if err := n.allOnline(ctx); err != nil {
		return err
	}
	_, err := n.exec(ctx, "/bin/rm", "-rf", "/var/lib/paddock", "/etc/paddock", "/var/lib/kubelet", "/etc/kubelet")
	return err
}

// startAgent starts the agent with the configuration that is there, beside the substitute for a
// kubelet.
func (n *node) startAgent(ctx context.Context) error { return n.startAgentBeside(ctx, standInPods) }

// startAgentBeside starts it beside a kubelet that lists its pods at url.
func (n *node) startAgentBeside(ctx context.Context, url string) error {
	err := n.start(ctx, "agent", metricsURL+"/healthz", n.agentArgv(url)...)
	if n.running = err == nil; err == nil {
		err = n.awaitAgent(ctx)
	}
	return err
}

// awaitAgent waits until the agent, if it runs, manages the node, also while the kubelet does not
// answer: then it is not ready, and keeps what runs.
func (n *node) awaitAgent(ctx context.Context) error {
	deadline := time.Now().Add(patience)
	for n.running {
		answer, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpGet, wire.Get{URL: metricsURL + "/readyz"})
		if err == nil && strings.Contains(answer.Stdout, "state: ready") && strings.Contains(answer.Stdout, "runtime: ready") {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the agent is not ready: %s: %w", answer.Stdout, err)
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// agentArgv is the agent beside a kubelet that lists its pods at url.
func (n *node) agentArgv(url string) []string {
	argv := []string{
		"/in/paddock", "agent", "--runtime", "nri", "--kubelet-config", kubeletFile, "--state", stateFile, "--kubelet-url", url,
		"--listen", strings.TrimPrefix(metricsURL, "http://"), "--podresources-socket", podResSocket, "--log-level", "debug",
	}
	if n.settings["estimate"] != "" {
		argv = append(argv, "--estimate")
	}
	return append(argv, n.quotaFlag()...)
}

// quotaFlag is the setting quota, as a flag of the agent and of paddock verify.
func (n *node) quotaFlag() []string {
	if mode := n.settings["quota"]; mode != "" {
		return []string{"--cpu-quota", mode}
	}
	return nil
}

// configure writes the agent's KubeletConfiguration.
func (n *node) configure(ctx context.Context, s settings) error {
	data, err := s.kubeletConfiguration()
	if err != nil {
		return err
	}
	_, err = vm.Do[wire.Nothing](ctx, n.vm, wire.OpWrite, wire.File{Path: kubeletFile, Data: data, Mode: 0o644})
	return err
}

// saveLogs keeps the machine's logs, and reports where.
func (n *node) saveLogs(t *testing.T) {
	dir := *keep
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "paddock-e2e-logs")
	}
	dir = filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "_"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Log(err)
		return
	}
	save := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Log(err)
		}
	}
	if console, err := os.ReadFile(filepath.Join(n.dir, "console.log")); err == nil {
		save("console.log", string(console))
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for name, argv := range map[string][]string{
		"agent.log": {"/bin/cat", "/var/log/agent.log"}, "containerd.log": {"/bin/cat", "/var/log/containerd.log"},
		"kubelet.log": {"/bin/cat", "/var/log/kubelet.log"}, "metrics.log": {"/bin/wget", "-qO-", metricsURL + "/metrics"},
		"dmesg.log": {"/bin/dmesg"}, "state.json": {"/bin/cat", stateFile}, "ps.log": {"/bin/ps"},
		"cgroups.log": {"/bin/sh", "-c", "cd /sys/fs/cgroup/kubepods && grep -r . --include=cpuset.cpus --include=cpuset.mems --include=cpu.max --include=cgroup.procs ."},
	} {
		ended, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpExec, wire.Exec{Argv: argv, Timeout: patience})
		if err != nil {
			t.Log(name, err)
		}
		save(name, ended.Stdout)
	}
	t.Logf("logs are in %s", dir)
}
