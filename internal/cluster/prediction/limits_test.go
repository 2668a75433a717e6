package prediction

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	api "github.com/paddock-project/paddock/api/predict/v1alpha1"
)

// TestLargeAnswers asks about a pod with a long name of its container, and about one with a long
// UID, on the same node 200 times. Each answer repeats the text. The server must not encode them
// before it compares their size: 10,000 answers would take 10 GB.
func TestLargeAnswers(t *testing.T) {
	w := &world{moment: nodes(t, 1), now: time.Unix(1000, 0)}
	socket, _ := start(t, w)
	c := client(t, socket)
	container := pod("a", 5)
	container.Containers[0].Name = strings.Repeat("c", 1<<20)
	for _, p := range []*api.Pod{container, pod(strings.Repeat("u", 1<<20), 1)} {
		in := &api.AskBatchRequest{Pods: []*api.Pod{p}, Detail: true}
		for range 200 {
			in.Nodes = append(in.Nodes, "node-0000")
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := c.AskBatch(t.Context(), in)
		runtime.ReadMemStats(&after)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "more than 4 MiB") {
			t.Errorf("%v, want %s", err, codes.InvalidArgument)
		}
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 64 {
			t.Errorf("the call took %d MiB", mib)
		}
	}
}

// TestManyResources asks about pods that name many resources: in a container, and in all together.
// In a message of 4 MiB, 350,000 would fit, which are compared with each other.
func TestManyResources(t *testing.T) {
	w := &world{moment: nodes(t, 1), now: time.Unix(1000, 0)}
	s := New(w, Options{MaxAge: time.Minute, Now: w.clock, After: time.After})
	ask := func(p *api.Pod) error {
		_, err := s.Ask(t.Context(), &api.AskRequest{Node: "node-0000", Pod: p})
		return err
	}
	one, all := pod("one", 1), pod("all", 1)
	for i := range 254 { // With cpu and memory, as many as are allowed.
		one.Containers[0].Resources.Limits[fmt.Sprint("example.com/", i)] = 1
		all.Containers = append(all.Containers, &api.Container{Name: fmt.Sprint(i), Resources: &api.Resources{Limits: map[string]int64{fmt.Sprint("example.com/", i): 1}}})
	}
	for _, p := range []*api.Pod{one, all} {
		if err := ask(p); err != nil {
			t.Errorf("pod %s with 256 resources: %v", p.GetName(), err)
		}
		p.Containers[len(p.Containers)-1].Resources.Limits["example.com/more"] = 1
		if err := ask(p); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "256") {
			t.Errorf("pod %s with 257 resources: %v, want %s", p.GetName(), err, codes.InvalidArgument)
		}
	}
}
