package podres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Messages of version v1, for callers of a Client.
type (
	// PodResources is what a pod has.
	PodResources = podresourcesv1.PodResources
	// ContainerResources is what a container has.
	ContainerResources = podresourcesv1.ContainerResources
	// ContainerMemory is memory of one type on a set of NUMA nodes.
	ContainerMemory = podresourcesv1.ContainerMemory
	// ContainerDevices are devices of one resource on a set of NUMA nodes.
	ContainerDevices = podresourcesv1.ContainerDevices
)

var (
	// ErrNoListener is wrapped by the errors of Dial for a socket that does not exist, or that an
	// ended process left.
	ErrNoListener = errors.New("no process answers there")
	// ErrNoPod is wrapped by the error of Get for a pod that the server does not know.
	ErrNoPod = errors.New("no such pod")
)

// maxResponse is the largest response that a Client reads, in bytes. A thousand containers are
// about 100 KiB.
const maxResponse = 64 << 20

// Client asks a PodResources server, Paddock's or a kubelet's. It is safe for use by several
// goroutines. Errors name the socket.
type Client struct {
	path   string
	conn   *grpc.ClientConn
	lister podresourcesv1.PodResourcesListerClient
}

// Dial checks that a process listens on the unix socket at path, within ctx, and returns a client.
// The caller closes it.
func Dial(ctx context.Context, path string) (*Client, error) {
	if err := checkPath(path, maxPath); err != nil {
		return nil, err
	}
	connect := func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	probe, err := connect(ctx, path)
	if err != nil {
		return nil, explainDial(path, err)
	}
	probe.Close()
	conn, err := grpc.NewClient("passthrough:///podresources",
		grpc.WithContextDialer(connect),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponse)))
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	return &Client{path: path, conn: conn, lister: podresourcesv1.NewPodResourcesListerClient(conn)}, nil
}

func explainDial(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("socket %s: %w: there is no such file", path, ErrNoListener)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("socket %s: %w: it was left behind, or is not a socket", path, ErrNoListener)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("socket %s: %w: try as root", path, fs.ErrPermission)
	}
	return fmt.Errorf("socket %s: %w", path, err)
}

// Close ends the connection; calls that wait for an answer fail.
func (c *Client) Close() error { return c.conn.Close() }

// List asks for all pods. extras, of which there is at most one, gets what the messages have no
// field for.
func (c *Client) List(ctx context.Context, extras ...*Extras) (*podresourcesv1.ListPodResourcesResponse, error) {
	ctx, trailer, option := asking(ctx, extras)
	response, err := c.lister.List(ctx, &podresourcesv1.ListPodResourcesRequest{}, option)
	fill(extras, trailer)
	return response, c.explain("List", err)
}

// Get asks for one pod, as List does. The error wraps ErrNoPod when it is not there.
func (c *Client) Get(ctx context.Context, namespace, name string, extras ...*Extras) (*podresourcesv1.GetPodResourcesResponse, error) {
	ctx, trailer, option := asking(ctx, extras)
	response, err := c.lister.Get(ctx, &podresourcesv1.GetPodResourcesRequest{PodNamespace: namespace, PodName: name}, option)
	fill(extras, trailer)
	return response, c.explain("Get", err)
}

// Allocatable asks for what could be exclusive on the node.
func (c *Client) Allocatable(ctx context.Context) (*podresourcesv1.AllocatableResourcesResponse, error) {
	response, err := c.lister.GetAllocatableResources(ctx, &podresourcesv1.AllocatableResourcesRequest{})
	return response, c.explain("GetAllocatableResources", err)
}

// explain adds the socket and the endpoint to an error. It stays a gRPC status: status.Code finds
// its code.
func (c *Client) explain(endpoint string, err error) error {
	if err == nil {
		return nil
	}
	return &callError{where: "socket " + c.path + ": " + endpoint, status: status.Convert(err)}
}

// callError is a gRPC status with a text for people.
type callError struct {
	where  string
	status *status.Status
}

func (e *callError) Error() string {
	return fmt.Sprintf("%s: %s (%s)", e.where, e.status.Message(), e.status.Code())
}

func (e *callError) Unwrap() error { return e.status.Err() }

func (e *callError) Is(target error) bool {
	return target == ErrNoPod && e.status.Code() == codes.NotFound
}
