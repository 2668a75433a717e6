// Package objects reads the objects that Paddock publishes in a cluster as values of package
// predict: the machine of a PaddockMachine, the policy and the devices of a PaddockNode, and the
// node with its pods. It is apart from predict, so that a program without these objects does not
// link their types.
//
//	m, err := objects.Machine(paddockMachine)
//	p, err := objects.Policy(paddockNode, m)
//	r, err := predict.NewRequest(pod, p) // for each pod that is bound to the node
//	restored, err := objects.Node(paddockNode, p, []predict.BoundPod{{Request: r, Grant: annotations[predict.GrantAnnotation]}})
//	verdict := restored.Node.Plan(next)
//
// The node is the one that the scheduler of Paddock has for the same objects, with the same
// verdicts. What this package cannot read is an error: a policy with settings that it does not
// know, the option cache-allocation, and a node whose agent does not decide, or does not publish
// all of its grants. A kubelet that is not recorded is none: as the scheduler does, the package
// plans by the rules of Paddock there, and is unsure. No object panics.
package objects

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/core/annotation"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/predict"
)

// Machine returns the machine of a PaddockMachine, whose name must be the digest of its
// description. The error wraps predict.ErrInvalid.
func Machine(o *v1alpha1.PaddockMachine) (*predict.Machine, error) {
	if digest := annotation.Digest([]byte(o.Spec.Description)); digest != o.Name {
		return nil, fmt.Errorf("PaddockMachine %s: %w: its description has the digest %s: it was changed; delete the object, and the agents create it again", o.Name, predict.ErrInvalid, digest)
	}
	m, err := predict.ParseMachine([]byte(o.Spec.Description))
	if err != nil {
		return nil, fmt.Errorf("PaddockMachine %s: %w", o.Name, err)
	}
	return m, nil
}

// Policy returns the policy of a PaddockNode on the machine that the node names. It fails if the
// digest of the policy differs from the one that the agent wrote: the CRD of the cluster, or this
// program, is older than the agent and does not know all of its settings.
func Policy(o *v1alpha1.PaddockNode, m *predict.Machine) (*predict.Policy, error) {
	text, err := json.Marshal(&o.Status.Policy)
	if err != nil {
		return nil, fmt.Errorf("PaddockNode %s: %w: %w", o.Name, predict.ErrInvalid, err)
	}
	if digest := annotation.Digest(text); digest != o.Status.PolicyDigest {
		return nil, fmt.Errorf("PaddockNode %s: %w: its policy has the digest %s, and the agent wrote %s: update the CRD and this program to the version of the agent",
			o.Name, predict.ErrInvalid, digest, o.Status.PolicyDigest)
	}
	spec := PolicySpec(o)
	if d := o.Status.DecidedBy; d != nil {
		if d.Manager != v1alpha1.ManagerKubelet {
			return nil, fmt.Errorf("PaddockNode %s: decidedBy: %w: manager %q is not known to this version of Paddock", o.Name, predict.ErrInvalid, d.Manager)
		}
		spec.RulesDigest = d.RulesDigest
	}
	p, err := predict.NewPolicy(m, spec)
	if err != nil {
		return nil, fmt.Errorf("PaddockNode %s: %w", o.Name, err)
	}
	return p, nil
}

// PolicySpec returns the settings of a PaddockNode's policy, for predict.NewPolicy with another
// machine or with changes. Use Policy for the node itself: only it checks that all settings are
// known.
func PolicySpec(o *v1alpha1.PaddockNode) predict.PolicySpec {
	p := &o.Status.Policy
	out := predict.PolicySpec{
		TopologyManagerPolicy: p.TopologyManagerPolicy, TopologyManagerScope: p.TopologyManagerScope,
		TopologyManagerPolicyOptions: slices.Clone(p.TopologyManagerPolicyOptions),
		CPUManagerPolicy:             p.CPUManagerPolicy, CPUManagerPolicyOptions: slices.Clone(p.CPUManagerPolicyOptions),
		IsolatedCPUs: p.IsolatedCPUs, ReservedCPUs: p.ReservedCPUs, MemoryManagerPolicy: p.MemoryManagerPolicy,
		FeatureGates: slices.Clone(p.FeatureGates), MaxContainersPerPod: int(o.Status.MaxContainersPerPod),
	}
	if d := o.Status.DecidedBy; d != nil {
		out.DecidedBy = "v" + d.Version
	}
	for _, r := range p.ReservedMemory {
		if out.ReservedMemory == nil {
			out.ReservedMemory = map[int]map[string]int64{}
		}
		out.ReservedMemory[int(r.NUMANode)] = r.Limits
	}
	return out
}

// Devices returns the devices of a PaddockNode, for predict.NewNode. The error wraps
// predict.ErrInvalid.
func Devices(o *v1alpha1.PaddockNode) (map[string][]predict.Device, error) {
	out := map[string][]predict.Device{}
	for _, r := range o.Status.Devices {
		out[r.Resource] = []predict.Device{}
		for _, d := range r.Devices {
			nodes, err := mask.Parse(d.NUMANodes)
			if err != nil {
				return nil, fmt.Errorf("PaddockNode %s: device %s of %s: %w: %w", o.Name, d.ID, r.Resource, predict.ErrInvalid, err)
			}
			out[r.Resource] = append(out[r.Resource], predict.Device{ID: d.ID, Unhealthy: d.Unhealthy, NUMANodes: nodes.Nodes()})
		}
	}
	return out, nil
}

// Node returns the node with the pods that are bound to it and have not ended, in the order in
// which they are planned if they have no grant: predict.Restore of what the PaddockNode shows. p is
// the Policy of the object. The error wraps predict.ErrInvalid.
func Node(o *v1alpha1.PaddockNode, p *predict.Policy, pods []predict.BoundPod) (*predict.Restored, error) {
	devices, err := Devices(o)
	if err != nil {
		return nil, err
	}
	switch {
	case o.Status.DecidedBy == nil && !meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionManaging):
		return nil, fmt.Errorf("PaddockNode %s: %w: its agent does not decide about pods (%s): no pod that needs CPUs of its own is placed there",
			o.Name, predict.ErrInvalid, cmp.Or(o.Status.Summary.Condition, "condition Managing is not true"))
	case !meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionComplete):
		return nil, fmt.Errorf("PaddockNode %s: %w: it does not have everything that is assigned there (condition Complete is not true)", o.Name, predict.ErrInvalid)
	}
	published := predict.Published{Name: o.Name, Grants: make(map[string]string, len(o.Status.Grants))}
	for _, g := range o.Status.Grants {
		published.Grants[g.UID] = g.Grant
	}
	if d := o.Status.DecidedBy; d != nil {
		published.SharedCPUs, published.Doubts = d.SharedCPUs, doubts(o)
		for _, m := range d.Memory {
			x := predict.AccountedMemory{NUMANode: int(m.NUMANode), Assignments: int(m.Assignments), Assigned: m.Assigned}
			for _, id := range m.Together {
				x.Together = append(x.Together, int(id))
			}
			published.Memory = append(published.Memory, x)
		}
	}
	return predict.Restore(p, devices, &published, pods)
}

// doubts returns what is not known of a node on which a kubelet decides. Its policy has the doubts
// about the rules.
func doubts(o *v1alpha1.PaddockNode) (all []string) {
	switch c := o.Status.Certainty; {
	case c == nil:
		all = append(all, "the agent has not published how surely it knows the kubelet")
	case c.Answer == v1alpha1.CertaintyUnsure:
		all = append(all, "it is unsure what its kubelet has: "+strings.Join(c.Reasons, ", "))
	}
	if o.Status.DecidedBy.RulesDigest == "" {
		all = append(all, "the agent has not published by which rules its kubelet decides")
	}
	return all
}
