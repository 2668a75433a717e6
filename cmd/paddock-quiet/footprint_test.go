package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/podres"
	"github.com/paddock-project/paddock/internal/node/quiet"
	"github.com/paddock-project/paddock/internal/silencer"
	"github.com/paddock-project/paddock/internal/testing/fakekernel"
)

var idle = flag.Duration("idle", 4*time.Second, "how long TestFootprint watches the process; from 20s on it fails above 1 % of a CPU")

const (
	// mostMemory is the most memory in KiB, of both kinds: what the process has made, and the parts
	// of its program that it uses.
	mostMemory = 20 << 10
	mostShare  = 0.01
	// ticks is the unit of CPU time in /proc, in ticks per second. It is the same on every Linux.
	ticks = 100
	// program is the environment variable that makes the test program the program.
	program = "PADDOCK_QUIET_IS_THE_PROGRAM"
)

// raceDetector is set if the binary is built with the race detector. Its memory is then not that of
// the program.
var raceDetector bool

func TestMain(m *testing.M) {
	if os.Getenv(program) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// snapshot is a node whose state does not change.
type snapshot struct{ state *node.State }

func (s snapshot) State() *node.State { return s.state }

// TestFootprint checks what the process takes on a node with 256 CPUs, 400 interrupts, 64 receive
// queues and 100 containers with two exclusive CPUs each: less than 20 MiB and 1 % of a CPU.
func TestFootprint(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector has its own memory")
	}
	k, err := fakekernel.New(t.TempDir(), fakekernel.Options{CPUs: 256})
	must(t, err)
	for n := range 400 {
		must(t, k.AddInterrupt(24+n, nil))
	}
	must(t, k.AddDevice("eth0", 64))
	for n := range 64 {
		must(t, k.Write(fmt.Sprintf("sys/class/net/eth0/queues/rx-%d/rps_cpus", n), "ffffffff"))
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	serve(t, socket, populated(t, k.Root()))
	c := silencer.DefaultConfig()
	c.Root, c.State, c.PodResources, c.Listen = k.Root(), filepath.Join(dir, "state", "quiet.json"), []string{socket}, "127.0.0.1:0"
	c.Irqbalance.Sockets, c.Quiet.Partition, c.Quiet.CStates, c.Quiet.Latency = dir, quiet.Off, quiet.Exclusive, 10
	data, err := json.Marshal(c)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "quiet.yaml"), data, 0o600))
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self, "--config", filepath.Join(dir, "quiet.yaml"))
	log, err := os.Create(filepath.Join(dir, "log"))
	must(t, err)
	cmd.Env, cmd.Stderr = append(os.Environ(), program+"=1"), log
	must(t, cmd.Start())
	defer func() { // The process reads the files of the test until it has ended.
		must(t, cmd.Process.Signal(syscall.SIGTERM))
		must(t, cmd.Wait())
	}()
	address := awaitQuiet(t, filepath.Join(dir, "log"))
	checkStatus(t, address)
	begin, spent := time.Now(), cpuSeconds(t, cmd.Process.Pid)
	time.Sleep(*idle) //nolint:forbidigo // The test measures that little happens.
	share := (cpuSeconds(t, cmd.Process.Pid) - spent) / time.Since(begin).Seconds()
	total, made := memory(t, cmd.Process.Pid, "VmRSS"), memory(t, cmd.Process.Pid, "RssAnon")
	t.Logf("%.1f MiB, of which %.1f MiB are not the program itself; %.2f %% of a CPU in %v", float64(total)/1024, float64(made)/1024, 100*share, *idle)
	if made >= mostMemory {
		t.Errorf("%d KiB of memory, want less than %d", made, mostMemory)
	}
	if *idle >= 20*time.Second && share >= mostShare {
		t.Errorf("it takes %.2f %% of a CPU, want less than %.0f", 100*share, 100*mostShare)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// populated returns a state with 100 pods, whose containers have cgroups.
func populated(t *testing.T, root string) *node.State {
	t.Helper()
	d := machine.Description{Sockets: 1, Nodes: []machine.NodeDescription{{Memory: 1 << 40, Distances: []int{10}}}}
	for core := range 128 {
		d.Nodes[0].Cores = append(d.Nodes[0].Cores, machine.CoreDescription{Threads: []int{2 * core, 2*core + 1}, Uncore: machine.NoUncore})
	}
	m, err := machine.New(d)
	must(t, err)
	state, err := node.New(m, node.Policy{Topology: node.TopologyRestricted, StaticCPU: true, ReservedCPUs: cpuset.Of(0, 1)})
	must(t, err)
	for n := range 100 {
		uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
		plan := state.Plan(request.Pod{
			Identity: request.Identity{UID: uid, Namespace: "prod", Name: fmt.Sprintf("pod-%d", n)},
			Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{
				{Name: "main", Type: request.App, CPUs: 2, CPURequest: 2000, CPULimit: 2000, Equivalent: true},
			}},
		})
		if plan.Rejection != nil {
			t.Fatal(plan.Rejection)
		}
		state, err = state.Apply(plan)
		must(t, err)
		g, _ := state.Grant(uid)
		group := filepath.Join(root, "sys/fs/cgroup/kubepods.slice", "kubepods-pod"+strings.ReplaceAll(uid, "-", "_")+".slice", fmt.Sprintf("cri-containerd-%d.scope", n))
		must(t, os.MkdirAll(group, 0o700))
		must(t, os.WriteFile(filepath.Join(group, "cpuset.cpus"), []byte(g.Containers[0].CPUs.String()+"\n"), 0o600))
	}
	return state
}

// serve serves a state until the test ends.
func serve(t *testing.T, socket string, state *node.State) {
	t.Helper()
	server, err := podres.NewServer(snapshot{state}, podres.Options{Limit: podres.Limit{PerSecond: 1e9, Burst: 1e9}})
	must(t, err)
	l, err := podres.Listen(socket)
	must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
}

// awaitQuiet waits until every container has quiet CPUs. The log has the address.
func awaitQuiet(t *testing.T, log string) (address string) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) { //nolint:forbidigo // Another process has no event for it.
		text, err := os.ReadFile(log)
		must(t, err)
		_, after, found := strings.Cut(string(text), "listen=")
		if !found {
			continue
		}
		address, _, _ = strings.Cut(after, " ")
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+silencer.StatusPath, http.NoBody)
		must(t, err)
		answer, err := http.DefaultClient.Do(request)
		must(t, err)
		var status silencer.Status
		must(t, json.NewDecoder(answer.Body).Decode(&status))
		must(t, answer.Body.Close())
		if len(status.Containers) == 100 && len(status.Files) > 600 {
			return address
		}
	}
	text, _ := os.ReadFile(log)
	t.Fatalf("the containers have no quiet CPUs:\n%s", text)
	return ""
}

// checkStatus asks the process as people do, and checks what is wrong with arguments.
func checkStatus(t *testing.T, address string) {
	t.Helper()
	var out strings.Builder
	must(t, run(t.Context(), []string{"status", "-address", address}, &out, io.Discard))
	for _, want := range []string{"quiet CPUs: 2-201; irqbalance: it does not run", "prod/pod-7/main", "proc/irq/24/smp_affinity_list", "0-1,202-255"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the status does not have %q:\n%.2000s", want, out.String())
		}
	}
	for args, want := range map[string]string{
		"status -address 127.0.0.1:1": "does paddock quiet run on this node?", "status -address " + address + " -o table": "expected text or json",
		"status -address 127.0.0.1:1 -o xml": "-o xml: expected text or json", "status all": `argument "all": expected only flags`,
		"now": "expected flags, or one of the commands status and version", "--config none.yaml": "--config: open none.yaml",
	} {
		if err := run(t.Context(), strings.Fields(args), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}

// memory returns a line of /proc/PID/status in KiB.
func memory(t *testing.T, pid int, name string) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	_, after, _ := strings.Cut(string(data), name+":")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		t.Fatalf("/proc/%d/status has no %s", pid, name)
	}
	n, err := strconv.Atoi(fields[0])
	must(t, err)
	return n
}

// cpuSeconds returns the CPU time that a process has used, in user and kernel mode.
func cpuSeconds(t *testing.T, pid int) float64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	sum := 0
	for _, at := range []int{11, 12} { // utime and stime are fields 14 and 15 of the line.
		n, err := strconv.Atoi(fields[at])
		must(t, err)
		sum += n
	}
	return float64(sum) / ticks
}
