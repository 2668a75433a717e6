// Package objects reads the objects that Paddock publishes in a cluster as values of package
// predict: the machine of a PaddockMachine, and the policy and the devices of a PaddockNode. It is
// apart from predict, so that a program without these objects does not link their types.
//
// The pods of a node are not read. The grants of a PaddockNode are in the form of the agent's state
// file, which other programs do not read: add the pods that are bound to the node with Node.With,
// or ask `paddock predict serve`, which has the state of every node.
package objects

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/predict"
)

// Machine returns the machine of a PaddockMachine. Its name is the digest of its description; the
// error wraps predict.ErrInvalid, also if it is not.
func Machine(o *v1alpha1.PaddockMachine) (*predict.Machine, error) {
	sum := sha256.Sum256([]byte(o.Spec.Description))
	if digest := hex.EncodeToString(sum[:]); digest != o.Name {
		return nil, fmt.Errorf("PaddockMachine %s: %w: its description has the digest %s: it was changed", o.Name, predict.ErrInvalid, digest)
	}
	m, err := predict.ParseMachine([]byte(o.Spec.Description))
	if err != nil {
		return nil, fmt.Errorf("PaddockMachine %s: %w", o.Name, err)
	}
	return m, nil
}

// PolicySpec returns the policy of a PaddockNode, for predict.NewPolicy with the machine that the
// node names. A policy with settings that this version does not know is an error there.
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
