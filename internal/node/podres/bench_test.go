package podres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/stats"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// crowd returns a node with 8 NUMA nodes, 1024 CPUs and 250 pods of 4 containers each. Each pod has
// a pool of 4 CPUs: 3 of them are in the slices of a sidecar and an app, and 2 containers share the
// fourth.
func crowd(tb testing.TB) *node.State {
	tb.Helper()
	state := emptyNode(tb, hardware{8, 128}, policy(node.PodScope))
	for i := range 250 {
		state = admit(tb, state, podLevel(fmt.Sprintf("pod-%03d", i), 4, gib,
			exclusive("proxy", request.Sidecar, 1, 128*mib), exclusive("server", request.App, 2, 512*mib),
			sharing("log", request.App), sharing("metrics", request.App)))
	}
	return state
}

// BenchmarkList measures the server's part of one List of 250 pods with 4 containers each and 500
// claims: the first List, one after each admission, and one with a state that was listed before.
// All include the time that gRPC needs for encoding.
func BenchmarkList(b *testing.B) {
	state := claimed(crowd(b), 2)
	snapshots := publish(state)
	server, err := NewServer(snapshots, unlimited)
	if err != nil {
		b.Fatal(err)
	}
	answer := func(b *testing.B) {
		response, err := serviceV1{server: server}.List(b.Context(), nil)
		if err != nil {
			b.Fatal(err)
		}
		data, err := codec{encoding.GetCodecV2(proto.Name)}.Marshal(response)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(data.Len()))
		data.Free()
	}
	b.Run("state=new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			server.list.last.Store(nil)
			server.encoder = encoder{}
			answer(b)
		}
	})
	b.Run("state=next", func(b *testing.B) {
		b.ReportAllocs()
		for next := state.Release("uid-pod-100"); b.Loop(); {
			next = snapshots.state.Swap(next)
			answer(b)
		}
	})
	b.Run("state=known", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			answer(b)
		}
	})
}

// BenchmarkGet measures the server's part of one Get among 250 pods.
func BenchmarkGet(b *testing.B) {
	state := crowd(b)
	b.ReportAllocs()
	for b.Loop() {
		g, ok := find(state, "default", "pod-249")
		if !ok {
			b.Fatal("not found")
		}
		if _, err := protobuf.Marshal(podResources(state, g)); err != nil {
			b.Fatal(err)
		}
	}
}

// The load of BenchmarkListLoad.
const (
	loadClients = 8
	loadRate    = 500 // calls per second, of all clients together
	loadTime    = 3 * time.Second
)

// BenchmarkListLoad runs 8 clients that together call List 500 times per second for 3 seconds,
// whether or not the answers to earlier calls have come. Server times are from the arrival of a
// call until its answer is passed to the connection. Client times are from the time at which the
// call was due until the answer is decoded. With admissions=50 the node's state changes 50 times
// per second.
func BenchmarkListLoad(b *testing.B) {
	for _, c := range []struct{ claims, admissions int }{{0, 0}, {0, 50}, {500, 0}, {500, 50}} {
		admissions := c.admissions
		b.Run(fmt.Sprintf("pods=250/containers=4/claims=%d/admissions=%d", c.claims, admissions), func(b *testing.B) {
			state := crowd(b)
			if c.claims > 0 {
				state = claimed(state, 2)
			}
			snapshots := publish(state)
			times := &serverTimes{}
			path := start(b, snapshots, unlimited, grpc.StatsHandler(times))
			clients := make([]*Client, loadClients)
			for i := range clients {
				clients[i] = dial(b, path)
				if _, err := clients[i].List(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			var atClients []time.Duration
			times.reset()
			for b.Loop() {
				atClients = append(atClients, load(b, clients, snapshots, admissions)...)
			}
			report(b, "server", times.reset())
			report(b, "client", atClients)
		})
	}
}

// load calls List from all clients and returns how long the calls took.
func load(b *testing.B, clients []*Client, snapshots *published, admissions int) []time.Duration {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var group, churn sync.WaitGroup
	if admissions > 0 {
		churn.Go(func() { change(ctx, snapshots, admissions) })
	}
	took := make([][]time.Duration, len(clients))
	const gap = time.Second * loadClients / loadRate
	begin := time.Now()
	for i, client := range clients {
		first := begin.Add(gap * time.Duration(i) / loadClients)
		group.Go(func() {
			for due := first; due.Sub(begin) < loadTime; due = due.Add(gap) {
				timer := time.NewTimer(time.Until(due))
				<-timer.C
				response, err := client.List(ctx)
				if err != nil || len(response.GetPodResources()) < 249 {
					b.Errorf("%d pods, %v", len(response.GetPodResources()), err)
					return
				}
				took[i] = append(took[i], time.Since(due))
			}
		})
	}
	group.Wait()
	cancel()
	churn.Wait()
	return slices.Concat(took...)
}

// change alternately releases and admits a pod.
func change(ctx context.Context, snapshots *published, perSecond int) {
	full := snapshots.State()
	next := full.Release("uid-pod-100")
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			next = snapshots.state.Swap(next)
		}
	}
}

// report adds the median and the 99th percentile as metrics.
func report(b *testing.B, who string, times []time.Duration) {
	b.Helper()
	if len(times) == 0 {
		b.Fatal("nothing was measured at the " + who)
	}
	slices.Sort(times)
	at := func(percent int) float64 {
		return float64(times[(len(times)-1)*percent/100]) / float64(time.Millisecond)
	}
	b.ReportMetric(at(50), who+"-p50-ms")
	b.ReportMetric(at(99), who+"-p99-ms")
	b.ReportMetric(float64(len(times))/float64(b.N)/loadTime.Seconds(), who+"-calls/s")
}

// serverTimes is a stats.Handler that records how long calls took at the server.
type serverTimes struct {
	mu   sync.Mutex
	took []time.Duration
}

func (s *serverTimes) reset() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := s.took
	s.took = nil
	return took
}

func (s *serverTimes) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (s *serverTimes) HandleRPC(_ context.Context, event stats.RPCStats) {
	if end, ok := event.(*stats.End); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.took = append(s.took, end.EndTime.Sub(end.BeginTime))
	}
}

func (s *serverTimes) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (s *serverTimes) HandleConn(context.Context, stats.ConnStats) {}
