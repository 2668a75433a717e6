package doctor_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/discover"
	"github.com/paddock-project/paddock/internal/doctor"
	"github.com/paddock-project/paddock/internal/kubeletcfg"
	"github.com/paddock-project/paddock/internal/kubeletstate"
)

const golden = "../../testdata/golden"

// verdict is a line of state-verdicts.jsonl.gz.
type verdict struct {
	Name, Machine, File, Content string
	KubeletConfig                json.RawMessage
	Accepted                     bool
	Error                        string
}

func verdicts(t *testing.T) []verdict {
	t.Helper()
	file, err := os.Open(filepath.Join(golden, "state-verdicts.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 64<<20)
	var all []verdict
	for lines.Scan() {
		var v verdict
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// setups makes the setup of a verdict: a kubelet 1.36 with its configuration.
type setups map[string]*machine.Machine

func (s setups) of(t *testing.T, v *verdict) doctor.Setup {
	t.Helper()
	if s[v.Machine] == nil {
		name := filepath.Join(golden, "machines", strings.TrimPrefix(v.Machine, "@")+".json")
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found, err := discover.Read(name, data)
		if err != nil {
			t.Fatal(err)
		}
		s[v.Machine] = found.Machine
	}
	config, err := kubeletcfg.FromJSON(v.KubeletConfig)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := config.Resolve(s[v.Machine])
	if err != nil {
		t.Fatal(err)
	}
	kubelet := kubeletstate.Kubelet{Minor: 36, PodLevelManagers: policy.PodLevelManagers}
	return doctor.Setup{Kubelet: kubelet, Machine: s[v.Machine], Policy: &policy}
}

func managerOf(v *verdict) kubeletstate.Manager {
	if v.File == "memory_manager_state" {
		return kubeletstate.MemoryManager
	}
	return kubeletstate.CPUManager
}

// TestVerdicts: on every file the verdict is that of the reference, and where it refuses the fault is in its words.
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
