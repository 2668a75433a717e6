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

// Snapshots has the node's state. It is called once for each call of a client, by several
// goroutines, and must not wait. Nil: there is no state yet.
type Snapshots interface {
	State() *node.State
}

// Observer gets every call, from several goroutines; it must not wait. Endpoint is the name of the
// method ("List", "Get", "GetAllocatableResources"), version is "v1" or "v1alpha1".
type Observer interface {
	// Served is a call that was answered. The error is a gRPC status or nil.
	Served(endpoint, version string, err error)
	// Limited is a call that the token bucket rejected. It is not Served too (R-API-3).
	Limited(endpoint, version string)
}

// Limit is the token bucket that all calls share.
type Limit struct {
	PerSecond float64
	Burst     int
}

// DefaultLimit is the kubelet's (R-API-3).
var DefaultLimit = Limit{PerSecond: 100, Burst: 10}

// Options configure a server. The zero value is usable.
type Options struct {
	// Limit is DefaultLimit if it is the zero value.
	Limit Limit
	// Observer may be nil.
	Observer Observer
	// Unavailable returns the reason why the server cannot answer now, for example another manager
	// that assigns CPUs on this node: every call ends with gRPC's Unavailable and that reason. It
	// must not wait. Nil: the server can always answer.
	Unavailable func() error
	// Moved is how often a pod was moved, by its UID, and when the last time. It must not wait.
	// Nil: not known.
	Moved func(uid string) (times int, last time.Time)
}

// The limits of one client.
const (
	// maxRequest is the size of a request in bytes: the longest names a pod, with two names of at
	// most 253 characters.
	maxRequest = 4 << 10
	// maxStreams is how many calls of one connection are served at a time.
	maxStreams = 100
	// handshakeTime is how long the handshake of a connection may take.
	handshakeTime = 10 * time.Second
	// graceTime is how long calls under way may take when the server ends.
	graceTime = 400 * time.Millisecond
)

// Server answers calls. NewServer makes one. It is safe for use by several goroutines.
type Server struct {
	snapshots Snapshots
	options   Options
	limiter   *rate.Limiter

	encoder   encoder // used by list, which lets one goroutine make an answer
	list      cache[*podresourcesv1.ListPodResourcesResponse]
	listAlpha cache[*v1alpha1.ListPodResourcesResponse]
}

// NewServer returns a server; Serve runs it. The error names a limit that is not possible.
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

// Serve answers the calls on l until ctx ends, and closes l. Calls under way then have graceTime.
// The error is nil when ctx ended it.
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

// stop ends the server, after calls under way had some time.
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
		conns.close() // Stop would wait for connections that have not sent anything yet.
		g.Stop()      // It makes GracefulStop return.
		<-stopped
	}
}

// state is what a call is answered from.
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

// serviceV1 is v1.PodResourcesLister.
type serviceV1 struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
	server *Server
}

// List returns all pods. The response is encoded already; see encoder.
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

// Get returns one pod, or NotFound (R-API-20).
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

// GetAllocatableResources returns what could be exclusive; see allocatable.
func (v serviceV1) GetAllocatableResources(context.Context, *podresourcesv1.AllocatableResourcesRequest) (*podresourcesv1.AllocatableResourcesResponse, error) {
	of, err := v.server.state()
	if err != nil {
		return nil, err
	}
	return allocatable(of), nil
}

// serviceAlpha is the service v1alpha1.PodResourcesLister.
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
