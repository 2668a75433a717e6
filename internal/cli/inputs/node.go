package inputs

import (
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/node"
)

// NodeFiles names the files that describe a node. All fields but Machine may be empty.
type NodeFiles struct {
	Machine, Policy, Devices string
	// Make is a machine made of facts (discover.ParseFacts), in place of Machine.
	Make          string
	Quota         node.QuotaPolicy
	MaxContainers int
}

// Node is a node without its pods.
type Node struct {
	Found   *discover.Found
	Policy  Policy
	Devices *device.Inventory
}

// Node reads a node.
func (r Reader) Node(files NodeFiles) (*Node, error) {
	hardware := r.recorded
	if files.Make != "" {
		hardware = r.made
	}
	n, err := hardware(files)
	if err != nil {
		return nil, err
	}
	if n.Policy, err = r.Policy(files.Policy, n.Found); err != nil {
		return nil, err
	}
	n.Policy.Quota, n.Policy.MaxContainers = files.Quota, files.MaxContainers
	return n, nil
}

// recorded returns a machine and its devices, without a policy.
func (r Reader) recorded(files NodeFiles) (*Node, error) {
	found, err := r.Machine(files.Machine)
	if err != nil {
		return nil, err
	}
	devices, err := r.Devices(files.Devices, found.Machine)
	if err != nil {
		return nil, err
	}
	return &Node{Found: found, Devices: devices}, nil
}

// State returns the node with the pods of a saved state, or without pods if name is empty. CPUs of
// the pods may be offline on the node. Everything else in the state must be valid there.
func (r Reader) State(name string, n *Node) (*node.State, error) {
	m, policy := n.Found.Machine, n.Policy.Policy
	if name == "" {
		state, err := node.New(m, policy)
		if err != nil {
			return nil, err
		}
		return state.WithDevices(n.Devices)
	}
	data, err := r.named(r.Names.State, name)
	if err != nil {
		return nil, err
	}
	file, err := statefile.Decode(name, data)
	if err != nil {
		return nil, err
	}
	state, invalid := node.Restore(m, policy, file.Grants)
	if invalid != nil && !n.Found.Offline.IsEmpty() {
		none, err := device.NewInventory(m, nil)
		if err != nil {
			return nil, err
		}
		adopted, findings, err := node.Adopt(m, policy, none, file.Grants)
		if err == nil && len(findings) == len(adopted.Degraded()) && n.Found.Offline.Contains(adopted.Offline()) {
			state, invalid = adopted, nil // Only the offline CPUs are missing.
		}
	}
	if invalid != nil {
		return nil, fmt.Errorf("%s is not valid here: %w; since it was saved: %s", name, invalid, strings.Join(file.Changes(m, policy), "; "))
	}
	return state.Resume(file.Generation).WithDevices(n.Devices)
}
