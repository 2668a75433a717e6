package plugin

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
)

// These are the indexes of ResourceSlices: those of one node by driver, and all others by pool.
const (
	byDriver = "paddock.driver"
	byPool   = "paddock.pool"
)

// sliceIndexers returns both indexers.
func sliceIndexers() cache.Indexers {
	return cache.Indexers{
		byDriver: func(object any) ([]string, error) {
			if s, ok := object.(*resourceapi.ResourceSlice); ok && s.Spec.NodeName != nil {
				return []string{driverKey(*s.Spec.NodeName, s.Spec.Driver)}, nil
			}
			return nil, nil
		},
		byPool: func(object any) ([]string, error) {
			if s, ok := object.(*resourceapi.ResourceSlice); ok && s.Spec.NodeName == nil {
				return []string{poolKey(s.Spec.Driver, s.Spec.Pool.Name)}, nil
			}
			return nil, nil
		},
	}
}

// driverKey and poolKey are keys of the indexes. Names of nodes and drivers have no slash.
func driverKey(node, driver string) string { return node + "/" + driver }
func poolKey(driver, pool string) string   { return driver + "/" + pool }

// indexSlices returns the ResourceSlices of the scheduler's informer, with these indexes. Nil means
// that the scheduler has no dynamic resource allocation. The API server may have none either.
func indexSlices(handle fwk.Handle) (cache.Indexer, error) {
	if handle.SharedDRAManager() == nil {
		return nil, nil //nolint:nilnil // There are no slices, and that is no fault.
	}
	informer := handle.SharedInformerFactory().Resource().V1().ResourceSlices().Informer()
	if err := informer.AddIndexers(sliceIndexers()); err != nil {
		return nil, fmt.Errorf("an index of ResourceSlices: %w", err)
	}
	return informer.GetIndexer(), nil
}

// slicesOf returns the ResourceSlices from which package claims finds where the devices of
// allocated claims are, and what the node has of their drivers. These are all slices of these
// drivers on the node, and, of the other slices, those of the pools of the devices. The latter show
// the newest generation of each pool.
func (s *shared) slicesOf(node string, allocated []*resourceapi.ResourceClaim) ([]*resourceapi.ResourceSlice, error) {
	drivers, pools := map[string]bool{}, map[string]bool{}
	for _, c := range allocated {
		if c.Status.Allocation == nil {
			continue
		}
		for _, d := range c.Status.Allocation.Devices.Results {
			drivers[driverKey(node, d.Driver)], pools[poolKey(d.Driver, d.Pool)] = true, true
		}
	}
	here, err := s.indexed(byDriver, drivers)
	if err != nil {
		return nil, err
	}
	for _, slice := range here {
		pools[poolKey(slice.Spec.Driver, slice.Spec.Pool.Name)] = true
	}
	shared, err := s.indexed(byPool, pools)
	return append(here, shared...), err
}

// indexed returns the ResourceSlices with these keys, in no particular order.
func (s *shared) indexed(index string, keys map[string]bool) (found []*resourceapi.ResourceSlice, err error) {
	for key := range keys {
		objects, err := s.slices.ByIndex(index, key)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			if slice, ok := o.(*resourceapi.ResourceSlice); ok {
				found = append(found, slice)
			}
		}
	}
	return found, nil
}
