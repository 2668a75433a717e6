// Package filter shows how a plugin of a scheduler filters nodes with package predict. It has the
// extension points of the scheduling framework of Kubernetes (PreFilter, Filter, Reserve,
// Unreserve) with types of its own, so that it compiles without Kubernetes: a plugin for
// kube-scheduler takes the names of the pod and of the node from framework.CycleState and
// framework.NodeInfo.
//
// The nodes are kept as values. Filter only reads, on many nodes at a time. Reserve assumes a pod
// on a node, so that the next pod is asked beside it, and Unreserve takes it back.
package filter

import (
	"fmt"
	"sync"

	"github.com/paddock-project/paddock/predict"
)

// Code is the outcome of an extension point, with the names of the scheduling framework.
type Code int

// The codes.
const (
	Success Code = iota
	// Unschedulable means that the pod can fit later, when other pods are gone.
	Unschedulable
	// UnschedulableAndUnresolvable means that removing pods from the node does not help.
	UnschedulableAndUnresolvable
)

// Status is the outcome with its reason.
type Status struct {
	Code   Code
	Reason string
}

// Plugin filters nodes. Its methods may be called by several goroutines.
type Plugin struct {
	mu sync.RWMutex
	// nodes are the nodes with their pods, empty those without. Both have the same names.
	nodes, empty map[string]*predict.Node
	policies     map[string]*predict.Policy
}

// New returns a plugin without nodes.
func New() *Plugin {
	return &Plugin{nodes: map[string]*predict.Node{}, empty: map[string]*predict.Node{}, policies: map[string]*predict.Policy{}}
}

// SetNode adds a node, or replaces it after a change of its hardware or its configuration. Its pods
// have to be added again.
func (p *Plugin) SetNode(name string, policy *predict.Policy, devices map[string][]predict.Device) error {
	n, err := predict.NewNode(policy, devices)
	if err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes[name], p.empty[name], p.policies[name] = n, n, policy
	return nil
}

// State is what PreFilter keeps for the other extension points of one cycle: the pod as each policy
// counts it. Nodes of a cluster have few policies.
type State struct {
	pod predict.Pod

	mu       sync.Mutex
	requests map[*predict.Policy]*predict.Request
}

// PreFilter begins the cycle of a pod.
func (p *Plugin) PreFilter(pod predict.Pod) *State {
	return &State{pod: pod, requests: map[*predict.Policy]*predict.Request{}}
}

func (s *State) request(policy *predict.Policy) (*predict.Request, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.requests[policy]; r != nil {
		return r, nil
	}
	r, err := predict.NewRequest(s.pod, policy)
	if err == nil {
		s.requests[policy] = r
	}
	return r, err
}

// Filter returns whether the pod of the cycle fits on a node. A node that the plugin does not know
// takes every pod: it has no CPU Manager that could reject one.
func (p *Plugin) Filter(s *State, node string) Status {
	p.mu.RLock()
	n, empty, policy := p.nodes[node], p.empty[node], p.policies[node]
	p.mu.RUnlock()
	if n == nil {
		return Status{}
	}
	r, err := s.request(policy)
	if err != nil {
		return Status{UnschedulableAndUnresolvable, err.Error()}
	}
	v := n.Admits(r)
	switch {
	case v.Fits:
		return Status{}
	case v.Certainty == predict.Unsure:
		return Status{} // Filter keeps no pod waiting for a reason that may not be one.
	case empty.Admits(r).Fits:
		return Status{Unschedulable, v.Reason}
	}
	return Status{UnschedulableAndUnresolvable, v.Reason}
}

// Reserve assumes the pod on a node.
func (p *Plugin) Reserve(s *State, node string) Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.nodes[node]
	if n == nil {
		return Status{}
	}
	r, err := s.request(p.policies[node])
	if err != nil {
		return Status{UnschedulableAndUnresolvable, err.Error()}
	}
	next, v := n.With(r)
	if !v.Fits && v.Certainty != predict.Unsure {
		return Status{Unschedulable, v.Reason}
	}
	p.nodes[node] = next
	return Status{}
}

// Unreserve takes back a pod that is not bound after all, and is called when a pod of a node ends.
func (p *Plugin) Unreserve(uid, node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.nodes[node]; n != nil {
		p.nodes[node] = n.Without(uid)
	}
}
