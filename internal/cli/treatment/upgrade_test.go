package treatment_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/behavior"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// TestUpgradeAsRecorded predicts every recorded restart of each kubelet from the kubelet's own
// files, as they were before it: whether the kubelet starts, also with a changed configuration, and
// what it does with each pod that it admits again. A prediction of a pod is right if the kubelet
// admits or rejects the pod as predicted, on the predicted CPUs.
func TestUpgradeAsRecorded(t *testing.T) {
	for _, version := range behavior.Recorded() {
		t.Run(version.String(), func(t *testing.T) {
			s := &startScore{version: version}
			for _, path := range recordings(t, version, "ordinary", "devices", "pools", "golden") {
				s.file(t, path)
			}
			s.expect(t, 0.01, 200)
		})
	}
}

// start is a recorded start of a kubelet on one state file.
type start struct {
	Name, File, Content string
	Machine             json.RawMessage
	KubeletConfig       json.RawMessage
	Accepted            bool
	Error               string
}

// TestUpgradeStartsAsRecorded predicts recorded starts of each kubelet on files that it or another
// one wrote, whole and damaged, also with configurations that this minor does not accept.
func TestUpgradeStartsAsRecorded(t *testing.T) {
	for _, version := range behavior.Recorded() {
		t.Run(version.String(), func(t *testing.T) {
			all, right, rejected := 0, 0, 0
			for _, line := range sampled[start](t, recordings(t, version, "starts")[0], 1) {
				config, err := kubeletcfg.FromJSON(line.KubeletConfig)
				if err != nil {
					t.Fatal(err)
				}
				texts := []treatment.Text{{Name: line.File, Manager: kubeletstate.CPUManager, Data: []byte(line.Content)}}
				if line.File == kubeletstate.MemoryManager.FileName() {
					texts[0].Manager = kubeletstate.MemoryManager
				}
				got, err := treatment.Upgrade{To: version, As: version}.Of(texts, nil, machineOf(t, line.Machine), config)
				if err != nil {
					t.Errorf("%s: %v", line.Name, err)
					continue
				}
				if got.Answer == doctor.Rejects {
					rejected++
				}
				if all++; (got.Answer == doctor.Starts) == line.Accepted {
					right++
				} else {
					t.Errorf("%s: predicted that it %s, the kubelet: %t %s", line.Name, got.Answer, line.Accepted, line.Error)
				}
			}
			t.Logf("%d of %d starts predicted, %d of them rejected", right, all, rejected)
			if all < 200 || rejected < all/10 {
				t.Errorf("%d starts, %d of them rejected: too few", all, rejected)
			}
		})
	}
}

// TestUpgradeAcrossMinorsAsRecorded is TestUpgradeAsRecorded for starts on nodes with pods that the
// kubelet of a neighboring minor left.
func TestUpgradeAcrossMinorsAsRecorded(t *testing.T) {
	for _, version := range behavior.Recorded() {
		for _, path := range recordings(t, version, "from-1.*") {
			t.Run(version.String()+" "+strings.TrimSuffix(filepath.Base(path), ".jsonl.gz"), func(t *testing.T) {
				s := &startScore{version: version}
				s.file(t, path)
				s.expect(t, 0.02, 150) // Each file has fewer pods, and the other minor's pools are unsure.
			})
		}
	}
}

// startScore counts predictions of starts, and of pods that are admitted again.
type startScore struct {
	version                       behavior.Version
	starts, rightStarts, rejected int
	pods, right, kept, unsure     int
	// registers counts the pods of which the outcome depends on when a device plugin registers.
	registers int
}

func (s *startScore) file(t *testing.T, path string) {
	t.Helper()
	for _, line := range sampled[recorded](t, path, 1) {
		s.line(t, line)
	}
}

// expect checks that all predictions are right, that at most a part of the pods is unsure, and that
// there are enough pods, some of which change.
func (s *startScore) expect(t *testing.T, unsure float64, pods int) {
	t.Helper()
	t.Logf("%d of %d starts predicted, %d of them rejected; %d of %d pods predicted, %d of them kept, and %d unsure; of %d it depends on a device plugin",
		s.rightStarts, s.starts, s.rejected, s.right, s.pods, s.kept, s.unsure, s.registers)
	if s.rightStarts < s.starts || s.right < s.pods || float64(s.unsure) > unsure*float64(s.pods) {
		t.Errorf("expected all of both, and at most %.0f %% unsure", 100*unsure)
	}
	if s.pods < pods || s.right == s.kept {
		t.Errorf("%d pods, and none of them changes: too few", s.pods)
	}
}

func (s *startScore) line(t *testing.T, line *recorded) {
	t.Helper()
	before, alive := line.beginning()
	if before == nil {
		return
	}
	as := s.version
	if f := line.Scenario.Found; f != nil {
		var err error
		if as, _, err = behavior.OfNode("v" + f.Version); err != nil {
			t.Fatal(err)
		}
	}
	config, err := kubeletcfg.FromJSON(line.Scenario.KubeletConfig)
	if err != nil {
		t.Fatal(err)
	}
	found := machineOf(t, line.Scenario.Machine)
	for i := range line.Result.Events {
		e, asked := &line.Result.Events[i], line.Scenario.Events[i]
		if e.Op == "restart" {
			if config, err = config.Patch(asked.ConfigPatch, asked.FeatureGates); err != nil {
				t.Fatal(err)
			}
			s.restart(t, fmt.Sprintf("%s event %d", line.Scenario.Name, i), as, before, line.Result.Events[i:], maps.Clone(alive), found, config)
			as = s.version
		}
		if e.StartError != "" || e.Panic != "" || e.Endless {
			return
		}
		switch {
		case e.Op == "admit" && *e.Admitted:
			for _, p := range line.Scenario.Pods {
				if string(p.UID) == e.Pod {
					alive[e.Pod] = p
				}
			}
		case e.Op == "admit", e.Op == "removePod":
			delete(alive, e.Pod)
		}
		before = e
	}
}

// restart predicts a restart from what was recorded before it. The events begin with the restart.
func (s *startScore) restart(t *testing.T, name string, as behavior.Version, before *answer, events []answer, alive inputs.Roster, found *discover.Found, config *kubeletcfg.Config) {
	t.Helper()
	again := map[string]*answer{}
	for i := 1; i < len(events) && events[i].Op == "admit" && alive[events[i].Pod] != nil && again[events[i].Pod] == nil; i++ {
		again[events[i].Pod] = &events[i]
		pod := alive[events[i].Pod].DeepCopy()
		pod.CreationTimestamp = metav1.NewTime(time.Unix(int64(i), 0))
		alive[events[i].Pod] = pod
	}
	later := int64(len(events))
	for uid := range alive {
		if again[uid] == nil {
			pod := alive[uid].DeepCopy()
			later++
			pod.CreationTimestamp = metav1.NewTime(time.Unix(later, 0))
			alive[uid] = pod
		}
	}
	got, err := treatment.Upgrade{To: s.version, As: as}.Of(textsOf(before.Checkpoints), alive, found, config)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	s.starts++
	if starts := events[0].StartError == ""; starts == (got.Answer == doctor.Starts) {
		s.rightStarts++
	} else {
		t.Logf("%s: predicted that it %s, the kubelet: %q", name, got.Answer, events[0].StartError)
	}
	if got.Answer == doctor.Rejects {
		s.rejected++
		return
	}
	for i := range got.Pods {
		if e := again[got.Pods[i].UID]; e != nil && events[0].StartError == "" {
			s.pod(t, name, &got.Pods[i], before, e)
		}
	}
}

func (s *startScore) pod(t *testing.T, name string, p *treatment.PodStart, before, e *answer) {
	t.Helper()
	if strings.Contains(p.Why, "feature gate PodLevelResources is off") {
		return // The recorder asks the managers alone, which the kubelet does not reach with such a pod.
	}
	if p.Outcome == treatment.Unknown {
		if strings.Contains(p.Why, "device plugin") {
			s.registers++ // Nothing shows when that is.
			return
		}
		s.unsure++
		t.Logf("%s: pod %s: unsure: %s", name, p.UID, p.Why)
		return
	}
	s.pods++
	down := e.Panic != "" || e.Endless
	var right bool
	switch had, has := before.CPU.Entries[p.UID], e.CPU.Entries[p.UID]; p.Outcome {
	case treatment.Stops:
		right = down
	case treatment.Rejected:
		right = !down && !*e.Admitted
	case treatment.Keeps, treatment.Doubles:
		right = !down && *e.Admitted && maps.Equal(had, has) && (p.Then == nil || same(p.Then, e))
	default:
		right = !down && *e.Admitted && (p.Then == nil || same(p.Then, e))
	}
	switch {
	case !right:
		t.Logf("%s: pod %s: predicted %s %v, the kubelet: %v, CPUs %v before and %v after", name, p.UID, p.Outcome, p.Then, e.Admitted != nil && *e.Admitted, before.CPU.Entries[p.UID], e.CPU.Entries[p.UID])
	case p.Outcome == treatment.Keeps:
		s.kept++
		fallthrough
	default:
		s.right++
	}
}

// machineOf reads the machine of a scenario, or one of the machines of testdata/golden by its name.
func machineOf(t *testing.T, raw json.RawMessage) *discover.Found {
	t.Helper()
	var name string
	if json.Unmarshal(raw, &name) == nil {
		var err error
		if raw, err = os.ReadFile(filepath.Join("../../../testdata/golden/machines", strings.TrimPrefix(name, "@")+".json")); err != nil {
			t.Fatal(err)
		}
	}
	found, err := discover.Read("machine", raw)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
