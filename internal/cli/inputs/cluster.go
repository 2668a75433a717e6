package inputs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/base/malformed"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// objectFile matches a file of Kubernetes objects, but not a file that lists kinds of nodes.
var objectFile = regexp.MustCompile(`(?m)^(?:kind:|\s*"kind"\s*:)|^\s*\{.{0,200}"(?:kind|apiVersion)"`)

// clusterFile collects the objects of a cluster from the output of
//
//	kubectl get nodes,paddocknodes,paddockmachines,pods -A -o json
type clusterFile struct {
	*clusterstate.Cluster
	machines   map[string]*v1alpha1.PaddockMachine
	made       map[string]*machine.Machine
	namespaces map[string]map[string]string // nil if they are not read
}

func newClusterFile() *clusterFile {
	c := &clusterFile{machines: map[string]*v1alpha1.PaddockMachine{}, made: map[string]*machine.Machine{}}
	c.Cluster = clusterstate.New(c.machine)
	return c
}

// take implements podspec.Options.Others.
func (c *clusterFile) take(kind, apiVersion string, data []byte) (bool, error) {
	switch {
	case kind == "Node" && apiVersion == "v1":
		o := new(v1.Node)
		err := decode(data, o, &o.Name)
		if err == nil {
			c.SetNode(o.Name, o)
		}
		return true, err
	case kind == "Namespace" && apiVersion == "v1" && c.namespaces != nil:
		o := new(v1.Namespace)
		err := decode(data, o, &o.Name)
		if err == nil {
			c.namespaces[o.Name] = o.Labels
		}
		return true, err
	case !objects.Readable(apiVersion):
		return false, unreadable(kind, apiVersion)
	case kind == "PaddockNode":
		o := new(v1alpha1.PaddockNode)
		err := decode(data, o, &o.Name)
		if err == nil {
			o.ManagedFields = nil
			c.SetPaddock(o.Name, o)
		}
		return true, err
	case kind == "PaddockMachine":
		o := new(v1alpha1.PaddockMachine)
		err := decode(data, o, &o.Name)
		if err == nil {
			c.machines[o.Name] = o
		}
		return true, err
	}
	return false, nil
}

// unreadable returns an error for an object of Paddock in a version that this program does not
// read, and nil for other objects.
func unreadable(kind, apiVersion string) error {
	if group, version, _ := strings.Cut(apiVersion, "/"); group == v1alpha1.GroupName && strings.HasPrefix(kind, "Paddock") {
		return fmt.Errorf("%s of version %s: this program reads %s: take a newer program, or ask for %ss.%s.%s with kubectl get",
			kind, version, strings.Join(objects.Versions, " and "), strings.ToLower(kind), v1alpha1.GroupVersion.Version, group)
	}
	return nil
}

func decode(data []byte, o any, name *string) error {
	if err := json.Unmarshal(data, o); err != nil {
		return malformed.JSON(data, err)
	}
	if *name == "" {
		return errors.New("metadata.name is missing")
	}
	return nil
}

// machine returns the machine with a digest. Its nodes share it.
func (c *clusterFile) machine(digest string) (*machine.Machine, error) {
	if m := c.made[digest]; m != nil {
		return m, nil
	}
	o := c.machines[digest]
	if o == nil {
		return nil, fmt.Errorf("PaddockMachine %s is missing: kubectl get nodes,paddocknodes,paddockmachines,pods -A -o json prints all that is needed", digest)
	}
	m, err := objects.ReadMachine(o)
	if err == nil {
		c.made[digest] = m
	}
	return m, err
}

// maxClusterPods is how many pods of a cluster are read. Kubernetes supports 150,000.
const maxClusterPods = 2_000_000

// cluster reads the objects of a cluster. Each node is a separate kind with its pods. Nodes with
// the same instance type, machine and policy form a group.
func (r Reader) cluster(name string, from io.Reader) (*FleetNodes, error) {
	c := newClusterFile()
	if r.Peers {
		c.KeepPeers()
		c.namespaces = map[string]map[string]string{}
	}
	workloads := 0
	each := func(s podspec.Source) error {
		if !strings.HasPrefix(s.Object, "Pod ") {
			workloads++
			return nil
		}
		return c.SetPod(s.Pod.Namespace+"/"+s.Pod.Name, s.Pod)
	}
	_, notes, err := podspec.Options{Others: c.take, MaxPods: maxClusterPods, Slim: true, Each: each}.ReadFrom(name, from)
	if err != nil {
		return nil, err
	}
	out := ClusterNodes(c.Moment())
	out.Peers, out.Namespaces = r.Peers, c.namespaces
	for i, n := range out.Notes {
		out.Notes[i] = name + ": " + n
	}
	for _, n := range notes {
		out.Notes = append(out.Notes, n.String())
	}
	if workloads > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%s: %d pods of workloads are left out: a cluster shows its pods themselves; name manifests with --pods", name, workloads))
	}
	if len(out.Kinds) == 0 {
		return nil, fmt.Errorf("%s: no node there has a PaddockNode that can be planned for: expected the output of kubectl get nodes,paddocknodes,paddockmachines,pods -A -o json", name)
	}
	return out, nil
}

// ClusterNodes returns the nodes of a cluster with their pods. Its notes name the nodes that are
// left out.
func ClusterNodes(m *clusterstate.Moment) *FleetNodes {
	out := &FleetNodes{Policies: map[string]string{}, objects: make(map[string]*v1.Node, len(m.Nodes)), Running: true, cluster: m, Pending: m.Waiting, Rejections: m.Rejections}
	for _, n := range m.Nodes {
		out.Kinds = append(out.Kinds, n.Kind)
		out.Policies[n.Group] = n.Policy
		out.objects[n.Name] = n.Object
	}
	for _, p := range m.Notes {
		out.Notes = append(out.Notes, fmt.Sprintf("node %s: %s", p.Node, p.Text))
	}
	for _, p := range m.Problems {
		out.Notes = append(out.Notes, fmt.Sprintf("node %s is left out: %s", p.Node, p.Text))
	}
	switch n := len(m.Strange); {
	case n == 1:
		out.Notes = append(out.Notes, fmt.Sprintf("node %s is left out: it has no PaddockNode", m.Strange[0]))
	case n > 1:
		out.Notes = append(out.Notes, fmt.Sprintf("%d nodes without a PaddockNode are left out", n))
	}
	return out
}

// Empty returns the kinds without pods, except for the pods that belong to their nodes: static pods
// and those of DaemonSets. The nodes of a group become one kind, made from the node of the group
// that has most of these pods. Pods that are read afterwards are for these kinds.
func (f *FleetNodes) Empty() ([]capacity.Kind, error) {
	if !f.Running {
		return f.Kinds, nil
	}
	var out []capacity.Kind
	at, own, seen := map[string]int{}, map[string]int{}, map[string]*v1.Node{}
	for _, n := range f.cluster.Nodes {
		i, known := at[n.Group]
		if known {
			out[i].Count++
			if n.Own() <= own[n.Group] {
				continue
			}
		}
		k, err := n.Empty()
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", n.Name, err)
		}
		k.Name = n.Group
		own[n.Group] = n.Own()
		if known {
			k.Count = out[i].Count
			out[i] = k
		} else {
			at[n.Group] = len(out)
			out = append(out, k)
		}
		seen[n.Group] = n.Object // for selectors and tolerations
	}
	f.Kinds, f.objects, f.memo, f.others, f.emptied = out, seen, nil, nil, true
	return out, nil
}

// Cluster returns the cluster that the objects describe, or nil if the nodes are not those of a
// cluster.
func (f *FleetNodes) Cluster() *clusterstate.Moment { return f.cluster }

// Bound returns the pods on the nodes as pods to be placed, without those that belong to their
// nodes.
func (f *FleetNodes) Bound() ([]fleet.Pod, error) {
	var bound []*v1.Pod
	for _, n := range f.cluster.Nodes {
		bound = append(bound, n.Bound()...)
	}
	return f.fleetPods(bound)
}

// Waiting returns the pods of the cluster that have no node.
func (f *FleetNodes) Waiting() ([]fleet.Pod, error) {
	return f.fleetPods(f.Pending)
}

func (f *FleetNodes) fleetPods(from []*v1.Pod) ([]fleet.Pod, error) {
	pods := make([]fleet.Pod, 0, len(from))
	for _, pod := range from {
		p, err := f.FleetPod(pod)
		if err != nil {
			return nil, err
		}
		pods = append(pods, p)
	}
	return pods, nil
}
