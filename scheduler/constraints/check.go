package constraints

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hard returns the topology spread constraints that keep the pod from nodes (DoNotSchedule).
func hard(pod *v1.Pod) (out []v1.TopologySpreadConstraint) {
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == v1.DoNotSchedule {
			out = append(out, c)
		}
	}
	return out
}

// Check returns an error for constraints that an API server rejects and that the plugins would
// misinterpret. The error names the field.
func Check(pod *v1.Pod) error {
	for i, c := range pod.Spec.TopologySpreadConstraints {
		at := fmt.Sprintf("spec.topologySpreadConstraints[%d]", i)
		switch {
		case c.MaxSkew <= 0:
			return fmt.Errorf("%s.maxSkew: %d: expected at least 1", at, c.MaxSkew)
		case c.TopologyKey == "":
			return fmt.Errorf("%s.topologyKey is missing: expected the label of nodes over which the pods are spread, such as %s", at, v1.LabelTopologyZone)
		case c.WhenUnsatisfiable != v1.DoNotSchedule && c.WhenUnsatisfiable != v1.ScheduleAnyway:
			return fmt.Errorf("%s.whenUnsatisfiable: %q: expected %s or %s", at, c.WhenUnsatisfiable, v1.DoNotSchedule, v1.ScheduleAnyway)
		case c.MinDomains != nil && *c.MinDomains <= 0:
			return fmt.Errorf("%s.minDomains: %d: expected at least 1", at, *c.MinDomains)
		}
		if _, err := metav1.LabelSelectorAsSelector(c.LabelSelector); err != nil {
			return fmt.Errorf("%s.labelSelector: %w", at, err)
		}
	}
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			if err := checkTerms("podAffinity", a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution); err != nil {
				return err
			}
		}
		if a.PodAntiAffinity != nil {
			return checkTerms("podAntiAffinity", a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
	}
	return nil
}

func checkTerms(kind string, terms []v1.PodAffinityTerm) error {
	for i, t := range terms {
		at := fmt.Sprintf("spec.affinity.%s.requiredDuringSchedulingIgnoredDuringExecution[%d]", kind, i)
		if t.TopologyKey == "" {
			return fmt.Errorf("%s.topologyKey is missing: expected a label of nodes, such as %s", at, v1.LabelHostname)
		}
		if _, err := metav1.LabelSelectorAsSelector(t.LabelSelector); err != nil {
			return fmt.Errorf("%s.labelSelector: %w", at, err)
		}
		if _, err := metav1.LabelSelectorAsSelector(t.NamespaceSelector); err != nil {
			return fmt.Errorf("%s.namespaceSelector: %w", at, err)
		}
	}
	return nil
}

// merged returns the pod with the terms that an API server derives from matchLabelKeys and
// mismatchLabelKeys. Stored pods already have these terms. Adding them twice changes nothing.
func merged(pod *v1.Pod) *v1.Pod {
	a := pod.Spec.Affinity
	if a == nil || a.PodAffinity == nil && a.PodAntiAffinity == nil {
		return pod
	}
	out := *pod
	out.Spec.Affinity = a.DeepCopy()
	if near := out.Spec.Affinity.PodAffinity; near != nil {
		mergeTerms(near.RequiredDuringSchedulingIgnoredDuringExecution, pod.Labels)
	}
	if far := out.Spec.Affinity.PodAntiAffinity; far != nil {
		mergeTerms(far.RequiredDuringSchedulingIgnoredDuringExecution, pod.Labels)
	}
	return &out
}

func mergeTerms(terms []v1.PodAffinityTerm, of map[string]string) {
	for i := range terms {
		t := &terms[i]
		if t.LabelSelector == nil { // It selects no pod.
			continue
		}
		for operator, keys := range map[metav1.LabelSelectorOperator][]string{metav1.LabelSelectorOpIn: t.MatchLabelKeys, metav1.LabelSelectorOpNotIn: t.MismatchLabelKeys} {
			for _, key := range keys {
				if value, has := of[key]; has {
					t.LabelSelector.MatchExpressions = append(t.LabelSelector.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
				}
			}
		}
	}
}
