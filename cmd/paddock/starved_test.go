package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
)

var starved = flag.Bool("starved", false, "measure the answers of an agent that gets little CPU time: make starved")

const (
	// starvedFor is how long the answers of one row are measured.
	starvedFor = 15 * time.Second
	// starvedPace is the time between two pods that are replaced.
	starvedPace = 400 * time.Millisecond
	// listedBytes is about the size of a pod in the list of a real kubelet, which also has its
	// status and its managed fields.
	listedBytes = 8 << 10
)

// TestStarved prints how long a container runtime waits for the answers of an agent that gets only
// a part of a CPU, while pods of four containers are replaced all the time. The agent is a process
// in a cgroup with a CPU quota: when it has used its part of a period of 100 ms, it waits for the
// next one. A node on which others have the CPUs is milder: there, the agent gets its part in small
// pieces.
func TestStarved(t *testing.T) {
	if !*starved {
		t.Skip("with -starved, the answers of an agent with little CPU time are measured: make starved")
	}
	fmt.Println("| pods | containers | CPU time | answers | 50 % | 99 % | longest | lost connections |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, pods := range []int{10, 110, 250, 1250} {
		t.Run(fmt.Sprintf("%d pods", pods), func(t *testing.T) { starve(t, pods) })
	}
}

// starve prints the rows of a number of pods.
func starve(t *testing.T, pods int) {
	h := newHome(t, machineText(2, 4, 32))
	c := &churned{at: map[string]time.Time{}}
	for i := range pods {
		c.add(t, i)
	}
	kubelet := httptest.NewServer(c)
	t.Cleanup(kubelet.Close)
	h.args = []string{
		"agent", "--runtime", "nri", "--config", h.path("agent.yaml"), "--machine", h.path("machine.json"), "--state", h.path("state.json"),
		"--podresources-socket", h.path("s"), "--listen", "127.0.0.1:0", "--log-format", "json",
		"--nri-socket", h.path("nri.sock"), "--kubelet-url", kubelet.URL, "--cgroup-root", h.path("cgroups"),
	}
	files := newCgroups(h.path("cgroups"), nil)
	if err := files.files("", "cgroup.controllers", "cpuset cpu"); err != nil {
		t.Fatal(err)
	}
	runtime, follow := h.serve(sim.Config{Now: time.Now, After: time.After, Observe: files.keep, Fault: c.time})
	files.learn(c.requests)
	follow(c.requests)
	p := h.start()
	for n := min(pods, 10); n <= pods; n += max(pods/10, 1) {
		p.await(t, n, "pod admitted")
	}
	limit := limitCPU(t, p.cmd.Process.Pid)
	next := pods
	for _, share := range []float64{1, 0.5, 0.2, 0.1, 0.05} {
		limit(share)
		c.begin()
		for end := time.Now().Add(starvedFor); time.Now().Before(end); next++ {
			c.replace(t, next)
			files.learn(c.requests)
			follow(c.requests)
			time.Sleep(starvedPace) //nolint:forbidigo // Another process answers.
		}
		c.row(pods, share)
	}
	runtime.Close()
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil { // It may have no CPU time for its end.
		t.Fatal(err)
	}
}

// churned has the pods of a node, serves them as a kubelet, and takes the time of the answers.
type churned struct {
	pods     []v1.Pod
	requests []request.Pod
	list     atomic.Pointer[[]byte]

	mu    sync.Mutex
	at    map[string]time.Time // when requests that are not answered were sent
	took  []time.Duration
	links int // how many plugins registered
}

// add appends pod i. Eight of a hundred have CPUs of their own.
func (c *churned) add(t *testing.T, i int) {
	t.Helper()
	like := i % 100
	if like >= 8 {
		like += 120
	}
	pod, asked := listedPodAs(t, i, like)
	pod.Annotations = map[string]string{"padding": strings.Repeat("x", listedBytes)}
	c.pods, c.requests = append(c.pods, *pod), append(c.requests, asked)
	c.publish(t)
}

// replace drops the oldest pod and adds pod i.
func (c *churned) replace(t *testing.T, i int) {
	t.Helper()
	c.pods, c.requests = slices.Clone(c.pods[1:]), slices.Clone(c.requests[1:])
	c.add(t, i)
}

func (c *churned) publish(t *testing.T) {
	t.Helper()
	data, err := json.Marshal(v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: c.pods})
	if err != nil {
		t.Fatal(err)
	}
	c.list.Store(&data)
}

// ServeHTTP implements [http.Handler].
func (c *churned) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(*c.list.Load()) // The agent may have ended.
}

// time is called by the runtime before a request to the plugin and after its answer. An update that
// the plugin sends waits for the runtime, and not the other way round.
func (c *churned) time(s sim.Step) sim.Fault {
	if s.Hook == "UpdateContainers" {
		return sim.Fault{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	request := s.Hook + " " + s.ID
	switch s.Point {
	case sim.Registered:
		c.links++
	case sim.Asking:
		c.at[request] = time.Now()
	case sim.Answered:
		c.took = append(c.took, time.Since(c.at[request]))
		delete(c.at, request)
	case sim.Storing, sim.Starting, sim.Updating, sim.Listing: // The agent has no part in them.
	}
	return sim.Fault{}
}

// begin forgets what was measured before.
func (c *churned) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took, c.links = nil, 0
}

// row prints what was measured since begin. A connection was lost if the agent registered again.
func (c *churned) row(pods int, share float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.took) == 0 {
		fmt.Printf("| %d | %d | %v | 0 | | | | %d |\n", pods, 4*pods, share, c.links)
		return
	}
	slices.Sort(c.took)
	at := func(part float64) string {
		return fmt.Sprintf("%.1f ms", float64(c.took[int(part*float64(len(c.took)-1))])/float64(time.Millisecond))
	}
	fmt.Printf("| %d | %d | %v | %d | %s | %s | %s | %d |\n", pods, 4*pods, share, len(c.took), at(0.5), at(0.99), at(1), c.links)
}

// limitCPU puts a process into a cgroup of its own until the test ends, and returns a function that
// sets which part of a CPU the cgroup gets. The process ends with the test.
func limitCPU(t *testing.T, pid int) (set func(share float64)) {
	t.Helper()
	const period = 100_000 // µs
	root, name, form := "/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "%d"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		root, name, form = "/sys/fs/cgroup", "cpu.max", "%d "+strconv.Itoa(period)
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+cpu"), 0); err != nil {
			t.Fatalf("as root of a node with the CPU controller: %v", err)
		}
	}
	dir := filepath.Join(root, fmt.Sprintf("paddock-starved-%d", pid))
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // A cgroup is as others are.
		t.Fatalf("as root of a node with the CPU controller: %v", err)
	}
	t.Cleanup(func() {
		for end := time.Now().Add(patience); syscall.Rmdir(dir) != nil && time.Now().Before(end); { // It is busy until the process has ended.
			_ = syscall.Kill(pid, syscall.SIGKILL)
			time.Sleep(10 * time.Millisecond) //nolint:forbidigo // The kernel ends the process.
		}
	})
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	write("cgroup.procs", strconv.Itoa(pid))
	return func(share float64) { write(name, fmt.Sprintf(form, int(share*period))) }
}
