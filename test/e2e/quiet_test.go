package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// storm makes interrupts of a disk and a network device, work for work queues, timers, and a daemon
// of the host on an exclusive CPU. The gateway is QEMU's, on this machine. The programs of the tests
// run in a cgroup that has CPU 0 alone.
const storm = `
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0 2> /dev/null
mount -t tracefs tracefs /sys/kernel/tracing 2> /dev/null
while :; do dd if=/dev/zero of=/storm bs=64k count=20 conv=fsync; done > /dev/null 2>&1 < /dev/null &
while :; do ping -c 50 -i 0.01 -W 1 10.0.2.2; done > /dev/null 2>&1 < /dev/null &
while :; do sleep 0.01; done > /dev/null 2>&1 < /dev/null &
mkdir -p /sys/fs/cgroup/daemon
sh -c 'echo 0 > /sys/fs/cgroup/daemon/cgroup.procs
       exec taskset -c 4 sh -c "while :; do i=0; while [ \$i -lt 5000 ]; do i=\$((i + 1)); done; sleep 0.1; done"' > /dev/null 2>&1 < /dev/null &
`

// pin pins the threads of the busy program in each container to one CPU each, as a program must do
// that runs without load balancing.
const pin = `
for cgroup in /sys/fs/cgroup/kubepods/pod*/*/; do
    cpus=$(cat $cgroup/cpuset.cpus)
    [ -n "$cpus" ] || continue
    cpu=${cpus%%-*}
    for thread in $(cat $cgroup/cgroup.threads); do
        if [ "$(cat /proc/$thread/comm)" = loop ] && [ "$(grep ^Tgid /proc/$thread/status | cut -f 2)" != "$thread" ]; then
            taskset -p -c $cpu $thread > /dev/null && cpu=$((cpu + 1))
        fi
    done
done
`

// quietConfig makes everything quiet that paddock quiet can.
const quietConfig = "quiet: {partition: exclusive}\npodResources: [" + podResSocket + "]\n"

// noiseReport is what the test needs of docs/schemas/noise.json.
type noiseReport struct {
	Seconds    float64
	Containers []noisyContainer
	NotSeen    []struct{ What, Why string }
}

type noisyContainer struct {
	Container, CPUs     string
	InterruptsPerSecond float64
	CostMicroseconds    float64
	Sources             []struct {
		Class, ID, Name string
		PerSecond       float64
	}
}

// tickOnly are the softirqs that follow the tick.
var tickOnly = []string{"TIMER", "HRTIMER", "SCHED", "RCU"}

// beyondTick returns how often a CPU of a container was interrupted by anything but the tick, in a
// second.
func (c *noisyContainer) beyondTick(cpus int) (sum float64) {
	for _, s := range c.Sources {
		if s.Class != "timer" && !slices.Contains(tickOnly, s.ID) {
			sum += s.PerSecond
		}
	}
	return sum / float64(cpus)
}

// TestQuiet measures two containers with exclusive CPUs that run one busy thread on each of them, in
// a storm of interrupts, before and after paddock quiet has made their CPUs quiet. The tick of the
// CPUs of one of them can stop.
func TestQuiet(t *testing.T) {
	if !*quiet {
		t.Skip("CPUs are made quiet with -quiet: make e2e-quiet")
	}
	m := open(t, "quiet", "2numa-quiet")
	m.run(t, "quiet", func(t *testing.T, n *node) {
		n.must(t, "agent topology=restricted scope=pod")
		n.must(t, "run ticks cpu=3 memory=64Mi", "app busy cpu=3 memory=64Mi")
		n.must(t, "run quiet cpu=2 memory=64Mi", "app busy cpu=2 memory=64Mi")
		n.must(t, "settle")
		for pod, threads := range map[string]string{"ticks": "3", "quiet": "2"} {
			go func() { // It ends with the pod.
				_, _ = vm.Do[wire.Ended](t.Context(), n.vm, wire.OpInContainer, wire.InContainer{
					UID: string(n.pods[pod].UID), Name: "busy", Argv: []string{"/loop", threads, "300"}, Timeout: patience,
				})
			}()
		}
		n.shell(t, storm)
		if err := pause(t.Context(), 2*time.Second); err != nil {
			fail(t, "%v", err)
		}
		before := n.noise(t, 5)
		n.write(t, "/etc/paddock/quiet.yaml", quietConfig)
		if err := n.start(t.Context(), "quiet", "http://127.0.0.1:9926/healthz", "/in/paddock-quiet", "--config", "/etc/paddock/quiet.yaml"); err != nil {
			fail(t, "%v", err)
		}
		n.awaitQuiet(t, "1-5")
		n.shell(t, pin)
		after := n.noise(t, 10)
		n.shell(t, "kill $(pidof paddock-quiet); while pidof paddock-quiet > /dev/null; do sleep 0.1; done")
		released := n.shell(t, "/in/paddock-quiet --release --config /etc/paddock/quiet.yaml; cat /sys/fs/cgroup/cpuset.cpus.isolated")
		if !strings.HasSuffix(released, "what they did before\n\n") {
			fail(t, "CPUs are still isolated, or files were not given back: %q", released)
		}
		report(before, after)
		classes := map[string]bool{}
		for _, c := range before.Containers {
			for _, s := range c.Sources {
				classes[s.Class] = true
			}
		}
		for _, class := range []string{"device", "timer", "ipi", "softirq", "kernel-thread", "task"} {
			if !classes[class] {
				fail(t, "the storm has no source of class %s: %+v", class, before)
			}
		}
		for _, c := range after.Containers {
			switch {
			case c.CPUs == "4-5" && c.InterruptsPerSecond > 1:
				fail(t, "CPUs without a tick are interrupted %.2f times a second: %+v", c.InterruptsPerSecond, c)
			case c.CPUs == "1-3" && c.beyondTick(3) > 1:
				fail(t, "CPUs are interrupted %.2f times a second by more than the tick: %+v", c.beyondTick(3), c)
			}
		}
	})
}

// report prints the rows of docs/quiet-cpus.md.
func report(before, after *noiseReport) {
	fmt.Println("| CPUs | | interrupts and softirqs, per CPU and second | without the tick | CPU time |")
	fmt.Println("| --- | --- | --- | --- | --- |")
	for i, r := range []*noiseReport{before, after} {
		for _, c := range r.Containers {
			cpus := map[string]int{"1-3": 3, "4-5": 2}[c.CPUs]
			fmt.Printf("| %s | %s | %.3g | %.3g | %.2g %% |\n", c.CPUs, []string{"before", "after"}[i], c.InterruptsPerSecond, c.beyondTick(cpus), c.CostMicroseconds/10_000)
		}
	}
}

// write writes a file of the node.
func (n *node) write(t *testing.T, name, text string) {
	t.Helper()
	if _, err := vm.Do[wire.Nothing](t.Context(), n.vm, wire.OpWrite, wire.File{Path: name, Data: []byte(text)}); err != nil {
		fail(t, "%v", err)
	}
}

// noise runs paddock noise.
func (n *node) noise(t *testing.T, seconds int) *noiseReport {
	t.Helper()
	out := n.shell(t, fmt.Sprintf("/in/paddock noise --for %ds --socket %s -o json", seconds, podResSocket))
	var r noiseReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		fail(t, "%v in %s", err, out)
	}
	if len(r.Containers) != 2 {
		fail(t, "containers with exclusive CPUs: %s", out)
	}
	fmt.Fprintln(os.Stderr, "e2e:", out)
	return &r
}

// awaitQuiet waits until CPUs are in isolated partitions.
func (n *node) awaitQuiet(t *testing.T, cpus string) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		isolated := strings.TrimSpace(n.shell(t, "cat /sys/fs/cgroup/cpuset.cpus.isolated"))
		if isolated == cpus {
			return
		}
		if time.Now().After(end) {
			fail(t, "CPUs %s are isolated, want %s: %s", isolated, cpus, n.shell(t, "curl -s http://127.0.0.1:9926/status"))
		}
		if err := pause(t.Context(), 500*time.Millisecond); err != nil {
			fail(t, "%v", err)
		}
	}
}
