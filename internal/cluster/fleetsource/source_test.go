package fleetsource_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/publication"
	"github.com/paddock-project/paddock/internal/testing/hollow"
	"github.com/paddock-project/paddock/internal/testing/objectstest"
)

// TestSource checks that a published state arrives as the same state, and that the node is gone
// when its object is.
func TestSource(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := objectstest.New(t)
	server.AddNode("n7", "node-uid")
	client, err := objects.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	changes := make(chan string, 100)
	source, err := fleetsource.NewSource(client, func(name string) { changes <- name })
	if err != nil {
		t.Fatal(err)
	}
	n := publishing(t, server)
	ended := make(chan struct{}, 2)
	go func() { source.Run(ctx); ended <- struct{}{} }()
	go func() { _ = n.Run(ctx); ended <- struct{}{} }()

	pod := guaranteed("p", "2")
	err = n.List(pod)
	if plan, rejected := n.RunPodSandbox(ctx, "p", ""); err != nil || rejected != nil || plan.Grant == nil {
		t.Fatal(err, rejected)
	}
	wait := func(is func(seen *fleetsource.Node, known bool, err error) bool) {
		t.Helper()
		for {
			if seen, known, err := source.Node("n7"); is(seen, known, err) {
				return
			}
			select {
			case <-changes:
			case <-time.After(10 * time.Millisecond): // The source is synced only after the last change.
			case <-t.Context().Done():
				t.Fatal("it does not arrive")
			}
		}
	}
	wait(func(seen *fleetsource.Node, known bool, err error) bool {
		return known && err == nil && source.Synced() && sameState(t, seen, n.State())
	})
	if names := source.Names(); len(names) != 1 {
		t.Errorf("nodes %v", names)
	}
	server.Delete("nodes", "n7") // Without a Node, the publisher cannot create another object.
	wait(func(_ *fleetsource.Node, known bool, err error) bool { return !known && err == nil })
	cancel()
	<-ended
	<-ended
}

// publishing returns a node that publishes to a server.
func publishing(t *testing.T, server *objectstest.Server) *hollow.Node {
	t.Helper()
	client, err := publication.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	m, policy := eight(t)
	n, err := hollow.New(hollow.Config{
		Name: "n7", Machine: m, Policy: policy, Client: client, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		After: func(d time.Duration) <-chan time.Time { return time.After(d / 100) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func sameState(t *testing.T, seen *fleetsource.Node, s *node.State) bool {
	t.Helper()
	built, err := seen.State(nil)
	if err != nil || len(built.Findings) > 0 {
		t.Fatal(err, built.Findings)
	}
	want, _ := s.Grant("p")
	got, there := built.State.Grant("p")
	return there && got.SameAssignments(want)
}

// TestSynced checks that a source is synced only after changed was called for the objects that
// existed at the start, not as soon as they are read.
func TestSynced(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := objectstest.New(t)
	server.Set(t, "paddocknodes", &v1alpha1.PaddockNode{ObjectMeta: metav1.ObjectMeta{Name: "n7"}})
	client, err := objects.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	called, goOn := make(chan string), make(chan struct{})
	source, err := fleetsource.NewSource(client, func(name string) {
		called <- name
		<-goOn
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		source.Run(ctx)
	}()
	if name := <-called; name != "n7" {
		t.Error(name)
	}
	for range 20 {
		if source.Synced() {
			t.Fatal("it is synced while changed has not returned")
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // The test checks that nothing happens.
	}
	close(goOn)
	if !cache.WaitForCacheSync(ctx.Done(), source.Synced) {
		t.Error("it is never synced")
	}
	cancel()
	<-ended
}
