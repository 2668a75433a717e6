package config

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/testing/golden/recording"
)

const goldenDir = "../../../testdata/golden/"

// goldenLine is the part of a golden line, of either kind, that the test needs.
type goldenLine struct {
	Scenario *goldenScenario `json:"scenario"`
	Result   goldenResult    `json:"result"`
	goldenScenario
}

type goldenResult struct {
	StartError      string `json:"startError"`
	AllocatableCPUs string `json:"allocatableCPUs"`
	Start           struct {
		Memory struct {
			MachineState map[int]struct {
				Memory map[string]struct {
					SystemReserved int64 `json:"systemReserved"`
				} `json:"memory"`
			} `json:"machineState"`
		} `json:"memory"`
	} `json:"start"`
}

type goldenScenario struct {
	Name          string          `json:"name"`
	Machine       json.RawMessage `json:"machine"`
	KubeletConfig json.RawMessage `json:"kubeletConfig"`
	Events        []struct {
		FeatureGates map[string]bool `json:"featureGates"`
		ConfigPatch  json.RawMessage `json:"configPatch"`
	} `json:"events"`
}

// TestGolden compares with the answer of a real kubelet to every recorded configuration. Both must
// reject it or both must accept it, with the same CPUs and memory reserved. If a restart changes
// the configuration, the changed configuration must be accepted.
func TestGolden(t *testing.T) {
	for file, want := range map[string]struct{ rejected, accepted int }{
		"dev.jsonl.gz":            {34, 340},
		"seed-examples.jsonl.gz":  {34, 763},
		"state-verdicts.jsonl.gz": {0, 1030},
	} {
		t.Run(file, func(t *testing.T) {
			var got struct{ rejected, accepted int }
			for line := range recording.Values[goldenLine](t, filepath.Join(goldenDir, file)) {
				s := &line.goldenScenario
				if line.Scenario != nil {
					s = line.Scenario
				}
				m := goldenMachine(t, s.Machine)
				if checkGolden(t, s, m, &line.Result) {
					got.accepted++
				} else {
					got.rejected++
				}
			}
			if got != want {
				t.Errorf("%+v of the lines, want %+v", got, want)
			}
		})
	}
}

// checkGolden resolves one configuration and the configurations after its restarts. It reports
// whether the first is accepted.
func checkGolden(t *testing.T, s *goldenScenario, m *machine.Machine, result *goldenResult) bool {
	t.Helper()
	c, err := FromJSON(s.KubeletConfig)
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	policy, err := c.Resolve(m)
	startError := result.StartError
	switch {
	case startError == "" && err != nil:
		t.Errorf("%s: the kubelet accepts: %v", s.Name, err)
	case startError != "" && err == nil:
		t.Errorf("%s: the kubelet refuses: %s", s.Name, startError)
	case startError != "" && !strings.Contains(err.Error(), kubeletSentence(startError)):
		t.Errorf("%s: the kubelet's sentence is missing\nwant %s\nin   %v", s.Name, startError, err)
	}
	if err != nil {
		return false
	}
	checkReserved(t, s.Name, m, policy, result)
	sameAsConfigz(t, c, m)
	for i, e := range s.Events {
		if c, err = c.Patch(e.ConfigPatch, e.FeatureGates); err != nil {
			t.Fatalf("%s: event %d: %v", s.Name, i, err)
		}
		if _, err := c.Resolve(m); err != nil {
			t.Errorf("%s: event %d: %v", s.Name, i, err)
		}
	}
	return true
}

// checkReserved compares what is reserved for the system. Golden lines about a state file do not
// have this.
func checkReserved(t *testing.T, name string, m *machine.Machine, p node.Policy, result *goldenResult) {
	t.Helper()
	free := m.AllCPUs().Difference(p.ReservedCPUs).String()
	if p.StaticCPU && result.AllocatableCPUs != "" && result.AllocatableCPUs != free {
		t.Errorf("%s: allocatable CPUs %s, want %s", name, free, result.AllocatableCPUs)
	}
	for numa, n := range result.Start.Memory.MachineState {
		for resource, want := range n.Memory {
			if got := p.ReservedMemory[numa][resource]; got != want.SystemReserved {
				t.Errorf("%s: %d bytes of %s reserved on NUMA node %d, want %d", name, got, resource, numa, want.SystemReserved)
			}
		}
	}
}

// kubeletSentence removes the text that the kubelet puts around its messages, and the text that
// Go's parsers add.
func kubeletSentence(s string) string {
	for _, around := range []string{
		"failed to validate kubelet configuration, error: ",
		"failed to set feature gates from initial flags-based config: ",
	} {
		s = strings.TrimPrefix(s, around)
	}
	s, _, _ = strings.Cut(s, ", error: strconv.")
	return s
}
