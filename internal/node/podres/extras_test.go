package podres

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// TestPlaces checks that a client that asks gets the places of the devices of claims and device
// plugins, with List for all pods and with Get for one pod. Other clients get only what a kubelet
// sends.
func TestPlaces(t *testing.T) {
	c := exclusive("app", request.App, 1, gib)
	c.Given = []request.Given{
		{Driver: "gpu.example.com", Pool: "p", Name: "gpu0", Claim: "gpus", Nodes: mask.Of(0)},
		{Resource: "a.example/nic", Name: "far", Nodes: mask.Of(1)},
		{Resource: "a.example/nic", Name: "unknown"},
	}
	pod, bestEffort := plain("train", c), policy(node.PodScope)
	bestEffort.Topology, bestEffort.StaticMemory, bestEffort.ReservedMemory = node.TopologyBestEffort, false, nil
	client := dial(t, start(t, publish(admit(t, emptyNode(t, hardware{2, 8}, bestEffort), pod, dns())), unlimited))
	place := func(of, pool, device string, remote bool, nodes ...int64) Place {
		return Place{Namespace: pod.Namespace, Pod: pod.Name, Container: "app", Of: of, Pool: pool, Device: device, Remote: remote, NUMANodes: nodes}
	}
	want := Places{place("gpu.example.com", "p", "gpu0", false, 0), place("a.example/nic", "", "far", true, 1), place("a.example/nic", "", "unknown", false)}
	var all, one, other Extras
	if _, err := client.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Get(t.Context(), pod.Namespace, pod.Name, &one); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Get(t.Context(), dns().Namespace, dns().Name, &other); err != nil || len(other.Places) > 0 {
		t.Errorf("of a pod without devices: %v, %v", other, err)
	}
	if diff := cmp.Diff([]Places{want, want}, []Places{all.Places, one.Places}); diff != "" {
		t.Error(diff)
	}
	var trailer metadata.MD
	if _, err := client.lister.List(t.Context(), &podresourcesv1.ListPodResourcesRequest{}, grpc.Trailer(&trailer)); err != nil || len(trailer) > 0 {
		t.Errorf("a client that does not ask gets %v, %v", trailer, err)
	}
}

// TestForeignPlaces checks that arbitrary data in the trailer does not disturb the answer.
func TestForeignPlaces(t *testing.T) {
	for _, text := range []string{"", "[", `{"a":1}`, `[{"numaNodes":["x"]}]`, "null", "\xff"} {
		foreign := grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			_ = grpc.SetTrailer(ctx, metadata.Pairs(answerPlaces, text, answerMoves, text))
			return handler(ctx, request)
		})
		server := grpc.NewServer(foreign)
		podresourcesv1.RegisterPodResourcesListerServer(server, empty{})
		path := t.TempDir() + "/s"
		l, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = server.Serve(l)
		}()
		var extras Extras
		if _, err := dial(t, path).List(t.Context(), &extras); err != nil || len(extras.Places)+len(extras.Moves) > 0 {
			t.Errorf("%q: %v, %v", text, extras, err)
		}
		server.Stop()
		<-done
	}
}

// empty is a server that has no pods.
type empty struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
}

func (empty) List(context.Context, *podresourcesv1.ListPodResourcesRequest) (*podresourcesv1.ListPodResourcesResponse, error) {
	return &podresourcesv1.ListPodResourcesResponse{}, nil
}

// TestMoves checks that a client that asks gets the moves of pods: both places of a pod that is
// being moved, and how often another pod was moved. The CPUs in the messages are those of the old
// place.
func TestMoves(t *testing.T) {
	s := admit(t, emptyNode(t, hardware{2, 8}, policy(node.PodScope)), plain("goes", exclusive("app", request.App, 2, gib)), plain("went", exclusive("app", request.App, 1, gib)), dns())
	old, _ := find(s, "default", "goes")
	to := scenario.Elsewhere(s, old)
	if to.Rejection != nil {
		t.Fatal(to.Rejection)
	}
	s, err := s.BeginMove(to.Grant)
	if err != nil {
		t.Fatal(err)
	}
	went, _ := find(s, "default", "went")
	at := time.Date(2026, 11, 22, 16, 30, 0, 0, time.UTC)
	o := unlimited
	o.Moved = func(uid string) (int, time.Time) {
		if uid == went.Pod.UID {
			return 2, at
		}
		return 0, time.Time{}
	}
	client := dial(t, start(t, publish(s), o))
	want := []Moves{
		{Namespace: "default", Pod: "goes", From: old.CPUs().String(), To: to.Grant.CPUs().String(), FromNUMANodes: []int64{0}, ToNUMANodes: []int64{0}},
		{Namespace: "default", Pod: "went", Moved: 2, Last: &at},
	}
	var extras Extras
	response, err := client.List(t.Context(), &extras)
	if diff := cmp.Diff(want, extras.Moves); diff != "" || err != nil {
		t.Fatal(err, diff)
	}
	text, err := JSON(response, extras.Moves)
	if err != nil || strings.Count(string(text), `"moves": {`) != 2 || !strings.Contains(string(text), `"lastMoved": "2026-11-22T16:30:00Z"`) || !json.Valid(text) {
		t.Errorf("%v\n%s", err, text)
	}
	if plain, err := JSON(response, nil); err != nil || strings.Contains(string(plain), "moves") {
		t.Errorf("%v\n%s", err, plain)
	}
	one, err := client.Get(t.Context(), "default", "went", &extras)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = JSON(one, extras.Moves); err != nil || !strings.Contains(string(text), `"moved": 2`) {
		t.Errorf("%v\n%s", err, text)
	}
}
