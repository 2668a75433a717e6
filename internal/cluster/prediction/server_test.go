package prediction

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	api "github.com/paddock-project/paddock/api/predict/v1alpha1"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
)

// world is a source that a test changes, and its clock.
type world struct {
	mu     sync.Mutex
	moment *Moment
	since  time.Time
	why    string
	now    time.Time
}

func (w *world) Moment() *Moment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.moment
}

func (w *world) Trouble() (time.Time, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since, w.why
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// empty returns the state of a node with two NUMA nodes of four CPUs under single-numa-node.
func empty(t testing.TB) *node.State {
	t.Helper()
	d := machine.Description{}
	for n := range 2 {
		nd := machine.NodeDescription{ID: n, Memory: 8 << 30}
		for c := range 4 {
			nd.Cores = append(nd.Cores, machine.CoreDescription{Socket: n, Threads: []int{4*n + c}, Uncore: machine.NoUncore})
		}
		d.Nodes = append(d.Nodes, nd)
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{Topology: node.TopologySingleNUMANode, StaticCPU: true, ReservedCPUs: cpuset.Of(0)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// nodes returns a moment of n nodes.
func nodes(t testing.TB, n int) *Moment {
	t.Helper()
	m := &Moment{Problems: map[string]string{"node-problem": "its machine is missing"}}
	for i := range n {
		m.Nodes = append(m.Nodes, Node{Name: fmt.Sprintf("node-%04d", i), State: empty(t)})
	}
	return m
}

// start serves the world on a socket, and returns it and a function that ends the server and waits.
func start(t testing.TB, w *world) (socket string, end func()) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- New(w, Options{MaxAge: time.Minute, Now: w.clock, After: time.After}).Serve(ctx, listener)
	}()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return socket, end
}

func client(t testing.TB, socket string) api.PredictClient {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return api.NewPredictClient(conn)
}

func pod(uid string, cpus int64) *api.Pod {
	limits := map[string]int64{"cpu": cpus * 1000, "memory": 1 << 30}
	return &api.Pod{Uid: uid, Name: uid, Namespace: "default", Containers: []*api.Container{{Name: "main", Resources: &api.Resources{Limits: limits}}}}
}

func TestAsk(t *testing.T) {
	w := &world{moment: nodes(t, 2), now: time.Unix(1000, 0)}
	socket, _ := start(t, w)
	c := client(t, socket)
	ask := func(node string, p *api.Pod) *api.Answer {
		t.Helper()
		out, err := c.Ask(t.Context(), &api.AskRequest{Node: node, Pod: p})
		if err != nil {
			t.Fatal(err)
		}
		return out.GetAnswer()
	}
	a := ask("node-0001", pod("a", 3))
	if main := a.GetAssignment().GetContainers()[0]; !a.GetFits() || main.GetCpus() != "1-3" || !main.GetExclusive() || a.GetCertainty() != api.Answer_CERTAIN || a.GetVersion() != 1 {
		t.Errorf("got %v", a)
	}
	if a := ask("node-0001", pod("a", 5)); a.GetFits() || a.GetReason() != "TopologyAffinityError" || a.GetWanted() != 5 || a.GetMessage() == "" || a.GetAssignment() != nil {
		t.Errorf("got %v", a)
	}
	for want, in := range map[codes.Code]*api.AskRequest{
		codes.NotFound:           {Node: "node-9999", Pod: pod("a", 1)},
		codes.FailedPrecondition: {Node: "node-problem", Pod: pod("a", 1)},
		codes.InvalidArgument:    {Node: "node-0001", Pod: pod("", 1)},
	} {
		if _, err := c.Ask(t.Context(), in); status.Code(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for name, want := range map[string]string{
		"node-problem": `node "node-problem" is in the cluster and cannot be planned for: its machine is missing`,
		"node-00001":   `there is no node "node-00001" among the 3 nodes that this server knows: did you mean "node-0000"?`,
		"other":        `there is no node "other" among the 3 nodes that this server knows: AskBatch without nodes has the names of those that can be planned for`,
		"":             `the name of the node is empty: give one, or ask AskBatch without nodes for all of them`,
	} {
		_, err := c.Ask(t.Context(), &api.AskRequest{Node: name, Pod: pod("a", 1)})
		if got := status.Convert(err).Message(); got != want {
			t.Errorf("node %q: got %s, want %s", name, got, want)
		}
	}
	if _, err := c.Ask(t.Context(), &api.AskRequest{Node: "node-0001"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without a pod: %v", err)
	}
}

// TestAge follows a cluster: a change of a node, and an API server that does not answer.
func TestAge(t *testing.T) {
	w := &world{moment: nodes(t, 2), now: time.Unix(1000, 0)}
	socket, _ := start(t, w)
	c := client(t, socket)
	answers := func() []*api.Answer {
		t.Helper()
		out, err := c.AskBatch(t.Context(), &api.AskBatchRequest{Pods: []*api.Pod{pod("a", 4)}})
		if err != nil {
			t.Fatal(err)
		}
		return out.GetAnswers()
	}
	answers()
	w.change(func() { // Another policy of node-0000, and the time at which the copy is taken again.
		next := *w.moment
		next.Nodes = append([]Node{}, next.Nodes...)
		next.Nodes[0].State, next.Nodes[0].Doubts = empty(t), []string{"something is not known"}
		w.moment, w.now = &next, w.now.Add(time.Second)
	})
	if got := answers(); got[0].GetVersion() != 2 || got[0].GetCertainty() != api.Answer_UNSURE || got[1].GetVersion() != 1 || got[1].GetCertainty() != api.Answer_CERTAIN {
		t.Errorf("got %v", got)
	}
	watch, err := c.Watch(t.Context(), &api.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := watch.Recv(); err != nil || first.GetNodes() != 2 || first.GetUnusable() != 1 || first.GetTrouble() != "" {
		t.Errorf("got %v, %v", first, err)
	}
	w.change(func() { w.since, w.why, w.now = w.now, "the API server does not answer", w.now.Add(30*time.Second) })
	if got := answers(); got[1].GetAgeMillis() != 30_000 || got[1].GetCertainty() != api.Answer_CERTAIN {
		t.Errorf("got %v", got[1])
	}
	w.change(func() { w.now = w.now.Add(31 * time.Second) })
	if got := answers(); got[1].GetAgeMillis() != 61_000 || got[1].GetCertainty() != api.Answer_UNKNOWN || !got[1].GetFits() {
		t.Errorf("got %v", got[1])
	}
	if next, err := watch.Recv(); err != nil || next.GetTrouble() == "" || next.GetAgeMillis() < 30_000 {
		t.Errorf("got %v, %v", next, err)
	}
}

// TestFixed checks that nodes that never change have the age 0, however long ago they were read.
func TestFixed(t *testing.T) {
	w := &world{moment: nodes(t, 1), now: time.Unix(1000, 0)}
	w.moment.Fixed = true
	s := New(w, Options{MaxAge: time.Minute, Now: w.clock, After: time.After})
	for range 3 {
		out, err := s.Ask(t.Context(), &api.AskRequest{Node: "node-0000", Pod: pod("a", 1)})
		if a := out.GetAnswer(); err != nil || a.GetAgeMillis() != 0 || a.GetCertainty() != api.Answer_CERTAIN || a.GetVersion() != 1 {
			t.Errorf("got %v, %v", a, err)
		}
		w.change(func() { w.now = w.now.Add(30 * time.Millisecond) })
	}
}

// TestEnd checks that a server with an open watch ends at once, and that its clients see why.
func TestEnd(t *testing.T) {
	w := &world{moment: nodes(t, 1), now: time.Unix(1000, 0)}
	socket, end := start(t, w)
	watch, err := client(t, socket).Watch(t.Context(), &api.WatchRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	end()
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ends with %v", err)
	}
}

// TestHostile sends what no client should: batches that are too large, bytes that are no HTTP/2,
// and more connections than there is room for. A client that behaves is served beside it.
func TestHostile(t *testing.T) {
	w := &world{moment: nodes(t, 10), now: time.Unix(1000, 0)}
	socket, _ := start(t, w)
	c := client(t, socket)
	batch := &api.AskBatchRequest{}
	for i := range maxQuestions/10 + 1 {
		batch.Pods = append(batch.Pods, pod(fmt.Sprint(i), 1))
	}
	if _, err := c.AskBatch(t.Context(), batch); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a batch that is too large: %v", err)
	}
	large := pod("large", 1)
	large.Name = string(make([]byte, maxMessage))
	if _, err := c.Ask(t.Context(), &api.AskRequest{Node: "node-0000", Pod: large}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message that is too large: %v", err)
	}
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			conn.Close()
		}
	}()
	for i := range 1000 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", socket)
		if err != nil {
			continue // The queue of the socket is full.
		}
		open = append(open, conn)
		if i%2 == 0 { // Half a request, and bytes that are none. The server may have closed the connection.
			_, _ = conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM"))
		} else {
			_, _ = conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n"))
		}
	}
	if out, err := c.Ask(t.Context(), &api.AskRequest{Node: "node-0000", Pod: pod("a", 1)}); err != nil || !out.GetAnswer().GetFits() {
		t.Errorf("a client beside %d others: %v, %v", len(open), out, err)
	}
	for _, conn := range open {
		conn.Close()
	}
	if out, err := client(t, socket).Ask(t.Context(), &api.AskRequest{Node: "node-0000", Pod: pod("a", 1)}, grpc.WaitForReady(true)); err != nil || !out.GetAnswer().GetFits() {
		t.Errorf("a new client after they are gone: %v, %v", out, err)
	}
}

// TestTooManyCalls checks that a call beyond the limit is an error at once.
func TestTooManyCalls(t *testing.T) {
	w := &world{moment: nodes(t, 1), now: time.Unix(1000, 0)}
	s := New(w, Options{MaxAge: time.Minute, Now: w.clock, After: time.After})
	for range maxCalls {
		if err := begin(s.calls, "calls"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Ask(t.Context(), &api.AskRequest{Node: "node-0000", Pod: pod("a", 1)}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	<-s.calls
	if _, err := s.Ask(ctx, &api.AskRequest{Node: "node-0000", Pod: pod("a", 1)}); status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
}

// BenchmarkServe asks one node, and all nodes, of fleets of 10, 1,000 and 5,000 nodes over a
// socket.
func BenchmarkServe(b *testing.B) {
	for _, n := range []int{10, 1000, 5000} {
		w := &world{moment: nodes(b, n), now: time.Unix(1000, 0)}
		socket, end := start(b, w)
		c := client(b, socket)
		b.Run(fmt.Sprintf("one/%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := c.Ask(b.Context(), &api.AskRequest{Node: "node-0007", Pod: pod("a", 2)}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("all/%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := c.AskBatch(b.Context(), &api.AskBatchRequest{Pods: []*api.Pod{pod("a", 2)}}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/question")
		})
		end()
	}
}
