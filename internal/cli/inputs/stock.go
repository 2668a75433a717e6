package inputs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/node"
)

// StockFiles name the files of a node on which a kubelet decides. What is empty comes from the
// directory Path.
type StockFiles struct {
	// Path is the kubelet's directory, a copy of it, or one of its state files.
	Path                     string
	Machine, Config, Devices string
	// Version is the kubelet, or zero if it is the one that the Node names.
	Version behavior.Version
}

// StockFound is a node on which a kubelet decides, with its pods.
type StockFound struct {
	*Node
	State *node.State
	// Name is the name of the Kubernetes node, and Object its Node. They are empty if they are not
	// known.
	Name   string
	Object *v1.Node
	Pods   Roster
	// Version is the kubelet.
	Version behavior.Version
	Notes   []string
}

// StockReader reads a node on which a kubelet decides. It returns nil if the path is not a
// kubelet's.
type StockReader func(r Reader, files StockFiles) (*StockFound, error)

// isFolder reports whether a name is that of a directory.
func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir() && name != "-"
}

// folder returns a fleet of the one node whose kubelet's directory has this name.
func (r Reader) folder(name string) (*FleetNodes, error) {
	out := newFleetNodes(r.Peers)
	if err := r.stock(out, fleetEntry{State: name}, ""); err != nil {
		return nil, fmt.Errorf("--nodes: %w", err)
	}
	return out, nil
}

// stock adds the node of an entry with a state. dir is the directory to which names are relative.
func (r Reader) stock(out *FleetNodes, e fleetEntry, dir string) error {
	if r.Stock == nil {
		return errors.New("state: the state of a kubelet cannot be read here: leave it out")
	}
	files := StockFiles{Path: relativeTo(dir, e.State), Machine: relativeTo(dir, e.Machine), Config: relativeTo(dir, e.KubeletConfig), Devices: relativeTo(dir, e.Devices)}
	if files.Machine == "" {
		files.Machine = discover.LiveName
	}
	if e.As != "" && e.As != "auto" {
		var err error
		if files.Version, err = behavior.Named(e.As); err != nil {
			return fmt.Errorf("as: %w", err)
		}
	}
	n, err := r.Stock(Reader{Names: Fields}, files)
	switch {
	case err != nil:
		return err
	case n == nil:
		return fmt.Errorf("state: %s is not a kubelet's: expected its directory, or one that the script of paddock collect made", files.Path)
	}
	name := cmp.Or(e.Name, n.Name, "node")
	for _, note := range n.Notes {
		out.Notes = append(out.Notes, name+": "+note)
	}
	kind := capacity.Kind{Name: name, Count: 1, State: n.State}
	kind.Allocatable = n.Node.Allocatable()
	kind.Used = n.used()
	object := &v1.Node{}
	if n.Object != nil {
		object = n.Object
	}
	for name, quantity := range object.Status.Allocatable { // Without the file of the devices, they are counted.
		if resource := string(name); device.CheckName(resource) == nil && !n.Devices.Has(resource) {
			kind.Allocatable.Others = kind.Allocatable.Others.With(resource, quantity.Value())
		}
	}
	e.Labels, e.Taints = merged(object.Labels, e.Labels), append(e.Taints, object.Spec.Taints...)
	e.Name = name
	out.Kinds = append(out.Kinds, kind)
	out.Stock = append(out.Stock, name)
	out.describe(e, n.Policy.Text+"; kubelet "+n.Version.String()+" decides")
	return nil
}

// Vacate takes the pods off the nodes that were read from the files of their kubelet.
func (f *FleetNodes) Vacate() error {
	for i := range f.Kinds {
		k := &f.Kinds[i]
		if !slices.Contains(f.Stock, k.Name) {
			continue
		}
		s, err := node.New(k.State.Machine(), k.State.Policy())
		if err == nil {
			s, err = s.WithDevices(k.State.Devices().Inventory())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", k.Name, err)
		}
		k.State, k.Used = s, fleet.Amounts{}
	}
	return nil
}

// used returns what the scheduler counts of the pods that have not ended.
func (n *StockFound) used() fleet.Amounts {
	var used fleet.Amounts
	gates := podspec.GatesOf(n.Policy.Policy)
	for uid, pod := range n.Pods {
		if n.Pods.Alive(uid) {
			used = used.Plus(clusterstate.Asks(podspec.Default(pod, gates), gates))
		}
	}
	return used
}

// merged returns the labels of both. Those of more win.
func merged(labels, more map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, labels)
	maps.Copy(all, more)
	return all
}

func newFleetNodes(peers bool) *FleetNodes {
	return &FleetNodes{Policies: map[string]string{}, Prices: map[string]float64{}, objects: map[string]*v1.Node{}, Peers: peers}
}

// describe adds what is known of a kind beside its state.
func (f *FleetNodes) describe(e fleetEntry, policy string) {
	f.Policies[e.Name] = policy
	if e.Price != nil {
		f.Prices[e.Name] = *e.Price
	}
	labels := merged(nil, e.Labels)
	for key, value := range map[string]string{v1.LabelOSStable: "linux", v1.LabelHostname: e.Name} {
		labels[key] = cmp.Or(labels[key], value)
	}
	f.objects[e.Name] = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: e.Name, Labels: labels}, Spec: v1.NodeSpec{Taints: e.Taints}}
}
