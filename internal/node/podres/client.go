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
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// Messages of version v1, for callers of a Client.
type (
	// PodResources describes the resources of a pod.
	PodResources = podresourcesv1.PodResources
	// ContainerResources describes the resources of a container.
	ContainerResources = podresourcesv1.ContainerResources
	// ContainerMemory describes memory of one type on a set of NUMA nodes.
	ContainerMemory = podresourcesv1.ContainerMemory
	// ContainerDevices describes devices of one resource on a set of NUMA nodes.
	ContainerDevices = podresourcesv1.ContainerDevices
)

var (
	// ErrNoListener is wrapped by errors of Dial if the socket does not exist or was left behind by
	// a process that has ended.
	ErrNoListener = errors.New("no process answers there")
	// ErrNoPod is wrapped by errors of Get if the server does not know the pod.
	ErrNoPod = errors.New("no such pod")
)

// CPUs returns the set of CPU ids in a message, and the ids that no CPU can have.
func CPUs(ids []int64) (_ cpuset.Set, others []int64) {
	var cpus cpuset.Builder
	for _, id := range ids {
		if id < 0 || id > cpuset.MaxID {
			others = append(others, id)
			continue
		}
		cpus.Add(int(id))
	}
	return cpus.Set(), others
}

// maxResponse is the maximum size in bytes of a response that a Client reads. A thousand containers
// take about 100 KiB.
const maxResponse = 64 << 20

// Client is a client of a PodResources server, either Paddock's or a kubelet's. It is safe for
// concurrent use. Its errors name the socket.
type Client struct {
	path   string
	conn   *grpc.ClientConn
	lister podresourcesv1.PodResourcesListerClient
}

// Dial checks that a process listens on the unix socket at path and returns a client. ctx limits
// the check. The caller must close the client.
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

// Close closes the connection. Calls that wait for an answer fail.
func (c *Client) Close() error { return c.conn.Close() }

// List requests all pods. It takes at most one extras, which receives the data that the messages
// have no fields for.
func (c *Client) List(ctx context.Context, extras ...*Extras) (*podresourcesv1.ListPodResourcesResponse, error) {
	if len(extras) > 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, askCaches, "1")
	}
	ctx, trailer, option := asking(ctx, extras)
	response, err := c.lister.List(ctx, &podresourcesv1.ListPodResourcesRequest{}, option)
	fill(extras, trailer)
	return response, c.explain("List", err)
}

// Get requests one pod. It uses extras like List. The error wraps ErrNoPod if there is no such pod.
func (c *Client) Get(ctx context.Context, namespace, name string, extras ...*Extras) (*podresourcesv1.GetPodResourcesResponse, error) {
	ctx, trailer, option := asking(ctx, extras)
	response, err := c.lister.Get(ctx, &podresourcesv1.GetPodResourcesRequest{PodNamespace: namespace, PodName: name}, option)
	fill(extras, trailer)
	return response, c.explain("Get", err)
}

// Allocatable requests the resources that could be exclusive on the node.
func (c *Client) Allocatable(ctx context.Context) (*podresourcesv1.AllocatableResourcesResponse, error) {
	response, err := c.lister.GetAllocatableResources(ctx, &podresourcesv1.AllocatableResourcesRequest{})
	return response, c.explain("GetAllocatableResources", err)
}

// explain adds the socket and the endpoint to an error. The result is still a gRPC status:
// status.Code returns its code.
func (c *Client) explain(endpoint string, err error) error {
	if err == nil {
		return nil
	}
	return &callError{where: "socket " + c.path + ": " + endpoint, status: status.Convert(err)}
}

// callError is a gRPC status with a text for users.
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
