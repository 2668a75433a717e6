package podres

import (
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/paddock-project/paddock/internal/core/request"
)

// dynamicResources returns one element for each claim of a container whose devices are known,
// ascending by name. Each element has the devices of the requests that the container names, in
// ascending order, and each device has its own CDI devices only. The reference shows the whole
// claim to a container that names one request, repeats the CDI devices of all earlier devices of
// the driver, and lists drivers in random order.
func dynamicResources(pod *request.Pod, container string) []*podresourcesv1.DynamicResource {
	var list []*podresourcesv1.DynamicResource
	for i := range pod.ResourceClaims {
		claim := &pod.ResourceClaims[i]
		if claim.Devices == nil || !claim.UsedBy(container) {
			continue
		}
		element := &podresourcesv1.DynamicResource{ClaimName: claim.Name, ClaimNamespace: pod.Namespace}
		for k := range claim.Devices {
			d := &claim.Devices[k]
			if !claim.Has(container, d) {
				continue
			}
			device := &podresourcesv1.ClaimResource{DriverName: d.Driver, PoolName: d.Pool, DeviceName: d.Name}
			if d.ShareID != "" {
				device.ShareId = &d.ShareID
			}
			for _, name := range d.CDI {
				device.CdiDevices = append(device.CdiDevices, &podresourcesv1.CDIDevice{Name: name})
			}
			element.ClaimResources = append(element.ClaimResources, device)
		}
		list = append(list, element)
	}
	return list
}
