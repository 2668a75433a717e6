package treatment_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/codec/devicefile"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/testing/golden/recording"
)

var whole = flag.Bool("whole", false, "predict every recorded admission, not those of every fourth scenario")

// recorded is a line of a recording, as far as this test reads it.
type recorded struct {
	Scenario struct {
		Name          string
		Machine       json.RawMessage
		KubeletConfig json.RawMessage
		Devices       json.RawMessage
		Pods          []*v1.Pod
		Events        []struct {
			Op, Pod      string
			ConfigPatch  json.RawMessage
			FeatureGates map[string]bool
		}
		// Found is the node as another kubelet left it. The first event is then a restart.
		Found *struct {
			Version string
			Running []string
			State   answer
		}
	}
	Result struct {
		StartError string
		Start      *answer
		Events     []answer
	}
}

// beginning returns the state of the node before the first event, or nil if the kubelet did not
// start, and the pods that run then.
func (l *recorded) beginning() (*answer, inputs.Roster) {
	running := inputs.Roster{}
	f := l.Scenario.Found
	if f == nil {
		return l.Result.Start, running
	}
	for _, p := range l.Scenario.Pods {
		if slices.Contains(f.Running, string(p.UID)) {
			running[string(p.UID)] = p
		}
	}
	return &f.State, running
}

type answer struct {
	Op, Pod, StartError, Panic string
	Endless                    bool
	Admitted                   *bool
	Reason, Message            string
	CPU                        struct{ Entries map[string]map[string]string }
	Memory                     struct {
		Entries map[string]map[string][]struct {
			Type string
			Size int64
			NUMA []int
		}
	}
	Checkpoints map[string]string
}

// TestFromTheKubeletsFiles predicts every recorded admission of a new pod from the kubelet's own
// files, as they were before it: the way of someone who has only these files. A kubelet does not
// admit a pod again that it has rejected.
func TestFromTheKubeletsFiles(t *testing.T) {
	for _, version := range behavior.Recorded() {
		for _, path := range recordings(t, version, "ordinary", "devices", "pools", "from-1.*") {
			t.Run(version.String()+"/"+strings.TrimSuffix(filepath.Base(path), ".jsonl.gz"), func(t *testing.T) {
				s := &fileScore{version: version}
				for _, line := range sampled[recorded](t, path, 1) {
					s.line(t, line)
				}
				t.Logf("%d of %d admissions predicted, with the same CPUs and memory in %d of %d; in %d admissions the files leave it unsure",
					s.right, s.all, s.equal, s.admitted, s.unsure)
				most := 0.005
				if strings.HasPrefix(filepath.Base(path), "from-") {
					most = 0.01 // They have pods that were admitted with other feature gates.
				}
				if 1000*s.right < 999*s.all || 1000*s.equal < 999*s.admitted || float64(s.unsure) > most*float64(s.all) {
					t.Errorf("expected 99.9 %% of both, and a state for all but %.1f %%", 100*most)
				}
			})
		}
	}
}

// recordings returns the recordings of a kubelet whose names match one of the patterns. Minors
// before 1.36 have no pools.
func recordings(t *testing.T, version behavior.Version, patterns ...string) []string {
	t.Helper()
	var paths []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join("../../../testdata/kubelets", fmt.Sprintf("1.%d", version.Minor), pattern+".jsonl.gz"))
		if err != nil || len(found) == 0 && pattern != "pools" {
			t.Fatalf("no recordings %s of %s: %v", pattern, version, err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// sampled returns the lines of a recording with their positions, from 1 on: all lines with the flag
// whole, and otherwise every fourth one, beginning with the first-th.
func sampled[T any](t *testing.T, path string, first int) iter.Seq2[int, *T] {
	return func(yield func(int, *T) bool) {
		t.Helper()
		n := 0
		for line := range recording.Values[T](t, path) {
			if n++; (*whole || n%4 == first) && !yield(n, line) {
				return
			}
		}
	}
}

// textsOf returns the recorded state files.
func textsOf(checkpoints map[string]string) []treatment.Text {
	var texts []treatment.Text
	for _, m := range []kubeletstate.Manager{kubeletstate.CPUManager, kubeletstate.MemoryManager, kubeletstate.DeviceManager} {
		if text, is := checkpoints[m.FileName()]; is {
			texts = append(texts, treatment.Text{Name: m.FileName(), Manager: m, Data: []byte(text)})
		}
	}
	return texts
}

// TestPipeIsLeftAlone checks that a state in a pipe is not consumed by the question whose it is.
func TestPipeIsLeftAlone(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "state")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if is, err := treatment.OfKubelet(inputs.Reader{}, pipe); is || err != nil {
		t.Errorf("got %t and error %v for a pipe without a writer", is, err)
	}
}

type fileScore struct {
	version behavior.Version
	// right of all admissions are predicted. equal of admitted pods get the same CPUs and memory.
	// unsure counts the admissions before which the files give no state, or one with a note.
	all, right, admitted, equal, unsure int
}

func (s *fileScore) line(t *testing.T, line *recorded) {
	t.Helper()
	before, alive := line.beginning()
	if before == nil || line.Scenario.Found != nil && line.Result.Events[0].StartError != "" {
		return
	}
	n := nodeOf(t, line, s.version)
	// The recorder asks the managers alone. A kubelet without the gate does not reach them with a
	// pod-level pod.
	reached := n.Policy.Policy.PodLevelResources
	n.Policy.Policy.PodLevelResources = true
	pods := map[string]*v1.Pod{}
	for _, p := range line.Scenario.Pods {
		pods[string(p.UID)] = p
	}
	seen := map[string]bool{}
	for uid := range alive {
		seen[uid] = true
	}
	for i := range line.Result.Events {
		e := &line.Result.Events[i]
		if e.StartError != "" || e.Panic != "" || e.Endless {
			return
		}
		if e.Op == "admit" && !seen[e.Pod] && (reached || pods[e.Pod].Spec.Resources == nil) {
			s.admission(t, fmt.Sprintf("%s event %d", line.Scenario.Name, i), e, before.Checkpoints, alive, pods[e.Pod], n)
		}
		switch seen[e.Pod] = true; {
		case e.Op == "admit" && *e.Admitted:
			alive[e.Pod] = pods[e.Pod]
		case e.Op == "admit", e.Op == "removePod":
			delete(alive, e.Pod)
		}
		before = e
	}
}

func (s *fileScore) admission(t *testing.T, name string, e *answer, before map[string]string, alive inputs.Roster, pod *v1.Pod, n *inputs.Node) {
	t.Helper()
	shown, err := treatment.Found{Version: s.version, Pods: alive}.OfFiles(textsOf(before), n)
	if err != nil {
		s.unsure++
		t.Logf("%s: no state: %v", name, err)
		return
	}
	gates := podspec.GatesOf(n.Policy.Policy)
	asked, err := podspec.Request(pod, gates)
	if err != nil {
		t.Error(name, err)
		return
	}
	if len(shown.Doubts(&asked)) > 0 {
		s.unsure++
		return
	}
	s.all++
	plan := shown.State.Plan(asked)
	if (plan.Rejection == nil) != *e.Admitted || plan.Rejection != nil && string(plan.Rejection.Reason) != e.Reason {
		t.Logf("%s: predicted %v, the kubelet: admitted %t, %s", name, plan.Rejection, *e.Admitted, e.Reason)
		return
	}
	s.right++
	if plan.Rejection != nil {
		return
	}
	s.admitted++
	if same(plan.Grant, e) {
		s.equal++
	} else {
		t.Logf("%s: predicted %v, the kubelet: %v", name, plan.Grant, e.CPU.Entries[e.Pod])
	}
}

// same reports whether the containers of a grant have the recorded CPUs, and those that run the
// recorded memory. An init container leaves its memory to later ones.
func same(g *node.Grant, e *answer) bool {
	for i, c := range g.Pod.Containers {
		if got := g.Containers[i].CPUs.String(); got != e.CPU.Entries[e.Pod][c.Name] {
			return false
		}
		blocks := map[string]string{}
		for _, b := range e.Memory.Entries[e.Pod][c.Name] {
			blocks[b.Type] = fmt.Sprint(b.Size, b.NUMA)
		}
		for _, b := range g.Containers[i].Memory {
			if c.Type == request.App && blocks[b.Type] != fmt.Sprint(b.Size, b.Nodes.Nodes()) {
				return false
			}
			delete(blocks, b.Type)
		}
		if c.Type == request.App && len(blocks) > 0 {
			return false
		}
	}
	return true
}

func nodeOf(t *testing.T, line *recorded, version behavior.Version) *inputs.Node {
	t.Helper()
	found := machineOf(t, line.Scenario.Machine)
	config, err := kubeletcfg.FromJSON(line.Scenario.KubeletConfig)
	if err != nil {
		t.Fatal(err)
	}
	config = config.For(version.Minor)
	policy, err := config.Resolve(found.Machine)
	if err != nil {
		t.Fatal(line.Scenario.Name, err)
	}
	policy = quirk.New(version).Policy(found.Machine, policy, quirk.Setup{ByNumber: !config.NamesReserved()})
	devices, err := device.NewInventory(found.Machine, nil)
	if len(line.Scenario.Devices) > 0 {
		devices, err = devicefile.Reported(found.Machine, "devices", line.Scenario.Devices)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &inputs.Node{Found: found, Policy: inputs.Policy{Policy: policy}, Devices: devices}
}
