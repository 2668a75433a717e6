package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

// scenario is what happens on one node (docs/rules/format.md).
type scenario struct {
	Name          string          `json:"name"`
	Machine       json.RawMessage `json:"machine"`
	KubeletConfig map[string]any  `json:"kubeletConfig"`
	// Devices are what device plugins report. Without any there is no device manager.
	Devices *inventory `json:"devices"`
	Pods    []*v1.Pod  `json:"pods"`
	// Found is the node as a kubelet of another version left it. The first event is then a restart.
	// Without Found, the node is empty.
	Found  *found  `json:"found"`
	Events []event `json:"events"`
	// File and Content are a state file on which the node starts. The recording is then a verdict.
	File    string `json:"file"`
	Content string `json:"content"`
}

// event is one thing that happens.
type event struct {
	Op           string          `json:"op"`
	Pod          string          `json:"pod"`
	Container    string          `json:"container"`
	FeatureGates map[string]bool `json:"featureGates"`
	ConfigPatch  map[string]any  `json:"configPatch"`
	// Plugins is "late" for a restart after which device plugins connect only when the running pods
	// have been admitted again. Otherwise they connect before.
	Plugins string `json:"plugins"`
}

// result is the answer to a scenario.
type result struct {
	Name          string   `json:"name"`
	StartError    string   `json:"startError,omitempty"`
	Start         *answer  `json:"start,omitempty"`
	AllocatedFrom string   `json:"allocatableCPUs,omitempty"`
	Events        []answer `json:"events,omitempty"`
	// Differs names the fields that differ between runs of the same scenario.
	Differs []string `json:"nondeterministicWhere,omitempty"`
	// Trimmed is set if the memory accounting and the state files are left out.
	Trimmed bool `json:"trimmed,omitempty"`
}

// answer is the result of an event, and the state after it.
type answer struct {
	Op         string `json:"op"`
	Pod        string `json:"pod,omitempty"`
	Container  string `json:"container,omitempty"`
	Admitted   *bool  `json:"admitted,omitempty"`
	QoS        string `json:"qos,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Message    string `json:"message,omitempty"`
	StartError string `json:"startError,omitempty"`
	Panic      string `json:"panic,omitempty"`
	// Endless is set if the event did not end within the patience of the recorder.
	Endless  bool                `json:"endless,omitempty"`
	Affinity map[string]affinity `json:"affinity,omitempty"`
	AtAdmit  *view               `json:"atAdmit,omitempty"`
	view
	Exclusive        map[string]map[string]bool      `json:"exclusive,omitempty"`
	Isolation        map[string]map[string]isolation `json:"isolation,omitempty"`
	PodQuotaDisabled map[string]bool                 `json:"podQuotaDisabled,omitempty"`
	Cgroup           map[string]cgroup               `json:"cgroup,omitempty"`
	// Uncreated has the error for each container that could not be created for lack of devices.
	Uncreated   map[string]string `json:"uncreated,omitempty"`
	Updates     []update          `json:"updates,omitempty"`
	Checkpoints map[string]string `json:"checkpoints,omitempty"`
}

// view is the state of the managers.
type view struct {
	CPU    *cpuView    `json:"cpu,omitempty"`
	Memory *memoryView `json:"memory,omitempty"`
	// Devices are ids by pod, container and resource.
	Devices map[string]map[string]map[string][]string `json:"devices,omitempty"`
}

type cpuView struct {
	Default    string                       `json:"default"`
	Entries    map[string]map[string]string `json:"entries"`
	PodEntries map[string]string            `json:"podEntries"`
}

type memoryView struct {
	Entries      map[string]map[string][]block `json:"entries"`
	PodEntries   map[string][]block            `json:"podEntries"`
	MachineState map[string]nodeView           `json:"machineState,omitempty"`
}

type block struct {
	Type string `json:"type"`
	Size uint64 `json:"size"`
	NUMA []int  `json:"numa"`
}

type nodeView struct {
	NumberOfAssignments int                   `json:"numberOfAssignments"`
	Cells               []int                 `json:"cells"`
	Memory              map[string]memoryType `json:"memory"`
}

// memoryType is the account of one type of memory of a NUMA node, in bytes.
type memoryType struct {
	Total          uint64 `json:"total"`
	SystemReserved uint64 `json:"systemReserved"`
	Allocatable    uint64 `json:"allocatable"`
	Reserved       uint64 `json:"reserved"`
	Free           uint64 `json:"free"`
}

// affinity is the merged hint of a container. NUMA is null if the hint has no mask.
type affinity struct {
	NUMA      []int `json:"numa"`
	Preferred bool  `json:"preferred"`
}

type isolation struct {
	Level         string `json:"level"`
	QuotaDisabled bool   `json:"quotaDisabled"`
}

// cgroup has the settings with which a container is created.
type cgroup struct {
	CPUs string `json:"cpus,omitempty"`
	Mems string `json:"mems,omitempty"`
}

// update is one request to the container runtime.
type update struct {
	ID   string `json:"id"`
	CPUs string `json:"cpus"`
}

// line is one line of a file of scenarios. It keeps the texts as they were read.
type line struct {
	Scenario json.RawMessage `json:"scenario"`
	Result   json.RawMessage `json:"result"`
}

// decodeLine reads a bare scenario, a scenario with a result, or a verdict on a state file, which
// is a scenario and its result in one object.
func decodeLine(text []byte) (line, scenario, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return l, scenario{}, err
	}
	if l.Scenario == nil {
		l.Scenario = bytes.Clone(text)
	}
	var s scenario
	if err := json.Unmarshal(l.Scenario, &s); err != nil {
		return l, s, err
	}
	if s.File != "" {
		l.Result = l.Scenario
	}
	return l, s, nil
}

// understood reports whether this version has all gates that the scenario names.
func (s *scenario) understood() bool {
	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	named, _ := s.KubeletConfig["featureGates"].(map[string]any)
	for name := range named {
		if _, has := known[featuregate.Feature(name)]; !has {
			return false
		}
	}
	for _, e := range s.Events {
		for name := range e.FeatureGates {
			if _, has := known[featuregate.Feature(name)]; !has {
				return false
			}
		}
	}
	return true
}

// readMachine reads the machine of a scenario: "@NAME" is the file NAME.json in dir.
func readMachine(minor Minor, dir string, raw json.RawMessage) (Machine, error) {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		bare := strings.TrimPrefix(name, "@")
		if bare == name || bare != filepath.Base(bare) {
			return nil, fmt.Errorf("machine %q: expected \"@NAME\" or a MachineInfo", name)
		}
		var err error
		if raw, err = os.ReadFile(filepath.Join(dir, bare+".json")); err != nil {
			return nil, err
		}
	}
	machine, err := minor.Machine(raw)
	if err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	return machine, nil
}
