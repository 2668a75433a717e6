package agent

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/testing/objectstest"
	"github.com/paddock-project/paddock/internal/ui/view"
	"github.com/paddock-project/paddock/internal/ui/web"
)

// reject makes the kubelet reject a pod for a reason that its managers do not have.
func (k *stockKubelet) reject(name, cpus, reason string) {
	k.t.Helper()
	k.bind(name, cpus)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list[len(k.list)-1].Status = v1.PodStatus{Phase: v1.PodFailed, Reason: reason, Message: "Pod was rejected: Node didn't have enough resource"}
}

// rejectionsOf returns the rejections on the page of an agent.
func rejectionsOf(t *testing.T, o *Observing) []web.Rejected {
	t.Helper()
	answer := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/api/rejections", nil)
	r.Host, r.RemoteAddr = "127.0.0.1", "127.0.0.1:1000"
	o.handler().ServeHTTP(answer, r)
	var list []web.Rejected
	if err := json.Unmarshal(answer.Body.Bytes(), &list); err != nil {
		t.Fatalf("%v: %d %s", err, answer.Code, answer.Body)
	}
	return list
}

// TestObservingRequests checks that rejections by the requests of all pods are predicted: with what
// the Node has for pods, and without a Node by the kubelet's configuration, and that the page lists
// them. A pod without CPUs of its own counts from its start time on.
func TestObservingRequests(t *testing.T) {
	node := &v1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node-uid"},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("5"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("110")}},
	}
	for name, c := range map[string]struct {
		node *v1.Node
		// left is what the pod "old" of 2 CPUs and the pod "starts" of half a CPU leave.
		left, more string
	}{
		"by the configuration": {nil, "4500m", "4600m"}, // 8 CPUs, of which one is reserved
		"by the Node":          {node, "2500m", "2600m"},
	} {
		k, config := newStockKubelet(t)
		if c.node != nil {
			server := objectstest.New(t)
			server.Set(t, "nodes", c.node)
			config.NodeName, config.APIServer.URL = "n", server.Config().Host
		}
		k.admit("old", "2")
		o := observer(t, config)
		k.bind("starts", "500m")
		k.mu.Lock()
		k.list[len(k.list)-1].Status.StartTime = &metav1.Time{Time: time.Unix(2000, 0)}
		k.mu.Unlock()
		look(t, o)
		k.reject("large", c.more, "OutOfcpu")
		look(t, o)
		k.reject("wrong", c.left, "OutOfcpu")
		look(t, o)
		k.reject("elsewhere", "1", "NodeAffinity")
		look(t, o)
		if page := rejectionsOf(t, o); len(page) != 1 || page[0].Pod != "default/large" || page[0].Error != "" || page[0].Rejection == nil ||
			page[0].Rejection.Reason != "OutOfcpu" || page[0].Rejection.Message != "Node didn't have enough resource" {
			t.Errorf("%s: the page lists %+v", name, page)
		}
		trust := o.session.Load().trust()
		if trust.Rejections != (view.TrustCount{All: 3, AsPredicted: 1, Unsure: 2}) || len(trust.Differences) != 0 {
			t.Errorf("%s: %+v, %+v", name, trust.Rejections, trust.Unpredicted)
		}
		k.admit("a", "1")
		if look(t, o); o.session.Load().trust().Admissions != (view.TrustCount{All: 1, AsPredicted: 1}) {
			t.Errorf("%s: %+v", name, o.session.Load().trust().Admissions)
		}
	}
}
