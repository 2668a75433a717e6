package podspec

import (
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/core/spec"
)

// Request returns in numbers what the pod asks for under the given gates. The pod must have its
// defaults, from the API server or from Default.
//
// Request does not check the rules of the API: a pod that was not validated gets the numbers of its
// spec. It returns an error, which names the pod and the field, only for values that cannot be
// represented: a device count that is not a whole number (ErrNotWhole), a quantity that is negative
// or too large (ErrOutOfRange), containers that together ask for too much (ErrOutOfRange), and an
// unknown QoS class in the status.
//
// Memory and huge pages are rounded up to the next byte, container by container. The budget
// of a pod then grows by the bytes that this adds to its containers.
func Request(pod *v1.Pod, g Gates) (request.Pod, error) {
	out, err := makeRequest(pod, g)
	if err != nil {
		return request.Pod{}, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return out, nil
}

func makeRequest(pod *v1.Pod, g Gates) (request.Pod, error) {
	if err := checkExponents(pod); err != nil {
		return request.Pod{}, fmt.Errorf("%w: %w", ErrOutOfRange, err)
	}
	qos, err := qosOf(pod, g)
	if err != nil {
		return request.Pod{}, err
	}
	out := request.Pod{
		Identity: request.Identity{
			UID:       UID(pod),
			Namespace: pod.Namespace,
			Name:      pod.Name,
		},
		Ask: request.Ask{
			QoS:  qos,
			Kind: g.gates().Kind(HasPodLevelResources(pod)),
		},
	}
	if pod.Spec.Priority != nil {
		out.Priority = *pod.Spec.Priority
	}
	if !pod.CreationTimestamp.IsZero() {
		out.Created = max(0, pod.CreationTimestamp.Unix())
	}
	out.Moves, _ = Consent(pod) // The reader of manifests adds a note for an invalid value.
	out.SharesIsolated, _ = SharesIsolated(pod)
	out.VirtualMachine = IsVirtualMachine(pod)
	if err := addBudget(&out, pod); err != nil {
		return request.Pod{}, err
	}
	spec := field.NewPath("spec")
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if err := addContainer(&out, c, typeOf(c), spec.Child("initContainers").Index(i)); err != nil {
			return request.Pod{}, err
		}
	}
	for i := range pod.Spec.Containers {
		if err := addContainer(&out, &pod.Spec.Containers[i], request.App, spec.Child("containers").Index(i)); err != nil {
			return request.Pod{}, err
		}
	}
	if len(pod.Annotations) > 0 {
		if err := addCaches(&out, pod); err != nil {
			out.CacheUnclear = err.Error()
		}
	}
	if g.MarkFractions {
		markFractions(&out, pod)
	}
	return out, checkSums(out)
}

// addBudget sets the pod-level numbers (R-DEM-40, R-DEM-51).
func addBudget(out *request.Pod, pod *v1.Pod) (err error) {
	r := pod.Spec.Resources
	if r == nil {
		return nil
	}
	at := field.NewPath("spec", "resources")
	if out.BudgetCPUMilli, err = milliIn(r.Requests, at.Child("requests")); err != nil {
		return err
	}
	if out.CPULimit, err = milliIn(r.Limits, at.Child("limits")); err != nil {
		return err
	}
	if out.Kind != request.PodLevel {
		return nil
	}
	if out.QoS == request.Guaranteed {
		out.BudgetCPUs = spec.WholeCPUs(out.BudgetCPUMilli)
	}
	amounts, err := memoryIn(r.Requests, at.Child("requests"))
	if err != nil {
		return err
	}
	rounded := roundedNeed(pod)
	for _, a := range amounts {
		a.Value = max(a.Value, rounded[a.Resource])
		if a.Value > 0 {
			out.BudgetMemory = append(out.BudgetMemory, a)
		}
	}
	return nil
}

func addContainer(out *request.Pod, c *v1.Container, containerType request.ContainerType, at *field.Path) (err error) {
	at = at.Child("resources")
	rc := request.Container{
		Name:       c.Name,
		Type:       containerType,
		Equivalent: isEquivalent(c),
	}
	for _, list := range []v1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
		for name, q := range list {
			if isHugePages(name) && !q.IsZero() && !slices.Contains(rc.HugePages, string(name)) {
				rc.HugePages = append(rc.HugePages, string(name))
			}
		}
	}
	slices.Sort(rc.HugePages)
	if rc.CPURequest, err = milliIn(c.Resources.Requests, at.Child("requests")); err != nil {
		return err
	}
	if rc.CPULimit, err = milliIn(c.Resources.Limits, at.Child("limits")); err != nil {
		return err
	}
	rc.CPUs, rc.Sharing = spec.ExclusiveCPUs(out, &rc)
	if spec.OwnMemory(out, &rc) {
		if rc.Memory, err = memoryIn(c.Resources.Requests, at.Child("requests")); err != nil {
			return err
		}
	}
	if out.Kind == request.PodLevel {
		rc.MemoryRequest, rc.MemoryLimit = statedMemory(c.Resources.Requests), statedMemory(c.Resources.Limits)
	}
	if rc.Devices, err = devicesOf(c, at.Child("limits")); err != nil {
		return err
	}
	for _, claim := range c.Resources.Claims {
		rc.Claims = append(rc.Claims, claim.Name)
	}
	slices.Sort(rc.Claims)
	rc.Claims = slices.Compact(rc.Claims)
	out.Containers = append(out.Containers, rc)
	return nil
}

// devicesOf returns the extended resources in the limits that have a positive count (R-HINT-40).
// The inventory decides whether they are devices.
func devicesOf(c *v1.Container, at *field.Path) (request.Amounts, error) {
	var devices request.Amounts
	for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
		q := c.Resources.Limits[name]
		if device.CheckName(string(name)) != nil || q.Sign() <= 0 {
			continue
		}
		n, ok := q.AsInt64()
		if err := inRange(q, maxUnits); err != nil {
			return nil, fmt.Errorf("%s: %w", at.Key(string(name)), err)
		}
		if !ok {
			return nil, fmt.Errorf("%s: %s devices is %w", at.Key(string(name)), q.String(), ErrNotWhole)
		}
		devices = devices.With(string(name), n)
	}
	return devices, nil
}

// isEquivalent reports whether the container would be Guaranteed on its own (R-DEM-22).
func isEquivalent(c *v1.Container) bool {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, memory} {
		asked, limit := c.Resources.Requests[name], c.Resources.Limits[name]
		if asked.IsZero() || asked.Cmp(limit) != 0 {
			return false
		}
	}
	return true
}

// milliIn returns the cpu of a list in thousandths, rounded up, or 0 if the list has none.
func milliIn(list v1.ResourceList, at *field.Path) (int64, error) {
	q, ok := list[v1.ResourceCPU]
	if !ok {
		return 0, nil
	}
	if err := inRange(q, maxMilli); err != nil {
		return 0, fmt.Errorf("%s: %w", at.Key(string(v1.ResourceCPU)), err)
	}
	return q.MilliValue(), nil
}

// memoryIn returns the memory and the huge pages of a list in bytes. It keeps zero amounts
// (R-DEM-32, R-DEM-33).
func memoryIn(list v1.ResourceList, at *field.Path) (request.Amounts, error) {
	var out request.Amounts
	for _, name := range sortedNames(list) {
		if !isMemory(name) {
			continue
		}
		n, err := bytesOf(list[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at.Key(string(name)), err)
		}
		out = append(out, request.Amount{Resource: string(name), Value: n})
	}
	return out, nil
}

// statedMemory returns the memory and the huge pages of a list in bytes, rounded up. It never
// fails: an amount that is too large becomes the largest number, and zero and negative amounts are
// left out.
func statedMemory(list v1.ResourceList) request.Amounts {
	var out request.Amounts
	for _, name := range sortedNames(list) {
		q := list[name]
		if !isMemory(name) || q.Sign() <= 0 {
			continue
		}
		n, err := bytesOf(q)
		if err != nil {
			n = math.MaxInt64
		}
		out = append(out, request.Amount{Resource: string(name), Value: n})
	}
	return out
}

func sortedNames(list v1.ResourceList) []v1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}

// checkSums returns an error if the sums over all containers do not fit into an int64.
func checkSums(pod request.Pod) error {
	sums := map[request.Resource]int64{}
	add := func(r request.Resource, v int64) error {
		if v > math.MaxInt64-sums[r] {
			return fmt.Errorf("%w: the %s requests of all containers together do not fit 63 bits", ErrOutOfRange, r)
		}
		sums[r] += v
		return nil
	}
	for _, c := range pod.Containers {
		if err := add(request.CPU, c.CPURequest); err != nil {
			return err
		}
		for _, a := range c.Memory {
			if err := add(a.Resource, a.Value); err != nil {
				return err
			}
		}
	}
	return nil
}
