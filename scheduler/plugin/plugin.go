package plugin

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/scheduler/cluster"
	"github.com/paddock-project/paddock/scheduler/duties"
	"github.com/paddock-project/paddock/scheduler/inspect"
)

// Name is the name of the plugin in a KubeSchedulerConfiguration.
const Name = "Paddock"

// Plugin is the plugin of one profile.
type Plugin struct {
	handle fwk.Handle
	*shared
}

// shared is the part that the plugins of all profiles have in common.
type shared struct {
	settings settings
	cluster  *cluster.Cluster
	pods     corelisters.PodLister
	nodes    corelisters.NodeLister
	slices   cache.Indexer // see indexSlices
	waiting  waiting
	promises promises
	movers   movers
	failures failures
	// allocator is nil if the scheduler has no dynamic resource allocation.
	allocator *allocator
	synced    atomic.Bool // set when the objects that existed at the start are in the cluster
}

// Plugin implements these extension points.
var (
	_ fwk.PreFilterPlugin     = &Plugin{}
	_ fwk.PreFilterExtensions = &Plugin{}
	_ fwk.FilterPlugin        = &Plugin{}
	_ fwk.PostFilterPlugin    = &Plugin{}
	_ fwk.PreScorePlugin      = &Plugin{}
	_ fwk.ScorePlugin         = &Plugin{}
	_ fwk.ReservePlugin       = &Plugin{}
	_ fwk.BindPlugin          = &Plugin{}
	_ fwk.EnqueueExtensions   = &Plugin{}
	_ fwk.SignPlugin          = &Plugin{}
)

// Name returns Name.
func (p *Plugin) Name() string { return Name }

// Factory returns a factory for the plugins of a process. The profiles of one scheduler share a
// cluster, so their arguments must be equal. Duties are started once for each scheduler.
func Factory(feed Feed, start Duties) func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	var mu sync.Mutex
	made := map[informers.SharedInformerFactory]*shared{}
	return func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		s, err := read(args)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		factory := handle.SharedInformerFactory()
		if known := made[factory]; known != nil {
			if !reflect.DeepEqual(known.settings, s) {
				return nil, fmt.Errorf("pluginConfig of %s: the args of profile %s differ from those of another profile: all profiles of a scheduler have the same", Name, handle.ProfileName())
			}
			return &Plugin{handle, known}, nil
		}
		p := &Plugin{handle, nil}
		if p.shared, err = share(ctx, s, handle); err != nil {
			return nil, err
		}
		made[factory] = p.shared
		registerMetrics()
		if s.inspectAddress != "" {
			if err := inspect.Start(ctx, s.inspectAddress, p.cluster); err != nil {
				return nil, fmt.Errorf("pluginConfig of %s: args.inspectAddress: %w", Name, err)
			}
		}
		tasks := s.duties
		tasks.Nodes = duties.Nodes{Cluster: p.cluster, Awaited: p.awaited}
		if err := start(ctx, handle, tasks); err != nil {
			return nil, err
		}
		return p, feed(ctx, handle, p)
	}
}

// Duties starts the tasks that only one of several schedulers performs: see package duties. The
// namespace of the settings is that of the agents.
type Duties func(ctx context.Context, handle fwk.Handle, s duties.Settings) error

// byNode is the name of the index of bound pods by node.
const byNode = "paddock.node"

func share(ctx context.Context, s settings, handle fwk.Handle) (*shared, error) {
	pods := handle.SharedInformerFactory().Core().V1().Pods()
	err := pods.Informer().AddIndexers(cache.Indexers{byNode: func(object any) ([]string, error) {
		if pod, ok := object.(*v1.Pod); ok && pod.Spec.NodeName != "" {
			return []string{pod.Spec.NodeName}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("an index of pods by node: %w", err)
	}
	indexer, log := pods.Informer().GetIndexer(), klog.FromContext(ctx)
	out := &shared{settings: s, pods: pods.Lister(), nodes: handle.SharedInformerFactory().Core().V1().Nodes().Lister()}
	if out.slices, err = indexSlices(handle); err != nil {
		return nil, err
	}
	if out.slices != nil {
		out.allocator = newAllocator()
	}
	out.cluster = cluster.New(fleet.NewRanking(s.scoring, nil), cluster.World{
		Pods: func(node string) []*v1.Pod {
			objects, err := indexer.ByIndex(byNode, node)
			if err != nil { // The index was added above.
				log.Error(err, "pods by node", "node", node)
			}
			list := make([]*v1.Pod, 0, len(objects))
			for _, o := range objects {
				if pod, ok := o.(*v1.Pod); ok {
					list = append(list, pod)
				}
			}
			return list
		},
		Exists: func(namespace, name, uid string) bool {
			pod, err := out.pods.Pods(namespace).Get(name)
			return err == nil && string(pod.UID) == uid
		},
		AgentReady: func(pods []*v1.Pod) bool {
			return !s.agentsRequired || slices.ContainsFunc(pods, func(pod *v1.Pod) bool { return out.isAgent(pod) && ready(pod) })
		},
		AgentAway:       s.awayFor,
		PublishWithin:   s.publishWithin,
		Wake:            (&Plugin{handle, out}).wake,
		UnsureIsProblem: s.unsureFilter,
		Report: func(node, pod string, err error) {
			unusedGrants.Inc()
			log.Info("A grant is not used", "node", node, "pod", pod, "reason", err.Error())
		},
	})
	return out, out.watch(ctx, handle, pods.Informer())
}

// isAgent reports whether a pod is an agent of Paddock.
func (s *shared) isAgent(pod *v1.Pod) bool {
	return pod.Namespace == s.settings.duties.Namespace && s.settings.agentLabels.Matches(labels.Set(pod.Labels))
}

// ready reports whether the condition Ready of a pod is true.
func ready(pod *v1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// awaited reports whether a node that has no objects yet is expected to get them. Until then it
// takes no pod that requests exclusive resources.
func (s *shared) awaited(node *v1.Node) bool {
	return s.settings.managedNodes.Matches(labels.Set(node.Labels))
}

// awaitedName is like awaited, for the name of a node.
func (s *shared) awaitedName(name string) bool {
	node, err := s.nodes.Get(name)
	return err == nil && s.awaited(node)
}

// Managed returns the number of nodes that have objects.
func (s *shared) Managed() int { return len(s.cluster.Names()) }
