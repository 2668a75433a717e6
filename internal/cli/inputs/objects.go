package inputs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/base/spelling"
	"github.com/paddock-project/paddock/internal/codec/podspec"
)

// Objects are the Nodes and pods of a cluster, or of one node, as an API server has them.
type Objects struct {
	// Pods are without defaults, and include those that have ended. Of their status they have what
	// shows what became of the pod. Nodes maps names to Nodes.
	Pods  []*v1.Pod
	Nodes map[string]*v1.Node
}

// Objects reads Nodes and pods, as "kubectl get nodes,pods -A -o json" prints them.
func (r Reader) Objects(paths []string) (*Objects, error) {
	o := &Objects{Nodes: map[string]*v1.Node{}}
	nodes := func(kind, apiVersion string, data []byte) (bool, error) {
		if kind != "Node" || apiVersion != "v1" {
			return false, nil
		}
		n := new(v1.Node)
		err := decode(data, n, &n.Name)
		o.Nodes[n.Name] = n
		return true, err
	}
	each := func(s podspec.Source) error {
		o.Pods = append(o.Pods, Slim(s.Pod))
		return nil
	}
	if _, _, err := (podspec.Options{Others: nodes, MaxPods: maxClusterPods, Each: each}).ReadFiles(paths, r.Stdin); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Names.Pods, err)
	}
	return o, nil
}

// Slim returns a pod with what influences decisions and what shows what became of it. A cluster has
// up to 150,000 pods.
func Slim(pod *v1.Pod) *v1.Pod {
	out, from := podspec.Slim(pod), pod.Status
	out.Status.Reason, out.Status.Message, out.Status.StartTime, out.Status.Conditions = from.Reason, from.Message, from.StartTime, from.Conditions
	out.Status.InitContainerStatuses, out.Status.ContainerStatuses = from.InitContainerStatuses, from.ContainerStatuses
	return out
}

// Pod returns the pod with that name, or nil. If there are several, for example because a pod was
// replaced, it is the one that was created last.
func (o *Objects) Pod(namespace, name string) *v1.Pod {
	var found *v1.Pod
	for _, p := range o.Pods {
		if p.Namespace == namespace && p.Name == name && (found == nil || found.CreationTimestamp.Before(&p.CreationTimestamp)) {
			found = p
		}
	}
	return found
}

// Similar returns the names of at most few pods whose name contains the given one or begins like
// it, for an error about a pod that is not there. Pods with exactly that name come first.
func (o *Objects) Similar(name string, few int) []string {
	var exact, names []string
	for _, p := range o.Pods {
		if p.Name == name {
			exact = append(exact, p.Namespace+"/"+p.Name)
		} else if stem, _, _ := strings.Cut(name, "-"); strings.HasPrefix(p.Name, stem) || strings.Contains(p.Name, name) || spelling.Distance(p.Name, name) <= 2 {
			names = append(names, p.Namespace+"/"+p.Name)
		}
	}
	slices.Sort(exact)
	slices.Sort(names)
	names = append(exact, names...)
	return names[:min(few, len(names))]
}

// NodeName returns the name of the node that the objects are of: the only Node, or else the node of
// all pods that have one. It returns "" if the pods have no node. It is an error if several are
// possible.
func (o *Objects) NodeName() (string, error) {
	names := map[string]bool{}
	for name := range o.Nodes {
		names[name] = true
	}
	if len(names) != 1 {
		clear(names)
		for _, p := range o.Pods {
			if p.Spec.NodeName != "" {
				names[p.Spec.NodeName] = true
			}
		}
	}
	all := slices.Sorted(maps.Keys(names))
	switch len(all) {
	case 0:
		return "", nil
	case 1:
		return all[0], nil
	}
	return "", fmt.Errorf("there are pods of %d nodes, such as %s and %s: name the one with --node", len(all), all[0], all[1])
}

// Elsewhere maps the UIDs of the pods on other nodes to the names of these nodes.
func (o *Objects) Elsewhere(name string) map[string]string {
	others := map[string]string{}
	for _, p := range o.Pods {
		if at := p.Spec.NodeName; name != "" && at != "" && at != name {
			others[podspec.UID(p)] = at
		}
	}
	return others
}

// On returns the pods of a node. If no pod has a node, they are all of this one, as in manifests
// that a person wrote.
func (o *Objects) On(name string) Roster {
	bound := slices.ContainsFunc(o.Pods, func(p *v1.Pod) bool { return p.Spec.NodeName != "" })
	pods := Roster{}
	for _, p := range o.Pods {
		if name == "" || p.Spec.NodeName == name || !bound {
			pods[podspec.UID(p)] = p
		}
	}
	return pods
}
