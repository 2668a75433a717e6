package constraints

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// class represents the pods that the plugins cannot distinguish. It is a fleet.Rule that judges
// these pods as of its last refresh.
type class struct {
	of   *Constraints
	pod  *v1.Pod
	info *framework.PodInfo
	// spreads is set if the pods have required topology spread. terms is set if they have terms of
	// pod affinity or anti-affinity.
	spreads, terms bool

	// spread and affinity are the states that the plugins computed. Nil means that the state is not
	// computed yet, or that the plugin keeps the pods from no node.
	spread, affinity fwk.CycleState
	domains          domains
	// read is the number of placements that spread and affinity take into account: of all pods if
	// the class has constraints, else of keepers. spaces is the number of namespaces that they take
	// into account.
	read, spaces int
	began        bool
}

// refresh takes into account what was placed since the last refresh.
func (c *class) refresh() error {
	log := c.of.keepers
	if c.spreads || c.terms {
		log = c.of.placed
	}
	fresh := log[c.read:]
	if !c.began { // The snapshot already contains them.
		fresh = nil
	}
	if err := c.refreshAffinity(fresh); err != nil {
		return err
	}
	if c.spreads {
		if err := c.refreshSpread(fresh); err != nil {
			return err
		}
	}
	c.read, c.spaces, c.began = len(log), len(c.of.spaces), true
	return nil
}

// refreshAffinity updates the state of InterPodAffinity.
func (c *class) refreshAffinity(fresh []placement) error {
	nodes := c.of.handle.nodes
	switch {
	case !c.began, c.terms && c.spaces != len(c.of.spaces): // A term may select a new namespace.
		return c.preFilterAffinity(nodes.nodes)
	case c.affinity == nil: // No keeper so far concerns these pods. Only new ones can.
		all := nodes.apart
		defer func() { nodes.apart = all }()
		nodes.apart = keepersAmong(fresh)
		if len(nodes.apart) == 0 {
			return nil
		}
		return c.preFilterAffinity(nil)
	}
	for _, p := range fresh {
		if status := c.of.affinity.PreFilterExtensions().AddPod(c.of.ctx, c.affinity, c.pod, p.pod, p.node); !status.IsSuccess() {
			return status.AsError()
		}
	}
	return nil
}

// keepersAmong returns the nodes of new pods that have required anti-affinity, each node once.
func keepersAmong(fresh []placement) (nodes []fwk.NodeInfo) {
	seen := map[fwk.NodeInfo]bool{}
	for _, p := range fresh {
		if len(p.pod.GetRequiredAntiAffinityTerms()) > 0 && !seen[p.node] {
			seen[p.node] = true
			nodes = append(nodes, p.node)
		}
	}
	return nodes
}

func (c *class) preFilterAffinity(nodes []fwk.NodeInfo) error {
	var err error
	c.affinity, err = c.of.preFilter(c.of.affinity, c.pod, nodes)
	return err
}

// refreshSpread updates the state of PodTopologySpread if a new pod counts for the class.
func (c *class) refreshSpread(fresh []placement) error {
	counts := false
	if !c.began {
		c.domains = newDomains(c.pod, c.of.handle.nodes.nodes)
		counts = true
	}
	for _, p := range fresh {
		counts = c.domains.add(p) || counts
	}
	if !counts {
		return nil
	}
	var err error
	c.spread, err = c.of.preFilter(c.of.spread, c.pod, c.domains.nodes)
	return err
}

// preFilter returns the state that a plugin computes for a pod. Nil means that the plugin keeps the
// pod from no node.
func (c *Constraints) preFilter(plugin judge, pod *v1.Pod, nodes []fwk.NodeInfo) (fwk.CycleState, error) {
	state := framework.NewCycleState()
	_, status := plugin.PreFilter(c.ctx, state, pod, nodes)
	switch {
	case status.IsSkip():
		return nil, nil
	case !status.IsSuccess():
		return nil, status.AsError()
	}
	return state, nil
}

// words maps the reasons of the plugins to shorter ones.
var words = map[string]string{
	podtopologyspread.ErrReasonConstraintsNotMatch:              "topology spread constraints",
	podtopologyspread.ErrReasonNodeLabelNotMatch:                "topology spread constraints (label missing)",
	interpodaffinity.ErrReasonAffinityRulesNotMatch:             "pod affinity",
	interpodaffinity.ErrReasonAntiAffinityRulesNotMatch:         "pod anti-affinity",
	interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch: "anti-affinity of other pods",
}

// Bars implements fleet.Rule.
func (c *class) Bars(n *fleet.Node) (what string, err error) {
	status := c.judge(c.of.handle.nodes.byName[n.Name])
	switch {
	case status.IsSuccess():
		return "", nil
	case status.IsRejected():
		if text, known := words[status.Message()]; known {
			return text, nil
		}
		return status.Message(), nil
	}
	return "", fmt.Errorf("%s: %w", status.Plugin(), status.AsError())
}

func (c *class) judge(n fwk.NodeInfo) *fwk.Status {
	if c.spread != nil {
		if status := c.of.spread.Filter(c.of.ctx, c.spread, c.pod, n); !status.IsSuccess() {
			return status
		}
	}
	if c.affinity != nil {
		return c.of.affinity.Filter(c.of.ctx, c.affinity, c.pod, n)
	}
	return nil
}
