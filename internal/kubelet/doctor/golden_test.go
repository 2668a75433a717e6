package doctor_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/machine"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/testing/golden/recording"
)

const golden = "../../../testdata/golden"

// verdict is a line of state-verdicts.jsonl.gz.
type verdict struct {
	Name, Machine, File, Content string
	KubeletConfig                json.RawMessage
	Accepted                     bool
	Error                        string
}

func verdicts(t *testing.T) []verdict {
	t.Helper()
	return verdictsIn(t, filepath.Join(golden, "state-verdicts.jsonl.gz"))
}

func verdictsIn(t *testing.T, file string) []verdict {
	t.Helper()
	var all []verdict
	for v := range recording.Values[verdict](t, file) {
		all = append(all, *v)
	}
	return all
}

// setups returns setups and reads each machine only once.
type setups map[string]*machine.Machine

func (s setups) machine(t *testing.T, name string) *machine.Machine {
	t.Helper()
	if s[name] == nil {
		path := filepath.Join(golden, "machines", strings.TrimPrefix(name, "@")+".json")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found, err := discover.Read(path, data)
		if err != nil {
			t.Fatal(err)
		}
		s[name] = found.Machine
	}
	return s[name]
}

// of returns the setup of a verdict: a kubelet 1.36 with its configuration.
func (s setups) of(t *testing.T, v *verdict) doctor.Setup {
	t.Helper()
	m := s.machine(t, v.Machine)
	return s.as(t, v, m, 36)
}

// as returns the setup of a verdict for a kubelet of a minor.
func (s setups) as(t *testing.T, v *verdict, m *machine.Machine, minor int) doctor.Setup {
	t.Helper()
	config, err := kubeletcfg.FromJSON(v.KubeletConfig)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := config.For(minor).Resolve(m)
	if err != nil {
		t.Fatal(err)
	}
	return doctor.Setup{Kubelet: kubeletstate.Kubelet{Minor: minor, PodLevelManagers: policy.PodLevelManagers}, Machine: m, Policy: &policy}
}

func managerOf(v *verdict) kubeletstate.Manager {
	if v.File == "memory_manager_state" {
		return kubeletstate.MemoryManager
	}
	return kubeletstate.CPUManager
}

// TestVerdicts checks that the verdict on every file is that of the reference, and that the fault
// has the words of the reference if the reference rejects the file.
func TestVerdicts(t *testing.T) {
	equal, words := 0, 0
	all, machines := verdicts(t), setups{}
	for i := range all {
		v := &all[i]
		d := doctor.Verify(managerOf(v), []byte(v.Content), machines.of(t, v))
		if (d.Answer() == doctor.Starts) != v.Accepted || d.Answer() == doctor.Unsure {
			t.Errorf("%s: %s, the reference: %v %s; findings %+v", v.Name, d.Answer(), v.Accepted, v.Error, d.Findings)
			continue
		}
		equal++
		if v.Accepted || d.Findings[0].Kubelet == v.Error {
			words++
		} else {
			t.Logf("%s:\n  we  %s\n  ref %s", v.Name, d.Findings[0].Kubelet, v.Error)
		}
		for _, f := range d.Findings {
			if f.What == "" || f.Do == "" || f.Rule == "" || (f.Level == doctor.Fault) != (f.Kubelet != "") {
				t.Errorf("%s: a finding says too little: %+v", v.Name, f)
			}
		}
	}
	t.Logf("%d of %d verdicts equal, %d in the same words", equal, len(all), words)
}

// TestVerdictsOfKubelets checks the verdict on every file against the recorded start of each
// kubelet. A kubelet that rejects the configuration does not read the file.
func TestVerdictsOfKubelets(t *testing.T) {
	for _, version := range behavior.Recorded() {
		t.Run(version.String(), func(t *testing.T) {
			equal, machines := 0, setups{}
			all := verdictsIn(t, filepath.Join("../../../testdata/kubelets", fmt.Sprintf("1.%d", version.Minor), "starts.jsonl.gz"))
			for i := range all {
				v := &all[i]
				if strings.HasPrefix(v.Error, "failed to set feature gates") || strings.Contains(v.Error, "-level Options not enabled") {
					continue
				}
				d := doctor.Verify(managerOf(v), []byte(v.Content), machines.as(t, v, machines.machine(t, v.Machine), version.Minor))
				if (d.Answer() == doctor.Starts) != v.Accepted || d.Answer() == doctor.Unsure {
					t.Errorf("%s: %s, the kubelet: %v %s; findings %+v", v.Name, d.Answer(), v.Accepted, v.Error, d.Findings)
					continue
				}
				equal++
			}
			if equal < 300 {
				t.Errorf("%d verdicts, want at least 300", equal)
			}
			t.Logf("%d of %d verdicts equal", equal, len(all))
		})
	}
}
