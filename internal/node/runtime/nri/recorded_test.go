package nri_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
)

// message is a message that containerd 2.4.2 sent for kubelet 1.36.3, without the fields that this
// package does not read.
type message struct {
	Event     string              `json:"event"`
	Runtime   string              `json:"runtime"`
	Version   string              `json:"version"`
	Pod       *api.PodSandbox     `json:"pod"`
	Container *api.Container      `json:"container"`
	Resources *api.LinuxResources `json:"resources"`
}

func messages(t *testing.T, name string) []message {
	t.Helper()
	file, err := os.Open("testdata/" + name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []message
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// listed adds the pods of a kubelet's answer to the source.
func (b *bench) listed(t *testing.T, name string) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var list v1.PodList
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	gates := podspec.Gates{PodLevelResources: true, PodLevelManagers: true}
	for i := range list.Items {
		pod, err := podspec.Request(podspec.Default(&list.Items[i], gates), gates)
		if err != nil {
			t.Fatal(err)
		}
		b.list(pod)
	}
}

// play sends a message and applies the answer.
func (b *bench) play(t *testing.T, m message) (*api.ContainerAdjustment, []*api.ContainerUpdate) {
	t.Helper()
	var adjust *api.ContainerAdjustment
	var updates []*api.ContainerUpdate
	var err error
	switch m.Event {
	case "Configure":
		_, err = b.plugin.Configure(t.Context(), "", m.Runtime, m.Version)
	case "RunPodSandbox":
		b.boxes[m.Pod.GetId()], b.quotas[m.Pod.GetLinux().GetCgroupParent()] = m.Pod, true
		err = b.plugin.RunPodSandbox(t.Context(), m.Pod)
	case "CreateContainer":
		adjust, updates, err = b.plugin.CreateContainer(t.Context(), m.Pod, m.Container)
		r := &running{c: m.Container}
		if adjust != nil {
			r.setting = b.set(r.setting, adjust.GetLinux().GetResources())
		}
		b.reply(updates)
		b.runs[m.Container.GetId()] = r
	case "UpdatePodSandbox":
		err = b.plugin.UpdatePodSandbox(t.Context(), m.Pod, nil, m.Resources)
	case "UpdateContainer":
		updates, err = b.plugin.UpdateContainer(t.Context(), m.Pod, m.Container, m.Resources)
		b.reply(updates)
	default:
		err = errors.New("nobody plays " + m.Event)
	}
	if err != nil {
		t.Fatalf("%s of %s: %v", m.Event, m.Pod.GetName(), err)
	}
	return adjust, updates
}

// TestRecordedStockNode plays the messages of a stock node, on which the kubelet's managers are
// off.
func TestRecordedStockNode(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	b.listed(t, "none-pods")
	for _, m := range messages(t, "none") {
		b.play(t, m)
	}
	b.plugin.Reconcile(t.Context())
	b.want(t, "in the end", map[string]string{
		"ctr-g-uid/main": "2-3 on {0} no quota", "plr-h-uid/a": "1 on {0}", "plr-g-uid/excl": "4-5 on {1} no quota", "plr-g-uid/shared": "6 on {1}",
		"plr-b-uid/a": "0,7 on {}", "plr-b-uid/b": "0,7 on {}",
	})
	for parent, want := range map[string]bool{
		"/kubepods/podctr-g-uid": false, "/kubepods/podplr-g-uid": true, "/kubepods/podplr-h-uid": true, "/kubepods/burstable/podplr-b-uid": true,
	} {
		if b.quotas[parent] != want {
			t.Errorf("%s has a quota: %v, want %v", parent, b.quotas[parent], want)
		}
	}
}

// The kubelet's own static policy, with the feature gate on, assigned the same resources to the
// same pods as Paddock: cpuset.cpus, cpuset.mems and quota of each container. It admitted them by
// name; their sandboxes came in another order.
func TestRecordedKubeletAgrees(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	b.listed(t, "static-pod-restricted-pods")
	all := messages(t, "static-pod-restricted")
	slices.SortStableFunc(all, func(l, r message) int {
		if l.Event != "RunPodSandbox" || r.Event != "RunPodSandbox" {
			return 0
		}
		return strings.Compare(l.Pod.GetName(), r.Pod.GetName())
	})
	for _, m := range all {
		if m.Event == "UpdateContainer" {
			continue // The kubelet reconciles.
		}
		kubelet := m.Container.GetLinux().GetResources().GetCpu()
		cpus, mems, quota := kubelet.GetCpus(), kubelet.GetMems(), kubelet.GetQuota().GetValue()
		if kubelet != nil {
			kubelet.Cpus, kubelet.Mems, kubelet.Quota = "", "", api.Int64(int64(200000))
		}
		adjust, _ := b.play(t, m)
		if m.Event != "CreateContainer" {
			continue
		}
		ours := adjust.GetLinux().GetResources().GetCpu()
		if ours.GetCpus() != cpus || ours.GetMems() != mems || (ours.GetQuota().GetValue() < 0) != (quota < 0) {
			t.Errorf("%s of %s: the kubelet gives %q, %q, quota %d, Paddock %v", m.Container.GetName(), m.Pod.GetName(), cpus, mems, quota, ours)
		}
	}
}

// Under the static policy containers come pinned, and Paddock changes none of them.
func TestRecordedStaticKubelet(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	defer b.check(t)
	b.listed(t, "static-pod-restricted-pods")
	for _, m := range messages(t, "static-pod-restricted") {
		if adjust, updates := b.play(t, m); adjust != nil || updates != nil {
			t.Errorf("%s of %s is answered with %v and %v", m.Event, m.Pod.GetName(), adjust, updates)
		}
	}
	if err := b.plugin.Ready(); err == nil || !strings.Contains(err.Error(), `cpuset.cpus "2-3" and cpuset.mems "0"`) {
		t.Errorf("Ready says %v, want what came from where", err)
	}
}

// Pods are resized in place. The third CPU of ctr-g is not free on its NUMA node. A policy that
// requires a single NUMA node vetoes the resize before anything changes; another policy assigns a
// CPU of another NUMA node. plr-b is Burstable, and only the kubelet decides about it.
func TestRecordedResize(t *testing.T) {
	const pod = "1e1caf5a-330e-4aac-846d-64ed283b5115"
	for topology, want := range map[node.TopologyPolicy]struct{ veto, main string }{
		node.TopologyRestricted: {"paddock rejects the resize of the pod default/ctr-g: Deferred: CPUs of container main from 2 to 3: 3 CPUs wanted, but no single NUMA node has that much free", "2-3 on {0} no quota"},
		node.TopologyBestEffort: {"", "2-4 on {0} no quota"},
	} {
		b := newBench(t.Context())
		b.policy.Topology = topology
		b.start()
		b.listed(t, "apiserver-resize-pods1")
		resizes := false
		for _, m := range messages(t, "apiserver-resize") {
			if m.Event == "UpdatePodSandbox" && !resizes {
				b.listed(t, "apiserver-resize-pods2")
				resizes = true
				for _, id := range slices.Sorted(maps.Keys(b.runs)) { // They run, but their start was not recorded.
					b.broke(b.plugin.PostStartContainer(t.Context(), m.Pod, b.runs[id].c))
				}
			}
			if resizes && m.Pod.GetUid() == pod && want.veto != "" { // No message follows a veto.
				if err := b.plugin.UpdatePodSandbox(t.Context(), m.Pod, nil, m.Resources); m.Event == "UpdatePodSandbox" && (err == nil || !strings.HasPrefix(err.Error(), want.veto)) {
					t.Errorf("%v: the resize was answered with %v, expected a veto that begins with %q", topology, err, want.veto)
				}
				continue
			}
			b.play(t, m)
		}
		b.quotas["/kubepods/pod"+pod] = true
		b.plugin.Reconcile(t.Context())
		if got := b.shown()[pod+"/main"]; got != want.main {
			t.Errorf("%v: after the resize it runs on %s, want %s", topology, got, want.main)
		}
		if b.quotas["/kubepods/pod"+pod] {
			t.Errorf("%v: the pod's quota came back", topology)
		}
		b.apart()
		b.check(t)
	}
}
