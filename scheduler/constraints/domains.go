package constraints

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// domains represents the nodes as PodTopologySpread sees them for one class. Nodes that the plugin
// cannot distinguish form one domain, with the pods of all of them that can count. So the time that
// PreFilter takes depends on the number of domains and of such pods, not of nodes and pods.
type domains struct {
	nodes     []fwk.NodeInfo
	byNode    map[fwk.NodeInfo]fwk.NodeInfo
	namespace string
	selectors []labels.Selector
}

// newDomains returns the domains of nodes with their pods. The pod must have passed Check.
func newDomains(pod *v1.Pod, nodes []fwk.NodeInfo) domains {
	d := domains{byNode: make(map[fwk.NodeInfo]fwk.NodeInfo, len(nodes)), namespace: pod.Namespace}
	keys := map[string]bool{}
	for _, c := range hard(pod) {
		keys[c.TopologyKey] = true
		if selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector); err == nil {
			d.selectors = append(d.selectors, selector)
		}
	}
	byName := nodeKeys(pod, keys)
	sorted := slices.Sorted(maps.Keys(keys))
	known := map[string]fwk.NodeInfo{}
	for _, n := range nodes {
		key := domainKey(n.Node(), sorted, byName)
		if known[key] == nil {
			domain := framework.NewNodeInfo()
			domain.SetNode(n.Node())
			known[key] = domain
			d.nodes = append(d.nodes, domain)
		}
		d.byNode[n] = known[key]
		for _, p := range n.GetPods() {
			d.add(placement{pod: p, node: n})
		}
	}
	return d
}

// nodeKeys adds the keys of the node labels by which the pod selects. It reports whether the pod
// also selects by node name.
func nodeKeys(pod *v1.Pod, keys map[string]bool) (byName bool) {
	for key := range pod.Spec.NodeSelector {
		keys[key] = true
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			byName = byName || len(t.MatchFields) > 0
			for _, e := range t.MatchExpressions {
				keys[e.Key] = true
			}
		}
	}
	return byName
}

// domainKey returns a key that is equal for nodes that the plugin cannot distinguish.
func domainKey(n *v1.Node, keys []string, byName bool) string {
	var b strings.Builder
	for _, key := range keys {
		value, has := n.Labels[key]
		fmt.Fprintf(&b, "%q %t,", value, has)
	}
	for _, t := range n.Spec.Taints {
		fmt.Fprintf(&b, "%q %q %q,", t.Key, t.Value, t.Effect)
	}
	if byName {
		b.WriteString(n.Name)
	}
	return b.String()
}

// add adds a pod if it can count, and reports whether it can.
func (d *domains) add(p placement) bool {
	pod := p.pod.GetPod()
	if pod.Namespace != d.namespace || !slices.ContainsFunc(d.selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(pod.Labels)) }) {
		return false
	}
	d.byNode[p.node].AddPodInfo(p.pod)
	return true
}
