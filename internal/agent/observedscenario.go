package agent

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/cli/collect"
	"github.com/paddock-project/paddock/internal/cli/replay"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/node/observe"
)

// evidence returns a decision that differs from its prediction as a scenario with its recorded
// result, in one compressed line. paddock replay can decide it again. The scenario has only what
// decides: the machine, the settings of the managers, the files before the decision, the requests
// of the pods that ran, and the requests of those that were decided at the same time. evidence
// returns nil if it cannot make the scenario, or if the prediction does not follow from these
// inputs.
func (s *session) evidence(l *reading, decided []observe.Decision, c *observe.Comparison) []byte {
	if c.Short != "" {
		return nil
	}
	scenario, err := s.scenario(l, decided, c)
	if err != nil {
		return nil
	}
	line, err := json.Marshal(struct {
		Scenario *replay.Scenario `json:"scenario"`
		Result   replay.Result    `json:"result"`
	}{scenario, resultOf(scenario.Name, l, decided)})
	if err != nil {
		return nil
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(append(line, '\n')); err != nil || w.Close() != nil {
		return nil
	}
	return out.Bytes()
}

func (s *session) scenario(l *reading, decided []observe.Decision, c *observe.Comparison) (*replay.Scenario, error) {
	machine, err := discover.Describe(s.node.Found.Machine)
	if err != nil {
		return nil, err
	}
	config, err := decisive(s.config, s.unlike)
	if err != nil {
		return nil, err
	}
	scenario := &replay.Scenario{
		Name: "observed-" + c.UID, Note: fmt.Sprintf("predicted %s; the kubelet: %s", c.Predicted, c.Actual),
		Machine: machine, KubeletConfig: config,
		Found: &replay.Found{
			Version: s.version.String(), Running: []string{}, Started: map[string][]string{},
			State: replay.FoundState{Checkpoints: map[string]string{}},
		},
	}
	if scenario.Devices, err = s.devicesOf(); err != nil {
		return nil, err
	}
	for _, t := range s.before.texts {
		if t.Manager != kubeletstate.DRAManager { // The kubelet does not align the devices of claims.
			scenario.Found.State.Checkpoints[t.Manager.FileName()] = string(t.Data)
		}
	}
	gates := podspec.GatesOf(s.node.Policy.Policy)
	for uid, pod := range s.before.pods {
		if _, decided := s.decided[uid]; decided && s.before.pods.Alive(uid) {
			scenario.Found.Running = append(scenario.Found.Running, uid)
			scenario.Found.Started[uid] = startedIn(pod)
			scenario.Pods = append(scenario.Pods, deciding(pod, gates))
		}
	}
	slices.Sort(scenario.Found.Running)
	slices.SortFunc(scenario.Pods, func(a, b *v1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	for i := range decided {
		uid := decided[i].Pod.UID
		scenario.Pods = append(scenario.Pods, deciding(l.pods[uid], gates))
		scenario.Events = append(scenario.Events, replay.Event{Op: replay.Admit, Pod: uid})
	}
	return scenario, nil
}

// resultOf returns the verdicts, and what the pods have after the last verdict.
func resultOf(name string, l *reading, decided []observe.Decision) replay.Result {
	result := replay.Result{Name: name, Observed: true}
	for i := range decided {
		d := &decided[i]
		admitted := d.Reason == ""
		a := replay.Answer{Op: replay.Admit, Pod: d.Pod.UID, Admitted: &admitted, Reason: d.Reason}
		if !admitted {
			a.Message = l.pods[d.Pod.UID].Status.Message
		}
		if i == len(decided)-1 {
			a.View = replay.ViewOf(l.shown.State)
		}
		result.Answers = append(result.Answers, a)
	}
	return result
}

// deciding returns the deciding fields of a pod, with defaults, and its name.
func deciding(pod *v1.Pod, gates podspec.Gates) *v1.Pod {
	out := podspec.Slim(podspec.Default(pod, gates))
	out.ObjectMeta = metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID}
	out.Status = v1.PodStatus{}
	return out
}

// startedIn returns the names of the app containers of a pod, and of those of its init containers
// that run.
func startedIn(pod *v1.Pod) []string {
	names := []string{}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if s.State.Running != nil {
			names = append(names, s.Name)
		}
	}
	return names
}

// decisive returns the deciding settings in the kubelet's answer or in its file. It also sets the
// feature gates that differ from these.
func decisive(answer []byte, unlike map[string]bool) (json.RawMessage, error) {
	text, err := yaml.YAMLToJSON(answer)
	if err != nil {
		return nil, err
	}
	var configz struct {
		Inner json.RawMessage `json:"kubeletconfig"` // A file is without it.
	}
	if err := json.Unmarshal(text, &configz); err != nil {
		return nil, err
	}
	if configz.Inner != nil {
		text = configz.Inner
	}
	settings, err := collect.SettingsOf(text)
	if err != nil {
		return nil, err
	}
	if len(unlike) == 0 {
		return json.Marshal(settings)
	}
	const field = "featureGates"
	gates := map[string]bool{}
	if set := settings[field]; set != nil {
		if err := json.Unmarshal(set, &gates); err != nil {
			return nil, err
		}
	}
	maps.Copy(gates, unlike)
	if settings[field], err = json.Marshal(gates); err != nil {
		return nil, err
	}
	return json.Marshal(settings)
}

// devicesOf returns the devices of the node as a devices file, or nil if it has none.
func (s *session) devicesOf() (json.RawMessage, error) {
	type device struct {
		ID        string `json:"id"`
		NUMANodes []int  `json:"numaNodes,omitempty"`
		Healthy   bool   `json:"healthy"`
	}
	resources, inventory := map[string][]device{}, s.before.shown.State.Devices().Inventory()
	for _, name := range inventory.Resources() {
		for _, d := range inventory.Devices(name) {
			resources[name] = append(resources[name], device{d.ID, d.Nodes.Nodes(), d.Healthy})
		}
	}
	if len(resources) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"resources": resources})
}

// writeScenarios writes the last decisions that differ from their predictions, the oldest first.
func (s *session) writeScenarios(w io.Writer) error {
	s.mu.Lock()
	differences := s.ledger.Differences()
	s.mu.Unlock()
	for _, d := range differences {
		if d.Evidence == nil {
			continue
		}
		r, err := gzip.NewReader(bytes.NewReader(d.Evidence))
		if err != nil {
			return err
		}
		if _, err := io.Copy(w, r); err != nil {
			return err
		}
	}
	return nil
}
