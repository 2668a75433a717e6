package prediction

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	api "github.com/paddock-project/paddock/api/predict/v1alpha1"
	"github.com/paddock-project/paddock/internal/base/spelling"
	"github.com/paddock-project/paddock/internal/core/node"
)

// The limits of the package comment.
const (
	maxMessage     = 4 << 20
	maxQuestions   = 10_000
	maxCalls       = 64
	maxWatches     = 64
	maxConnections = 256
	maxStreams     = 128
	handshakeTime  = 10 * time.Second
	endTime        = 5 * time.Second
	refreshTime    = 50 * time.Millisecond
	watchTime      = time.Second
)

// Node is a node of a Moment.
type Node struct {
	Name  string
	State *node.State
	// Doubts are sentences about what is not known of the node.
	Doubts []string
}

// Moment is the nodes at one time. It does not change.
type Moment struct {
	Nodes []Node
	// Fixed is set if the nodes never change, as those of a file: the copy is never out of date.
	Fixed bool
	// Problems has the nodes that cannot be planned for, with the reason.
	Problems map[string]string
}

// Source has the nodes. Several goroutines may use it.
type Source interface {
	// Moment returns the same pointer as long as nothing changes.
	Moment() *Moment
	// Trouble returns since when the nodes may be out of date, and why. Without a reason there is
	// no trouble.
	Trouble() (since time.Time, why string)
}

// Options are the options of a server.
type Options struct {
	// MaxAge is the age of the copy beyond which answers are UNKNOWN.
	MaxAge time.Duration
	// Now and After are the clock.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
}

// Server implements the service Predict.
type Server struct {
	api.UnimplementedPredictServer
	source         Source
	options        Options
	calls, watches chan struct{}
	ending         chan struct{}

	mu    sync.Mutex
	taken time.Time
	copy  *snapshot
}

// snapshot is the copy. It does not change.
type snapshot struct {
	moment *Moment
	// names are in the order of the nodes.
	names []string
	nodes map[string]*known
}

type known struct {
	Node
	version uint64
}

// New returns a server of the nodes of a source.
func New(source Source, options Options) *Server {
	return &Server{
		source: source, options: options, calls: make(chan struct{}, maxCalls), watches: make(chan struct{}, maxWatches),
		ending: make(chan struct{}), copy: &snapshot{nodes: map[string]*known{}},
	}
}

// Serve answers on the listener until the context ends, and closes it. It is called once.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxStreams), grpc.ConnectionTimeout(handshakeTime),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: handshakeTime}),
	)
	api.RegisterPredictServer(server, s)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(&limited{Listener: listener}) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	close(s.ending)
	ended := make(chan struct{})
	go func() {
		server.GracefulStop()
		close(ended)
	}()
	select {
	case <-ended:
	case <-s.options.After(endTime):
		server.Stop()
		<-ended
	}
	return nil
}

// now returns the copy and how long it may have been out of date.
func (s *Server) now() (*snapshot, time.Duration, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.copy.moment; m != nil && m.Fixed {
		return s.copy, 0, ""
	}
	now := s.options.Now()
	if s.copy.moment == nil || now.Sub(s.taken) > refreshTime || now.Before(s.taken) {
		s.taken = now
		if m := s.source.Moment(); m != s.copy.moment {
			s.copy = s.copy.next(m)
		}
	}
	since, why := s.source.Trouble()
	if why == "" {
		return s.copy, now.Sub(s.taken), ""
	}
	return s.copy, max(0, now.Sub(since)), why
}

// next returns the snapshot of the next moment. A node that did not change keeps its version.
func (c *snapshot) next(m *Moment) *snapshot {
	out := &snapshot{moment: m, nodes: make(map[string]*known, len(m.Nodes))}
	for _, n := range m.Nodes {
		k := &known{Node: n, version: 1}
		if before := c.nodes[n.Name]; before != nil {
			if before.State == n.State && slices.Equal(before.Doubts, n.Doubts) {
				k = before
			} else {
				k.version = before.version + 1
			}
		}
		out.names, out.nodes[n.Name] = append(out.names, n.Name), k
	}
	return out
}

// missing returns the error for a node without a state: NOT_FOUND for one that is not in the
// cluster, and FAILED_PRECONDITION for one that is there and cannot be planned for.
func (c *snapshot) missing(name string) error {
	if name == "" {
		return status.Error(codes.InvalidArgument, "the name of the node is empty: give one, or ask AskBatch without nodes for all of them")
	}
	if why, ok := c.moment.Problems[name]; ok {
		return status.Errorf(codes.FailedPrecondition, "node %q is in the cluster and cannot be planned for: %s", name, strings.ToValidUTF8(why, "?"))
	}
	text := fmt.Sprintf("there is no node %q among the %d nodes that this server knows", name, len(c.names)+len(c.moment.Problems))
	if meant := c.nearest(name); meant != "" {
		return status.Errorf(codes.NotFound, "%s: did you mean %q?", text, meant)
	}
	return status.Errorf(codes.NotFound, "%s: AskBatch without nodes has the names of those that can be planned for", text)
}

// A call with a name that is not known compares it with as many others, in their order, if it has
// no more bytes. That bounds its time to about 10 ms.
const mostCompared, longestTyped = 1000, 64

// nearest returns the name of the node that a typo most likely means, or "".
func (c *snapshot) nearest(name string) string {
	if len(name) > longestTyped {
		return ""
	}
	return spelling.Nearest(name, c.names[:min(len(c.names), mostCompared)])
}

// begin takes one of the places for calls. The error is RESOURCE_EXHAUSTED.
func begin(places chan struct{}, what string) error {
	select {
	case places <- struct{}{}:
		return nil
	default:
		return status.Errorf(codes.ResourceExhausted, "%d %s are under way: ask again later", cap(places), what)
	}
}

// Ask implements api.PredictServer.
func (s *Server) Ask(ctx context.Context, in *api.AskRequest) (*api.AskResponse, error) {
	out, err := s.AskBatch(ctx, &api.AskBatchRequest{Nodes: []string{in.GetNode()}, Pods: []*api.Pod{in.GetPod()}, Detail: true})
	if err != nil {
		return nil, err
	}
	return &api.AskResponse{Answer: out.Answers[0]}, nil
}

// AskBatch implements api.PredictServer.
func (s *Server) AskBatch(ctx context.Context, in *api.AskBatchRequest) (*api.AskBatchResponse, error) {
	if err := begin(s.calls, "calls"); err != nil {
		return nil, err
	}
	defer func() { <-s.calls }()
	c, age, _ := s.now()
	nodes := in.GetNodes()
	if len(nodes) == 0 {
		nodes = c.names
	}
	if n := len(nodes) * len(in.GetPods()); n > maxQuestions {
		return nil, status.Errorf(codes.InvalidArgument, "%d pods on %d nodes are %d questions: at most %d fit into a call", len(in.GetPods()), len(nodes), n, maxQuestions)
	}
	targets := make([]*known, len(nodes))
	for i, name := range nodes {
		if targets[i] = c.nodes[name]; targets[i] == nil {
			return nil, c.missing(name)
		}
	}
	b := batch{detail: in.GetDetail(), age: age, stale: age > s.options.MaxAge}
	out := &api.AskBatchResponse{Answers: make([]*api.Answer, 0, len(targets)*len(in.GetPods()))}
	size := 0
	for i, pod := range in.GetPods() {
		q, err := questionOf(pod)
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "pod %d: %v", i, err)
		}
		for _, k := range targets {
			if err := ctx.Err(); err != nil {
				return nil, status.FromContextError(err).Err()
			}
			a, err := b.answer(k, q)
			if err != nil {
				return nil, status.Errorf(codes.InvalidArgument, "pod %d: %v", i, err)
			}
			// gRPC compares the size only after it has encoded everything.
			if size += proto.Size(a); size > maxMessage {
				return nil, status.Errorf(codes.InvalidArgument, "the answers to %d questions take more than %d MiB: ask for fewer in a call, or without detail", len(targets)*len(in.GetPods()), maxMessage>>20)
			}
			out.Answers = append(out.Answers, a)
		}
	}
	return out, nil
}

// Watch implements api.PredictServer.
func (s *Server) Watch(_ *api.WatchRequest, stream grpc.ServerStreamingServer[api.Copy]) error {
	if err := begin(s.watches, "watches"); err != nil {
		return err
	}
	defer func() { <-s.watches }()
	var sent *snapshot
	troubled := false
	for {
		c, age, why := s.now()
		if c != sent || why != "" || troubled {
			out := &api.Copy{Nodes: int32(len(c.names)), Unusable: int32(len(c.moment.Problems)), AgeMillis: age.Milliseconds(), Trouble: strings.ToValidUTF8(why, "?")}
			if err := stream.Send(out); err != nil {
				return err
			}
			sent, troubled = c, why != ""
		}
		select {
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-s.ending:
			return status.Error(codes.Unavailable, "the server ends")
		case <-s.options.After(watchTime):
		}
	}
}

// limited is a listener that closes connections beyond the limit.
type limited struct {
	net.Listener
	mu   sync.Mutex
	open int
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		full := l.open >= maxConnections
		if !full {
			l.open++
		}
		l.mu.Unlock()
		if !full {
			return &counted{Conn: conn, of: l}, nil
		}
		_ = conn.Close() // The client sees the end of the connection, and can connect again.
	}
}

type counted struct {
	net.Conn
	of   *limited
	once sync.Once
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.once.Do(func() {
		c.of.mu.Lock()
		c.of.open--
		c.of.mu.Unlock()
	})
	return c.Conn.Close()
}
