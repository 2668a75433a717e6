package podres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/status"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubelet/pkg/apis/podresources/v1alpha1"

	"github.com/paddock-project/paddock/internal/core/node"
)

// Snapshots provides the state of the node. State is called once for each call of a client, by
// several goroutines, and must not block. It returns nil if there is no state yet.
type Snapshots interface {
	State() *node.State
}

// Observer observes every call. Its methods are called by several goroutines and must not block.
// endpoint is the name of the method ("List", "Get", "GetAllocatableResources"), and version is
// "v1" or "v1alpha1".
type Observer interface {
	// Served reports a call that was answered. err is a gRPC status or nil.
	Served(endpoint, version string, err error)
	// Limited reports a call that the token bucket rejected. Served is not called for it (R-API-3).
	Limited(endpoint, version string)
}

// Limit is the token bucket that all calls share.
type Limit struct {
	PerSecond float64
	Burst     int
}

// DefaultLimit is the limit of the kubelet (R-API-3).
var DefaultLimit = Limit{PerSecond: 100, Burst: 10}

// Options configure a server. The zero value is usable.
type Options struct {
	// Limit limits the calls. If it is the zero value, DefaultLimit is used.
	Limit Limit
	// Observer may be nil.
	Observer Observer
	// Unavailable returns the reason why the server cannot answer now, e.g. another manager that
	// assigns CPUs on this node. Every call then fails with gRPC's Unavailable and that reason. It
	// must not block. Nil means that the server can always answer.
	Unavailable func() error
	// Moved returns how often the pod with that UID was moved, and when the last move ended. It
	// must not block. Nil means that this is not known.
	Moved func(uid string) (times int, last time.Time)
}

// The limits of one client.
const (
	// maxRequest is the maximum size of a request in bytes. The largest request has the name and
	// the namespace of a pod, of at most 253 characters each.
	maxRequest = 4 << 10
	// maxStreams is the maximum number of concurrent calls on one connection.
	maxStreams = 100
	// handshakeTime limits the duration of a connection's handshake.
	handshakeTime = 10 * time.Second
	// graceTime is how long calls in progress may take after the server was asked to end.
	graceTime = 400 * time.Millisecond
)

// Server answers calls. It is created by NewServer and is safe for concurrent use.
type Server struct {
	snapshots Snapshots
	options   Options
	limiter   *rate.Limiter

	encoder   encoder // used by list, in which one goroutine at a time computes an answer
	list      cache[*podresourcesv1.ListPodResourcesResponse]
	listAlpha cache[*v1alpha1.ListPodResourcesResponse]
}

// NewServer returns a server, which Serve runs. It returns an error if the limit is invalid.
func NewServer(snapshots Snapshots, o Options) (*Server, error) {
	if o.Limit == (Limit{}) {
		o.Limit = DefaultLimit
	}
	if !(o.Limit.PerSecond > 0) || o.Limit.Burst < 1 {
		return nil, fmt.Errorf("PodResources limit of %v calls a second with a burst of %d answers no call: both must be positive, the default is %v with %d",
			o.Limit.PerSecond, o.Limit.Burst, DefaultLimit.PerSecond, DefaultLimit.Burst)
	}
	if o.Observer == nil {
		o.Observer = silent{}
	}
	limiter := rate.NewLimiter(rate.Limit(o.Limit.PerSecond), o.Limit.Burst)
	return &Server{snapshots: snapshots, options: o, limiter: limiter}, nil
}

type silent struct{}

func (silent) Served(string, string, error) {}
func (silent) Limited(string, string)       {}

// Serve answers the calls on l until ctx ends, and closes l. Calls in progress then have graceTime.
// It returns nil if it ended because of ctx.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.serve(ctx, l)
}

func (s *Server) serve(ctx context.Context, l net.Listener, extra ...grpc.ServerOption) error {
	// Every call passes the token bucket and is reported to the observer.
	intercept := func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		service, endpoint := path.Split(strings.TrimPrefix(info.FullMethod, "/"))
		version, _, _ := strings.Cut(service, ".")
		if !s.limiter.Allow() {
			s.options.Observer.Limited(endpoint, version)
			return nil, status.Error(codes.ResourceExhausted, "rejected by rate limit")
		}
		response, err := handler(ctx, request)
		s.options.Observer.Served(endpoint, version, err)
		return response, err
	}
	g := grpc.NewServer(append([]grpc.ServerOption{
		grpc.UnaryInterceptor(intercept),
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(proto.Name)}),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeTime),
	}, extra...)...)
	podresourcesv1.RegisterPodResourcesListerServer(g, serviceV1{server: s})
	v1alpha1.RegisterPodResourcesListerServer(g, serviceAlpha{server: s})

	conns := &connections{Listener: l, open: map[*connection]bool{}}
	served := make(chan error, 1)
	go func() { served <- g.Serve(conns) }()
	var err error
	select {
	case err = <-served:
		g.Stop()
	case <-ctx.Done():
		stop(ctx, g, conns)
		err = <-served
	}
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("PodResources server at %s: %w", l.Addr(), err)
	}
	return nil
}

// stop ends the server after giving the calls in progress time to finish.
func stop(ctx context.Context, g *grpc.Server, conns *connections) {
	stopped := make(chan struct{})
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceTime)
	defer cancel()
	go func() {
		defer close(stopped)
		g.GracefulStop()
	}()
	select {
	case <-stopped:
	case <-grace.Done():
		conns.close() // Otherwise Stop waits for connections that have not sent anything yet.
		g.Stop()      // It makes GracefulStop return.
		<-stopped
	}
}

// state returns the state from which a call is answered.
func (s *Server) state() (*node.State, error) {
	if s.options.Unavailable != nil {
		if err := s.options.Unavailable(); err != nil {
			return nil, status.Error(codes.Unavailable, err.Error())
		}
	}
	state := s.snapshots.State()
	if state == nil {
		return nil, status.Error(codes.Unavailable, "the node's state is not read yet; try again")
	}
	return state, nil
}

// serviceV1 implements v1.PodResourcesLister.
type serviceV1 struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
	server *Server
}

// List returns all pods. The response is already encoded; see encoder.
func (v serviceV1) List(ctx context.Context, _ *podresourcesv1.ListPodResourcesRequest) (*podresourcesv1.ListPodResourcesResponse, error) {
	of, err := v.server.state()
	if err != nil {
		return nil, err
	}
	response, err := v.server.list.of(of, v.server.encoder.list)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "the answer cannot be encoded: %v", err)
	}
	v.server.addExtras(ctx, of, of.Grants()...)
	return response, nil
}

// Get returns one pod, or the status NotFound (R-API-20).
func (v serviceV1) Get(ctx context.Context, r *podresourcesv1.GetPodResourcesRequest) (*podresourcesv1.GetPodResourcesResponse, error) {
	of, err := v.server.state()
	if err != nil {
		return nil, err
	}
	g, ok := find(of, r.GetPodNamespace(), r.GetPodName())
	if !ok {
		return nil, status.Errorf(codes.NotFound, "pod %s in namespace %s not found", r.GetPodName(), r.GetPodNamespace())
	}
	v.server.addExtras(ctx, of, g)
	return &podresourcesv1.GetPodResourcesResponse{PodResources: podResources(of, g)}, nil
}

// GetAllocatableResources returns the resources that could be exclusive; see allocatable.
func (v serviceV1) GetAllocatableResources(context.Context, *podresourcesv1.AllocatableResourcesRequest) (*podresourcesv1.AllocatableResourcesResponse, error) {
	of, err := v.server.state()
	if err != nil {
		return nil, err
	}
	return allocatable(of), nil
}

// serviceAlpha implements v1alpha1.PodResourcesLister.
type serviceAlpha struct {
	v1alpha1.UnimplementedPodResourcesListerServer
	server *Server
}

// List returns the devices of all pods.
func (v serviceAlpha) List(context.Context, *v1alpha1.ListPodResourcesRequest) (*v1alpha1.ListPodResourcesResponse, error) {
	of, err := v.server.state()
	if err != nil {
		return nil, err
	}
	return v.server.listAlpha.of(of, func(s *node.State) (*v1alpha1.ListPodResourcesResponse, error) { return listAlpha(s), nil })
}
