package kubeletdevices

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// answering serves every method with respond, on a unix socket. It returns a client of this server.
func answering(t *testing.T, respond func(grpc.ServerStream) error, options ...grpc.ServerOption) *Client {
	t.Helper()
	l := listen(t)
	server := grpc.NewServer(append(options, grpc.ForceServerCodec(codec{}),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			if err := stream.RecvMsg(&answer{read: func([]byte) error { return nil }}); err != nil {
				return err
			}
			return respond(stream)
		}))...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() { server.Stop(); <-done })
	return client(t, l.Addr().String())
}

// TestTenThousandAnswers: whatever a server answers, over gRPC on a unix socket, a call ends with
// an error or with a value, and the memory that is kept is bounded. Half of the answers are to Get,
// half to List.
func TestTenThousandAnswers(t *testing.T) {
	const calls = 10_000
	damage := damager{rand.New(rand.NewPCG(16, 4)), encoded(t, train(), &podresourcesv1.PodResources{Namespace: "a", Name: "b"})}
	var answer []byte
	var failure error
	c := answering(t, func(stream grpc.ServerStream) error {
		if failure != nil {
			return failure
		}
		return stream.SendMsg(answer)
	})
	var values, failed int
	for i := range calls {
		what, data := damage.answer(i)
		answer, failure = data, nil
		if what == "status" {
			failure = status.Error(codes.Code(1+damage.IntN(20)), string(data))
		}
		var pods []Pod
		var err error
		if i%2 == 0 {
			pods, err = c.List(t.Context())
		} else if pod, failure := c.Pod(t.Context(), "default", "train"); failure != nil {
			err = failure
		} else if pods = []Pod{pod}; pod.Name != "train" {
			t.Fatalf("%s %x: another pod, %q", what, answer, pod.Name)
		}
		switch {
		case err != nil && (pods != nil || len(err.Error()) > 2*maxReason):
			t.Fatalf("%s %x: both %v and an error of %d bytes", what, answer, pods, len(err.Error()))
		case kept(pods) > maxKept:
			t.Fatalf("%s %x: %d bytes are kept", what, answer, kept(pods))
		case err != nil:
			failed++
		default:
			values++
		}
	}
	t.Logf("%d values, %d errors", values, failed)
	if values < calls/100 || failed < calls/2 {
		t.Errorf("%d answers are values and %d errors: they are not as varied as they should be", values, failed)
	}
}

// TestWrongTypes: a field whose type differs from the API's is an error, and never becomes NUMA
// node 0 or an empty name.
func TestWrongTypes(t *testing.T) {
	number := func(field protowire.Number) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), 7)
	}
	text := func(field protowire.Number) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, field, protowire.BytesType), "7")
	}
	in := func(message []byte, numbers ...protowire.Number) []byte {
		return inside(message, append([]protowire.Number{responsePods}, numbers...)...)
	}
	for name, answer := range map[string][]byte{
		"a pod":                 number(responsePods),
		"a name":                in(number(podName)),
		"a container":           in(number(podContainers)),
		"devices":               in(number(containerDevices), podContainers),
		"a resource":            in(number(devicesResource), podContainers, containerDevices),
		"an id":                 in(number(devicesIDs), podContainers, containerDevices),
		"a topology":            in(number(devicesTopology), podContainers, containerDevices),
		"a NUMA node":           in(number(topologyNodes), podContainers, containerDevices, devicesTopology),
		"the id of a NUMA node": in(text(nodeID), podContainers, containerDevices, devicesTopology, topologyNodes),
		"a claim":               in(number(containerDynamic), podContainers),
		"the name of a claim":   in(number(dynamicClaim), podContainers, containerDynamic),
		"a claim's device":      in(number(dynamicResources), podContainers, containerDynamic),
		"a driver":              in(number(resourceDriver), podContainers, containerDynamic, dynamicResources),
		"a CDI device":          in(number(resourceCDI), podContainers, containerDynamic, dynamicResources),
		"a CDI device's name":   in(number(cdiName), podContainers, containerDynamic, dynamicResources, resourceCDI),
	} {
		if pods, err := parse(answer, everyPod); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %v, %v", name, pods, err)
		}
	}
	// Fields that are not read can have any type; e.g. cpu_ids need not be packed.
	if pods, err := parse(in(number(4)), everyPod); err != nil || len(pods) != 1 {
		t.Errorf("cpu_ids: %v, %v", pods, err)
	}
}

// TestGiganticAnswers: an answer that is gigantic in any way ends with an error, and takes no more
// memory than a few of the largest answers that are read.
func TestGiganticAnswers(t *testing.T) {
	gigantic := make([]byte, 4*maxAnswer)
	for name, answer := range map[string]func(grpc.ServerStream) error{
		"a message": func(s grpc.ServerStream) error { return s.SendMsg(gigantic) },
		"messages without end": func(s grpc.ServerStream) error {
			for {
				if err := s.SendMsg(gigantic[:maxAnswer]); err != nil {
					return err
				}
			}
		},
		"an error": func(grpc.ServerStream) error { return status.Error(codes.Internal, strings.Repeat("x", 4<<20)) },
		"a header": func(s grpc.ServerStream) error { return s.SendHeader(metadata.Pairs("x", strings.Repeat("x", 4<<20))) },
		"a trailer": func(s grpc.ServerStream) error {
			s.SetTrailer(metadata.Pairs("x", strings.Repeat("x", 4<<20)))
			return s.SendMsg([]byte{})
		},
		"compressed": func(s grpc.ServerStream) error {
			return errors.Join(grpc.SetSendCompressor(s.Context(), gzip.Name), s.SendMsg(gigantic[:maxAnswer+1]))
		},
	} {
		c := answering(t, answer, grpc.MaxSendMsgSize(8*maxAnswer))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		pods, err := c.List(t.Context())
		runtime.ReadMemStats(&after)
		more := int64(after.HeapSys) - int64(before.HeapSys)
		late := status.Code(err) == codes.DeadlineExceeded // The machine may be slow.
		if name == "compressed" && status.Code(err) != codes.ResourceExhausted && !late || err == nil || more > 8*maxAnswer {
			t.Errorf("%s: %v, %v, with %d MiB more", name, pods, err, more>>20)
		}
	}
}

// TestHostileServers: whatever answers at the socket, the call ends with an error within the
// caller's time.
func TestHostileServers(t *testing.T) {
	// The bytes are the settings of the connection, and the header of the answer to the first call:
	// status 200, content-type.
	header := append([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 20, 1, 4, 0, 0, 0, 1, 0x88, 0x0f, 0x10, 0x10}, "application/grpc"...)
	repeatedly := func(first, then []byte, pause time.Duration) func(context.Context, net.Conn) {
		return func(_ context.Context, c net.Conn) {
			_, err := c.Write(first)
			for err == nil {
				<-time.After(pause)
				_, err = c.Write(then)
			}
		}
	}
	for name, serve := range map[string]func(context.Context, net.Conn){
		"silent": func(ctx context.Context, _ net.Conn) { <-ctx.Done() },
		"closes": func(_ context.Context, c net.Conn) { _ = c.Close() },
		"other text": func(_ context.Context, c net.Conn) {
			_, _ = c.Write([]byte(strings.Repeat("HTTP/1.1 200 OK\r\n", 1000)))
		},
		"frames without end": repeatedly(nil, slices.Repeat([]byte{0, 0, 0, 6, 0, 0, 0, 0, 0}, 100), 0),
		// These are slow: a message of 256 bytes, sent one byte at a time; frequent empty frames;
		// pings; the beginning of a message of 4 GiB.
		"a byte at a time":   repeatedly(slices.Concat(header, []byte{0, 0, 5, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0}), []byte{0, 0, 1, 0, 0, 0, 0, 0, 1, 0}, 10*time.Millisecond),
		"empty frames":       repeatedly(header, []byte{0, 0, 0, 0, 0, 0, 0, 0, 1}, time.Millisecond),
		"pings":              repeatedly(header, []byte{0, 0, 8, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, time.Millisecond),
		"a message of 4 GiB": repeatedly(slices.Concat(header, []byte{0, 0, 5, 0, 0, 0, 0, 0, 1, 0, 255, 255, 255, 255}), make([]byte, 9), time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t)
			ctx, cancel := context.WithCancel(t.Context())
			var connections sync.WaitGroup
			connections.Go(func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					context.AfterFunc(ctx, func() { _ = conn.Close() })
					connections.Go(func() { _, _ = io.Copy(io.Discard, conn) })
					connections.Go(func() {
						serve(ctx, conn)
						_ = conn.Close()
					})
				}
			})
			within, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer stop()
			pod, err := client(t, l.Addr().String()).Pod(within, "default", "train")
			cancel()
			_ = l.Close()
			connections.Wait()
			if err == nil {
				t.Errorf("no error, and %v", pod)
			}
		})
	}
}
