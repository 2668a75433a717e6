package predict

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/annotation"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/shown"
)

// GrantAnnotation is the key of the annotation in which a scheduler hands the grant of a pod over.
const GrantAnnotation = annotation.Key

// Published is what a node shows of its pods, in plain values. Package objects makes it of a
// PaddockNode.
type Published struct {
	// Name is the name of the node. Annotations for another node do not count.
	Name string
	// Grants are the grants that the node published, as texts, by the UID of the pod. A pod with
	// one here need not be bound: it may be a static pod that is not shown yet.
	Grants map[string]string
	// SharedCPUs and Memory are what the files of a kubelet that decides have beside its pods: the
	// shared pool, as a list, and the accounting of memory. They are empty where Paddock decides.
	SharedCPUs string
	Memory     []AccountedMemory
	// Doubts are sentences about what is not known of the node. Every verdict about it has them.
	Doubts []string
}

// AccountedMemory is what a kubelet's accounting of memory has of one NUMA node.
type AccountedMemory struct {
	NUMANode int
	// Together are the NUMA nodes that serve memory together with this one. Empty means none.
	Together []int
	// Assignments is how many blocks of memory are there, and Assigned has their bytes by resource.
	Assignments int
	Assigned    map[string]int64
}

// BoundPod is a pod that is bound to a node and has not ended.
type BoundPod struct {
	// Request has the UID by which the node knows the pod: that of a static pod is the annotation
	// kubernetes.io/config.hash of its mirror pod.
	Request *Request
	// Grant is the value of GrantAnnotation. It is empty without one, and for static pods.
	Grant string
}

// Restored is a node with the pods that a cluster shows there.
type Restored struct {
	Node *Node
	// Planned has the UIDs of the bound pods without a usable grant that were planned here: the
	// node may decide otherwise until it publishes their grants.
	Planned []string
	// Missing has the UIDs of the bound pods without a grant that do not fit: the node rejects
	// them, or it knows more. They have nothing on the node.
	Missing []string
	// Findings are sentences about grants that could not be kept unchanged.
	Findings []string
}

// Restore returns the node with the pods that a cluster shows there, as the scheduler and the fleet
// of Paddock have it: a published grant wins over the annotation of its pod, and a pod without a
// grant is planned in the order of pods. The verdicts about the node are theirs.
//
// The certainty is Unsure if the node has doubts, if a bound pod does not fit, or if the annotation
// of a bound pod is not usable. An error is about a grant that cannot be read or about what a
// kubelet has; it wraps ErrInvalid.
func Restore(p *Policy, devices map[string][]Device, published *Published, pods []BoundPod) (*Restored, error) {
	n, err := NewNode(p, devices)
	if err != nil {
		return nil, err
	}
	in := shown.Node{Name: published.Name, Machine: p.machine.machine, Policy: p.policy, Inventory: n.devices, Published: map[string]*node.Grant{}}
	fail := func(err error) (*Restored, error) {
		return nil, fmt.Errorf("node %s: %w: %w", published.Name, ErrInvalid, err)
	}
	for _, uid := range slices.Sorted(maps.Keys(published.Grants)) {
		g, err := grantform.Decode([]byte(published.Grants[uid]))
		if err == nil && g.Pod.UID != uid {
			err = fmt.Errorf("it is the grant of the pod with UID %s", g.Pod.UID)
		}
		if err != nil {
			return fail(fmt.Errorf("grant of the pod with UID %s: %w", uid, err))
		}
		in.Published[uid] = g
	}
	if p.kubelet {
		if in.Kubelet, err = published.kubelet(p); err != nil {
			return fail(err)
		}
	}
	bound := make([]shown.Bound, 0, len(pods))
	for i, b := range pods {
		if b.Request == nil {
			return fail(fmt.Errorf("pod %d has no request", i))
		}
		if v, wrong := n.rejectedGates(b.Request); wrong {
			return fail(fmt.Errorf("pod %s: %s", b.Request.pod.ID(), v.Message))
		}
		bound = append(bound, shown.Bound{Pod: b.Request.pod, Annotation: b.Grant})
	}
	built, err := in.State(bound)
	if err != nil {
		return fail(err)
	}
	out := &Restored{Planned: built.Provisional, Missing: built.Missing}
	for _, f := range built.Findings {
		out.Findings = append(out.Findings, f.String())
	}
	out.Node = n.at(built.State)
	out.Node.doubts = append(slices.Clone(published.Doubts), out.doubts(pods, in.Published, p.kubelet)...)
	return out, nil
}

// doubts returns what is not known of the pods.
func (r *Restored) doubts(pods []BoundPod, published map[string]*node.Grant, kubelet bool) (all []string) {
	if n := len(r.Missing); n > 0 {
		all = append(all, fmt.Sprintf("%d of its pods do not fit there by its policy: it rejects them, or they wait for a decision", n))
	}
	if kubelet {
		return all // Annotations have no effect there.
	}
	var names []string
	for _, b := range pods {
		if b.Grant != "" && published[b.Request.UID()] == nil && slices.Contains(r.Planned, b.Request.UID()) {
			names = append(names, b.Request.pod.ID())
		}
	}
	if len(names) > 0 {
		all = append(all, "the grants in the annotations of these pods are not usable: "+strings.Join(names, ", "))
	}
	return all
}

// kubelet returns what a kubelet has beside its grants.
func (p *Published) kubelet(of *Policy) (*shown.Kubelet, error) {
	shared, err := cpuset.Parse(p.SharedCPUs)
	if err != nil {
		return nil, fmt.Errorf("sharedCPUs: %w", err)
	}
	capacity, err := memory.NewCapacity(of.machine.machine, of.policy.ReservedMemory)
	if err != nil {
		return nil, err
	}
	list := make([]shown.Accounted, len(p.Memory))
	for i, m := range p.Memory {
		list[i] = shown.Accounted{NUMANode: m.NUMANode, Together: m.Together, Assignments: m.Assignments, Assigned: m.Assigned}
	}
	accounted, err := shown.Account(capacity, list)
	if err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	return &shown.Kubelet{Shared: shared, Memory: accounted}, nil
}
