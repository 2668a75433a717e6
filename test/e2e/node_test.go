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
	vm *vm.VM
	// runtime is the container runtime, by the name of its process.
	runtime string
	dir     string
	pods    map[string]*v1.Pod // by name
	// settings are those of the agent's configuration. Nil means that there was no agent yet.
	settings settings
	// running is set while the agent runs.
	running bool
	// left has the errors of pods that could not be removed because the runtime left a process of
	// theirs, if that is no error: see TestRuntimes.
	left []string
}

const (
	patience     = 5 * time.Minute
	podResSocket = "/run/paddock/podresources.sock"
	metricsURL   = "http://127.0.0.1:9925"
	kubeletFile  = "/etc/paddock/kubelet.json"
	agentFile    = "/etc/paddock/agent.yaml"
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
	n := &node{vm: machine, dir: dir, runtime: containerd, pods: map[string]*v1.Pod{}}
	if has(p, wire.CRIO+"/crio") {
		n.runtime = crio
	}
	if err := n.prepareRuntime(ctx, p); err != nil {
		return nil, errors.Join(err, machine.Kill())
	}
	if err := n.startRuntime(ctx); err != nil {
		return nil, errors.Join(err, machine.Kill())
	}
	if err := n.importImage(ctx); err != nil {
		return nil, errors.Join(err, machine.Kill())
	}
	return n, nil
}

// These are the container runtimes.
const (
	containerd = "containerd"
	crio       = "crio"
)

// has reports whether a machine of these parts has a file.
func has(p *parts.Parts, path string) bool {
	_, is := p.Input[strings.TrimPrefix(path, "/in/")]
	return is
}

// prepareRuntime makes what a runtime expects at fixed paths. Another containerd replaces that of the
// root disk.
func (n *node) prepareRuntime(ctx context.Context, p *parts.Parts) error {
	var script string
	switch {
	case n.runtime == crio:
		script = wire.PrepareCRIO
	case has(p, wire.Containerd+"/containerd"):
		script = "cd " + wire.Containerd + " && cp config.toml /etc/containerd && cp containerd containerd-shim-runc-v2 ctr /usr/bin"
	default:
		return nil
	}
	_, err := n.exec(ctx, "/bin/sh", "-c", script)
	return err
}

// importImage gives the image of the tests to the runtime. CRI-O cannot import it, and pulls it from
// the guest program.
func (n *node) importImage(ctx context.Context) error {
	if n.runtime == containerd {
		_, err := n.exec(ctx, "/usr/bin/ctr", "-n", "k8s.io", "images", "import", "/in/image.tar")
		return err
	}
	if err := n.start(ctx, "registry", "http://"+wire.Registry+"/v2/", "/in/guest", "registry", wire.Registry, "/in/image.tar"); err != nil {
		return err
	}
	_, err := vm.Do[wire.Nothing](ctx, n.vm, wire.OpPull, wire.Pull{Image: wire.Image})
	return err
}

// startRuntime starts the runtime and waits until it answers about containers.
func (n *node) startRuntime(ctx context.Context) error {
	p := wire.Process{Argv: []string{"/usr/bin/containerd", "--log-level", "info"}, Ready: "log:containerd successfully booted"}
	if n.runtime == crio {
		p = wire.CRIOProcess("")
	}
	p.Name = n.runtime
	if err := n.startProcess(ctx, p); err != nil {
		return err
	}
	// containerd answers before it has found out what runs. Until then, CRI reports that it is not
	// initialized yet.
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
	return n.startProcess(ctx, wire.Process{Name: name, Argv: argv, Ready: ready})
}

// startProcess starts a process and waits until it is ready.
func (n *node) startProcess(ctx context.Context, p wire.Process) error {
	if p.Timeout = patience; p.Name != "agent" { // The agent runs as users run it.
		p.Env = append([]string{wire.LessGarbage}, p.Env...)
	}
	_, err := vm.Do[wire.Nothing](ctx, n.vm, wire.OpStart, p)
	return err
}

func (n *node) stop(ctx context.Context, name string, signal syscall.Signal) (int, error) {
	ended, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpStop, wire.Stop{Name: name, Signal: int(signal), Timeout: patience})
	return ended.Code, err
}

// exec runs a command on the node that must exit with 0.
func (n *node) exec(ctx context.Context, argv ...string) (string, error) {
	ended, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpExec, wire.Exec{Argv: argv, Timeout: patience})
	if err == nil && ended.Code != 0 {
		err = fmt.Errorf("%s ended with %d: %s%s", strings.Join(argv, " "), ended.Code, ended.Stdout, ended.Stderr)
	}
	return ended.Stdout, err
}

// reset stops everything except the runtime.
func (n *node) reset(ctx context.Context) error {
	if _, err := n.observe(ctx); err != nil {
		return fmt.Errorf("%s does not answer: %w", n.runtime, err)
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

// startAgent starts the agent with the current configuration, beside the simulated kubelet.
func (n *node) startAgent(ctx context.Context) error { return n.startAgentBeside(ctx, standInPods) }

// startAgentBeside starts the agent beside a kubelet that lists its pods at url.
func (n *node) startAgentBeside(ctx context.Context, url string) error {
	err := n.start(ctx, "agent", metricsURL+"/healthz", n.agentArgv(url)...)
	if n.running = err == nil; err == nil {
		err = n.awaitAgent(ctx)
	}
	return err
}

// awaitAgent waits until the agent, if it runs, manages the node. It also returns while the kubelet
// does not answer: then the agent is not ready, and keeps what runs.
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

// agentArgv returns the command line of an agent beside a kubelet that lists its pods at url.
func (n *node) agentArgv(url string) []string {
	argv := []string{
		"/in/paddock", "agent", "--config", agentFile, "--runtime", "nri", "--kubelet-config", kubeletFile, "--state", stateFile, "--kubelet-url", url,
		"--listen", strings.TrimPrefix(metricsURL, "http://"), "--podresources-socket", podResSocket, "--log-level", "debug",
	}
	if n.settings["estimate"] != "" {
		argv = append(argv, "--estimate")
	}
	return append(argv, n.quotaFlag()...)
}

// quotaFlag returns the setting quota as a flag of the agent and of paddock verify.
func (n *node) quotaFlag() []string {
	if mode := n.settings["quota"]; mode != "" {
		return []string{"--cpu-quota", mode}
	}
	return nil
}

// agentConfig gives the agent as long for an answer as half of the runtime's plugin_request_timeout
// allows. An emulated CPU is twenty times slower than a real one, and the host may be busy, too.
const agentConfig = "nri:\n  timeout: 5s\n"

// configure writes the agent's KubeletConfiguration and its own configuration.
func (n *node) configure(ctx context.Context, s settings) error {
	data, err := s.kubeletConfiguration()
	if err != nil {
		return err
	}
	for path, text := range map[string][]byte{kubeletFile: data, agentFile: []byte(agentConfig)} {
		if _, err := vm.Do[wire.Nothing](ctx, n.vm, wire.OpWrite, wire.File{Path: path, Data: text, Mode: 0o644}); err != nil {
			return err
		}
	}
	return nil
}

// saveLogs saves the machine's logs, and logs the directory.
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
		"agent.log": {"/bin/cat", "/var/log/agent.log"}, "runtime.log": {"/bin/cat", "/var/log/" + n.runtime + ".log"},
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
