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

// Observer is told of every call, by several goroutines; it must not wait. Endpoint is the
// name of the method ("List", "Get", "GetAllocatableResources"), version is "v1" or "v1alpha1".
type Observer interface {
	// Served tells of a call that was answered, with an error that is a gRPC status or nil.
	Served(endpoint, version string, err error)
	// Limited tells of a call that the token bucket turned away. It is not Served too (R-API-3).
	Limited(endpoint, version string)
}

// Limit is the token bucket that all calls share.
type Limit struct {
	PerSecond float64
	Burst     int
}

// DefaultLimit is the kubelet's (R-API-3).
var DefaultLimit = Limit{PerSecond: 100, Burst: 10}

// Options are how a server is run. The zero value is usable.
type Options struct {
	// Limit is DefaultLimit if it is the zero value.
	Limit Limit
	// Observer may be nil.
	Observer Observer
	// Unavailable returns why nothing is answered now, for instance because another manager assigns
	// CPUs on this node: every call ends with gRPC's Unavailable and that reason. It must not wait. Nil: never.
	Unavailable func() error
}

// Bounds of one client's demands.
const (
	// maxRequest is the size of a request in bytes: the longest there is names a pod, in
	// two names of at most 253 characters.
	maxRequest = 4 << 10
	// maxStreams is how many calls of one connection are served at a time.
	maxStreams = 100
	// handshakeTime is how long a connection may take to become one.
	handshakeTime = 10 * time.Second
	// graceTime is how long calls that are being answered may take when the server ends.
	graceTime = 400 * time.Millisecond
)

// Server answers calls. It is made by NewServer and safe for use by several goroutines.
type Server struct {
	snapshots Snapshots
	// unavailable is Options.Unavailable.
	unavailable func() error
	limiter     *rate.Limiter
	observer    Observer

	list      cache[*podresourcesv1.ListPodResourcesResponse]
	listAlpha cache[*v1alpha1.ListPodResourcesResponse]
}

// NewServer makes a server; Serve runs it. The error names the limit that cannot be.
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
	return &Server{snapshots: snapshots, unavailable: o.Unavailable, limiter: limiter, observer: o.Observer}, nil
}

type silent struct{}

func (silent) Served(string, string, error) {}
func (silent) Limited(string, string)       {}

// Serve answers the calls that come in on l, which it closes, until ctx ends; calls that are
// being answered then have a moment. The error is nil when ctx ended it.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.serve(ctx, l)
}

func (s *Server) serve(ctx context.Context, l net.Listener, extra ...grpc.ServerOption) error {
	g := grpc.NewServer(append([]grpc.ServerOption{
		grpc.UnaryInterceptor(s.intercept),
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

// stop lets the calls that are being answered end, for a while.
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
		conns.close() // Stop would wait for those that have not said anything yet.
		g.Stop()      // Lets GracefulStop return.
		<-stopped
	}
}

// intercept is the way of every call: the bucket, the answer, the observer.
func (s *Server) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	service, endpoint := path.Split(strings.TrimPrefix(info.FullMethod, "/"))
	version, _, _ := strings.Cut(service, ".")
	if !s.limiter.Allow() {
		s.observer.Limited(endpoint, version)
		return nil, status.Error(codes.ResourceExhausted, "rejected by rate limit")
	}
	response, err := handler(ctx, request)
	s.observer.Served(endpoint, version, err)
	return response, err
}

// state is the snapshot that a call is answered from.
func (s *Server) state() (*node.State, error) {
	if s.unavailable != nil {
		if err := s.unavailable(); err != nil {
			return nil, status.Error(codes.Unavailable, err.Error())
		}
	}
	if state := s.snapshots.State(); state != nil {
		return state, nil
	}
	return nil, status.Error(codes.Unavailable, "the node's state is not read yet; try again")
}

// serviceV1 is v1.PodResourcesLister.
type serviceV1 struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
	server *Server
}

// List answers with all pods. The response is encoded already; see encodedList.
func (v serviceV1) List(context.Context, *podresourcesv1.ListPodResourcesRequest) (*podresourcesv1.ListPodResourcesResponse, error) {
	state, err := v.server.state()
	if err != nil {
		return nil, err
	}
	response, err := v.server.list.of(state, encodedList)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "the answer cannot be encoded: %v", err)
	}
	return response, nil
}

// Get answers with one pod, or NotFound (R-API-20).
func (v serviceV1) Get(_ context.Context, r *podresourcesv1.GetPodResourcesRequest) (*podresourcesv1.GetPodResourcesResponse, error) {
	state, err := v.server.state()
	if err != nil {
		return nil, err
	}
	g, ok := find(state, r.GetPodNamespace(), r.GetPodName())
	if !ok {
		return nil, status.Errorf(codes.NotFound, "pod %s in namespace %s not found", r.GetPodName(), r.GetPodNamespace())
	}
	return &podresourcesv1.GetPodResourcesResponse{PodResources: podResources(g, state.Devices().Inventory())}, nil
}

// GetAllocatableResources answers with what could be exclusive; see allocatable.
func (v serviceV1) GetAllocatableResources(context.Context, *podresourcesv1.AllocatableResourcesRequest) (*podresourcesv1.AllocatableResourcesResponse, error) {
	state, err := v.server.state()
	if err != nil {
		return nil, err
	}
	return allocatable(state), nil
}

// serviceAlpha is the service v1alpha1.PodResourcesLister.
type serviceAlpha struct {
	v1alpha1.UnimplementedPodResourcesListerServer
	server *Server
}

// List answers with the devices of all pods.
func (v serviceAlpha) List(context.Context, *v1alpha1.ListPodResourcesRequest) (*v1alpha1.ListPodResourcesResponse, error) {
	state, err := v.server.state()
	if err != nil {
		return nil, err
	}
	return v.server.listAlpha.of(state, func(s *node.State) (*v1alpha1.ListPodResourcesResponse, error) { return listAlpha(s), nil })
}
