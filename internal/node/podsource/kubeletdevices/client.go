package kubeletdevices

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// DefaultSocket is the kubelet's socket.
const DefaultSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"

// The times of a call.
const (
	// longest is how long a call takes at most, unless the caller has less time.
	longest = 5 * time.Second
	// pause is the wait after an answer of the kubelet's rate limit, which is 100 calls a second.
	pause = 20 * time.Millisecond
)

const (
	// maxHeader is the size of an answer's header in bytes: a kubelet's has some hundred.
	maxHeader = 16 << 10
	// maxReason is how much of an error's text is kept, in bytes. It is logged with each pod.
	maxReason = 1 << 10
)

// ErrUnknownPod is wrapped by the error of Pod for a pod that the kubelet does not list.
var ErrUnknownPod = errors.New("the kubelet lists no devices of the pod")

// Client asks one kubelet. It is safe for use by several goroutines. Errors name the socket.
type Client struct {
	socket string
	conn   *grpc.ClientConn
	after  func(time.Duration) <-chan time.Time
	// withoutGet is true while the kubelet has no Get.
	withoutGet atomic.Bool
}

// New returns a client. It connects with the first call. after is time.After.
func New(socket string, after func(time.Duration) <-chan time.Time) (*Client, error) {
	conn, err := grpc.NewClient("passthrough:///podresources",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"), grpc.WithDisableServiceConfig(),
		grpc.WithMaxHeaderListSize(maxHeader),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer), grpc.ForceCodec(codec{})))
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", socket, err)
	}
	return &Client{socket: socket, conn: conn, after: after}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Pod asks for one pod. The error wraps ErrUnknownPod if the kubelet does not list it.
func (c *Client) Pod(ctx context.Context, namespace, name string) (Pod, error) {
	pods, err := c.named(ctx, namespace, name)
	switch {
	case err != nil:
		return Pod{}, fmt.Errorf("socket %s: pod %s/%s: %w", c.socket, namespace, name, err)
	case len(pods) == 0:
		return Pod{}, fmt.Errorf("socket %s: pod %s/%s: %w", c.socket, namespace, name, ErrUnknownPod)
	case len(pods) > 1: // A static pod that is replaced: the answer has no UIDs.
		return Pod{}, fmt.Errorf("socket %s: pod %s/%s: the kubelet lists %d pods of that name", c.socket, namespace, name, len(pods))
	}
	return pods[0], nil
}

// List asks for all pods.
func (c *Client) List(ctx context.Context) ([]Pod, error) {
	pods, err := c.call(ctx, "List", nil, func(*Pod) bool { return true })
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", c.socket, err)
	}
	return pods, nil
}

// named returns the pods of a name, by Get, or by List if the kubelet has no Get.
func (c *Client) named(ctx context.Context, namespace, name string) ([]Pod, error) {
	keep := func(p *Pod) bool { return p.Namespace == namespace && p.Name == name }
	if !c.withoutGet.Load() {
		var request []byte
		request = protowire.AppendString(protowire.AppendTag(request, podName, protowire.BytesType), name)
		request = protowire.AppendString(protowire.AppendTag(request, podNamespace, protowire.BytesType), namespace)
		pods, err := c.call(ctx, "Get", request, keep)
		switch {
		case status.Code(err) == codes.NotFound, status.Code(err) == codes.Unknown && strings.HasSuffix(status.Convert(err).Message(), "not found"):
			return nil, nil
		case status.Code(err) != codes.Unimplemented && !strings.Contains(status.Convert(err).Message(), "Get method disabled"):
			return pods, err
		}
		c.withoutGet.Store(true)
	}
	pods, err := c.call(ctx, "List", nil, keep)
	if err != nil {
		c.withoutGet.Store(false) // It may be another kubelet next time.
	}
	return pods, err
}

// call calls a method of v1. It repeats a call that the kubelet's rate limit rejected.
func (c *Client) call(ctx context.Context, method string, request []byte, keep func(*Pod) bool) ([]Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for {
		to := answer{keep: keep}
		err := c.conn.Invoke(ctx, "/v1.PodResourcesLister/"+method, request, &to)
		if status.Code(err) == codes.ResourceExhausted && strings.Contains(status.Convert(err).Message(), "rate limit") {
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("%s: %w: %w", method, context.Cause(ctx), err)
			case <-c.after(pause):
				continue
			}
		}
		if s := status.Convert(err); len(s.Message()) > maxReason {
			err = status.Error(s.Code(), strings.ToValidUTF8(s.Message()[:maxReason], "")+" …")
		}
		if err == nil {
			err = to.err
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		return to.pods, nil
	}
}

// codec sends requests that are encoded already, and reads answers by parse.
type codec struct{}

// answer is the destination of an answer.
type answer struct {
	keep func(*Pod) bool
	pods []Pod
	err  error
}

// Name is grpc's: the encoding is that of protobuf.
func (codec) Name() string { return "proto" }

// Marshal is grpc's.
func (codec) Marshal(v any) ([]byte, error) {
	if data, is := v.([]byte); is {
		return data, nil
	}
	return nil, fmt.Errorf("cannot send a %T", v)
}

// Unmarshal is grpc's.
func (codec) Unmarshal(data []byte, v any) error {
	to, is := v.(*answer)
	if !is {
		return fmt.Errorf("cannot receive a %T", v)
	}
	to.pods, to.err = parse(data, to.keep)
	return nil
}
