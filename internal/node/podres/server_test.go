package podres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/kubelet/pkg/apis/podresources/v1alpha1"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// start runs a server until the test ends and returns the path of its socket.
func start(tb testing.TB, snapshots Snapshots, o Options, extra ...grpc.ServerOption) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "s")
	server, err := NewServer(snapshots, o)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := Listen(path)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context())) // tb's context ends before its cleanups run.
	ended := make(chan error, 1)
	go func() { ended <- server.serve(ctx, l, extra...) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
	return path
}

func dial(tb testing.TB, path string) *Client {
	tb.Helper()
	client, err := Dial(tb.Context(), path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := client.Close(); err != nil {
			tb.Error(err)
		}
	})
	return client
}

var unlimited = Options{Limit: Limit{PerSecond: 1e9, Burst: 1e9}}

// TestGetIsPartOfList covers the cases of KEP-3695: pods with several containers and pods without
// exclusive resources. Get returns the same for each pod as List.
func TestGetIsPartOfList(t *testing.T) {
	pods := []request.Pod{
		database(),
		plain("web", exclusive("init", request.Init, 2, gib), exclusive("b", request.App, 2, gib), exclusive("a", request.App, 1, 2*gib)),
		dns(),
	}
	state := small(t, node.PodScope, pods...)
	client := dial(t, start(t, publish(state), unlimited))
	listed, err := client.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := list(state); !proto.Equal(listed, want) || len(want.GetPodResources()) != len(pods) {
		t.Errorf("got\n%swant\n%s", text(listed.GetPodResources()), text(want.GetPodResources()))
	}
	for _, p := range listed.GetPodResources() {
		got, err := client.Get(t.Context(), p.GetNamespace(), p.GetName())
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got.GetPodResources(), p) {
			t.Errorf("Get says %v, List %v", got.GetPodResources(), p)
		}
	}
	capacity, err := client.Allocatable(t.Context())
	if err != nil || !proto.Equal(capacity, allocatable(state)) {
		t.Errorf("GetAllocatableResources: %v, %v", capacity, err)
	}
}

// TestGetUnknown covers pods of which the name, the namespace or both do not exist, and a pod that
// ended.
func TestGetUnknown(t *testing.T) {
	state := small(t, node.PodScope, database(), plain("ended", sharing("a", request.App)))
	client := dial(t, start(t, publish(state.Release("uid-ended")), unlimited))
	for _, id := range []string{"default/nobody", "nowhere/database", "nowhere/nobody", "default/", "/database", "/", "default/Database", "default/server", "default/ended"} {
		namespace, name, _ := strings.Cut(id, "/")
		_, err := client.Get(t.Context(), namespace, name)
		if status.Code(err) != codes.NotFound || !errors.Is(err, ErrNoPod) {
			t.Errorf("%q: %v, want NotFound", id, err)
		}
		if want := fmt.Sprintf("pod %s in namespace %s not found", name, namespace); err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", id, err, want)
		}
	}
	// A request that is too long for any valid name is rejected before the search.
	if _, err := client.Get(t.Context(), "default", strings.Repeat("x", maxRequest)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a name of %d bytes: %v", maxRequest, err)
	}
}

// TestSnapshotChanges checks that each answer shows the state at the time of the call.
func TestSnapshotChanges(t *testing.T) {
	snapshots := publish(nil)
	client := dial(t, start(t, snapshots, unlimited))
	for _, call := range calls(client) {
		if err := call(t.Context()); status.Code(err) != codes.Unavailable {
			t.Errorf("without a state: %v, want Unavailable", err)
		}
	}
	state := small(t, node.PodScope)
	for i := range 4 {
		for range 2 {
			snapshots.state.Store(state)
			response, err := client.List(t.Context())
			if err != nil || len(response.GetPodResources()) != i {
				t.Fatalf("with %d pods: %v, %v", i, response, err)
			}
		}
		state = admit(t, state, plain(fmt.Sprint("pod-", i), exclusive("a", request.App, 1, gib)))
	}
}

// TestUnavailable checks that every call fails with the reason while the node is not managed.
func TestUnavailable(t *testing.T) {
	var unmanaged atomic.Bool
	o := unlimited
	o.Unavailable = func() error {
		if unmanaged.Load() {
			return errors.New("the kubelet manages this node")
		}
		return nil
	}
	client := dial(t, start(t, publish(small(t, node.PodScope)), o))
	for _, away := range []bool{false, true, false} {
		unmanaged.Store(away)
		for _, call := range calls(client) {
			err := call(t.Context())
			if told := status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "the kubelet manages this node"); told != away {
				t.Errorf("aside %t: %v", away, err)
			}
		}
	}
}

// calls returns one call of each of the three v1 methods.
func calls(c *Client) []func(context.Context) error {
	return []func(context.Context) error{
		func(ctx context.Context) error { _, err := c.List(ctx); return err },
		func(ctx context.Context) error { _, err := c.Get(ctx, "default", "nobody"); return err },
		func(ctx context.Context) error { _, err := c.Allocatable(ctx); return err },
	}
}

// record is an Observer that records its calls.
type record struct {
	mu    sync.Mutex
	lines []string
}

func (r *record) Served(endpoint, version string, err error) {
	r.add(fmt.Sprintf("%s %s %s", version, endpoint, status.Code(err)))
}

func (r *record) Limited(endpoint, version string) {
	r.add(fmt.Sprintf("%s %s limited", version, endpoint))
}

func (r *record) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

// TestLimit checks that both versions and all methods share one bucket, which is empty after its
// burst. The bucket gets one token in 11 days, so that the test does not depend on the clock.
func TestLimit(t *testing.T) {
	seen := &record{}
	path := start(t, publish(small(t, node.PodScope)), Options{Limit: Limit{PerSecond: 1e-6, Burst: 4}, Observer: seen})
	client := dial(t, path)
	alpha := dialAlpha(t, path)
	for _, call := range append(calls(client), alpha) {
		if err := call(t.Context()); status.Code(err) == codes.ResourceExhausted {
			t.Errorf("within the burst: %v", err)
		}
	}
	for _, call := range append(calls(client), alpha) {
		err := call(t.Context())
		if s, _ := status.FromError(err); status.Code(err) != codes.ResourceExhausted || !strings.Contains(s.Message(), "rejected by rate limit") {
			t.Errorf("beyond the burst: %v", err)
		}
	}
	want := []string{
		"v1 List OK", "v1 Get NotFound", "v1 GetAllocatableResources OK", "v1alpha1 List OK",
		"v1 List limited", "v1 Get limited", "v1 GetAllocatableResources limited", "v1alpha1 List limited",
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if !slices.Equal(seen.lines, want) {
		t.Errorf("the observer was told %q, want %q", seen.lines, want)
	}
}

// dialAlpha returns a function that calls v1alpha1 List.
func dialAlpha(t *testing.T, path string) func(context.Context) error {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	lister := v1alpha1.NewPodResourcesListerClient(conn)
	return func(ctx context.Context) error {
		_, err := lister.List(ctx, &v1alpha1.ListPodResourcesRequest{})
		return err
	}
}

func TestLimitMustAnswer(t *testing.T) {
	for _, l := range []Limit{{PerSecond: -1, Burst: 10}, {PerSecond: 100}, {Burst: 10}, {PerSecond: 1, Burst: -1}} {
		if _, err := NewServer(publish(nil), Options{Limit: l}); err == nil || !strings.Contains(err.Error(), "must be positive") {
			t.Errorf("%+v: %v", l, err)
		}
	}
	server, err := NewServer(publish(nil), Options{})
	if err != nil || server.limiter.Limit() != 100 || server.limiter.Burst() != 10 {
		t.Errorf("by default: %v, %v", server, err)
	}
}

// TestConcurrentCalls checks that every answer shows one state while the state changes. In each
// state the first pod has as many CPUs as there are pods.
func TestConcurrentCalls(t *testing.T) {
	states := make([]*node.State, 4)
	for i := range states {
		pods := []request.Pod{plain("a", exclusive("c", request.App, i+1, gib))}
		for k := range i {
			pods = append(pods, plain(fmt.Sprint("b", k), sharing("c", request.App)))
		}
		states[i] = small(t, node.PodScope, pods...)
	}
	snapshots := publish(states[0])
	path := start(t, snapshots, unlimited)
	var group sync.WaitGroup
	for range 4 {
		client := dial(t, path)
		group.Go(func() {
			for i := range 200 {
				snapshots.state.Store(states[i%len(states)])
				response, err := client.List(t.Context())
				pods := response.GetPodResources()
				if err != nil || len(pods[0].GetContainers()[0].GetCpuIds()) != len(pods) {
					t.Errorf("%v\n%s", err, text(pods))
					return
				}
			}
		})
	}
	group.Wait()
}

// TestServeEndsWithListener checks that Serve returns an error of the listener.
func TestServeEndsWithListener(t *testing.T) {
	server, err := NewServer(publish(nil), Options{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := server.Serve(t.Context(), l); !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

// TestSilentClientDoesNotHoldUpTheEnd uses a client that connects and never sends anything.
func TestSilentClientDoesNotHoldUpTheEnd(t *testing.T) {
	server, err := NewServer(publish(nil), Options{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	// This server would close the connection only after an hour.
	go func() { ended <- server.serve(ctx, l, grpc.ConnectionTimeout(time.Hour)) }()
	silent, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := dial(t, path).Allocatable(t.Context()); status.Code(err) != codes.Unavailable { // The answer proves that the silent client's connection was accepted.
		t.Error(err)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
