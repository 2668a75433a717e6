package agent

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/apiserver"
	"github.com/paddock-project/paddock/internal/node/telemetry"
)

const listedPods = `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"db","namespace":"default","uid":"u1"},"status":{"containerStatuses":[
	{"name":"app","containerID":"containerd://aaa","state":{"running":{}}},
	{"name":"log","containerID":"containerd://bbb","state":{"running":{}}},
	{"name":"old","containerID":"containerd://ccc","state":{"terminated":{"exitCode":0}}}]}},
	{"metadata":{"name":"web","namespace":"default","uid":"u2"},"status":{"containerStatuses":[{"name":"web","containerID":"containerd://ddd","state":{"running":{}}}]}}]}`

// verifying returns the configuration of a node with a state of one pod, its kubelet and its
// cgroups. change replaces cgroup files.
func verifying(t *testing.T, change map[string]string) Config {
	t.Helper()
	b := newBench(t)
	kubelet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(listedPods)) }))
	t.Cleanup(kubelet.Close)
	c := b.config
	c.Runtime, c.Pods, c.Kubelet.URL, c.CgroupRoot = RuntimeNRI, nil, kubelet.URL, t.TempDir()
	e, err := Here().complete(c).read()
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := node.Adopt(e.Found.Machine, e.Policy.Policy, e.Devices, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err = s.Apply(s.Plan(request.Pod{Identity: request.Identity{UID: "u1", Namespace: "default", Name: "db"}, Ask: request.Ask{QoS: request.Guaranteed, Containers: []request.Container{
		{Name: "app", Type: request.App, CPUs: 2, CPURequest: 2000, CPULimit: 2000, Memory: request.Amounts{{Resource: machine.Memory, Value: 1 << 20}}},
		{Name: "log", Type: request.App, Sharing: request.FractionalCPU},
	}}}))
	if err != nil {
		t.Fatal(err)
	}
	var encoder statefile.Encoder
	data, err := encoder.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	c.State = b.file("state.json", string(data))
	files := map[string]string{
		"cgroup.controllers": "cpuset cpu", "kubepods/podu1/cpu.max": "max 100000", "kubepods/burstable/podu2/cpu.max": "max 100000",
		"kubepods/podu1/aaa/cpuset.cpus": "1-2", "kubepods/podu1/aaa/cpuset.mems": "", "kubepods/podu1/aaa/cpu.max": "max 100000",
		"kubepods/podu1/bbb/cpuset.cpus": "0,3-7", "kubepods/podu1/bbb/cpuset.mems": "", "kubepods/podu1/bbb/cpu.max": "50000 100000",
		"kubepods/burstable/podu2/ddd/cpuset.cpus": "0,3-7", "kubepods/burstable/podu2/ddd/cpuset.mems": "", "kubepods/burstable/podu2/ddd/cpu.max": "max 100000",
	}
	for name, text := range change {
		files[name] = text
	}
	for name, text := range files {
		name = filepath.Join(c.CgroupRoot, name)
		if text == "gone" {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// atOnce is a time.After that does not wait.
func atOnce(time.Duration) <-chan time.Time {
	passed := make(chan time.Time, 1)
	passed <- time.Time{}
	return passed
}

func TestVerify(t *testing.T) {
	for name, c := range map[string]struct {
		change map[string]string
		want   []string
	}{
		"as it should be":   {nil, nil},
		"moved":             {map[string]string{"kubepods/podu1/aaa/cpuset.cpus": "1-3"}, []string{`default/db (uid u1): container app: cpuset.cpus is "1-3", expected "1-2"`}},
		"not set":           {map[string]string{"kubepods/podu1/bbb/cpuset.cpus": ""}, []string{`container log: cpuset.cpus is "", expected "0,3-7"`}},
		"throttled":         {map[string]string{"kubepods/podu1/aaa/cpu.max": "200000 100000"}, []string{"container app: it has a CFS quota"}},
		"throttled as pod":  {map[string]string{"kubepods/podu1/cpu.max": "200000 100000"}, []string{"its cgroup /kubepods/podu1 has a CFS quota"}},
		"unknown and loose": {map[string]string{"kubepods/burstable/podu2/ddd/cpuset.cpus": "0-7"}, []string{`container web: it has no assignment, and runs on "0-7"; expected the node shared pool "0,3-7"`}},
		"beside what watches them": {map[string]string{
			"kubepods/podu1/crio-conmon-aaa/cpuset.cpus": "", "kubepods/podu1/crio-conmon-aaa/cpuset.mems": "", "kubepods/podu1/crio-conmon-aaa/cpu.max": "50000 100000",
			"kubepods/podu1/crio-conmon-bbb.scope/cpuset.cpus": "", "kubepods/podu1/crio-conmon-bbb.scope/cpuset.mems": "", "kubepods/podu1/crio-conmon-bbb.scope/cpu.max": "50000 100000",
		}, nil},
		"no cgroup": {map[string]string{
			"kubepods/podu1/bbb/cpuset.cpus": "gone", "kubepods/podu1/bbb/cpuset.mems": "gone", "kubepods/podu1/bbb/cpu.max": "gone",
		}, []string{"container log: it runs according to the kubelet, but has no cgroup"}},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := Verify(t.Context(), verifying(t, c.change), slog.New(slog.DiscardHandler), atOnce)
			if err != nil {
				t.Fatal(err)
			}
			if v.Containers != 3 || len(v.Differences) != len(c.want) {
				t.Fatalf("%d containers, differences %q, want %q", v.Containers, v.Differences, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(v.Differences[i], want) {
					t.Errorf("%q, want %q", v.Differences[i], want)
				}
			}
		})
	}
}

func TestVerifyTellsOfTheAPI(t *testing.T) {
	c := verifying(t, nil)
	c.PodResources.Socket = filepath.Join(t.TempDir(), "none.sock")
	v, err := Verify(t.Context(), c, slog.New(slog.DiscardHandler), atOnce)
	if err != nil || len(v.Differences) != 1 || !strings.Contains(v.Differences[0], "PodResources API") {
		t.Errorf("differences %v, error %v; expected that no agent answers", v, err)
	}
}

func TestVerifyNeedsAState(t *testing.T) {
	c := verifying(t, nil)
	c.State += ".none"
	if _, err := Verify(t.Context(), c, slog.New(slog.DiscardHandler), atOnce); err == nil {
		t.Error("no error without a state")
	}
}

// TestNodeName: a flag of the DaemonSet gives the agent its name, so the file that verify reads has
// none.
func TestNodeName(t *testing.T) {
	c := verifying(t, nil)
	c.APIServer.URL = apiserver.InCluster
	log := slog.New(slog.DiscardHandler)
	if _, err := Verify(t.Context(), c, log, atOnce); err != nil {
		t.Errorf("verify without the name of the Kubernetes node: %v", err)
	}
	if _, err := New(t.Context(), c, Here(), telemetry.Build{}, log); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "nodeName: ") {
		t.Errorf("an agent without it: %v", err)
	}
}

func TestConfigOfANode(t *testing.T) {
	good := DefaultConfig()
	good.Runtime = RuntimeNRI
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*Config){
		"runtime":         func(c *Config) { c.Runtime = "docker" },
		"pods":            func(c *Config) { c.Pods = []string{"x"} },
		"nri.pluginIndex": func(c *Config) { c.NRI.PluginIndex = "9" },
		"nri.pluginName":  func(c *Config) { c.NRI.PluginName = "" },
		"nri.timeout":     func(c *Config) { c.NRI.Timeout = 0 },
		"kubelet":         func(c *Config) { c.Kubelet.URL = "" },

		"maxContainersPerPod": func(c *Config) { c.MaxContainersPerPod = -1 },
	} {
		c := good
		if change(&c); c.Check() == nil || !strings.Contains(c.Check().Error(), field+": ") {
			t.Errorf("%s: %v", field, c.Check())
		}
	}
	c, err := ReadConfig("f", []byte("runtime: nri\nnri: {timeout: 1500ms, takeOver: true}\nkubelet: {url: https://h:10250, tokenFile: t}\n"))
	if err != nil || c.Check() != nil || c.NRI.Timeout != Duration(1500e6) || !c.NRI.TakeOver || c.NRI.PluginIndex != "90" {
		t.Errorf("%+v, %v, %v", c, err, c.Check())
	}
}
