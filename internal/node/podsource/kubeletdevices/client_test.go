package kubeletdevices

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

func TestPod(t *testing.T) {
	k := &kubelet{pods: []*podresourcesv1.PodResources{{Namespace: "default", Name: "web"}, train()}}
	c := k.serve(t)
	got, err := c.Pod(t.Context(), "default", "train")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(trained, got); diff != "" {
		t.Error(diff)
	}
	all, err := c.List(t.Context())
	if diff := cmp.Diff([]Pod{{Namespace: "default", Name: "web"}, trained}, all); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if k.gets.Load() != 1 || k.lists.Load() != 1 {
		t.Errorf("%d calls of Get, %d of List", k.gets.Load(), k.lists.Load())
	}
}

// TestAllocatable checks that the devices that no pod has are listed, once each, with all their
// NUMA nodes.
func TestAllocatable(t *testing.T) {
	k := &kubelet{devices: train().GetContainers()[1].GetDevices()}
	c := k.serve(t)
	for range 2 {
		got, err := c.Allocatable(t.Context())
		if diff := cmp.Diff(trained.Containers[1].Devices, got); err != nil || diff != "" {
			t.Error(err, diff)
		}
		if none, err := (&kubelet{}).serve(t).Allocatable(t.Context()); err != nil || none != nil {
			t.Errorf("without devices: %v, %v", none, err)
		}
	}
	gone := client(t, filepath.Join(t.TempDir(), "none"))
	if _, err := gone.Allocatable(t.Context()); err == nil || !strings.Contains(err.Error(), "none: GetAllocatableResources: ") {
		t.Errorf("no kubelet: %v", err)
	}
}

// TestReadAllocatable reads an answer as curl writes it into a file, whole and damaged.
func TestReadAllocatable(t *testing.T) {
	message, err := proto.Marshal(&podresourcesv1.AllocatableResourcesResponse{Devices: train().GetContainers()[1].GetDevices()})
	if err != nil {
		t.Fatal(err)
	}
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	got, err := ReadAllocatable(body)
	if diff := cmp.Diff(trained.Containers[1].Devices, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, d := range got {
		if nodes := Places(got)[d.Resource][d.ID]; nodes != d.Nodes {
			t.Errorf("%s is at %s, expected %s", d.ID, nodes, d.Nodes)
		}
	}
	compressed := slices.Clone(body)
	compressed[0] = 1
	for name, damaged := range map[string][]byte{
		"empty": nil, "no message": body[:4], "cut off": body[:len(body)-1], "compressed": compressed, "longer": append(slices.Clone(body), 0),
		"a page of HTML": []byte("<html>not found</html>"), "not a message": {0, 0, 0, 0, 1, 0xff},
	} {
		if got, err := ReadAllocatable(damaged); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestWithoutGet: a kubelet that has no Get, or has its gate off, is asked by List. Another kubelet
// is asked by Get again.
func TestWithoutGet(t *testing.T) {
	for name, err := range map[string]error{
		"not implemented": status.Error(codes.Unimplemented, "unknown method Get"),
		"gate off":        errors.New("PodResources API Get method disabled"),
	} {
		k := &kubelet{pods: []*podresourcesv1.PodResources{train(), {Namespace: "other", Name: "train"}}, get: func() error { return err }}
		c := k.serve(t)
		for range 3 {
			if got, err := c.Pod(t.Context(), "default", "train"); err != nil || !cmp.Equal(got, trained) {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
		if k.gets.Load() != 1 || k.lists.Load() != 3 {
			t.Errorf("%s: %d calls of Get, %d of List", name, k.gets.Load(), k.lists.Load())
		}
		k.list = func() error { return status.Error(codes.Unavailable, "it ends") }
		if _, err := c.Pod(t.Context(), "default", "train"); err == nil {
			t.Errorf("%s: no error", name)
		}
		k.get = nil
		if _, err := c.Pod(t.Context(), "default", "train"); err != nil || k.gets.Load() != 2 {
			t.Errorf("%s: another kubelet: %v", name, err)
		}
	}
}

// TestUnknownPod covers a pod that is not listed: in the kubelet's error, in a gRPC status, by
// List, and in an answer about another pod.
func TestUnknownPod(t *testing.T) {
	other := []*podresourcesv1.PodResources{{Namespace: "default", Name: "other"}}
	for name, k := range map[string]*kubelet{
		"the kubelet":     {},
		"gRPC":            {get: func() error { return status.Error(codes.NotFound, "no pod") }},
		"by List":         {get: func() error { return status.Error(codes.Unimplemented, "") }, pods: other},
		"an empty answer": {pods: []*podresourcesv1.PodResources{{}}},
	} {
		_, err := k.serve(t).Pod(t.Context(), "default", "train")
		if !errors.Is(err, ErrUnknownPod) || !strings.Contains(err.Error(), "pod default/train") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTwoPodsOfOneName(t *testing.T) {
	k := &kubelet{pods: []*podresourcesv1.PodResources{train(), train()}, get: func() error { return status.Error(codes.Unimplemented, "") }}
	if _, err := k.serve(t).Pod(t.Context(), "default", "train"); err == nil || !strings.Contains(err.Error(), "2 pods of that name") {
		t.Error(err)
	}
}

// TestRateLimit: a call that the kubelet's rate limit rejects is repeated until the caller's time
// ends.
func TestRateLimit(t *testing.T) {
	var rejections atomic.Int32
	k := &kubelet{pods: []*podresourcesv1.PodResources{train()}, get: func() error {
		if rejections.Add(-1) >= 0 {
			return status.Error(codes.ResourceExhausted, "rejected by rate limit")
		}
		return nil
	}}
	c := k.serve(t)
	rejections.Store(3)
	if _, err := c.Pod(t.Context(), "default", "train"); err != nil {
		t.Error(err)
	}
	rejections.Store(1 << 30)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Pod(ctx, "default", "train"); err == nil {
		t.Error("no error")
	}
}

func TestNoSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	if _, err := client(t, path).Pod(t.Context(), "default", "train"); err == nil || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
}

func TestTooLargeAnAnswer(t *testing.T) {
	k := &kubelet{pods: []*podresourcesv1.PodResources{{Namespace: "default", Name: "train", Containers: []*podresourcesv1.ContainerResources{{Name: strings.Repeat("x", maxAnswer)}}}}}
	_, err := k.serve(t, grpc.MaxSendMsgSize(2*maxAnswer)).Pod(t.Context(), "default", "train")
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), fmt.Sprint(maxAnswer)) {
		t.Error(err)
	}
}
