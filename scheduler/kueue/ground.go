package kueue

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// ground is the fleet as it is at the beginning of a pass. Only what has changed since the pass
// before is made again.
type ground struct {
	ranking *fleet.Ranking
	room    capacity.Room
	// bases has the nodes of the fleet without kept places, by name.
	bases map[string]base
	// asks has what bound pods request. Informers replace pods and do not change them.
	asks map[*v1.Pod]fleet.Amounts
	// bound counts the bound pods of each workload.
	bound map[types.NamespacedName]podCounts

	nodes []*v1.Node // ascending by name
	// byLabel has the nodes with a label, by its key and its value, for keys that were asked for.
	byLabel map[string]map[string][]*v1.Node
	// allowed has which nodes pods may use, by what their specifications say about nodes.
	allowed map[string]*allowance
}

// base is a node as the cluster knows it. It is the same as long as at, allocatable and used are.
type base struct {
	at                *fleet.View
	allocatable, used fleet.Amounts
	view              *fleet.View
}

// podCounts has numbers of pods by pod set and node.
type podCounts map[string]map[string]int64

// allowance is a set of nodes by name. The key is the same for equal sets. It is empty for all nodes.
type allowance struct {
	names map[string]bool
	key   string
}

// The annotation and the label with which Kueue marks the pods of a workload.
const (
	workloadAnnotation = Group + "/workload"
	podSetLabel        = Group + "/podset"
)

func newGround(ranking *fleet.Ranking) *ground {
	return &ground{ranking: ranking, bases: map[string]base{}}
}

// refresh sets the ground to what the world shows now.
func (g *ground) refresh(w *World) error {
	used := g.count(w.Pods())
	g.nodes = slices.Clone(w.Nodes())
	slices.SortFunc(g.nodes, func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
	g.byLabel, g.allowed = map[string]map[string][]*v1.Node{}, map[string]*allowance{}
	g.room.Open = map[string]capacity.Open{}
	bases := make(map[string]base, len(g.nodes))
	for _, n := range g.nodes {
		allocatable := clusterstate.Amounts(n.Status.Allocatable)
		at := w.At(n.Name)
		open := capacity.Open{Name: n.Name, Allocatable: allocatable, Used: used[n.Name]}
		switch {
		case at == nil && !w.Awaited(n):
		case at == nil:
			open.Bars = "its agent has not published a PaddockNode yet"
		case at.Problem != "":
			open.Bars = at.Problem
		case at.Unsure == "":
			b := base{at: at.View.View, allocatable: allocatable, used: used[n.Name].Plus(at.Hidden)}
			if old := g.bases[n.Name]; old.view != nil && old.at == b.at && old.allocatable.Equal(b.allocatable) && old.used.Equal(b.used) {
				b = old
			} else {
				b.view = b.at.With(b.allocatable, b.used)
			}
			bases[n.Name] = b
			continue
		}
		g.room.Open[n.Name] = open
	}
	return g.replace(bases)
}

// replace sets the nodes of the fleet. It makes another fleet if other nodes are in it.
func (g *ground) replace(bases map[string]base) error {
	same := len(bases) == len(g.bases) && g.room.Fleet != nil
	for name := range bases {
		_, known := g.bases[name]
		same = same && known
	}
	g.bases = bases
	if !same {
		nodes := make([]fleet.Node, 0, len(bases))
		for _, b := range bases {
			nodes = append(nodes, b.view.Node)
		}
		f, err := fleet.New(g.ranking, nodes)
		if err != nil {
			return err
		}
		g.room.Fleet = f
	}
	for _, b := range bases {
		if err := g.room.Fleet.Set(b.view); err != nil {
			return err
		}
	}
	return nil
}

// count adds up what the bound pods of each node request, and counts those of each workload.
func (g *ground) count(pods []*v1.Pod) map[string]fleet.Amounts {
	used, asks := map[string]fleet.Amounts{}, make(map[*v1.Pod]fleet.Amounts, len(pods))
	g.bound = map[types.NamespacedName]podCounts{}
	for _, pod := range pods {
		if pod.Spec.NodeName == "" || fleetsource.Ended(pod) {
			continue
		}
		a, known := g.asks[pod]
		if !known {
			a = clusterstate.Asks(pod, podspec.Gates{PodLevelResources: true})
		}
		asks[pod] = a
		used[pod.Spec.NodeName] = used[pod.Spec.NodeName].Plus(a)
		if w := pod.Annotations[workloadAnnotation]; w != "" {
			key, set := types.NamespacedName{Namespace: pod.Namespace, Name: w}, pod.Labels[podSetLabel]
			if g.bound[key] == nil {
				g.bound[key] = podCounts{}
			}
			if g.bound[key][set] == nil {
				g.bound[key][set] = map[string]int64{}
			}
			g.bound[key][set][pod.Spec.NodeName]++
		}
	}
	g.asks = asks
	return used
}

// labelled returns the nodes with a label.
func (g *ground) labelled(key, value string) []*v1.Node {
	by := g.byLabel[key]
	if by == nil {
		by = map[string][]*v1.Node{}
		for _, n := range g.nodes {
			if v, has := n.Labels[key]; has {
				by[v] = append(by[v], n)
			}
		}
		g.byLabel[key] = by
	}
	return by[value]
}

// allowance returns on which nodes a pod may run: by its node selector, its required node affinity
// and the taints that it tolerates.
func (g *ground) allowance(pod *v1.Pod) (*allowance, error) {
	var required *v1.NodeSelector
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		required = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	key, err := json.Marshal([]any{pod.Spec.NodeSelector, required, pod.Spec.Tolerations})
	if err != nil {
		return nil, err
	}
	if known := g.allowed[string(key)]; known != nil {
		return known, nil
	}
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	out := &allowance{names: map[string]bool{}}
	for _, n := range g.nodes {
		match, err := affinity.Match(n)
		if err != nil {
			return nil, fmt.Errorf("node affinity: %w", err)
		}
		if match && tolerates(pod.Spec.Tolerations, n) {
			out.names[n.Name] = true
		}
	}
	out.seal(g.nodes, len(g.nodes))
	g.allowed[string(key)] = out
	return out, nil
}

// within returns the nodes of an allowance that have labels with these values: those of a domain
// of a topology above single nodes.
func (g *ground) within(a *allowance, keys, values []string) *allowance {
	out := &allowance{names: map[string]bool{}}
	last := len(keys) - 1 // The lowest level has the fewest nodes.
	candidates := g.labelled(keys[last], values[last])
	for _, n := range candidates {
		in := a.names[n.Name]
		for k := range last {
			v, has := n.Labels[keys[k]]
			in = in && has && v == values[k]
		}
		if in {
			out.names[n.Name] = true
		}
	}
	out.seal(candidates, len(g.nodes))
	return out
}

// seal sets the key. nodes has those of the allowance among others, ascending by name, and all is
// the number of nodes of the cluster.
func (a *allowance) seal(nodes []*v1.Node, all int) {
	if len(a.names) == all {
		return
	}
	digest := sha256.New()
	for _, n := range nodes {
		if a.names[n.Name] {
			_, _ = fmt.Fprintln(digest, n.Name) // A hash never fails.
		}
	}
	a.key = fmt.Sprintf("%x", digest.Sum(nil))
}

// limit lets a pod run on the nodes of the allowance alone.
func (a *allowance) limit(pod *fleet.Pod) {
	if a.key != "" {
		pod.Allowed, pod.Constraint = func(n *fleet.Node) bool { return a.names[n.Name] }, a.key
	}
}

// tolerates reports whether the taints of a node let pods with these tolerations be scheduled.
func tolerates(tolerations []v1.Toleration, n *v1.Node) bool {
	taints := n.Spec.Taints
	if n.Spec.Unschedulable {
		taints = append(slices.Clone(taints), v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
	}
	_, found := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), taints, tolerations, func(t *v1.Taint) bool {
		return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
	}, false)
	return !found
}

// read returns a pod as the nodes of the cluster read it, and whether it requests anything that a
// node assigns exclusively. all are the feature gates of these nodes.
func read(pod *v1.Pod, all []podspec.Gates) (out fleet.Pod, exclusive bool, err error) {
	if len(all) == 0 {
		all = []podspec.Gates{{PodLevelResources: true, PodLevelManagers: true}}
	}
	for i, gates := range all {
		full := podspec.Default(pod, gates)
		asked, err := podspec.Request(full, gates)
		if err != nil {
			return out, false, err
		}
		exclusive = exclusive || cluster.Concerns(&asked) || len(pod.Spec.ResourceClaims) > 0
		asks := clusterstate.Asks(full, gates)
		if i == 0 {
			out = fleet.Pod{Pod: asked, Asks: asks}
		}
		if len(all) > 1 {
			reads := func(p node.Policy) bool { return podspec.GatesOf(p) == gates }
			out.Readings = append(out.Readings, fleet.Reading{Reads: reads, Ask: asked.Ask, Asks: asks})
		}
	}
	return out, exclusive, nil
}
