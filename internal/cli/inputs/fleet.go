package inputs

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/paddock-project/paddock/internal/base/bounded"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/request"
)

// FleetNodes are the nodes of a file such as
//
//	nodes:
//	- name: gpu
//	  count: 12
//	  machine: gpu-server.json        # as "paddock topology -o json" writes it
//	  kubeletConfig: gpu-kubelet.yaml # without it a usual policy
//	  devices: gpu-devices.yaml
//	  as: kubelet-1.36                # what decides there; without it Paddock
//	- name: node7
//	  state: paddock-node7            # a kubelet's directory: the node as it is, with its pods
//	- name: planned
//	  make: sockets=2,cores=48,threads=2,memory=1Ti,gpus=8   # in place of machine and devices
//	  labels: {pool: gpu}
//	  taints: [{key: gpu, effect: NoSchedule}]
//	  price: 3.2 # of a node, in any unit
//
// or of a CSV file with the columns name, count, kubeletConfig, price and those of
// discover.FactNames.
//
// Paths are relative to the file. The node of a kind with one node has the name of the kind. Nodes
// of other kinds are numbered.
type FleetNodes struct {
	Kinds []capacity.Kind
	// Policies maps the name of each kind to a one-line description of its policy.
	Policies map[string]string
	// Prices maps the names of the kinds that have a price to their price.
	Prices map[string]float64
	Notes  []string
	// Stock has the names of the kinds that are one node with its pods, read from the files of its
	// kubelet.
	Stock []string
	// NotCounted are the extended resources that DeviceNotes removed from pods, and Unplaced those
	// of which it noted that NUMA nodes are not given.
	NotCounted, Unplaced []string
	// Running is true if the nodes are those of a cluster. Each node is then a kind with its pods,
	// and Pending are the pods that have no node yet.
	Running bool
	Pending []*v1.Pod
	// Rejections are the rejections of the nodes of a cluster since their agents started to count,
	// most frequent first.
	Rejections []clusterstate.Rejections
	// Namespaces maps the names of the Namespaces that were read to their labels.
	Namespaces map[string]map[string]string
	// Peers makes FleetPod keep the parts of a pod that other pods depend on, as a *v1.Pod like
	// that of a Peer (fleet.Pod.Origin).
	Peers   bool
	peers   map[string]*v1.Pod // by their encoded form
	emptied bool
	cluster *clusterstate.Moment
	others  []podspec.Gates     // those that differ from Gates; nil until a pod is read
	objects map[string]*v1.Node // the objects that selectors and tolerations apply to, by kind
	memo    map[string]allowance
}

// allowance describes where pods with some constraints may run.
type allowance struct {
	names map[string]bool // of kinds
	text  string          // the same for the same names; empty if the pods may run everywhere
	// excluded becomes fleet.Pod.Excluded.
	excluded func(n *fleet.Node) (why, remedy string)
}

// fleetFile is the format of the file.
type fleetFile struct {
	Nodes []fleetEntry `json:"nodes"`
}

type fleetEntry struct {
	Name          string `json:"name"`
	Count         *int   `json:"count,omitempty"`
	Machine       string `json:"machine,omitempty"`
	Make          string `json:"make,omitempty"`
	KubeletConfig string `json:"kubeletConfig,omitempty"`
	Devices       string `json:"devices,omitempty"`
	As            string `json:"as,omitempty"`
	// State is the directory of the kubelet of one node, or a copy of it.
	State  string            `json:"state,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Taints []v1.Taint        `json:"taints,omitempty"`
	Price  *float64          `json:"price,omitempty"`
}

// maxPrice limits the price of a node, so that sums of prices stay exact enough.
const maxPrice = 1e9

// maxNodes limits the nodes of a fleet. Kubernetes supports 5,000 in a cluster.
const maxNodes = 100_000

// Fleet reads a file of nodes or the objects of a cluster. An error names the file, the entry and
// the field.
func (r Reader) Fleet(name string) (*FleetNodes, error) {
	if isFolder(name) {
		return r.folder(name)
	}
	from, err := r.open(name)
	if err != nil {
		return nil, fmt.Errorf("--nodes: %w", err)
	}
	defer from.Close()
	first, all, err := bounded.Begin(from, MaxFile)
	if err == nil && objectFile.Match(first) { // Objects can have any size.
		return r.cluster(name, all)
	}
	var data []byte
	if err == nil {
		data, err = bounded.Read(name, all, MaxFile)
	}
	if err == nil {
		err = bounded.Unpacked(name, data)
	}
	if err != nil {
		return nil, fmt.Errorf("--nodes: %w", err)
	}
	entries, note, err := listedIn(name, data)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s: nodes is empty: expected a list of {name, count, machine or make, kubeletConfig, devices}", name)
	}
	out := newFleetNodes(r.Peers)
	if note != "" {
		out.Notes = append(out.Notes, note)
	}
	total := 0
	var wrong error
	for i := range entries {
		err := r.entry(out, &entries[i], &total, filepath.Dir(name))
		if err == nil {
			continue
		}
		if !r.KeepGoing {
			return nil, err
		}
		wrong = cmp.Or(wrong, err)
		out.Notes = append(out.Notes, fmt.Sprintf("left out: %v", err))
	}
	if len(out.Kinds) == 0 {
		return nil, wrong
	}
	return out, nil
}

// listed is an entry with its place in the file: "nodes.csv:3", or "nodes.yaml: nodes[2]".
type listed struct {
	fleetEntry
	at string
	// before separates the place from the name of a field.
	before string
	// err is set if the entry cannot be read. It begins with the field.
	err error
}

// listedIn returns the entries of a file. The error is about the file as a whole.
func listedIn(name string, data []byte) (all []listed, note string, err error) {
	if isTable(name) {
		return decodeTable(name, data)
	}
	var file fleetFile
	if err := decodeFleet(data, &file); err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	for i, e := range file.Nodes {
		all = append(all, listed{fleetEntry: e, at: fmt.Sprintf("%s: nodes[%d]", name, i), before: "."})
	}
	return all, "", nil
}

// entry reads an entry. An error names its place.
func (r Reader) entry(out *FleetNodes, e *listed, total *int, dir string) error {
	count := 1
	if e.Count != nil {
		count = *e.Count
	}
	err := e.err
	if err == nil {
		err = out.check(&e.fleetEntry, count, *total)
	}
	if err != nil {
		return fmt.Errorf("%s%s%w", e.at, e.before, err)
	}
	if e.State != "" {
		err = r.stock(out, e.fleetEntry, dir)
	} else {
		err = r.kind(out, e.fleetEntry, count, dir)
	}
	if err != nil {
		return fmt.Errorf("%s (%s): %w", e.at, e.Name, err)
	}
	*total += count
	return nil
}

// check returns an error that begins with a field of an entry if the entry cannot be added to nodes
// of which there are total.
func (f *FleetNodes) check(e *fleetEntry, count, total int) error {
	switch wrong := validation.IsDNS1123Subdomain(e.Name); {
	case e.Name == "":
		return errors.New("name is missing")
	case len(wrong) > 0:
		return fmt.Errorf("name: %q: %s", e.Name, wrong[0])
	case f.objects[e.Name] != nil:
		return fmt.Errorf("name: %q is listed twice", e.Name)
	case count < 0 || count > maxNodes-total:
		return fmt.Errorf("count: %d: expected 0 to %d nodes in all", count, maxNodes)
	case e.Price != nil && !(*e.Price > 0 && *e.Price <= maxPrice):
		return fmt.Errorf("price: %v: expected a number above 0, at most %v", *e.Price, maxPrice)
	case e.State != "" && count != 1:
		return fmt.Errorf("count: %d: a state is that of one node: list each node with its own", count)
	case e.Make != "" && e.Machine != "":
		return errors.New("make: the machine is given already: leave out make or machine")
	case e.Make != "" && e.State != "":
		return errors.New("make: a state comes with its machine: leave out make or state")
	case e.Machine == "" && e.State == "" && e.Make == "":
		return errors.New("machine is missing: expected a file that \"paddock topology -o json\" wrote, or make with a few facts, such as sockets=2,cores=48,threads=2,memory=1Ti")
	}
	return nil
}

// relativeTo returns a name that is relative to a directory.
func relativeTo(dir, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// kind reads the files of an entry.
func (r Reader) kind(out *FleetNodes, e fleetEntry, count int, dir string) error {
	from := Reader{Names: Fields, GPU: r.GPU}
	var kubelet behavior.Version
	var err error
	if e.As != "" {
		if kubelet, err = behavior.Named(e.As); err != nil {
			return fmt.Errorf("as: %w", err)
		}
		from.Minor = kubelet.Minor
	}
	n, err := from.Node(NodeFiles{Machine: relativeTo(dir, e.Machine), Make: e.Make, Policy: relativeTo(dir, e.KubeletConfig), Devices: relativeTo(dir, e.Devices)})
	if err != nil {
		return err
	}
	out.Notes = append(append(out.Notes, n.Found.Notes...), n.Policy.Warnings...)
	state, err := from.State("", n)
	if err != nil {
		return err
	}
	if e.As != "" {
		as, err := behavior.Of(kubelet)
		if err != nil {
			return fmt.Errorf("as: %w", err)
		}
		if n.Policy.Moves.Pods > 0 {
			return fmt.Errorf("as: %s: cpuManagerPolicy is dynamic, which only Paddock has: use static", e.As)
		}
		state = state.As(as)
		n.Policy.Text += "; kubelet " + kubelet.String() + " decides"
	}
	out.Kinds = append(out.Kinds, capacity.Kind{Name: e.Name, Count: count, State: state, Allocatable: n.Allocatable()})
	out.describe(e, n.Policy.Text)
	return nil
}

// Allocatable returns the amounts of a node that the scheduler counts: those that the kubelet
// reports, and the devices.
func (n *Node) Allocatable() fleet.Amounts {
	a := n.Policy.Allocatable
	out := fleet.Amounts{Milli: a.Milli, Memory: a.Memory[request.Memory], Pods: a.Pods}
	for name, bytes := range a.Memory {
		if name != request.Memory {
			out.Others = out.Others.With(name, bytes)
		}
	}
	for _, name := range n.Devices.Resources() {
		healthy := int64(0)
		for _, d := range n.Devices.Devices(name) {
			if d.Healthy {
				healthy++
			}
		}
		out.Others = out.Others.With(name, healthy)
	}
	return out
}

// FleetPod returns a pod, which needs no defaults, as a fleet handles it. Pods that may run
// everywhere have no constraint.
func (f *FleetNodes) FleetPod(pod *v1.Pod) (fleet.Pod, error) {
	out, err := f.readings(pod)
	if err != nil {
		return fleet.Pod{}, err
	}
	if f.Peers {
		out.Origin = f.peer(pod)
	}
	allowed, err := f.allowance(pod)
	if err != nil {
		return fleet.Pod{}, fmt.Errorf("pod %s: node affinity: %w", out.ID(), err)
	}
	if allowed.text != "" {
		out.Constraint = allowed.text
		out.Allowed = func(n *fleet.Node) bool {
			if f.objects[n.Name] != nil {
				return allowed.names[n.Name]
			}
			return allowed.names[n.Kind]
		}
		out.Excluded = allowed.excluded
	}
	return out, nil
}

// allowance returns on which nodes a pod may run: by its node selector, its required node affinity
// and the taints that it tolerates. Pods with the same of these share the result.
func (f *FleetNodes) allowance(pod *v1.Pod) (allowance, error) {
	var required *v1.NodeSelector
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		required = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	key, err := json.Marshal([]any{pod.Spec.NodeSelector, required, pod.Spec.Tolerations})
	if err != nil {
		return allowance{}, err
	}
	if known, ok := f.memo[string(key)]; ok {
		return known, nil
	}
	out := allowance{names: map[string]bool{}}
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	digest := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(f.objects)) {
		object := f.objects[name]
		match, err := affinity.Match(object)
		if err != nil {
			return out, err
		}
		if _, is := untolerated(object, pod.Spec.Tolerations); match && !is {
			out.names[name] = true
			_, _ = fmt.Fprintln(digest, name) // A hash never fails.
		}
	}
	if len(out.names) < len(f.objects) {
		out.text = fmt.Sprintf("%x", digest.Sum(nil))
		spec := v1.PodSpec{NodeSelector: pod.Spec.NodeSelector, Affinity: pod.Spec.Affinity, Tolerations: pod.Spec.Tolerations}
		out.excluded = func(n *fleet.Node) (why, remedy string) {
			object := cmp.Or(f.objects[n.Name], f.objects[n.Kind])
			if object == nil {
				return "", ""
			}
			return excluded(&spec, object)
		}
	}
	if f.memo == nil {
		f.memo = map[string]allowance{}
	}
	f.memo[string(key)] = out
	return out, nil
}

// untolerated returns the first taint of a node that keeps away pods with these tolerations.
func untolerated(n *v1.Node, tolerations []v1.Toleration) (v1.Taint, bool) {
	return corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, tolerations, func(t *v1.Taint) bool {
		return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
	}, false)
}

// excluded explains why a pod may not run on a node, and what would change that.
func excluded(spec *v1.PodSpec, n *v1.Node) (why, remedy string) {
	var whys, remedies []string
	for _, key := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		if has, ok := n.Labels[key]; !ok || has != spec.NodeSelector[key] {
			whys = append(whys, fmt.Sprintf("the node does not have the label %s=%s of the pod's node selector", key, spec.NodeSelector[key]))
			remedies = append(remedies, fmt.Sprintf("give the node the label %s=%s", key, spec.NodeSelector[key]))
		}
	}
	alone := &v1.Pod{Spec: v1.PodSpec{Affinity: spec.Affinity}}
	if match, err := nodeaffinity.GetRequiredNodeAffinity(alone).Match(n); err == nil && !match {
		whys, remedies = append(whys, "the node does not match the pod's required node affinity"), append(remedies, "change the pod's node affinity, or the labels of the node")
	}
	if t, is := untolerated(n, spec.Tolerations); is {
		whys, remedies = append(whys, fmt.Sprintf("the pod does not tolerate the taint %s", t.ToString())), append(remedies, fmt.Sprintf("let the pod tolerate the taint %s", t.ToString()))
	}
	return strings.Join(whys, "; "), strings.Join(remedies, "; ")
}

// Zones maps the names of the kinds that have a zone (label topology.kubernetes.io/zone) to their
// zones.
func (f *FleetNodes) Zones() map[string]string {
	zones := map[string]string{}
	for kind, object := range f.objects {
		if zone := object.Labels[v1.LabelTopologyZone]; zone != "" {
			zones[kind] = zone
		}
	}
	return zones
}
