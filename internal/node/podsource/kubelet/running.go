package kubelet

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Running is a running container, according to the kubelet.
type Running struct {
	// Pod is the pod's UID. Who is its namespace/name.
	Pod, Who, Container string
	// ID is the runtime's ID, without the runtime's name.
	ID string
	// Deleted is true if the pod is being deleted.
	Deleted bool
}

// These types have the fields that are read of the containers of a started pod.
type (
	statuses []status

	status struct {
		Name        string `json:"name"`
		ContainerID string `json:"containerID"`
		State       struct {
			Running *struct{} `json:"running"`
		} `json:"state"`
	}

	started struct {
		Metadata meta `json:"metadata"`
		Status   struct {
			Init      statuses `json:"initContainerStatuses"`
			App       statuses `json:"containerStatuses"`
			Ephemeral statuses `json:"ephemeralContainerStatuses"`
		} `json:"status"`
	}
)

// UnmarshalJSON implements json.Unmarshaler.
func (s *statuses) UnmarshalJSON(raw []byte) (err error) {
	*s, err = elements(raw, maxContainers, func(raw []byte, to *status) error {
		if err := decode(raw, to); err != nil {
			return err
		}
		if err := checkName("a container's ID", to.ContainerID, maxName); err != nil {
			return err
		}
		return checkName("a container's name", to.Name, maxLabel)
	})
	return err
}

// Running asks the kubelet which containers run, and returns them in the order of the list. unread
// has an error for each pod that cannot be read. The containers of these pods may run.
func (s *Source) Running(ctx context.Context) (all []Running, unread []error, err error) {
	left := maxWeight
	_, err = s.client.ask(ctx, func(raw []byte, whole bool) error {
		var pod started
		err := decodeItem(raw, whole, &pod)
		who := pod.Metadata.Namespace + "/" + pod.Metadata.Name
		if left -= pod.weight(); err == nil && left < 0 {
			err = errTooMany
		}
		switch {
		case errors.Is(err, errSyntax):
			return err
		case err != nil:
			m := identity(raw)
			unread = append(unread, fmt.Errorf("pod %s/%s (uid %s): %s", m.Namespace, m.Name, m.UID, brief(err)))
			return nil
		}
		for _, list := range []statuses{pod.Status.Init, pod.Status.App, pod.Status.Ephemeral} {
			for _, c := range list {
				if _, id, _ := strings.Cut(c.ContainerID, "://"); c.State.Running != nil && id != "" {
					all = append(all, Running{Pod: pod.Metadata.UID, Who: who, Container: c.Name, ID: id, Deleted: pod.Metadata.DeletionTimestamp != nil})
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return all, unread, nil
}

func (p *started) weight() int {
	return len(p.Status.Init) + len(p.Status.App) + len(p.Status.Ephemeral)
}
