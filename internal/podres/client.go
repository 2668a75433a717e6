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

// These are the messages of version v1 that callers of a Client must name.
type (
	// PodResources is what a pod holds.
	PodResources = podresourcesv1.PodResources
	// ContainerResources is what a container holds.
	ContainerResources = podresourcesv1.ContainerResources
	// ContainerMemory is memory of one type on a set of NUMA nodes.
	ContainerMemory = podresourcesv1.ContainerMemory
	// ContainerDevices are devices of one resource on a set of NUMA nodes.
	ContainerDevices = podresourcesv1.ContainerDevices
)

var (
	// ErrNobodyListens is wrapped by the errors of Dial for a socket that is not there or that was
	// left behind.
	ErrNobodyListens = errors.New("no process answers there")
	// ErrNoPod is wrapped by the error of Get for a pod that the server does not know.
	ErrNoPod = errors.New("no such pod")
)

// maxResponse is the size of a response in bytes that a Client reads. A thousand containers are
// about 100 KiB.
const maxResponse = 64 << 20

// Client asks a PodResources server, Paddock's or a kubelet's. It is safe for use by several
// goroutines. Errors name the socket.
type Client struct {
	path   string
	conn   *grpc.ClientConn
	lister podresourcesv1.PodResourcesListerClient
}

// Dial finds out whether somebody listens on the unix socket at path and makes a client, to be
// closed. ctx is for the finding out.
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
		return fmt.Errorf("socket %s: %w: there is no such file", path, ErrNobodyListens)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("socket %s: %w: it was left behind, or is no socket", path, ErrNobodyListens)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("socket %s: %w: try as root", path, fs.ErrPermission)
	}
	return fmt.Errorf("socket %s: %w", path, err)
}

// Close ends the connection; calls that wait for an answer fail.
func (c *Client) Close() error { return c.conn.Close() }

// List asks for all pods.
func (c *Client) List(ctx context.Context) (*podresourcesv1.ListPodResourcesResponse, error) {
	response, err := c.lister.List(ctx, &podresourcesv1.ListPodResourcesRequest{})
	return response, c.explain("List", err)
}

// Get asks for one pod. The error wraps ErrNoPod when it is not there.
func (c *Client) Get(ctx context.Context, namespace, name string) (*podresourcesv1.GetPodResourcesResponse, error) {
	response, err := c.lister.Get(ctx, &podresourcesv1.GetPodResourcesRequest{PodNamespace: namespace, PodName: name})
	return response, c.explain("Get", err)
}

// Allocatable asks for what could be exclusive on the node.
func (c *Client) Allocatable(ctx context.Context) (*podresourcesv1.AllocatableResourcesResponse, error) {
	response, err := c.lister.GetAllocatableResources(ctx, &podresourcesv1.AllocatableResourcesRequest{})
	return response, c.explain("GetAllocatableResources", err)
}

// explain says where an error comes from. It stays a gRPC status: status.Code finds its code.
func (c *Client) explain(endpoint string, err error) error {
	if err == nil {
		return nil
	}
	return &callError{where: "socket " + c.path + ": " + endpoint, status: status.Convert(err)}
}

// callError is a gRPC status in words for people.
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
