package kubelet

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Running is a container that runs, as the kubelet says.
type Running struct {
	// Pod is the pod's UID, Who its namespace/name.
	Pod, Who, Container string
	// ID is the runtime's, without the runtime's name.
	ID string
}

// Running asks which containers run, in the order of the list.
func (s *Source) Running(ctx context.Context) ([]Running, error) {
	pods, err := s.client.list(ctx)
	if err != nil {
		return nil, err
	}
	var all []Running
	for i := range pods {
		pod := &pods[i]
		for _, statuses := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
			for k := range statuses {
				c := &statuses[k]
				_, id, _ := strings.Cut(c.ContainerID, "://")
				if c.State.Running != nil && id != "" {
					all = append(all, Running{Pod: string(pod.UID), Who: pod.Namespace + "/" + pod.Name, Container: c.Name, ID: id})
				}
			}
		}
	}
	return all, nil
}
