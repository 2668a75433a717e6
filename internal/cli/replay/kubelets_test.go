package replay_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/cli/replay"
	"github.com/paddock-project/paddock/internal/core/behavior"
)

var whole = flag.Bool("whole", false, "compare with every recorded scenario of the kubelets, not with every fourth")

// TestKubelets compares the planner as each recorded kubelet with that kubelet's answers: verdicts
// and reasons, CPU ids and memory of every container and pool, the node shared pool, the memory
// accounting, failed starts, and admissions that end the kubelet or never end. Differences must be
// listed in differences.txt beside the recording, with their reasons.
func TestKubelets(t *testing.T) {
	for _, version := range behavior.Recorded() {
		minor := fmt.Sprintf("kubelets/1.%d", version.Minor)
		dir := filepath.Join("../../../testdata", minor)
		files, err := filepath.Glob(filepath.Join(dir, "*.jsonl.gz"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 {
			t.Errorf("no answers of kubelet %s are recorded in %s", version, dir)
		}
		score := &kubeletScore{version: version, differences: listed(t, minor+"/differences.txt")}
		for _, file := range files {
			if name := filepath.Base(file); name == "starts.jsonl.gz" || strings.HasPrefix(name, "from-") {
				continue // Packages doctor and treatment compare them.
			}
			t.Run(version.String()+"/"+strings.TrimSuffix(filepath.Base(file), ".jsonl.gz"), func(t *testing.T) {
				score.file(t, file)
			})
		}
		t.Logf("kubelet %s: %d scenarios, %d of them with the kubelet's answers, in %d events; %d admissions, in %d of which a manager decided; %d differences are listed",
			version, score.scenarios, score.scenarios-score.different, score.events, score.admissions, score.decided, score.listed)
	}
}

// kubeletScore counts the answers of a kubelet.
type kubeletScore struct {
	version     behavior.Version
	differences *replay.Divergences
	// different are the scenarios with differences. decided are the admissions that were
	// rejected, or in which the pod got exclusive CPUs or memory.
	scenarios, different, events, admissions, decided, listed int
}

func (s *kubeletScore) file(t *testing.T, file string) {
	unlisted, line := 0, 0
	for c := range cases(t, file) {
		if line++; !*whole && line%4 != 1 {
			continue
		}
		player := &replay.Player{Machine: goldenMachine(t), Now: time.Now, Kubelet: s.version}
		got, err := player.Follow(&c.Scenario, c.Want)
		if err != nil {
			t.Error(err)
			continue
		}
		compared := replay.CompareKubelet(&c.Scenario, &got, c.Want)
		s.scenarios++
		for i := range compared.Events {
			s.count(&c.Want.Answers[i])
		}
		s.events += compared.Events
		different := false
		for _, d := range compared.Differences {
			different = true
			switch {
			case s.differences.Listed(d):
				s.listed++
			case !d.Follows:
				if unlisted++; unlisted <= 40 {
					t.Log(d)
				}
			}
		}
		if different {
			s.different++
		}
		for _, line := range s.differences.Unused(c.Scenario.Name) {
			t.Error(line)
		}
	}
	if unlisted > 0 {
		t.Errorf("%d differences are not listed", unlisted)
	}
}

// count counts an answer of the kubelet.
func (s *kubeletScore) count(want *replay.Answer) {
	if want.Op != replay.Admit {
		return
	}
	s.admissions++
	has := len(want.CPU.Entries[want.Pod]) > 0 || len(want.Memory.Entries[want.Pod]) > 0
	if want.Admitted == nil || !*want.Admitted || has {
		s.decided++
	}
}
