package kueue

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/internal/cluster/capacity"
)

// Flavor has what a ResourceFlavor adds to the pods that use it.
type Flavor struct {
	NodeLabels  map[string]string
	Tolerations []v1.Toleration
}

// parts are the pods of a workload as groups that are asked for together. podSets has the pod set
// of each group.
type parts struct {
	groups  []capacity.Group
	podSets []string
}

// parts returns the pods of a workload. The error is about the workload.
func (g *ground) parts(w *Workload, world *World) (all parts, err error) {
	for i := range w.PodSets {
		s := &w.PodSets[i]
		of, err := g.podSet(w, s, world)
		if err != nil {
			return parts{}, fmt.Errorf("pod set %s: %w", strconv.Quote(s.Name), err)
		}
		for range of {
			all.podSets = append(all.podSets, s.Name)
		}
		all.groups = append(all.groups, of...)
	}
	return all, nil
}

// podSet returns the groups of a pod set: one for each domain of its topology assignment, or one.
func (g *ground) podSet(w *Workload, s *PodSet, world *World) (all []capacity.Group, err error) {
	pod, err := w.pod(s, world)
	if err != nil {
		return nil, err
	}
	asked, exclusive, err := read(pod, world.Gates())
	if err != nil {
		return nil, err
	}
	allowed, err := g.allowance(pod)
	if err != nil {
		return nil, err
	}
	group := capacity.Group{Item: capacity.Item{Name: "pod set " + s.Name, Pod: asked, Count: s.Count}, Exclusive: exclusive}
	if len(s.Levels) == 0 {
		allowed.limit(&group.Pod)
		return []capacity.Group{group}, nil
	}
	for k, d := range s.Domains {
		of := group
		of.Count = d.Count
		of.Pod.Name, of.Pod.UID = fmt.Sprintf("%s-%d", pod.Name, k), fmt.Sprintf("%s-%d", pod.UID, k)
		if lowest := len(s.Levels) - 1; s.Levels[lowest] == v1.LabelHostname {
			of.Node = g.hostname(d.Values[lowest])
			allowed.limit(&of.Pod)
		} else {
			of.Name += " in " + strings.Join(d.Values, ", ")
			in := g.within(allowed, s.Levels, d.Values)
			in.limit(&of.Pod)
			of.Only = slices.AppendSeq([]string{}, maps.Keys(in.names)) // Not nil, even if there is none.
		}
		all = append(all, of)
	}
	return all, nil
}

// hostname returns the node with this value of kubernetes.io/hostname, or the value if there is
// none. With several nodes, the first by name counts: such a cluster is misconfigured.
func (g *ground) hostname(value string) string {
	if nodes := g.labelled(v1.LabelHostname, value); len(nodes) > 0 {
		return nodes[0].Name
	}
	return value
}

// pod returns a pod of a pod set as Kueue starts it: with what its flavors and other admission
// checks add.
func (w *Workload) pod(s *PodSet, world *World) (*v1.Pod, error) {
	name := w.Name + "-" + s.Name
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: name, UID: types.UID(string(w.UID) + "/" + s.Name), Labels: s.Template.Labels, Annotations: s.Template.Annotations,
		},
		Spec: *s.Template.Spec.DeepCopy(),
	}
	if len(pod.Spec.Containers) == 0 {
		return nil, fmt.Errorf("its template has no containers")
	}
	add := func(labels map[string]string, tolerations []v1.Toleration) {
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		maps.Copy(pod.Spec.NodeSelector, labels)
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, tolerations...)
	}
	for _, name := range s.Flavors {
		f := world.Flavor(name)
		if f == nil {
			return nil, fmt.Errorf("there is no ResourceFlavor %s", strconv.Quote(name))
		}
		add(f.NodeLabels, f.Tolerations)
	}
	for i := range w.Checks {
		for _, u := range w.Checks[i].Updates {
			if u.Name == s.Name {
				add(u.NodeSelector, u.Tolerations)
			}
		}
	}
	return pod, nil
}
