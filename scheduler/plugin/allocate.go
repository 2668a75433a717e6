package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

const (
	// allocationTime bounds the allocation of a pod's claims on one node. The plugin
	// DynamicResources has just found the same allocation, within its own filterTimeout. A node that
	// takes longer is asked as if the devices were unknown, and so are the nodes that are asked after
	// it in the cycle: they would take as long, each of 5,000.
	allocationTime = time.Second
	// allocationTries is how often the allocated devices are read if claims change meanwhile.
	allocationTries = 5
	// compiled is the number of CEL expressions that are kept compiled. DynamicResources keeps as
	// many.
	compiled = 10
)

// allocator allocates claims as the plugin DynamicResources does.
//
// DynamicResources chooses the devices for each node in its Filter, and keeps them where no other
// plugin can read them. Given the same claims, slices and allocated devices, its allocator always
// chooses the same ones: it searches pools and slices in the order of their names. So this plugin
// runs it again, and Filter knows the devices that Reserve will get. They differ if a claim or a
// slice changes between the two PreFilters, or if all feature gates are off that make Kubernetes use
// its "stable" allocator, which keeps no order between the slices of a node: see misses.
type allocator struct {
	features structured.Features
	cache    *cel.Cache
}

func newAllocator() *allocator {
	gates := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	return &allocator{dynamicresources.AllocatorFeatures(gates), cel.NewCache(compiled, cel.Features{
		EnableConsumableCapacity: gates.EnableDRAConsumableCapacity, EnableListTypeAttributes: gates.EnableDRAListTypeAttributes,
	})}
}

// chosen finds the devices of a pod's claims in one scheduling cycle.
type chosen struct {
	plugin *Plugin
	pod    *v1.Pod

	once sync.Once
	// known is false if the devices cannot be known. allocator is nil if nothing is to be allocated.
	known     bool
	allocator structured.Allocator
	// pending has the claims to allocate, and allocated the others.
	pending, allocated []*resourceapi.ResourceClaim

	// slow is set if the allocation on a node took too long.
	slow atomic.Bool

	mu     sync.Mutex // guards byNode
	byNode map[string]*fleet.Pod
}

// on returns the pod with the devices that its claims get on a node, or nil if these are not known.
// asked is the pod as the node reads it. The result is the same for the whole cycle, as the one of
// DynamicResources is.
func (c *chosen) on(ctx context.Context, node *v1.Node, asked fleet.Pod) *fleet.Pod {
	if c == nil {
		return nil
	}
	c.once.Do(func() { c.prepare(ctx) })
	if !c.known {
		return nil
	}
	if known, is := c.find(node.Name); is {
		return known
	}
	var with *fleet.Pod
	if !c.slow.Load() {
		with = c.allocate(ctx, node, asked)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byNode == nil {
		c.byNode = map[string]*fleet.Pod{}
	}
	c.byNode[node.Name] = with
	return with
}

// find returns what on has returned for a node in this cycle.
func (c *chosen) find(node string) (with *fleet.Pod, is bool) {
	if c == nil {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	with, is = c.byNode[node]
	return with, is
}

// prepare reads what the allocation depends on. It is not done before a managed node is asked.
func (c *chosen) prepare(ctx context.Context) {
	a, err := c.make(ctx)
	if err != nil {
		klog.FromContext(ctx).V(4).Info("The devices of a pod are not known before they are allocated", "pod", klog.KObj(c.pod), "reason", err.Error())
		return
	}
	c.allocator, c.known = a, true
}

func (c *chosen) make(ctx context.Context) (structured.Allocator, error) {
	manager := c.plugin.handle.SharedDRAManager()
	if manager == nil {
		return nil, errors.New("the scheduler has no dynamic resource allocation")
	}
	all, err := claimsOf(manager, c.pod)
	if err != nil {
		return nil, err
	}
	for _, claim := range all {
		if claim.Status.Allocation != nil {
			c.allocated = append(c.allocated, claim)
		} else {
			c.pending = append(c.pending, claim)
		}
	}
	if len(c.pending) == 0 {
		return nil, nil
	}
	slices, err := manager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return nil, err
	}
	state, err := c.plugin.allocator.taken(manager.ResourceClaims())
	if err != nil {
		return nil, err
	}
	return structured.NewAllocator(ctx, c.plugin.allocator.features, *state, manager.DeviceClasses(), slices, c.plugin.allocator.cache)
}

// taken returns the devices that are allocated, or will be.
func (a *allocator) taken(tracker fwk.ResourceClaimTracker) (state *structured.AllocatedState, err error) {
	for range allocationTries { // An error means that a claim has changed meanwhile.
		if a.features.ConsumableCapacity {
			state, err = tracker.GatherAllocatedState()
		} else {
			devices, failed := tracker.ListAllAllocatedDevices()
			err = failed
			state = &structured.AllocatedState{AllocatedDevices: devices, AggregatedCapacity: structured.NewConsumedCapacityCollection()}
		}
		if err == nil {
			return state, nil
		}
	}
	return nil, err
}

// allocate returns the pod with its devices on a node, or nil.
func (c *chosen) allocate(ctx context.Context, node *v1.Node, asked fleet.Pod) *fleet.Pod {
	var results []resourceapi.AllocationResult
	if c.allocator != nil {
		limited, cancel := context.WithTimeout(ctx, allocationTime)
		defer cancel()
		var err error
		if results, err = c.allocator.Allocate(limited, node, c.pending); err != nil || len(results) != len(c.pending) {
			if ctx.Err() == nil && limited.Err() != nil {
				c.slow.Store(true)
			}
			return nil
		}
	}
	claims := append([]*resourceapi.ResourceClaim(nil), c.allocated...)
	for i, claim := range c.pending {
		with := *claim
		with.Status.Allocation = &results[i]
		claims = append(claims, &with)
	}
	list, err := c.plugin.slicesOf(node.Name, claims)
	if err != nil {
		return nil
	}
	found := resolved(ctx, c.pod, node.Name, claims, list)
	if len(found.Notes) > 0 {
		return nil
	}
	asked.Pod = found.In(asked.Pod)
	return &asked
}

// claimsOf returns the claims of a pod. Allocations that are pending are in them.
func claimsOf(manager fwk.SharedDRAManager, pod *v1.Pod) (all []*resourceapi.ResourceClaim, err error) {
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		switch {
		case err != nil:
			return nil, err
		case name == nil: // The template needs no claim.
			continue
		}
		claim, err := manager.ResourceClaims().Get(pod.Namespace, *name)
		if err != nil {
			return nil, fmt.Errorf("claim %s of pod %s: %w", *name, klog.KObj(pod), err)
		}
		if pending := manager.ResourceClaims().GetPendingAllocation(claim.UID); pending != nil {
			claim = claim.DeepCopy()
			claim.Status.Allocation = pending
		}
		all = append(all, claim)
	}
	return all, nil
}
