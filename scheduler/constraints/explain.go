package constraints

import (
	"cmp"
	"fmt"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// Explain implements fleet.Rule. It asks the plugins about each constraint alone, and about the pod
// with the suggested change.
func (c *class) Explain(n *fleet.Node) (detail, remedy string) {
	at := c.of.handle.nodes.byName[n.Name]
	switch c.judge(at).Message() {
	case podtopologyspread.ErrReasonConstraintsNotMatch:
		return c.explainSpread(at)
	case podtopologyspread.ErrReasonNodeLabelNotMatch:
		for _, s := range hard(c.pod) {
			if _, has := at.Node().Labels[s.TopologyKey]; !has {
				return fmt.Sprintf("the node has no label %s, over which the pod spreads", s.TopologyKey), ""
			}
		}
	case interpodaffinity.ErrReasonAffinityRulesNotMatch:
		var wants []string
		for _, t := range c.pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			wants = append(wants, fmt.Sprintf("%s in %s", selected(t.LabelSelector), domain(at, t.TopologyKey)))
		}
		return "no pod with " + strings.Join(wants, " and "), ""
	case interpodaffinity.ErrReasonAntiAffinityRulesNotMatch:
		return c.explainApart(at), ""
	case interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch:
		return c.explainKept(at), ""
	}
	return "", ""
}

// domain returns the node's value of a topology label, with the key.
func domain(n fwk.NodeInfo, key string) string {
	return key + " " + cmp.Or(n.Node().Labels[key], "(the node has no such label)")
}

func selected(s *metav1.LabelSelector) string { return metav1.FormatLabelSelector(s) }

// explainSpread names the first constraint that alone keeps the pod from the node. It finds the
// least maxSkew of this constraint with which the pod may run there, given all its other
// constraints.
func (c *class) explainSpread(at fwk.NodeInfo) (detail, remedy string) {
	for i, s := range c.pod.Spec.TopologySpreadConstraints {
		if s.WhenUnsatisfiable != v1.DoNotSchedule {
			continue
		}
		only := *c.pod
		only.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{s}
		if c.spreadsTo(&only, at) {
			continue
		}
		detail = fmt.Sprintf("one more pod with %s in %s breaks maxSkew %d", selected(s.LabelSelector), domain(at, s.TopologyKey), s.MaxSkew)
		with := func(skew int) bool {
			changed := *c.pod
			changed.Spec.TopologySpreadConstraints = append([]v1.TopologySpreadConstraint(nil), c.pod.Spec.TopologySpreadConstraints...)
			changed.Spec.TopologySpreadConstraints[i].MaxSkew = s.MaxSkew + int32(skew)
			return c.spreadsTo(&changed, at)
		}
		most := len(c.of.placed) + len(c.domains.byNode) // No skew exceeds the number of pods, so a larger maxSkew is useless.
		more := sort.Search(most, func(k int) bool { return with(k + 1) })
		if more < most && (c.affinity == nil || c.of.affinity.Filter(c.of.ctx, c.affinity, c.pod, at).IsSuccess()) {
			remedy = fmt.Sprintf("allow maxSkew %d over %s", int(s.MaxSkew)+more+1, s.TopologyKey)
		}
		return detail, remedy
	}
	return "", ""
}

// spreadsTo reports whether PodTopologySpread accepts a changed pod of the class on the node.
func (c *class) spreadsTo(changed *v1.Pod, at fwk.NodeInfo) bool {
	state, err := c.of.preFilter(c.of.spread, changed, c.domains.nodes)
	return err == nil && (state == nil || c.of.spread.Filter(c.of.ctx, state, changed, at).IsSuccess())
}

// explainApart names the first term of the pod that keeps it from the node.
func (c *class) explainApart(at fwk.NodeInfo) string {
	for _, t := range c.pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		only := *c.pod
		only.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{t}}}
		state, err := c.of.preFilter(c.of.affinity, &only, c.of.handle.nodes.nodes)
		if err == nil && c.of.affinity.Filter(c.of.ctx, state, &only, at).Message() == interpodaffinity.ErrReasonAntiAffinityRulesNotMatch {
			return fmt.Sprintf("a pod with %s is in %s", selected(t.LabelSelector), domain(at, t.TopologyKey))
		}
	}
	return ""
}

// explainKept names the first other pod that keeps the pod from the node.
func (c *class) explainKept(at fwk.NodeInfo) string {
	space := labels.Set{}
	if o, err := c.of.handle.factory.Core().V1().Namespaces().Lister().Get(c.pod.Namespace); err == nil {
		space = o.Labels
	}
	for _, k := range c.of.keepers {
		for _, t := range k.pod.GetRequiredAntiAffinityTerms() {
			value, has := k.node.Node().Labels[t.TopologyKey]
			if has && at.Node().Labels[t.TopologyKey] == value && t.Matches(c.pod, space) {
				return fmt.Sprintf("pod %s keeps such pods away from %s", k.name, domain(at, t.TopologyKey))
			}
		}
	}
	return ""
}
