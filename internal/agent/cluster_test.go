package agent

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/testing/objectstest"
)

// TestJoinCluster checks which parts an agent has in a cluster, depending on its configuration.
func TestJoinCluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for name, c := range map[string]struct {
		change            func(*Config)
		intake, publisher bool
		said              string
	}{
		"another runtime":     {change: func(c *Config) { c.Runtime = RuntimeSim }},
		"no name":             {change: func(c *Config) { c.NodeName, c.APIServer.URL = "", "" }},
		"a name":              {change: func(*Config) {}, intake: true},
		"publish":             {change: func(c *Config) { c.Publish = true }, intake: true, publisher: true},
		"publish, no cluster": {change: func(c *Config) { c.Publish, c.APIServer.URL = true, "in-cluster" }, intake: true, said: "schedulers do not know its resources"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.config.Runtime, b.config.NodeName, b.config.APIServer.URL = RuntimeNRI, "n7", "http://127.0.0.1:1"
			c.change(&b.config)
			if b.config.Runtime == RuntimeNRI {
				b.config.Pods = nil
			}
			a := b.start()
			if (a.intake != nil) != c.intake || (a.publisher != nil) != c.publisher {
				t.Errorf("intake %t, publisher %t", a.intake != nil, a.publisher != nil)
			}
			if log := b.log.take(); c.said != "" {
				contains(t, "log", log, c.said)
			}
		})
	}
}

// TestPublishes checks that a running agent publishes the node after the kubelet has listed its
// pods.
func TestPublishes(t *testing.T) {
	b := newBench(t)
	server := objectstest.New(t)
	server.AddNode("n7", "node-uid")
	kubelet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","items":[]}`))
	}))
	t.Cleanup(kubelet.Close)
	b.config.Runtime, b.config.Pods, b.config.NodeName, b.config.Publish = RuntimeNRI, nil, "n7", true
	b.config.NRI.Socket = filepath.Join(t.TempDir(), "nri.sock")
	b.config.Kubelet.URL, b.config.APIServer.URL = kubelet.URL, server.Config().Host
	a, err := b.try(b.disk)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	var o v1alpha1.PaddockNode
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for begin := time.Now(); !server.Get(t, v1alpha1.PaddockNodes, "n7", &o); <-look.C {
		if time.Since(begin) > patience {
			t.Error("there is no PaddockNode")
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if o.Status.PolicyDigest == "" || o.Status.Machine == "" {
		t.Errorf("it shows %+v", o.Status)
	}
}
