// Package allocation allocates ResourceClaims on one Kubernetes node with the allocator of the
// scheduler (k8s.io/dynamic-resource-allocation), which evaluates the selectors of requests and
// classes.
//
//	claims.Objects{Allocator: allocation.New}
//
// It is a separate package because the allocator needs the CEL compiler, which makes up a third of
// a program's size and of its start time. A program that links this package allocates claims. In
// other programs, only claims that already have an allocation have devices.
package allocation

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/paddock-project/paddock/internal/codec/claims"
)

// compiled is the number of compiled selectors that the cache keeps. The scheduler keeps as many.
const compiled = 10_000

// allocation implements claims.Allocation.
type allocation struct {
	objects   *claims.Objects
	node      *v1.Node
	allocated structured.AllocatedState
	cache     *cel.Cache
	// features are the features of the allocator that the objects need.
	features structured.Features
}

// New returns an allocation in which every device of the objects is free. It must be used by one
// goroutine only.
func New(objects *claims.Objects, node *v1.Node) claims.Allocation {
	lists := haveLists(objects.Slices())
	return &allocation{
		objects: objects, node: node,
		features: structured.Features{
			AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true, ConsumableCapacity: true, ListTypeAttributes: lists,
		},
		allocated: structured.AllocatedState{
			AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity: structured.NewConsumedCapacityCollection(),
		},
		cache: cel.NewCache(compiled, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: lists}),
	}
}

// haveLists reports whether any device has an attribute whose value is a list.
func haveLists(slices []*resourceapi.ResourceSlice) bool {
	for _, s := range slices {
		for i := range s.Spec.Devices {
			for _, a := range s.Spec.Devices[i].Attributes {
				if a.IntValues != nil || a.BoolValues != nil || a.StringValues != nil || a.VersionValues != nil {
					return true
				}
			}
		}
	}
	return false
}

// Take marks devices as allocated.
func (a *allocation) Take(result *resourceapi.AllocationResult) {
	for _, d := range result.Devices.Results {
		device := structured.MakeDeviceID(d.Driver, d.Pool, d.Device)
		switch {
		case d.AdminAccess != nil && *d.AdminAccess: // Other claims can have the device as well.
		case d.ShareID != nil:
			a.allocated.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(device, d.ShareID))
			a.allocated.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(device, d.ConsumedCapacity))
		default:
			a.allocated.AllocatedDevices.Insert(device)
		}
	}
}

// Allocate calls the scheduler's allocator, which expects objects that an API server has validated
// and can panic on others. Allocate turns such a panic into an error.
func (a *allocation) Allocate(ctx context.Context, pending []*resourceapi.ResourceClaim) (results []resourceapi.AllocationResult, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			results, err = nil, errors.New("a request of it, a DeviceClass or a ResourceSlice is not as an API server accepts it")
		}
	}()
	allocator, err := structured.NewAllocator(ctx, a.features, a.allocated, a.objects, a.objects.Slices(), a.cache)
	if err != nil {
		return nil, err
	}
	return allocator.Allocate(ctx, a.node, pending)
}
