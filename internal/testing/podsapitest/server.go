// Package podsapitest serves the PodsAPI of a kubelet in tests.
package podsapitest

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	podsapi "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
)

// Kubelet has pods, and sends each change to the clients that watch, as a kubelet does: first all
// pods, then INITIAL_SYNC_COMPLETE, then the changes.
type Kubelet struct {
	podsapi.UnimplementedPodsServer
	server *grpc.Server

	mu       sync.Mutex
	starting bool
	pods     []*v1.Pod
	watches  map[chan *podsapi.WatchPodsEvent]bool
	calls    int
}

// Serve serves at a socket until the test ends, or until Stop.
func Serve(t *testing.T, socket string) *Kubelet {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(socket), 0o700); err == nil {
			listener, err = net.Listen("unix", socket)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	k := &Kubelet{server: grpc.NewServer(), watches: map[chan *podsapi.WatchPodsEvent]bool{}}
	podsapi.RegisterPodsServer(k.server, k)
	served := make(chan error, 1)
	go func() { served <- k.server.Serve(listener) }()
	t.Cleanup(func() {
		k.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return k
}

// Stop ends all watches and removes the socket, as the end of a kubelet does.
func (k *Kubelet) Stop() { k.server.Stop() }

// Starting sets whether the kubelet answers that it has not received its pods yet.
func (k *Kubelet) Starting(is bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.starting = is
}

// Calls returns how many watches were started.
func (k *Kubelet) Calls() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls
}

// Set adds a pod, or replaces the pod with the same UID.
func (k *Kubelet) Set(pod *v1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, p := range k.pods {
		if p.UID == pod.UID {
			k.pods[i] = pod.DeepCopy()
			k.send(event(podsapi.EventType_MODIFIED, pod))
			return
		}
	}
	k.pods = append(k.pods, pod.DeepCopy())
	k.send(event(podsapi.EventType_ADDED, pod))
}

// Delete removes the pod with the same UID.
func (k *Kubelet) Delete(pod *v1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, p := range k.pods {
		if p.UID == pod.UID {
			k.pods = append(k.pods[:i:i], k.pods[i+1:]...)
			break
		}
	}
	gone := &v1.Pod{}
	gone.Namespace, gone.Name, gone.UID = pod.Namespace, pod.Name, pod.UID
	k.send(event(podsapi.EventType_DELETED, gone))
}

// Send sends an event unchanged.
func (k *Kubelet) Send(kind podsapi.EventType, pod []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.send(&podsapi.WatchPodsEvent{Type: kind, Pod: pod})
}

// send sends an event to all clients that watch. It drops a client that is too slow.
func (k *Kubelet) send(e *podsapi.WatchPodsEvent) {
	for to := range k.watches {
		select {
		case to <- e:
		default:
			delete(k.watches, to)
			close(to)
		}
	}
}

func event(kind podsapi.EventType, pod *v1.Pod) *podsapi.WatchPodsEvent {
	data, err := pod.Marshal()
	if err != nil {
		panic(err) // A test made a pod that cannot be encoded.
	}
	return &podsapi.WatchPodsEvent{Type: kind, Pod: data}
}

// WatchPods implements the PodsAPI.
func (k *Kubelet) WatchPods(_ *podsapi.WatchPodsRequest, to grpc.ServerStreamingServer[podsapi.WatchPodsEvent]) error {
	const behind = 100 // as in a kubelet
	events := make(chan *podsapi.WatchPodsEvent, behind)
	k.mu.Lock()
	k.calls++
	if k.starting {
		k.mu.Unlock()
		return status.Error(codes.FailedPrecondition, "Kubelet is initializing")
	}
	var first []*podsapi.WatchPodsEvent
	for _, pod := range k.pods {
		first = append(first, event(podsapi.EventType_ADDED, pod))
	}
	k.watches[events] = true
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		delete(k.watches, events)
		k.mu.Unlock()
	}()
	for _, e := range append(first, &podsapi.WatchPodsEvent{Type: podsapi.EventType_INITIAL_SYNC_COMPLETE}) {
		if err := to.Send(e); err != nil {
			return err
		}
	}
	for {
		select {
		case <-to.Context().Done():
			return to.Context().Err()
		case e, open := <-events:
			if !open {
				return status.Error(codes.ResourceExhausted, "watch client channel closed")
			}
			if err := to.Send(e); err != nil {
				return err
			}
		}
	}
}
