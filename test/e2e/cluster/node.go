package cluster

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/paddock-project/paddock/test/e2e/parts"
	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// patience is longer than any step on the node takes, even on a busy machine.
const patience = 10 * time.Minute

//go:embed files
var files embed.FS

// node is the machine with a kubelet and a container runtime.
type node struct {
	vm  *vm.VM
	dir string
	// The machine is made from plane, parts and machine.
	plane   *plane
	parts   *parts.Parts
	machine vm.Machine
	// runtime is the unit of the container runtime.
	runtime string
	// ids has the IDs of containers whose changes are counted: see hold. The commands of a page run
	// one after the other.
	ids map[string]string
	// watch is what clock reads. had is what before noted.
	watch stopwatch
	had   []string
}

// boots is the maximum number of times that a machine is booted if its network does not answer.
const boots = 3

// boot boots the machine with a new disk.
func (n *node) boot(ctx context.Context) error {
	for i := 1; ; i++ {
		err := n.bootOnce(ctx)
		if i == boots || !errors.Is(err, errNetwork) {
			return err
		}
	}
}

func (n *node) bootOnce(ctx context.Context) error {
	if err := copySparse(ctx, n.parts.Root, n.disk()); err != nil {
		return err
	}
	booted, err := vm.Boot(ctx, n.machine, n.parts, n.dir, n.options(""))
	if err != nil {
		return err
	}
	n.vm = booted
	if err := n.install(ctx, n.plane); err != nil {
		return errors.Join(err, booted.Kill())
	}
	return nil
}

// goOn resumes the machine of a snapshot on its own copy of the disk.
func (n *node) goOn(ctx context.Context, s *snapshot) error {
	if err := copySparse(ctx, s.disk(), n.disk()); err != nil {
		return err
	}
	var err error
	if n.vm, err = vm.Boot(ctx, n.machine, n.parts, n.dir, n.options(s.memory())); err != nil {
		return err
	}
	if err := n.reach(ctx); err != nil {
		return err
	}
	return n.awaitAgent(ctx)
}

// awaitAgent waits until the agent of a resumed machine is ready. The API server was down before
// the machine was saved, so the kubelet can have rejected the agent's token.
func (n *node) awaitAgent(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		answer, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpGet, wire.Get{URL: "http://127.0.0.1:9925/readyz"})
		if err != nil && strings.Contains(err.Error(), "connection refused") {
			return nil // The snapshot has no agent.
		}
		if err == nil && answer.Code == http.StatusOK {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the agent is not ready %s after the machine went on: %s: %w", patience, answer.Stdout, errors.Join(err, ctx.Err()))
		case <-time.After(time.Second):
		}
	}
}

func (n *node) disk() string { return filepath.Join(n.dir, "disk.img") }

// options returns the options of a machine with its own disk and the links of a node.
func (n *node) options(memory string) vm.Options {
	api, service, kubelet := netip.MustParseAddrPort(apiInside), netip.MustParseAddrPort(apiService), netip.AddrPortFrom(netip.MustParseAddr(nodeIP), 10250)
	return vm.Options{
		Reboots: true, Disk: n.disk(), Memory: memory,
		Links: []vm.Link{{Inside: api, Port: n.plane.api, Out: true}, {Inside: service, Port: n.plane.api, Out: true}, {Inside: kubelet, Port: n.plane.kubelet}},
	}
}

// awaitAlone waits until the machine has no connection to the API server, which has been stopped.
func (n *node) awaitAlone(ctx context.Context) error {
	address, _, _ := strings.Cut(apiInside, ":")
	service, _, _ := strings.Cut(apiService, ":")
	return n.must(ctx, "for i in $(seq 3000); do netstat -tn | grep -E ' ("+address+"|"+service+"):.*ESTABLISHED' > /dev/null || exit 0; usleep 100000; done; netstat -tn; exit 1")
}

// install installs the files that survive a reboot, and starts the node.
func (n *node) install(ctx context.Context, c *plane) error {
	ca, err := os.ReadFile(c.certs.File("ca.crt"))
	if err != nil {
		return err
	}
	kubeconfig, err := c.certs.Kubeconfig("kubelet", "https://"+apiInside)
	if err != nil {
		return err
	}
	texts := map[string]string{
		"/etc/kubernetes/ca.crt": string(ca), "/etc/kubernetes/kubelet.conf": string(kubeconfig), "/usr/bin/sudo": "#!/bin/sh\nexec \"$@\"\n",
	}
	for to, from := range map[string]string{"/etc/containerd/config.toml": "containerd.toml", "/etc/cni/net.d/10-ptp.conflist": "ptp.conflist"} {
		data, err := files.ReadFile("files/" + from)
		if err != nil {
			return err
		}
		texts[to] = string(data)
	}
	config, err := n.kubeletConfig(nil)
	if err != nil {
		return err
	}
	texts["/var/lib/kubelet/config.yaml"] = string(config)
	for to, text := range texts {
		if _, err := vm.Do[wire.Nothing](ctx, n.vm, wire.OpWrite, wire.File{Path: to, Data: []byte(text), Mode: 0o755}); err != nil {
			return err
		}
	}
	if err := n.must(ctx, "cp /in/cni/* /opt/cni/bin/"); err != nil {
		return err
	}
	if err := n.installRuntime(ctx); err != nil {
		return err
	}
	return n.start(ctx)
}

// These are the units of container runtimes.
const (
	containerd = "containerd"
	crio       = "crio"
)

// installRuntime starts the container runtime and gives it the images that every node has. They are
// imported, because there is no registry. CRI-O cannot import images: a registry on the node serves
// it these, and those in /var/lib/registry.
func (n *node) installRuntime(ctx context.Context) error {
	script := "for image in image busybox; do ctr -n k8s.io images import /in/$image.tar || exit 1; done"
	if n.runtime == crio {
		script = wire.PrepareCRIO + " && mkdir -p /var/lib/registry /etc/crio/crio.conf.d"
		if err := n.must(ctx, script); err != nil {
			return err
		}
		return n.startRuntime(ctx)
	}
	if err := n.startRuntime(ctx); err != nil {
		return err
	}
	return n.must(ctx, script)
}

// startRuntime starts the container runtime.
func (n *node) startRuntime(ctx context.Context) error {
	if n.runtime == crio {
		if err := n.startUnit(ctx, "registry"); err != nil {
			return err
		}
	}
	return n.startUnit(ctx, n.runtime)
}

var errNetwork = errors.New("the machine does not reach the API server")

// start does what a node does after each boot. Occasionally the emulated network card sends nothing
// from the start. Then start ends the machine and returns errNetwork.
func (n *node) start(ctx context.Context) error {
	if err := n.reach(ctx); err != nil {
		return errors.Join(err, n.vm.Kill())
	}
	if err := n.must(ctx, "echo 1 > /proc/sys/net/ipv4/ip_forward"); err != nil {
		return err
	}
	if err := n.startRuntime(ctx); err != nil {
		return err
	}
	return n.startUnit(ctx, "kubelet")
}

// reach checks that the machine reaches the API server.
func (n *node) reach(ctx context.Context) error {
	address, port, _ := strings.Cut(apiInside, ":")
	if err := n.must(ctx, "timeout 30 nc "+address+" "+port+" < /dev/null"); err != nil {
		return errors.Join(errNetwork, err)
	}
	return nil
}

// reboot shuts the node down in order, the kubelet before the runtime, and starts it again. Containers
// run until the end.
func (n *node) reboot(ctx context.Context) error {
	for _, unit := range []string{"kubelet", n.runtime} {
		if err := n.stopUnit(ctx, unit); err != nil {
			return err
		}
	}
	if err := n.vm.Reboot(ctx); err != nil {
		return err
	}
	return n.start(ctx)
}

// units are the services of the node, as systemd would run them.
var units = map[string]wire.Process{
	containerd: {Argv: []string{"/usr/bin/containerd"}, Ready: "log:containerd successfully booted"},
	crio:       wire.CRIOProcess("/etc/crio/crio.conf.d"),
	"registry": {
		Argv:  []string{"/bin/sh", "-c", "exec /in/guest registry " + wire.Registry + " /in/image.tar /in/busybox.tar $(find /var/lib/registry -name '*.tar')"},
		Ready: "http://" + wire.Registry + "/v2/",
	},
	"kubelet": {
		Argv: []string{
			"/in/kubelet", "--kubeconfig", "/etc/kubernetes/kubelet.conf", "--config", "/var/lib/kubelet/config.yaml",
			"--hostname-override", nodeName, "--node-ip", nodeIP, "-v", "2",
		},
		Ready: "http://127.0.0.1:10248/healthz",
	},
	observer: {Argv: []string{"/in/paddock", "agent", "--config", "/etc/paddock/observe.yaml"}, Ready: "http://127.0.0.1:9925/healthz"},
	// It has the kubelet's credentials: a node can publish its own ResourceSlices, and read the
	// claims of its pods.
	"devices": {Argv: []string{"/in/devices", "/etc/kubernetes/kubelet.conf", nodeName, "/etc/devices.yaml"}, Ready: "log:devices: ready"},
}

// startUnit starts a service. It does nothing if the service already runs.
func (n *node) startUnit(ctx context.Context, name string) error {
	unit := units[name]
	unit.Name, unit.Timeout, unit.Env = name, patience, append([]string{wire.LessGarbage}, unit.Env...)
	_, err := vm.Do[wire.Nothing](ctx, n.vm, wire.OpStart, unit)
	if err != nil && strings.Contains(err.Error(), "runs already") {
		return nil
	}
	return err
}

// stopUnit stops a service. Containers keep running.
func (n *node) stopUnit(ctx context.Context, name string) error {
	_, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpStop, wire.Stop{Name: name, Signal: int(syscall.SIGTERM), Timeout: patience})
	return err
}

// must runs a shell command that must exit with 0.
func (n *node) must(ctx context.Context, command string) error { return n.mustWith(ctx, command, nil) }

func (n *node) mustWith(ctx context.Context, command string, stdin []byte) error {
	ended, err := n.shell(ctx, command, stdin)
	if err == nil && ended.Code != 0 {
		err = fmt.Errorf("%s: exit code %d: %s%s", command, ended.Code, ended.Stdout, ended.Stderr)
	}
	return err
}

func (n *node) shell(ctx context.Context, command string, stdin []byte) (wire.Ended, error) {
	return vm.Do[wire.Ended](ctx, n.vm, wire.OpExec, wire.Exec{Argv: []string{"/bin/sh", "-c", command}, Stdin: stdin, Timeout: patience})
}

// control does what systemctl and reboot do in the shell of a node with systemd.
func (n *node) control(ctx context.Context, words []string) (handled bool, err error) {
	if len(words) > 0 && words[0] == "sudo" {
		words = words[1:]
	}
	if slices.Equal(words, []string{"reboot"}) {
		return true, n.reboot(ctx)
	}
	if len(words) != 3 || words[0] != "systemctl" {
		return false, nil
	}
	if _, known := units[words[2]]; !known {
		return true, fmt.Errorf("unit %s is unknown", words[2])
	}
	if words[1] == "stop" || words[1] == "restart" {
		err = n.stopUnit(ctx, words[2])
	}
	if err == nil && words[1] != "stop" {
		err = n.startUnit(ctx, words[2])
	}
	return true, err
}

// saveLogs copies the logs and the state of the node into a directory.
func (n *node) saveLogs(ctx context.Context, dir string) error {
	var errs []error
	for name, command := range map[string]string{
		"kubelet.log": "cat /var/log/kubelet.log", "devices.log": "cat /var/log/devices.log", "observer.log": "cat /var/log/observer.log", "runtime.log": "cat /var/log/" + n.runtime + ".log", "dmesg.log": "dmesg", "ps.log": "ps",
		"state.json": "cat /var/lib/paddock/state.json", "pods.log": "cd /var/log/pods && grep -r . .",
		"cgroups.log": "cd /sys/fs/cgroup/kubepods && grep -r . --include=cpuset.cpus --include=cpuset.mems --include=cpu.max .",
	} {
		ended, err := n.shell(ctx, command, nil)
		errs = append(errs, err, os.WriteFile(filepath.Join(dir, name), []byte(ended.Stdout+ended.Stderr), 0o644))
	}
	console, err := os.ReadFile(filepath.Join(n.dir, "console.log"))
	return errors.Join(append(errs, err, os.WriteFile(filepath.Join(dir, "console.log"), console, 0o644))...)
}
