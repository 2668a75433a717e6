package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

const (
	manifests   = "/etc/kubelet/manifests"
	kubeletURL  = "http://127.0.0.1:10250" // the read-only port; 10255 is that of the simulated kubelet
	standInPods = "http://127.0.0.1:10255"
)

// manifest is a pod that both a kubelet and the agent place, one after the other.
type manifest struct {
	name, amounts string
	containers    []string
}

// These pods avoid known differences of a kubelet: under scope container, it rejects containers
// that share CPUs.
var pods = []manifest{
	{"ctr", "", []string{"app main cpu=2 memory=128Mi"}},
	{"pool", "cpu=3 memory=512Mi", []string{"app excl cpu=2 memory=128Mi", "app rest"}},
	{"burst", "cpu=500m..2 memory=128Mi..256Mi", []string{"app a", "app b cpu=250m.. memory=64Mi.."}},
}

var containerPods = []manifest{
	pods[0],
	{"pool", "cpu=3 memory=512Mi", []string{"app excl cpu=2 memory=128Mi", "app second cpu=1 memory=128Mi"}},
	pods[2],
}

func podsOf(s settings) []manifest {
	if s["scope"] == "container" {
		return containerPods
	}
	return pods
}

func (m manifest) pod(t *testing.T) *v1.Pod {
	t.Helper()
	pod, err := parsePod(append([]string{m.name}, strings.Fields(m.amounts)...), m.containers)
	if err != nil {
		fail(t, "%v", err)
	}
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		c.Image, c.ImagePullPolicy, c.Command = wire.Image, v1.PullNever, []string{"/pause"}
	}
	return pod
}

// besideKubelet plays comparisons with a real kubelet. Under emulation a kubelet takes most of a
// minute for three pods. So each machine plays a few, and all of them only if everywhere is set.
func (m *machine) besideKubelet(t *testing.T, list ...comparison) {
	t.Helper()
	if !*kubelet {
		t.Log("nothing is tried beside a real kubelet: make e2e-kubelet does")
		return
	}
	for _, c := range list {
		m.run(t, c.name, c.play)
	}
}

// comparison is a test beside a real kubelet.
type comparison struct {
	name string
	play func(*testing.T, *node)
}

var (
	sameRestricted = same("topology=restricted", "scope=pod")
	sameSingle     = same("topology=single-numa-node", "scope=container")
	sameBestEffort = same("topology=best-effort", "scope=pod")
	leftAlone      = comparison{"kubelet-with-managers-is-left-alone", leavesKubeletAlone}
	restarted      = comparison{"kubelet-restarts", outlivesKubelet}
)

// comparisons has all of them.
var comparisons = []comparison{sameRestricted, sameSingle, sameBestEffort, leftAlone, restarted}

func same(words ...string) comparison {
	return comparison{"kubelet-decides-the-same," + strings.Join(words, ","), func(t *testing.T, n *node) { decidesTheSame(t, n, words) }}
}

// decidesTheSame runs the same pods under a kubelet's own static policy, and under a kubelet
// without managers beside the agent. Every container must have the same CPUs and memory nodes.
func decidesTheSame(t *testing.T, n *node, words []string) {
	t.Helper()
	s, err := parseSettings(words)
	if err != nil {
		fail(t, "%v", err)
	}
	static := n.underKubelet(t, s, false)
	agent := n.underKubelet(t, s, true)
	if !maps.Equal(static, agent) {
		fail(t, "the kubelet's own managers:\n%s\nthe agent:\n%s", lines(static), lines(agent))
	}
	t.Logf("both:\n%s", lines(agent))
}

func lines(placed map[string]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(placed)) {
		fmt.Fprintf(&out, "  %s  %s\n", name, placed[name])
	}
	return out.String()
}

// leavesKubeletAlone checks that, beside a kubelet under its static policy, the agent manages
// nothing and describes what to change.
func leavesKubeletAlone(t *testing.T, n *node) {
	t.Helper()
	alone := n.underKubelet(t, defaults, false)
	if err := n.configure(t.Context(), defaults); err != nil {
		fail(t, "%v", err)
	}
	if err := n.startKubelet(t, defaults, false); err != nil {
		fail(t, "%v", err)
	}
	n.place(t, pods[:1])
	// The agent never becomes ready, so the test waits for its log line.
	argv := n.agentArgv(kubeletURL)
	if err := n.start(t.Context(), "agent", "log:Paddock does not manage this node", argv...); err != nil {
		fail(t, "%v", err)
	}
	have := n.place(t, pods)
	answer, err := vm.Do[wire.Ended](t.Context(), n.vm, wire.OpGet, wire.Get{URL: metricsURL + "/readyz"})
	if err != nil || answer.Code == 200 || !strings.Contains(answer.Stdout, "cpuManagerPolicy: none") {
		fail(t, "readyz answers %d %q, %v", answer.Code, answer.Stdout, err)
	}
	if !maps.Equal(alone, have) {
		fail(t, "alone:\n%s\nbeside the agent:\n%s", lines(alone), lines(have))
	}
}

// outlivesKubelet restarts a kubelet, and then the agent while no kubelet runs. No container may
// move.
func outlivesKubelet(t *testing.T, n *node) {
	t.Helper()
	ctx := t.Context()
	n.beginUnderKubelet(t, defaults, true)
	before := n.place(t, pods)
	if err := n.stopKubelet(ctx); err != nil {
		fail(t, "%v", err)
	}
	n.stays(t, "without a kubelet", before)
	n.must(t, "agent-stop KILL")
	if err := n.startAgentBeside(ctx, kubeletURL); err != nil {
		fail(t, "%v", err)
	}
	n.stays(t, "the agent started anew without a kubelet", before)
	if err := n.startKubelet(t, defaults, true); err != nil {
		fail(t, "%v", err)
	}
	n.stays(t, "with the kubelet back", before)
	said, err := n.verify(ctx, kubeletURL)
	if want := fmt.Sprintf("%d containers run as they should", len(before)); err != nil || said[0] != want {
		fail(t, "paddock verify says %q, %v; want %q", said, err, want)
	}
}

// stays checks for a while that every container runs where it ran before.
func (n *node) stays(t *testing.T, when string, before map[string]string) {
	t.Helper()
	for range 5 {
		now := map[string]string{}
		for _, m := range pods {
			for _, c := range n.await(t, m.pod(t)) {
				now[m.name+"/"+c.Name] = placeOf(c)
			}
		}
		if !maps.Equal(before, now) {
			fail(t, "%s:\n%s\nbefore:\n%s", when, lines(now), lines(before))
		}
		if err := pause(t.Context(), time.Second); err != nil {
			fail(t, "%v", err)
		}
	}
}

func placeOf(c wire.Container) string {
	return fmt.Sprintf("cpus %s  mems %s  quota %s", c.AllowedCPUs, c.AllowedMems, quota(c.Files["cpu.max"]))
}

// underKubelet runs the pods under a kubelet and describes where their containers are. With an
// agent, the kubelet's managers are off.
func (n *node) underKubelet(t *testing.T, s settings, agent bool) map[string]string {
	t.Helper()
	n.beginUnderKubelet(t, s, agent)
	placed := n.place(t, podsOf(s))
	if err := n.reset(t.Context()); err != nil {
		fail(t, "%v", err)
	}
	return placed
}

// beginUnderKubelet starts a kubelet and, if agent is set, an agent beside it.
func (n *node) beginUnderKubelet(t *testing.T, s settings, agent bool) {
	t.Helper()
	ctx := t.Context()
	if err := n.reset(ctx); err != nil {
		fail(t, "%v", err)
	}
	if err := n.startKubelet(t, s, agent); err != nil {
		fail(t, "%v", err)
	}
	if !agent {
		return
	}
	if err := n.configure(ctx, s); err != nil {
		fail(t, "%v", err)
	}
	if err := n.startAgentBeside(ctx, kubeletURL); err != nil {
		fail(t, "%v", err)
	}
}

func (n *node) startKubelet(t *testing.T, s settings, managersOff bool) error {
	t.Helper()
	ctx := t.Context()
	data, err := s.kubeletConfiguration()
	if err != nil {
		return err
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	more := map[string]any{
		"staticPodPath": manifests, "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock", "cgroupDriver": "cgroupfs",
		"failSwapOn": false, "authentication": map[string]any{"anonymous": map[string]any{"enabled": true}, "webhook": map[string]any{"enabled": false}},
		"authorization": map[string]any{"mode": "AlwaysAllow"}, "readOnlyPort": 10250, "port": 10251, "fileCheckFrequency": "1s",
		"imageGCHighThresholdPercent": 100,
	}
	if managersOff {
		for key, value := range map[string]any{"cpuManagerPolicy": "none", "memoryManagerPolicy": "None", "topologyManagerPolicy": "none"} {
			more[key] = value
		}
		more["featureGates"] = map[string]bool{"PodLevelResourceManagers": false}
		delete(object, "reservedMemory")
	}
	maps.Copy(object, more)
	if data, err = json.Marshal(object); err != nil {
		return err
	}
	if _, err := n.exec(ctx, "/bin/mkdir", "-p", manifests); err != nil {
		return err
	}
	if _, err := vm.Do[wire.Nothing](ctx, n.vm, wire.OpWrite, wire.File{Path: "/etc/kubelet/config.json", Data: data, Mode: 0o644}); err != nil {
		return err
	}
	return n.start(ctx, "kubelet", "http://127.0.0.1:10248/healthz", "/in/kubelet", "--config", "/etc/kubelet/config.json", "--hostname-override", "e2enode", "-v", "2")
}

// place gives a kubelet the static pods one after the other, and describes where their containers
// are.
func (n *node) place(t *testing.T, pods []manifest) map[string]string {
	t.Helper()
	placed := map[string]string{}
	for _, m := range pods {
		pod := m.pod(t)
		data, err := json.Marshal(pod)
		if err != nil {
			fail(t, "%v", err)
		}
		if _, err := vm.Do[wire.Nothing](t.Context(), n.vm, wire.OpWrite, wire.File{Path: manifests + "/" + m.name + ".json", Data: data, Mode: 0o644}); err != nil {
			fail(t, "%v", err)
		}
		for _, c := range n.await(t, pod) {
			placed[m.name+"/"+c.Name] = placeOf(c)
		}
	}
	return placed
}

// await waits until all containers of a pod run.
func (n *node) await(t *testing.T, pod *v1.Pod) []wire.Container {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		o, err := n.observe(ctx)
		if err != nil {
			fail(t, "%v", err)
		}
		if running := containersOf(o, string(pod.UID)); len(running) == len(pod.Spec.Containers) {
			return running
		}
		if err := pause(ctx, time.Second); err != nil {
			fail(t, "pod %s does not run: %v", pod.Name, err)
		}
	}
}

func (n *node) stopKubelet(ctx context.Context) error {
	_, err := n.stop(ctx, "kubelet", syscall.SIGKILL)
	return err
}
