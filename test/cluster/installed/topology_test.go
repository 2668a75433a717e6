package installed

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/reconcile"
	"github.com/paddock-project/paddock/internal/node/zones"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// tries counts the attempts without the definition, those that failed, and those that wrote.
type tries struct{ missing, failed, written atomic.Int64 }

func (t *tries) Exported(err error, missing bool) {
	switch {
	case missing:
		t.missing.Add(1)
	case err != nil:
		t.failed.Add(1)
	default:
		t.written.Add(1)
	}
}

// TestNodeResourceTopology checks that an agent with the documented rule waits for the definition,
// writes the object of its node, and does not write it again while nothing changes.
func TestNodeResourceTopology(t *testing.T) {
	c := start(t, 0)
	c.kubectl("patch", "clusterrole", "paddock", "--type=json", "--patch", `[{"op": "add", "path": "/rules/-", "value":
		{"apiGroups": ["topology.node.k8s.io"], "resources": ["noderesourcetopologies"], "verbs": ["get", "create", "update"]}}]`)
	if _, err := c.client.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n7"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n := scenario.New(nil)
	var state atomic.Pointer[node.State]
	var listing atomic.Pointer[handover.Listing]
	play := func(text string) {
		blocks, err := scenario.Parse("test", text)
		c.must(err)
		for _, b := range blocks {
			n.Run(b.Command)
		}
		l := &handover.Listing{} // The kubelet lists the pods that were admitted.
		for g := range n.State().AllGrants() {
			l.Begun = append(l.Begun, handover.Name{Namespace: g.Pod.Namespace, Name: g.Pod.Name})
		}
		listing.Store(l)
		state.Store(n.State())
	}
	play("machine sockets=2 cores=8 memory=32Gi\n\nconfig topology=single-numa-node scope=pod cpu=static memory=Static\n")
	counted := &tries{}
	client, err := zones.NewClient(c.asAgent())
	c.must(err)
	keeper := zones.New(zones.Config{
		Node: "n7", Client: client, State: state.Load, Listing: listing.Load, Now: time.Now,
		After:    func(d time.Duration) <-chan time.Time { return time.After(min(d, 2*reconcile.Spacing)) }, // Shortens waits of minutes.
		Observer: counted, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- keeper.Run(ctx) }()

	c.await("a try without the definition", func() bool { return counted.missing.Load() > 0 })
	c.kubectl("apply", "-f", "test/cluster/installed/testdata/noderesourcetopologies.yaml")
	c.await("the object", func() bool { return c.shows(state.Load(), listing.Load()) })
	play("pod a cpu=3 memory=8Gi\napp train cpu=2 memory=4Gi\napp log\n\nadmit a\n")
	keeper.Changed()
	c.await("the object after an admission", func() bool { return c.shows(state.Load(), listing.Load()) })
	time.Sleep(5 * reconcile.Spacing)
	if missing, failed, written := counted.missing.Load(), counted.failed.Load(), counted.written.Load(); failed != 0 || written != 2 || missing > 10 {
		t.Errorf("%d writes, %d tries failed, %d found no definition", written, failed, missing)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// asAgent returns the client configuration of the agent of node n7.
func (c *cluster) asAgent() *rest.Config {
	c.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig("admin"))
	c.must(err)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:paddock:paddock", Groups: []string{"system:serviceaccounts", "system:authenticated"},
		Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"n7"}},
	}
	return config
}

// shows reports whether the API server has the object that a state determines, owned by the Node.
func (c *cluster) shows(s *node.State, l *handover.Listing) bool {
	c.Helper()
	out, err := c.Kubectl(c.Context(), "get", "noderesourcetopologies", "n7", "-o", "json").Output()
	if err != nil {
		return false
	}
	var o zones.Object
	c.must(json.Unmarshal(out, &o))
	return reflect.DeepEqual(o.Content, zones.Of(s, l)) && len(o.OwnerReferences) == 1 && o.OwnerReferences[0].Kind == "Node" && strings.Count(string(out), "node-1") >= 1
}
