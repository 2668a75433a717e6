// Package replay runs recorded scenarios through the core and compares the answers
// (docs/rules/format.md).
//
// A scenario is a machine, a kubelet configuration, pods, and events in their order. A result is
// the state after each event. Both are JSON, with one scenario on each line. Run never panics on
// bad input: a scenario that cannot be read is an error, and a rejected configuration is the
// result's startError.
package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/base/malformed"
	"github.com/paddock-project/paddock/internal/codec/podspec"
)

// Scenario describes what happens on one node.
type Scenario struct {
	Name string   `json:"name"`
	Tags []string `json:"tags,omitempty"`
	Note string   `json:"note,omitempty"`
	// Machine is the string "@name" or a MachineInfo.
	Machine json.RawMessage `json:"machine"`
	// KubeletConfig has fields of a KubeletConfiguration v1beta1.
	KubeletConfig json.RawMessage `json:"kubeletConfig"`
	// Devices is the device inventory in the format of a devices file. If empty, there are no
	// devices.
	Devices json.RawMessage `json:"devices,omitempty"`
	Pods    Pods            `json:"pods"`
	// Found is the node before the first event. If nil, the node is empty.
	Found  *Found  `json:"found,omitempty"`
	Events []Event `json:"events"`
}

// Pods are the pods to which events refer by UID.
type Pods []*v1.Pod

// UnmarshalJSON decodes pods through podspec.DecodePod, which takes care of their quantities.
func (p *Pods) UnmarshalJSON(data []byte) error {
	var raws []json.RawMessage
	if err := json.Unmarshal(data, &raws); err != nil {
		return fmt.Errorf("pods: %w", malformed.JSON(data, err))
	}
	for i, raw := range raws {
		pod, err := podspec.DecodePod(raw)
		if err != nil {
			return fmt.Errorf("pods[%d]: %w", i, malformed.JSON(raw, err))
		}
		*p = append(*p, pod)
	}
	return nil
}

// Op is the operation of an event.
type Op string

// The operations.
const (
	Admit           Op = "admit"
	RemoveContainer Op = "removeContainer"
	StopContainer   Op = "stopContainer"
	RemovePod       Op = "removePod"
	Reconcile       Op = "reconcile"
	DropStale       Op = "dropStale"
	Restart         Op = "restart"
)

// Event is one thing that happens.
type Event struct {
	Op Op `json:"op"`
	// Pod is the metadata.uid of one of the scenario's pods.
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	// FeatureGates and ConfigPatch change the configuration permanently at a restart.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	ConfigPatch  json.RawMessage `json:"configPatch,omitempty"`
	// Plugins is "late" for a restart after which device plugins register only when the pods that
	// run have been admitted again. Otherwise they register before.
	Plugins string `json:"plugins,omitempty"`
}

// Case is a scenario with the recorded result. Want is nil if no result is recorded.
type Case struct {
	Scenario Scenario
	Want     *Result
}

// Decode decodes one line: a scenario, or {"scenario": …, "result": …}.
func Decode(line []byte) (Case, error) {
	var both struct {
		Scenario json.RawMessage `json:"scenario"`
		Result   *Result         `json:"result"`
	}
	if err := json.Unmarshal(line, &both); err != nil {
		return Case{}, fmt.Errorf("not a scenario: %w", malformed.JSON(line, err))
	}
	text := []byte(both.Scenario)
	if text == nil {
		text = line
	}
	c := Case{Want: both.Result}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c.Scenario); err != nil {
		return Case{}, fmt.Errorf("not a scenario: %w", malformed.JSON(text, err))
	}
	return c, c.Scenario.check()
}

func (s *Scenario) check() error {
	if s.Name == "" {
		return fmt.Errorf("the scenario has no name")
	}
	if len(s.Machine) == 0 {
		return fmt.Errorf("scenario %s: machine is missing: expected \"@name\" or a MachineInfo", s.Name)
	}
	if s.Found != nil && len(s.Events) > 0 && s.Events[0].Op == Restart {
		return fmt.Errorf("scenario %s: a node that was found and a kubelet that starts on it: go test ./internal/cli/treatment compares those", s.Name)
	}
	pods := map[string]*v1.Pod{}
	for i, p := range s.Pods {
		if p == nil || p.UID == "" {
			return fmt.Errorf("scenario %s: pods[%d].metadata.uid is missing", s.Name, i)
		}
		if pods[string(p.UID)] != nil {
			return fmt.Errorf("scenario %s: pods[%d].metadata.uid %q occurs twice", s.Name, i, p.UID)
		}
		pods[string(p.UID)] = p
	}
	for i, e := range s.Events {
		if err := e.check(pods); err != nil {
			return fmt.Errorf("scenario %s: events[%d]: %w", s.Name, i, err)
		}
	}
	return nil
}

func (e Event) check(pods map[string]*v1.Pod) error {
	if e.Plugins != "" && (e.Op != Restart || e.Plugins != "late") {
		return fmt.Errorf("plugins %q: expected \"late\", in a restart", e.Plugins)
	}
	switch e.Op {
	case Reconcile, DropStale, Restart:
		return nil
	case Admit, RemovePod, RemoveContainer, StopContainer:
	default:
		return fmt.Errorf("op %q is unknown: expected admit, removeContainer, stopContainer, removePod, reconcile, dropStale or restart", e.Op)
	}
	pod := pods[e.Pod]
	if pod == nil {
		return fmt.Errorf("pod %q is none of the scenario's pods", e.Pod)
	}
	if e.Op != RemoveContainer && e.Op != StopContainer {
		return nil
	}
	named := func(c v1.Container) bool { return c.Name == e.Container }
	if !slices.ContainsFunc(pod.Spec.InitContainers, named) && !slices.ContainsFunc(pod.Spec.Containers, named) {
		return fmt.Errorf("pod %q has no container %q", e.Pod, e.Container)
	}
	return nil
}
