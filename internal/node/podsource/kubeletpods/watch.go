package kubeletpods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	podsapi "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletdevices"
)

// Gate is the feature gate of kubelets that have the PodsAPI.
const Gate = "PodsAPI"

// Socket returns the path of the socket of a kubelet with that directory.
func Socket(dir string) string { return filepath.Join(dir, "pods-api", "pods-api.sock") }

const (
	// shortest is the wait after a stream that broke, and longest that after attempts that fail.
	// Each failed attempt doubles the wait.
	shortest, longest = time.Second, 5 * time.Second
	// maxEvent limits an event, in bytes: the API server stores no larger pod.
	maxEvent = 4 << 20
	// maxPods limits the pods whose status is kept. A node has a few hundred.
	maxPods = 10_000
)

// ErrNone is wrapped by Err if the kubelet has no socket.
var ErrNone = errors.New("the kubelet has no PodsAPI socket")

var errNotYet = errors.New("the kubelet's PodsAPI has not answered yet")

// Watch follows the pods of one kubelet. It is safe for use by several goroutines.
type Watch struct {
	socket  string
	after   func(time.Duration) <-chan time.Time
	changed chan struct{}

	mu       sync.Mutex
	statuses map[string]v1.PodStatus // by UID
	err      error
}

// New returns a watch of the kubelet with a socket. after is time.After.
func New(socket string, after func(time.Duration) <-chan time.Time) *Watch {
	return &Watch{socket: socket, after: after, changed: make(chan struct{}, 1), err: errNotYet}
}

// Status returns the status that the kubelet has of a pod. It reports false for a pod of which the
// kubelet has sent none, and for every pod while no stream is open.
func (w *Watch) Status(uid string) (v1.PodStatus, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, known := w.statuses[uid]
	return s, known
}

// Changed receives after something has changed that shows a decision of the kubelet: a pod is new
// or gone, or has another phase, reason or start. Several changes can be one value.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// Err returns nil while events arrive, and otherwise why they do not.
func (w *Watch) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	wait := shortest
	for {
		complete, err := w.stream(ctx)
		w.mu.Lock()
		w.statuses, w.err = nil, fmt.Errorf("socket %s: %w", w.socket, err)
		w.mu.Unlock()
		if complete {
			wait = shortest
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.after(wait):
		}
		wait = min(2*wait, longest)
	}
}

// stream receives events until the stream breaks, and returns why. It reports whether all pods were
// received.
func (w *Watch) stream(ctx context.Context) (complete bool, err error) {
	if _, err := os.Stat(w.socket); errors.Is(err, os.ErrNotExist) {
		return false, ErrNone
	}
	conn, err := kubeletdevices.Dial(w.socket, grpc.MaxCallRecvMsgSize(maxEvent))
	if err != nil {
		return false, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := podsapi.NewPodsClient(conn).WatchPods(ctx, &podsapi.WatchPodsRequest{})
	if err != nil {
		return false, kubeletdevices.Bounded(err)
	}
	for {
		event, err := events.Recv()
		if err != nil {
			return complete, kubeletdevices.Bounded(err)
		}
		if event.Type == podsapi.EventType_INITIAL_SYNC_COMPLETE {
			complete = true
			w.mu.Lock()
			w.err = nil
			w.mu.Unlock()
			continue
		}
		if err := w.take(event); err != nil {
			return complete, err
		}
	}
}

// take takes in an event about a pod.
func (w *Watch) take(event *podsapi.WatchPodsEvent) error {
	var pod v1.Pod
	if err := pod.Unmarshal(event.Pod); err != nil {
		return fmt.Errorf("an event has a pod that cannot be read: %w", err)
	}
	if pod.UID == "" {
		return errors.New("an event has a pod without a UID")
	}
	uid := podspec.UID(&pod)
	w.mu.Lock()
	defer w.mu.Unlock()
	before, known := w.statuses[uid]
	switch event.Type {
	case podsapi.EventType_ADDED, podsapi.EventType_MODIFIED:
		if !known && len(w.statuses) >= maxPods {
			return fmt.Errorf("more than %d pods", maxPods)
		}
		if w.statuses == nil {
			w.statuses = map[string]v1.PodStatus{}
		}
		after := slim(&pod.Status)
		w.statuses[uid] = after
		if known && stage(&before) == stage(&after) {
			return nil
		}
	case podsapi.EventType_DELETED:
		delete(w.statuses, uid)
	default: // A later kubelet may have more types.
		return nil
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
	return nil
}

// slim returns what shows a kubelet's decision about a pod.
func slim(s *v1.PodStatus) v1.PodStatus {
	return v1.PodStatus{
		Phase: s.Phase, Reason: s.Reason, Message: s.Message, StartTime: s.StartTime,
		Conditions: s.Conditions, InitContainerStatuses: s.InitContainerStatuses, ContainerStatuses: s.ContainerStatuses,
	}
}

// stage returns what differs between two statuses if the kubelet decided in between.
func stage(s *v1.PodStatus) string {
	created := 0
	for _, all := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range all {
			if all[i].ContainerID != "" {
				created++
			}
		}
	}
	return fmt.Sprintf("%s\n%s\n%t\n%d", s.Phase, s.Reason, s.StartTime != nil, created)
}
