package objects

import (
	"encoding/json"
	"fmt"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/core/annotation"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Policy returns the API form of a policy and its digest.
func Policy(p node.Policy) (out v1alpha1.Policy, digest string, err error) {
	text, err := grantform.EncodePolicy(p)
	if err != nil {
		return out, "", err
	}
	// The fields have the same names as in the state file, so that there is only one list of names.
	if err := json.Unmarshal(text, &out); err != nil {
		return out, "", err
	}
	return out, annotation.Digest(text), nil
}

// ReadPolicy returns the policy of a PaddockNode, with its bound on containers. It fails if the
// digest does not match, which means that the policy has something that this version, or the CRD of
// the cluster, does not know.
func ReadPolicy(o *v1alpha1.PaddockNode) (node.Policy, error) {
	text, err := json.Marshal(&o.Status.Policy)
	if err != nil {
		return node.Policy{}, err
	}
	p, err := grantform.DecodePolicy(text)
	if err != nil {
		return p, fmt.Errorf("PaddockNode %s: %w", o.Name, err)
	}
	if digest := annotation.Digest(text); digest != o.Status.PolicyDigest {
		return p, fmt.Errorf("PaddockNode %s: its policy has the digest %s, and the agent wrote %s: update the CRD and this program to the version of the agent", o.Name, digest, o.Status.PolicyDigest)
	}
	p.MaxContainers = int(max(0, o.Status.MaxContainersPerPod))
	return p, nil
}

// Devices returns the API form of an inventory.
func Devices(inv *device.Inventory) []v1alpha1.DeviceResource {
	var out []v1alpha1.DeviceResource
	for _, name := range inv.Resources() {
		r := v1alpha1.DeviceResource{Resource: name}
		for _, d := range inv.Devices(name) {
			r.Devices = append(r.Devices, v1alpha1.Device{ID: d.ID, Unhealthy: !d.Healthy, NUMANodes: d.Nodes.List()})
		}
		out = append(out, r)
	}
	return out
}

// ReadDevices returns the devices of a PaddockNode as an inventory of its machine.
func ReadDevices(m *machine.Machine, o *v1alpha1.PaddockNode) (*device.Inventory, error) {
	out := map[string][]device.Device{}
	for _, r := range o.Status.Devices {
		out[r.Resource] = []device.Device{}
		for _, d := range r.Devices {
			nodes, err := mask.Parse(d.NUMANodes)
			if err != nil {
				return nil, fmt.Errorf("PaddockNode %s: device %s of %s: %w", o.Name, d.ID, r.Resource, err)
			}
			out[r.Resource] = append(out[r.Resource], device.Device{ID: d.ID, Healthy: !d.Unhealthy, Nodes: nodes})
		}
	}
	inv, err := device.NewInventory(m, out)
	if err != nil {
		return nil, fmt.Errorf("PaddockNode %s: %w", o.Name, err)
	}
	return inv, nil
}

// Grant returns the form of a grant in a PaddockNode.
func Grant(g *node.Grant) (v1alpha1.PublishedGrant, error) {
	text, err := grantform.Encode(g)
	return v1alpha1.PublishedGrant{UID: g.Pod.UID, Namespace: g.Pod.Namespace, Name: g.Pod.Name, Grant: string(text)}, err
}

// ReadGrant returns a grant of a PaddockNode.
func ReadGrant(p v1alpha1.PublishedGrant) (*node.Grant, error) {
	g, err := grantform.Decode([]byte(p.Grant))
	if err == nil && g.Pod.UID != p.UID {
		err = fmt.Errorf("the grant is that of the pod with UID %s", g.Pod.UID)
	}
	if err != nil {
		return nil, fmt.Errorf("grant of pod %s/%s (%s): %w", p.Namespace, p.Name, p.UID, err)
	}
	return g, nil
}
