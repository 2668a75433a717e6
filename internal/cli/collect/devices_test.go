package collect

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletdevices"
)

// podResources is a kubelet's PodResources service with a device near NUMA node 0 and one near 1.
var podResources = grpc.ServiceDesc{
	ServiceName: "v1.PodResourcesLister", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "GetAllocatableResources",
		Handler: func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
			answer := &emptypb.Empty{} // Its unknown fields are those of AllocatableResourcesResponse.
			answer.ProtoReflect().SetUnknown(append(device("gpu0", nil), device("gpu1", []byte{1 << 3, 1})...))
			return answer, nil
		},
	}},
}

// device returns a field of the answer, with an id and an encoded NUMANode.
func device(id string, node []byte) []byte {
	field := func(to []byte, number protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), value)
	}
	d := field(field(field(nil, 1, []byte("example.com/gpu")), 2, []byte(id)), 3, field(nil, 1, node))
	return field(nil, 1, d)
}

// TestDevicesOfKubelet runs the part of the script that asks a kubelet for its devices, with the
// curl of this machine. A socket without a kubelet gives no answer, and no PodResources gives none
// either.
func TestDevicesOfKubelet(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl here")
	}
	_, rest, _ := strings.Cut(lastPart, "devices_of_kubelet() {\n")
	body, _, found := strings.Cut(rest, "\n}\n")
	if !found {
		t.Fatal("the script has no function devices_of_kubelet")
	}
	ask := func(register func(*grpc.Server)) []byte {
		directory := t.TempDir()
		if register != nil {
			serve(t, filepath.Join(directory, "pod-resources", "kubelet.sock"), register)
		}
		script := exec.CommandContext(t.Context(), "sh", "-c", `feed_host() { "$@"; }`+"\n"+body)
		script.Env = append(os.Environ(), "directory="+directory)
		answer, _ := script.Output() // Without a kubelet, curl fails.
		return answer
	}
	got, err := kubeletdevices.ReadAllocatable(ask(func(s *grpc.Server) { s.RegisterService(&podResources, struct{}{}) }))
	want := []kubeletdevices.Device{
		{Resource: "example.com/gpu", ID: "gpu0", Nodes: mask.Of(0)}, {Resource: "example.com/gpu", ID: "gpu1", Nodes: mask.Of(1)},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for name, register := range map[string]func(*grpc.Server){"no kubelet": nil, "no PodResources": func(*grpc.Server) {}} {
		if answer := ask(register); len(answer) > 0 {
			t.Errorf("%s: got %q", name, answer)
		}
	}
}

// serve serves at a socket until the test ends.
func serve(t *testing.T, socket string, register func(*grpc.Server)) {
	t.Helper()
	if err := os.Mkdir(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	register(s)
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(s.Stop)
}
