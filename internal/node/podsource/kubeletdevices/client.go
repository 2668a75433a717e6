package kubeletdevices

import (
	"context"
	"encoding/binary"
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

	"github.com/paddock-project/paddock/internal/core/mask"
)

// DefaultSocket is the default path of the kubelet's PodResources socket.
const DefaultSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"

// These are the times of a call.
const (
	// longest limits the time of a call. The caller may have less time.
	longest = 5 * time.Second
	// pause is the wait after the kubelet's rate limit rejected a call. The limit is 100 calls a
	// second.
	pause = 20 * time.Millisecond
)

const (
	// maxHeader limits the header of an answer, in bytes. A kubelet's header has a few hundred
	// bytes.
	maxHeader = 16 << 10
	// maxReason limits the stored text of an error, in bytes. It is logged with each pod.
	maxReason = 1 << 10
)

// ErrUnknownPod is wrapped by the error of Pod for a pod that the kubelet does not list.
var ErrUnknownPod = errors.New("the kubelet lists no devices of the pod")

// Client asks one kubelet. It is safe for use by several goroutines. Errors name the socket.
type Client struct {
	socket string
	conn   *grpc.ClientConn
	after  func(time.Duration) <-chan time.Time
	// withoutGet is true if the kubelet has no Get.
	withoutGet atomic.Bool
}

// New returns a client. It connects at the first call. after is time.After.
func New(socket string, after func(time.Duration) <-chan time.Time) (*Client, error) {
	conn, err := Dial(socket, grpc.MaxCallRecvMsgSize(maxAnswer), grpc.ForceCodec(codec{}))
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", socket, err)
	}
	return &Client{socket: socket, conn: conn, after: after}, nil
}

// Dial returns a connection to a gRPC socket of the kubelet. It connects at the first call.
func Dial(socket string, calls ...grpc.CallOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///kubelet",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"), grpc.WithDisableServiceConfig(),
		grpc.WithMaxHeaderListSize(maxHeader), grpc.WithDefaultCallOptions(calls...))
}

// Bounded returns an error of gRPC with a text that is not too long to be logged again and again.
func Bounded(err error) error {
	if s := status.Convert(err); len(s.Message()) > maxReason {
		return status.Error(s.Code(), strings.ToValidUTF8(s.Message()[:maxReason], "")+" …")
	}
	return err
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
	case len(pods) > 1: // The answer has no UIDs, so these may be a static pod and its replacement.
		return Pod{}, fmt.Errorf("socket %s: pod %s/%s: the kubelet lists %d pods of that name", c.socket, namespace, name, len(pods))
	}
	return pods[0], nil
}

// List requests all pods.
func (c *Client) List(ctx context.Context) ([]Pod, error) {
	pods, err := c.call(ctx, "List", nil, func(*Pod) bool { return true })
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", c.socket, err)
	}
	return pods, nil
}

// Allocatable returns the healthy devices of device plugins, each once, whether a pod has them or
// not.
func (c *Client) Allocatable(ctx context.Context) ([]Device, error) {
	var devices []Device
	err := c.invoke(ctx, "GetAllocatableResources", nil, func(data []byte) (err error) {
		devices, err = parseAllocatable(data)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", c.socket, err)
	}
	return devices, nil
}

// prefix is the number of bytes that gRPC puts before a message: a byte that is 1 if the message is
// compressed, and four with its length.
const prefix = 5

// ReadAllocatable reads the body of an answer to GetAllocatableResources, as another HTTP client
// received it.
func ReadAllocatable(body []byte) ([]Device, error) {
	switch {
	case len(body) < prefix || body[0] > 1:
		return nil, errMalformed
	case body[0] == 1:
		return nil, fmt.Errorf("%w: it is compressed", errMalformed)
	}
	if has, want := len(body)-prefix, binary.BigEndian.Uint32(body[1:]); uint64(has) != uint64(want) {
		return nil, fmt.Errorf("%w: it has %d of %d bytes", errMalformed, has, want)
	}
	if len(body) > maxAnswer {
		return nil, errTooMuch
	}
	return parseAllocatable(body[prefix:])
}

// Places returns the NUMA nodes of devices, by resource and id.
func Places(devices []Device) map[string]map[string]mask.Mask {
	places := map[string]map[string]mask.Mask{}
	for _, d := range devices {
		if places[d.Resource] == nil {
			places[d.Resource] = map[string]mask.Mask{}
		}
		places[d.Resource][d.ID] = d.Nodes
	}
	return places
}

// named returns the pods with a name. It uses Get, or List if the kubelet has no Get.
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
		c.withoutGet.Store(false) // The next call may reach another kubelet.
	}
	return pods, err
}

// call calls a method that returns pods.
func (c *Client) call(ctx context.Context, method string, request []byte, keep func(*Pod) bool) (pods []Pod, err error) {
	err = c.invoke(ctx, method, request, func(data []byte) (err error) {
		pods, err = parse(data, keep)
		return err
	})
	return pods, err
}

// invoke calls a method of v1. It repeats a call that the kubelet's rate limit rejected.
func (c *Client) invoke(ctx context.Context, method string, request []byte, read func(data []byte) error) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for {
		to := answer{read: read}
		err := c.conn.Invoke(ctx, "/v1.PodResourcesLister/"+method, request, &to)
		if status.Code(err) == codes.ResourceExhausted && strings.Contains(status.Convert(err).Message(), "rate limit") {
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s: %w: %w", method, context.Cause(ctx), err)
			case <-c.after(pause):
				continue
			}
		}
		err = Bounded(err)
		if err == nil {
			err = to.err
		}
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		return nil
	}
}

// codec sends requests that are already encoded, and passes on the bytes of answers.
type codec struct{}

// answer reads an answer. err is the error of read.
type answer struct {
	read func(data []byte) error
	err  error
}

// Name implements gRPC's encoding.Codec. The encoding is that of protobuf.
func (codec) Name() string { return "proto" }

// Marshal implements gRPC's encoding.Codec.
func (codec) Marshal(v any) ([]byte, error) {
	if data, is := v.([]byte); is {
		return data, nil
	}
	return nil, fmt.Errorf("cannot send a %T", v)
}

// Unmarshal implements gRPC's encoding.Codec.
func (codec) Unmarshal(data []byte, v any) error {
	to, is := v.(*answer)
	if !is {
		return fmt.Errorf("cannot receive a %T", v)
	}
	if data == nil {
		data = []byte{} // gRPC passes nil for an empty message.
	}
	to.err = to.read(data)
	return nil
}
