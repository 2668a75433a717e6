package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
)

// TestFootprintOfThePlugin is TestFootprint for an agent as it runs on nodes. Its process is an NRI
// plugin on a socket, lists the pods of a kubelet over HTTP, and reads cgroup files.
func TestFootprintOfThePlugin(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector has its own memory")
	}
	h := newHome(t, machineText(2, 4, 32))
	var list v1.PodList
	var requests []request.Pod
	for i := range 250 {
		pod, asked := listedPod(t, i)
		list.Items, requests = append(list.Items, *pod), append(requests, asked)
	}
	h.args = []string{
		"agent", "--runtime", "nri", "--config", h.path("agent.yaml"), "--machine", h.path("machine.json"), "--state", h.path("state.json"),
		"--podresources-socket", h.path("s"), "--listen", "127.0.0.1:0", "--log-format", "json",
		"--nri-socket", h.path("nri.sock"), "--kubelet-url", kubeletOf(t, &list), "--cgroup-root", h.path("cgroups"),
	}
	files := h.runtime(requests)
	p := h.start()
	p.awaitPods(t)
	if err := files.write(); err != nil {
		t.Fatal(err)
	}
	read(t, h.path("s"), p.await(t, 1, "metrics and health").Address)
	p.footprint(t)
	if err := p.end(t, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// listedPod returns largePod as the kubelet lists it.
func listedPod(t *testing.T, i int) (*v1.Pod, request.Pod) {
	t.Helper()
	return listedPodAs(t, i, i)
}

// listedPodAs returns pod i with the containers of another largePod.
func listedPodAs(t *testing.T, i, like int) (*v1.Pod, request.Pod) {
	t.Helper()
	sources, _, err := podspec.Read("pod.yaml", []byte(largePod(like)))
	if err != nil {
		t.Fatal(err)
	}
	pod := sources[0].Pod
	pod.Name, pod.UID, pod.Namespace = fmt.Sprint("p", i), types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)), "default"
	asked, err := podspec.Request(pod, podspec.Gates{})
	if err != nil {
		t.Fatal(err)
	}
	return pod, asked
}

// kubeletOf serves a list of pods until the test ends, and returns the URL.
func kubeletOf(t *testing.T, list *v1.PodList) string {
	t.Helper()
	list.TypeMeta = metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(data) // The agent may have ended.
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// runtime simulates a container runtime that runs pods until the test ends.
func (h *home) runtime(pods []request.Pod) *cgroups {
	h.t.Helper()
	files := newCgroups(h.path("cgroups"), pods)
	_, follow := h.serve(sim.Config{Now: time.Now, After: time.After, Required: []string{"paddock"}, Observe: files.observe})
	follow(pods)
	return files
}

// serve simulates a container runtime on a unix socket until the test ends. follow sets the pods
// that run.
func (h *home) serve(c sim.Config) (r *sim.Runtime, follow func([]request.Pod)) {
	h.t.Helper()
	r = sim.New(h.t.Context(), c)
	kubelet := r.NewKubelet(sim.KubeletConfig{Log: slog.New(slog.DiscardHandler)})
	socket, err := net.Listen("unix", h.path("nri.sock"))
	if err != nil {
		h.t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			plugin, err := socket.Accept()
			if err != nil {
				return
			}
			runtime, err := r.Connect("")
			if err != nil {
				_ = plugin.Close()
				return
			}
			group.Go(func() { join(plugin, runtime) })
		}
	})
	group.Go(func() { _ = kubelet.Run(h.t.Context()) })
	h.t.Cleanup(func() {
		_ = socket.Close()
		r.Close()
		group.Wait()
	})
	return r, func(pods []request.Pod) { kubelet.Follow(pods, nil) }
}

// join copies data between two connections until one of them ends.
func join(a, b net.Conn) {
	var group sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		group.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_, _ = a.Close(), b.Close()
		})
	}
	group.Wait()
}

// cgroups records the cgroup values of the containers of pods. They are written to files below a
// directory when all containers run.
type cgroups struct {
	root    string
	parents map[string]string // by UID

	mu   sync.Mutex
	last map[string]sim.Event // by container
}

func newCgroups(root string, pods []request.Pod) *cgroups {
	c := &cgroups{root: root, parents: map[string]string{}, last: map[string]sim.Event{}}
	for _, pod := range pods {
		c.parents[pod.UID] = sim.SandboxOf(pod).CgroupParent
	}
	return c
}

// observe implements sim.Config.Observe.
func (c *cgroups) observe(e sim.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Kind == sim.Created || e.Kind == sim.Updated {
		c.last[e.ID] = e
	}
}

// learn takes in pods that are going to run.
func (c *cgroups) learn(pods []request.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pod := range pods {
		if parent := sim.SandboxOf(pod).CgroupParent; c.parents[pod.UID] == "" {
			c.parents[pod.UID] = parent
			_ = c.files(parent, "cpu.max", "max 100000") // The agent reports a file that is missing.
		}
	}
}

// keep is observe for a node on which pods come and go: it writes the files at once.
func (c *cgroups) keep(e sim.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	dir := filepath.Join(c.parents[e.Pod], e.ID)
	if e.Kind == sim.Created || e.Kind == sim.Updated {
		_ = c.container(dir, e)
	}
	if e.Kind == sim.Stopped {
		_ = os.RemoveAll(filepath.Join(c.root, dir))
	}
}

func (c *cgroups) write() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	errs := []error{c.files("", "cgroup.controllers", "cpuset cpu")}
	for _, parent := range c.parents {
		errs = append(errs, c.files(parent, "cpu.max", "max 100000"))
	}
	for id, e := range c.last {
		errs = append(errs, c.container(filepath.Join(c.parents[e.Pod], id), e))
	}
	return errors.Join(errs...)
}

// container writes the files of a container.
func (c *cgroups) container(dir string, e sim.Event) error {
	return c.files(dir, "cpuset.cpus", e.Setting.CPUs.String(), "cpuset.mems", cpuset.Of(e.Setting.Mems.Nodes()...).String(), "cpu.max", "max 100000")
}

// files writes the files of one cgroup. all alternates names and texts.
func (c *cgroups) files(dir string, all ...string) error {
	err := os.MkdirAll(filepath.Join(c.root, dir), 0o700)
	for i := 0; i < len(all) && err == nil; i += 2 {
		err = os.WriteFile(filepath.Join(c.root, dir, all[i]), []byte(all[i+1]+"\n"), 0o600)
	}
	return err
}
