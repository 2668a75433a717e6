package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/stateview"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
)

// TestCheckConfigWithOfflineCPUs checks that an offline reserved CPU prevents a kubelet from
// starting, but not Paddock.
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
		got, err := config.Verdict(m, c.offline)
		if err != nil {
			t.Fatal(err)
		}
		if got.KubeletStarts != c.kubelet || got.PaddockStarts != c.paddock || (got.Policy != "") != c.paddock || len(got.Problems) != 1 || got.Problems[0].Paddock == c.paddock {
			t.Errorf("offline %s: %+v", c.offline, got)
		}
	}
	if got, err := config.Verdict(s.Machine(), cpuset.Set{}); err != nil || !got.KubeletStarts || !got.PaddockStarts {
		t.Errorf("all online: %+v, %v", got, err)
	}
}

// TestStateOfPodsWithOfflineCPUs checks that a state with pods whose CPUs are missing can be used
// for planning if the CPUs are offline, but not if the machine never had them.
func TestStateOfPodsWithOfflineCPUs(t *testing.T) {
	full := podsAdmit(t, podsNode(t), "testdata/pods/node.yaml")
	offline := cpuset.Of(3, 4)
	m := withoutCPUs(t, full, offline).Machine()
	data, err := statefile.Encode(full)
	if err != nil {
		t.Fatal(err)
	}
	saved := filepath.Join(t.TempDir(), "node.json")
	if err := os.WriteFile(saved, data, 0o600); err != nil {
		t.Fatal(err)
	}
	restore := func(m *machine.Machine, offline cpuset.Set) (*node.State, error) {
		return inputs.Reader{}.State(saved, &inputs.Node{
			Found: &discover.Found{Machine: m, Offline: offline}, Policy: inputs.Policy{Policy: full.Policy()}, Devices: full.Devices().Inventory(),
		})
	}
	s, err := restore(m, offline)
	if err != nil || !s.Offline().Equal(offline) {
		t.Errorf("%v; want %s offline", err, offline)
	}
	for _, known := range []cpuset.Set{{}, cpuset.Of(3)} {
		if _, err := restore(m, known); err == nil || !strings.Contains(err.Error(), "which this machine does not have") {
			t.Errorf("CPUs %q are offline: %v", known, err)
		}
	}
	if s, err := restore(full.Machine(), cpuset.Set{}); err != nil || !s.Offline().IsEmpty() {
		t.Errorf("all online: %v", err)
	}
}

func TestShownCPUsThatAreOffline(t *testing.T) {
	m := withoutCPUs(t, podsNode(t), cpuset.Of(3, 4)).Machine()
	s, err := stateview.StateOf("f", []byte(`{"policyName":"static","defaultCpuSet":"0","entries":{"u":{"c":"1-4","d":"5-6"}},"checksum":1}`), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := s.Text(m, terminal.Style{})
	if !strings.Contains(text, "1-4 (4), offline: 3-4") || strings.Count(text, "offline") != 1 {
		t.Errorf("shown:\n%s", text)
	}
}
