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

// Constraints implements the rules of one fleet. It must not be used by several goroutines at a
// time.
type Constraints struct {
	ctx              context.Context //nolint:containedctx // The plugins want one; a question about a fleet is one call.
	handle           *handle
	spread, affinity judge
	classes          map[*v1.Pod]*class
	// spaces is the set of namespaces that the plugins know.
	spaces map[string]bool
	// placed lists the pods that the fleet has placed. keepers lists the pods with required
	// anti-affinity, including those that were there at the start.
	placed, keepers []placement
}

// judge is a plugin of kube-scheduler that filters nodes.
type judge interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
}

// placement is a pod on a node. The pods of a class share a PodInfo.
type placement struct {
	name string
	pod  fwk.PodInfo
	node fwk.NodeInfo
}

// New returns the rules of a fleet with these nodes. The map namespaces has the labels of each
// namespace by its name. An error concerns a pod that is already on a node.
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

// plugins creates the plugins with the default arguments of kube-scheduler. The default constraints
// of topology spread only prefer nodes.
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

// namespace adds a namespace to those that the plugins know.
func (c *Constraints) namespace(name string, labels map[string]string) error {
	if c.spaces[name] {
		return nil
	}
	c.spaces[name] = true
	return c.handle.namespace(name, labels)
}

// classOf returns the class of a pod. The error describes what is wrong with the pod's constraints.
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

// add adds a pod to a node of the snapshot, and to keepers if it has required anti-affinity.
func (c *Constraints) add(p placement) {
	c.handle.nodes.add(p.pod, p.node)
	if len(p.pod.GetRequiredAntiAffinityTerms()) > 0 {
		c.keepers = append(c.keepers, p)
	}
}

// errOrigin is returned for pods that package inputs did not create.
var errOrigin = errors.New("the pod has no object that topology spread and pod affinity can be read from")

// For implements fleet.Rules.
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

// Placed implements fleet.Rules.
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
