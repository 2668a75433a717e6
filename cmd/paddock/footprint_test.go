package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/node/podres"
)

var idle = flag.Duration("idle", time.Second, "how long TestFootprint watches an idle agent; from 20s on it fails above 1 % of a core")

// raceDetector is set if the binary is built with the race detector. Its memory is then not that of
// the agent.
var raceDetector bool

// The limits of an idle agent on the largest usual node.
const (
	mostMemory   = 40 << 10 // KiB of anonymous memory
	mostIdleCore = 0.01
	// ticks is the unit of CPU time in /proc, in ticks per second. It is the same on every Linux.
	ticks = 100
)

// TestFootprint checks that an agent with 250 pods of four containers on 512 CPUs, kept and served,
// needs less than 40 MiB.
func TestFootprint(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector has its own memory")
	}
	h := newHome(t, machineText(2, 4, 32))
	for i := range 250 {
		h.write(fmt.Sprintf("pods/%d.yaml", i), largePod(i))
	}
	p := h.start()
	p.awaitPods(t)
	read(t, h.path("s"), p.await(t, 1, "metrics and health").Address)
	p.footprint(t)
	if err := p.end(t, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// awaitPods waits for 250 pods. Each reply to a creation moves hundreds of containers, so it takes
// long on a busy machine.
func (p *process) awaitPods(t *testing.T) {
	t.Helper()
	for n := 25; n <= 250; n += 25 {
		p.await(t, n, "pod admitted")
	}
}

// footprint checks that the process stays within the limits of an idle agent.
func (p *process) footprint(t *testing.T) {
	t.Helper()
	usage := func() (memory int, cpu float64) {
		return anonymous(t, p.cmd.Process.Pid), cpuSeconds(t, p.cmd.Process.Pid)
	}
	full, spent := usage()
	begin := time.Now()
	time.Sleep(*idle) //nolint:forbidigo // The test measures that nothing happens.
	rest, after := usage()
	share := (after - spent) / time.Since(begin).Seconds()
	t.Logf("%.1f MiB when all are admitted (%.2f s of CPU), %.1f MiB after %v, in which it used %.2f %% of a core",
		float64(full)/1024, spent, float64(rest)/1024, *idle, 100*share)
	if rest >= mostMemory || full >= mostMemory {
		t.Errorf("%d and %d KiB of anonymous memory, want less than %d", full, rest, mostMemory)
	}
	if *idle >= 20*time.Second && share >= mostIdleCore {
		t.Errorf("idle it needs %.2f %% of a core", 100*share)
	}
}

// read requests everything that is served, a few times.
func read(t *testing.T, socket, address string) {
	t.Helper()
	client, err := podres.Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	list := func() int {
		response, err := client.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(response.GetPodResources())
	}
	// On a busy machine a pod can be admitted, be rejected because the answer comes too late, and
	// be admitted again.
	for end := time.Now().Add(patience); list() < 250 && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // Another process admits the pods.
	}
	for range 20 {
		if n := list(); n != 250 {
			t.Fatalf("%d pods, want 250", n)
		}
		answer, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Error(err)
		}
		_ = answer.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
}

// largePod returns a pod with four containers. Of 250 pods, 120 have three exclusive CPUs and share
// a fourth.
func largePod(i int) string {
	resources := []string{`{limits: {cpu: "1", memory: 64Mi}}`, `{limits: {cpu: "1", memory: 64Mi}}`, `{limits: {cpu: "1", memory: 64Mi}}`, `{limits: {cpu: 500m, memory: 64Mi}}`}
	if i >= 120 {
		resources = []string{`{requests: {cpu: 100m}}`, `{requests: {cpu: 100m}}`, `{}`, `{}`}
	}
	var containers []string
	for k, r := range resources {
		containers = append(containers, fmt.Sprintf("{name: c%d, image: x, resources: %s}", k, r))
	}
	return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: p%d}, spec: {containers: [%s]}}\n", i, strings.Join(containers, ", "))
}

// anonymous returns RssAnon of a process, in KiB.
func anonymous(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, found := strings.CutPrefix(line, "RssAnon:"); found {
			kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return kib
		}
	}
	t.Skip("this kernel does not tell RssAnon")
	return 0
}

// cpuSeconds returns the CPU time that a process has used, in user and kernel mode.
func cpuSeconds(t *testing.T, pid int) float64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	sum := 0
	for _, at := range []int{11, 12} { // utime and stime are fields 14 and 15 of the line.
		n, err := strconv.Atoi(fields[at])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return float64(sum) / ticks
}
