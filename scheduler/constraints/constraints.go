package constraints

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// Constraints are the rules of one fleet, for one goroutine at a time.
type Constraints struct {
	ctx              context.Context //nolint:containedctx // The plugins want one; a question about a fleet is one call.
	handle           *handle
	spread, affinity judge
	classes          map[*v1.Pod]*class
	// spaces are the namespaces that the plugins know.
	spaces map[string]bool
	// placed are the pods that the fleet has placed. Keepers are those that keep others away, also
	// of the beginning.
	placed, keepers []placement
}

// judge is a plugin.
type judge interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
}

// placement is a pod on a node. Pods of a class share a PodInfo.
type placement struct {
	name string
	pod  fwk.PodInfo
	node fwk.NodeInfo
}

// New makes the rules of a fleet with these nodes. Namespaces have labels by name. The error is
// about a pod that a node has.
func New(ctx context.Context, places []inputs.Place, namespaces map[string]map[string]string) (fleet.Rules, error) {
	c := &Constraints{ctx: ctx, handle: newHandle(), classes: map[*v1.Pod]*class{}, spaces: map[string]bool{}}
	for name, labels := range namespaces {
		if err := c.namespace(name, labels); err != nil {
			return nil, err
		}
	}
	for _, p := range places {
		c.handle.nodes.node(p.Object)
	}
	for _, p := range places {
		for _, peer := range p.Pods {
			of, err := c.classOf(peer.Object)
			if err != nil {
				return nil, fmt.Errorf("pod %s on node %s: %w", peer.Name, p.Object.Name, err)
			}
			c.add(placement{peer.Name, of.info, c.handle.nodes.byName[p.Object.Name]})
		}
	}
	return c, c.plugins()
}

// plugins makes the plugins, with the arguments that kube-scheduler has by default. Its default
// constraints of topology spread only prefer nodes.
func (c *Constraints) plugins() error {
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	spread, err := podtopologyspread.New(c.ctx, &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting}, c.handle, features)
	if err != nil {
		return err
	}
	affinity, err := interpodaffinity.New(c.ctx, &config.InterPodAffinityArgs{HardPodAffinityWeight: 1}, c.handle, features)
	if err != nil {
		return err
	}
	var areJudges [2]bool
	c.spread, areJudges[0] = spread.(judge)
	c.affinity, areJudges[1] = affinity.(judge)
	if areJudges != [2]bool{true, true} {
		return errors.New("a plugin of the scheduler does not filter nodes")
	}
	return nil
}

// namespace makes a namespace known.
func (c *Constraints) namespace(name string, labels map[string]string) error {
	if c.spaces[name] {
		return nil
	}
	c.spaces[name] = true
	return c.handle.namespace(name, labels)
}

// classOf is the class of a pod. The error is about what is wrong with its constraints.
func (c *Constraints) classOf(pod *v1.Pod) (*class, error) {
	if known := c.classes[pod]; known != nil {
		return known, nil
	}
	if err := Check(pod); err != nil {
		return nil, err
	}
	made := &class{of: c, pod: merged(pod)}
	info, err := framework.NewPodInfo(made.pod)
	if err != nil {
		return nil, err
	}
	if err := c.namespace(pod.Namespace, nil); err != nil {
		return nil, err
	}
	made.info, made.spreads = info, len(hard(pod)) > 0
	made.terms = len(info.RequiredAffinityTerms)+len(info.RequiredAntiAffinityTerms) > 0
	c.classes[pod] = made
	return made, nil
}

// add puts a pod on a node.
func (c *Constraints) add(p placement) {
	c.handle.nodes.add(p.pod, p.node)
	if len(p.pod.GetRequiredAntiAffinityTerms()) > 0 {
		c.keepers = append(c.keepers, p)
	}
}

// errOrigin is about pods that are not made by package inputs.
var errOrigin = errors.New("the pod has no object that topology spread and pod affinity can be read from")

// For is fleet.Rules.
func (c *Constraints) For(pod *fleet.Pod) (fleet.Rule, error) {
	object, ok := pod.Origin.(*v1.Pod)
	if !ok {
		return nil, errOrigin
	}
	of, err := c.classOf(object)
	if err != nil {
		return nil, err
	}
	if !of.spreads && !of.terms && len(c.keepers) == 0 {
		return nil, nil
	}
	if err := of.refresh(); err != nil {
		return nil, err
	}
	if !of.spreads && of.affinity == nil {
		return nil, nil
	}
	return of, nil
}

// Placed is fleet.Rules.
func (c *Constraints) Placed(pod *fleet.Pod, n *fleet.Node) error {
	object, ok := pod.Origin.(*v1.Pod)
	if !ok {
		return errOrigin
	}
	of, err := c.classOf(object)
	if err != nil {
		return err
	}
	p := placement{pod.ID(), of.info, c.handle.nodes.byName[n.Name]}
	c.placed = append(c.placed, p)
	c.add(p)
	return nil
}
