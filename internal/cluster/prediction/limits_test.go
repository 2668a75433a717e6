package prediction

import (
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
