package plugin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/scheduler/cleanup"
	"github.com/paddock-project/paddock/scheduler/duties"
)

// Args are the settings of the plugin: `args` of its entry in `pluginConfig` of a
// KubeSchedulerConfiguration. All profiles of a process must have equal settings.
type Args struct {
	// Scoring is least-stranded (the default), least-allocated, most-allocated or best-fit.
	Scoring string `json:"scoring,omitempty"`
	// UnknownDevices sets what Filter requires for pods with devices that are chosen later: a plan
	// for One possible set (the default) or for Every set.
	UnknownDevices string `json:"unknownDevices,omitempty"`
	// Agents describes the pods of the agents. A node without a ready agent takes no pod that
	// requests exclusive resources. Where a kubelet decides, see AwayFor; after that, the node is
	// unsure.
	Agents Agents `json:"agents,omitzero"`
	// UnsureNodes sets what Filter does with a node whose kubelet decides, while it is unsure what
	// that kubelet has: Pass (the default) lets every pod pass, with the lowest score, and Filter
	// lets no pod pass that requests exclusive resources.
	UnsureNodes string `json:"unsureNodes,omitempty"`
	// ManagedNodes selects by label the nodes on which agents run. If nil, no node is selected. A
	// selected node takes no pod that requests exclusive resources before it has a PaddockNode.
	// Other nodes without a PaddockNode are left to the other plugins.
	ManagedNodes *metav1.LabelSelector `json:"managedNodes,omitempty"`
	// EvictRejectedAfter is the time after which a pod that its node rejects is evicted. Zero means
	// that no pod is evicted.
	EvictRejectedAfter metav1.Duration `json:"evictRejectedAfter,omitzero"`
	// DeleteRejectedAfter is the age from which Failed pods that a kubelet rejected for their place
	// are deleted, if their ReplicaSet has replaced them. The newest two of each ReplicaSet stay.
	// Zero means that no pod is deleted.
	DeleteRejectedAfter metav1.Duration `json:"deleteRejectedAfter,omitzero"`
	// DeleteRejectedDryRun only counts the pods that would be deleted, and records events.
	DeleteRejectedDryRun bool `json:"deleteRejectedDryRun,omitempty"`
	// Kueue makes one of the schedulers answer the admission checks of Kueue whose controllerName is
	// kueue.Controller. See package kueue.
	Kueue bool `json:"kueue,omitempty"`
	// InspectAddress is the address where package inspect serves what the scheduler knows of nodes,
	// e.g. 127.0.0.1:10269. It must be on the loopback interface. If empty, nothing is served.
	InspectAddress string `json:"inspectAddress,omitempty"`
}

// Agents describes the pods of the agents.
type Agents struct {
	// Readiness is Required (the default) or Ignored.
	Readiness string `json:"readiness,omitempty"`
	// Namespace is the namespace of the agents. The default is "paddock".
	Namespace string `json:"namespace,omitempty"`
	// MatchLabels are the labels of the agents. The default is app.kubernetes.io/name: paddock.
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// AwayFor is how long what an observing agent published last counts after the agent stopped
	// being ready, for example because it is replaced. Zero means one minute.
	AwayFor metav1.Duration `json:"awayFor,omitzero"`
	// PublishWithin is how long preemption waits for the room of pods that are gone and whose
	// grants the agent still publishes. An agent publishes a change within a second. Zero means 10
	// seconds.
	PublishWithin metav1.Duration `json:"publishWithin,omitzero"`
}

const (
	required, ignored = "Required", "Ignored"
	one, every        = "One", "Every"
	pass, filter      = "Pass", "Filter"
)

// leastEviction is the shortest EvictRejectedAfter. A kubelet first tries a rejected pod again
// after 10 s. A pod that only waited for another one to end is admitted then.
const leastEviction = 30 * time.Second

// leastDeletion is the shortest DeleteRejectedAfter. People and alerts see what happens in a loop
// within this time.
const leastDeletion = time.Minute

// settings are Args that have been checked.
type settings struct {
	scoring        fleet.Scoring
	everySet       bool
	agentsRequired bool
	unsureFilter   bool
	agentLabels    labels.Selector
	awayFor        time.Duration
	publishWithin  time.Duration
	managedNodes   labels.Selector
	duties         duties.Settings
	inspectAddress string
}

// read checks the arguments. The error names the field, its value and the possible values.
func read(args runtime.Object) (settings, error) {
	var a Args
	if unknown, ok := args.(*runtime.Unknown); ok && len(unknown.Raw) > 0 {
		d := json.NewDecoder(bytes.NewReader(unknown.Raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&a); err != nil {
			return settings{}, fmt.Errorf("pluginConfig of %s: args: %w", Name, err)
		}
	}
	s := settings{inspectAddress: a.InspectAddress, awayFor: cmp.Or(a.Agents.AwayFor.Duration, time.Minute), publishWithin: cmp.Or(a.Agents.PublishWithin.Duration, 10*time.Second), duties: duties.Settings{
		Namespace: cmp.Or(a.Agents.Namespace, "paddock"), EvictAfter: a.EvictRejectedAfter.Duration,
		Cleanup: cleanup.Config{After: a.DeleteRejectedAfter.Duration, DryRun: a.DeleteRejectedDryRun},
		Kueue:   a.Kueue,
	}}
	wrong := func(field, has, wants string) error {
		return fmt.Errorf("pluginConfig of %s: args.%s is %q: set it to %s", Name, field, has, wants)
	}
	switch scoring := cmp.Or(a.Scoring, fleet.LeastStranded.String()); scoring {
	case fleet.LeastStranded.String():
		s.scoring = fleet.LeastStranded
	case fleet.LeastAllocated.String():
		s.scoring = fleet.LeastAllocated
	case fleet.MostAllocated.String():
		s.scoring = fleet.MostAllocated
	case fleet.BestFit.String():
		s.scoring = fleet.BestFit
	default:
		return s, wrong("scoring", scoring, "least-stranded, least-allocated, most-allocated or best-fit")
	}
	switch sets := cmp.Or(a.UnknownDevices, one); sets {
	case one, every:
		s.everySet = sets == every
	default:
		return s, wrong("unknownDevices", sets, "One or Every")
	}
	switch readiness := cmp.Or(a.Agents.Readiness, required); readiness {
	case required, ignored:
		s.agentsRequired = readiness == required
	default:
		return s, wrong("agents.readiness", readiness, "Required or Ignored")
	}
	switch unsure := cmp.Or(a.UnsureNodes, pass); unsure {
	case pass, filter:
		s.unsureFilter = unsure == filter
	default:
		return s, wrong("unsureNodes", unsure, "Pass or Filter")
	}
	match := a.Agents.MatchLabels
	if len(match) == 0 {
		match = map[string]string{"app.kubernetes.io/name": "paddock"}
	}
	var err error
	if s.agentLabels, err = labels.ValidatedSelectorFromSet(match); err != nil {
		return s, fmt.Errorf("pluginConfig of %s: args.agents.matchLabels: %w", Name, err)
	}
	if s.managedNodes, err = metav1.LabelSelectorAsSelector(a.ManagedNodes); err != nil {
		return s, fmt.Errorf("pluginConfig of %s: args.managedNodes: %w", Name, err)
	}
	if s.awayFor < 0 {
		return s, wrong("agents.awayFor", s.awayFor.String(), "at least 0")
	}
	if s.publishWithin < 0 {
		return s, wrong("agents.publishWithin", s.publishWithin.String(), "at least 0")
	}
	if after := s.duties.EvictAfter; after != 0 && after < leastEviction {
		return s, wrong("evictRejectedAfter", after.String(), fmt.Sprintf("0 or at least %s", leastEviction))
	}
	if after := s.duties.Cleanup.After; after != 0 && after < leastDeletion {
		return s, wrong("deleteRejectedAfter", after.String(), fmt.Sprintf("0 or at least %s", leastDeletion))
	}
	return s, nil
}
