package doctor_test

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/testing/golden/recording"
)

// scenario is the part of a golden scenario that is needed to make a node with pods.
type scenario struct {
	Scenario struct {
		Name, Machine string
		KubeletConfig json.RawMessage
		Pods          []*v1.Pod
	}
}

func scenarios(t *testing.T, name string, f func(*scenario)) {
	t.Helper()
	for line := range recording.Lines(t, filepath.Join(golden, name)) {
		var s scenario
		if err := json.Unmarshal(line, &s); err != nil {
			continue // the line has a machine of its own instead of a name
		}
		if strings.HasPrefix(s.Scenario.Machine, "@") {
			f(&s)
		}
	}
}

// admitted returns the node of a scenario with all pods that fit. The state is nil if the
// configuration is rejected.
func admitted(t *testing.T, s *scenario, machines setups) (*node.State, doctor.Setup, []request.Pod) {
	t.Helper()
	m := machines.machine(t, s.Scenario.Machine)
	config, err := kubeletcfg.FromJSON(s.Scenario.KubeletConfig)
	if err != nil {
		return nil, doctor.Setup{}, nil
	}
	p, err := config.Resolve(m)
	if err != nil {
		return nil, doctor.Setup{}, nil
	}
	state, err := node.New(m, p)
	if err != nil {
		t.Fatal(err)
	}
	gates := podspec.GatesOf(p)
	var asked []request.Pod
	for _, pod := range s.Scenario.Pods {
		r, err := podspec.Request(pod, gates)
		if err != nil {
			continue
		}
		if state, err = state.Apply(state.Plan(r)); err != nil {
			t.Fatal(err)
		}
		asked = append(asked, r)
	}
	return state, doctor.Setup{Kubelet: kubeletstate.Kubelet{Minor: 36, PodLevelManagers: p.PodLevelManagers}, Machine: m, Policy: &p}, asked
}

// TestPaddock checks that Paddock's decisions can be exported to files on which the kubelet starts,
// and that reading the files back yields the same decisions. The exception is a node on which every
// CPU is assigned, where no kubelet starts.
func TestPaddock(t *testing.T) {
	machines, exported, full := setups{}, 0, 0
	each := func(s *scenario) {
		state, setup, asked := admitted(t, s, machines)
		if state == nil {
			return
		}
		name := s.Scenario.Name
		text, err := statefile.Encode(state)
		if err != nil {
			t.Fatal(err)
		}
		file, err := statefile.Decode(name, text)
		if err != nil {
			t.Fatal(err)
		}
		there, _, err := doctor.FromPaddock(file, setup.Machine)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		files, err := there.Encode(setup.Kubelet)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if there.CPU.Policy == "static" && there.CPU.Default == "" {
			full++
		} else if err := doctor.Check(files, setup); err != nil {
			t.Fatalf("%s: %v\n%s\n%s", name, err, files[kubeletstate.CPUManager], files[kubeletstate.MemoryManager])
		}
		back, err := doctor.ToPaddock(there, setup.Machine, *setup.Policy, asked)
		if err != nil {
			t.Fatalf("%s: back: %v", name, err)
		}
		again, _, err := doctor.FromPaddock(&statefile.File{Policy: *setup.Policy, Grants: back.Grants()}, setup.Machine)
		if err != nil || !reflect.DeepEqual(there, again) {
			t.Fatalf("%s: %v: %+v %+v came back as %+v %+v", name, err, there.CPU, there.Memory, again.CPU, again.Memory)
		}
		exported++
	}
	scenarios(t, "seed-examples.jsonl.gz", each)
	scenarios(t, "dev.jsonl.gz", each)
	t.Logf("%d nodes exported and read back, %d of them without a shared CPU", exported, full)
	if exported < 1000 {
		t.Errorf("only %d nodes", exported)
	}
}
