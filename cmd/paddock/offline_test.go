package main

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/kubeletcfg"
	"github.com/paddock-project/paddock/internal/view"
)

// TestCheckConfigWithOfflineCPUs: a reserved CPU that is offline stops a kubelet, and not Paddock.
func TestCheckConfigWithOfflineCPUs(t *testing.T) {
	s := podsNode(t)
	m := withoutCPUs(t, s, cpuset.Of(1)).Machine()
	config, err := kubeletcfg.Read("k", []byte(`{"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "cpuManagerPolicy": "static", "reservedSystemCPUs": "0-1"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		offline          cpuset.Set
		kubelet, paddock bool
	}{
		{cpuset.Set{}, false, false},
		{cpuset.Of(1), false, true},
	} {
		got, err := check(config, m, c.offline)
		if err != nil {
			t.Fatal(err)
		}
		if got.KubeletStarts != c.kubelet || got.PaddockStarts != c.paddock || (got.Policy != "") != c.paddock || len(got.Problems) != 1 || got.Problems[0].Paddock == c.paddock {
			t.Errorf("offline %s: %+v", c.offline, got)
		}
	}
	if got, err := check(config, s.Machine(), cpuset.Set{}); err != nil || !got.KubeletStarts || !got.PaddockStarts {
		t.Errorf("all online: %+v, %v", got, err)
	}
}

// TestStateOfPodsWithOfflineCPUs: a state is planned on although CPUs of its pods are offline, if they are, and
// not if the machine never had them.
func TestStateOfPodsWithOfflineCPUs(t *testing.T) {
	full := podsAdmit(t, podsNode(t), "testdata/pods/node.yaml")
	offline := cpuset.Of(3, 4)
	m := withoutCPUs(t, full, offline).Machine()
	s, err := restore(m, offline, full.Policy(), full.Grants())
	if err != nil || !s.Offline().Equal(offline) {
		t.Errorf("%v; want %s offline", err, offline)
	}
	for _, known := range []cpuset.Set{{}, cpuset.Of(3)} {
		if _, err := restore(m, known, full.Policy(), full.Grants()); err == nil || !strings.Contains(err.Error(), "which this machine does not have") {
			t.Errorf("CPUs %q are offline: %v", known, err)
		}
	}
	if s, err := restore(full.Machine(), cpuset.Set{}, full.Policy(), full.Grants()); err != nil || !s.Offline().IsEmpty() {
		t.Errorf("all online: %v", err)
	}
}

func TestShownCPUsThatAreOffline(t *testing.T) {
	m := withoutCPUs(t, podsNode(t), cpuset.Of(3, 4)).Machine()
	s := &shownState{Pods: []shownPod{{UID: "u", Containers: []shownContainer{{"c", holdingOf("1-4", m)}, {"d", holdingOf("5-6", m)}}}}}
	text := s.podTable().Text(view.Style{})
	if !strings.Contains(text, "1-4 (4), offline: 3-4") || strings.Count(text, "offline") != 1 {
		t.Errorf("shown:\n%s", text)
	}
}
