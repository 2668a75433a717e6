package kueue

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Group is the API group of Kueue. Versions are the versions of it that this package reads, the
// newest first. What it reads differs in the topology assignment alone.
const Group = "kueue.x-k8s.io"

// Versions are the versions of the group that this package reads, the preferred one first.
func Versions() []string { return []string{"v1beta2", "v1beta1"} }

// The states of a check.
const (
	Pending = "Pending"
	Ready   = "Ready"
	Retry   = "Retry"
)

// Workload has what matters of a Workload. It never changes.
type Workload struct {
	metav1.ObjectMeta
	APIVersion string
	Priority   int32
	PodSets    []PodSet
	Checks     []Check
	// These are conditions that are true. Quota is QuotaReserved, with an admission.
	Quota, Admitted, Evicted, Finished bool
	// Inactive is true if the workload is deactivated.
	Inactive bool
	// Flaw describes why PodSets cannot be read. If empty, they can.
	Flaw string
	// checks are the admission checks in their original form, with fields of other controllers and
	// fields that this package does not know.
	checks []map[string]any
}

// PodSet is a number of identical pods of a workload.
type PodSet struct {
	Name     string
	Count    int64
	Template v1.PodTemplateSpec
	Flavors  []string // each once, ascending
	// Levels are the node labels of the topology assignment, and Domains its domains. Both are empty
	// if there is none. Delayed is set if Kueue will assign the topology later.
	Levels  []string
	Domains []Domain
	Delayed bool
}

// Domain is a domain of a topology with the number of pods in it.
type Domain struct {
	Values []string // parallel to PodSet.Levels
	Count  int64
}

// Check is the state of an admission check.
type Check struct {
	Name, State string
	Changed     time.Time
	Retries     int32
	Updates     []podSetUpdate
}

type podSetUpdate struct {
	Name         string            `json:"name"`
	NodeSelector map[string]string `json:"nodeSelector"`
	Tolerations  []v1.Toleration   `json:"tolerations"`
}

// head is the part of a Workload that can be read whatever its pod sets are.
type head struct {
	Spec struct {
		Active   *bool `json:"active"`
		Priority int32 `json:"priority"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
		Admission  *struct{}          `json:"admission"`
		Checks     []struct {
			Name               string         `json:"name"`
			State              string         `json:"state"`
			LastTransitionTime metav1.Time    `json:"lastTransitionTime"`
			RetryCount         int32          `json:"retryCount"`
			PodSetUpdates      []podSetUpdate `json:"podSetUpdates"`
		} `json:"admissionChecks"`
	} `json:"status"`
}

// body is the rest.
type body struct {
	Spec struct {
		PodSets []struct {
			Name     string             `json:"name"`
			Count    int64              `json:"count"`
			Template v1.PodTemplateSpec `json:"template"`
		} `json:"podSets"`
	} `json:"spec"`
	Status struct {
		Admission struct {
			Assignments []assignment `json:"podSetAssignments"`
		} `json:"admission"`
	} `json:"status"`
}

type assignment struct {
	Name     string            `json:"name"`
	Count    *int64            `json:"count"`
	Flavors  map[string]string `json:"flavors"`
	Topology *topology         `json:"topologyAssignment"`
	Delayed  string            `json:"delayedTopologyRequest"`
}

// Read reads a Workload. An object that cannot be read gives one with a Flaw, or without checks.
func Read(o *unstructured.Unstructured) *Workload {
	w := &Workload{APIVersion: o.GetAPIVersion(), ObjectMeta: metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), Generation: o.GetGeneration(),
		CreationTimestamp: o.GetCreationTimestamp(), DeletionTimestamp: o.GetDeletionTimestamp(),
	}}
	data, err := o.MarshalJSON()
	if err != nil {
		return w
	}
	var h head
	if err := json.Unmarshal(data, &h); err != nil {
		return w
	}
	raw, _, err := unstructured.NestedSlice(o.Object, "status", "admissionChecks")
	if err != nil {
		return w
	}
	w.Priority, w.Inactive = h.Spec.Priority, h.Spec.Active != nil && !*h.Spec.Active
	for _, c := range h.Status.Conditions {
		is := c.Status == metav1.ConditionTrue
		switch c.Type {
		case "QuotaReserved":
			w.Quota = is && h.Status.Admission != nil
		case "Admitted":
			w.Admitted = is
		case "Evicted":
			w.Evicted = is
		case "Finished":
			w.Finished = is
		}
	}
	for i, c := range h.Status.Checks {
		fields, is := raw[i].(map[string]any)
		if !is {
			return w
		}
		w.checks = append(w.checks, fields)
		w.Checks = append(w.Checks, Check{Name: c.Name, State: cmp.Or(c.State, Pending), Changed: c.LastTransitionTime.Time, Retries: c.RetryCount, Updates: c.PodSetUpdates})
	}
	if w.Quota && !w.Finished && len(w.Checks) > 0 { // Nothing else is asked about others.
		if err := w.readPodSets(data); err != nil {
			w.PodSets, w.Flaw = nil, err.Error()
		}
	}
	return w
}

// readPodSets reads the pod sets and what they were assigned.
func (w *Workload) readPodSets(data []byte) error {
	var b body
	if err := json.Unmarshal(data, &b); err != nil {
		return fmt.Errorf("it is not a workload of a known form: %w", err)
	}
	of := map[string]*assignment{}
	for i := range b.Status.Admission.Assignments {
		of[b.Status.Admission.Assignments[i].Name] = &b.Status.Admission.Assignments[i]
	}
	for _, p := range b.Spec.PodSets {
		s := PodSet{Name: p.Name, Count: p.Count, Template: p.Template}
		a := of[p.Name]
		if a == nil {
			return fmt.Errorf("pod set %s: its admission has no assignment for it", strconv.Quote(p.Name))
		}
		if a.Count != nil {
			s.Count = *a.Count
		}
		if s.Count < 0 {
			return fmt.Errorf("pod set %s: %d pods", strconv.Quote(p.Name), s.Count)
		}
		for _, flavor := range a.Flavors {
			s.Flavors = append(s.Flavors, flavor)
		}
		slices.Sort(s.Flavors)
		s.Flavors = slices.Compact(s.Flavors)
		if a.Topology != nil {
			var err error
			if s.Levels = a.Topology.Levels; len(s.Levels) == 0 {
				return fmt.Errorf("pod set %s: its topology assignment has no levels", strconv.Quote(p.Name))
			}
			if s.Domains, err = a.Topology.domains(s.Count); err != nil {
				return fmt.Errorf("pod set %s: topology assignment: %w", strconv.Quote(p.Name), err)
			}
		}
		s.Delayed = a.Delayed == Pending && a.Topology == nil
		w.PodSets = append(w.PodSets, s)
	}
	if len(w.PodSets) == 0 {
		return fmt.Errorf("it has no pod sets")
	}
	return nil
}

// pods returns the number of pods of all pod sets.
func (w *Workload) pods() (n int64) {
	for i := range w.PodSets {
		n += min(w.PodSets[i].Count, 1<<40)
	}
	return n
}
