package main

import (
	"context"
	"os"
	"path/filepath"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

// cri is a container runtime as a kubelet and the tests see it.
type cri struct {
	socket string
	// scheme begins the IDs of containers in the status of a pod.
	scheme string
	// prefix begins the names of the cgroups of containers, before the ID.
	prefix string
}

// ofMachine returns the runtime of the machine.
func ofMachine() cri {
	if _, err := os.Stat(wire.CRIO); err == nil {
		return cri{"/var/run/crio/crio.sock", "cri-o://", "crio-"}
	}
	return cri{"/run/containerd/containerd.sock", "containerd://", ""}
}

// cgroup returns the cgroup of a container, given that of its pod.
func (c cri) cgroup(pod, id string) string { return filepath.Join(cgroups, pod, c.prefix+id) }

// pull lets the runtime pull an image.
func (k *kubelet) pull(in wire.Pull) (wire.Nothing, error) {
	ctx, cancel := context.WithTimeout(context.Background(), podTimeout)
	defer cancel()
	conn, err := dial(k.cri.socket)
	if err != nil {
		return wire.Nothing{}, err
	}
	defer conn.Close()
	_, err = runtimev1.NewImageServiceClient(conn).PullImage(ctx, &runtimev1.PullImageRequest{Image: &runtimev1.ImageSpec{Image: in.Image}})
	return wire.Nothing{}, err
}
