package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/testing/clustertest"
	"github.com/paddock-project/paddock/internal/testing/objectstest"
)

// TestFleetServe checks that the page is served until the command ends, that it places pasted pods,
// and that it does not answer other sites.
func TestFleetServe(t *testing.T) {
	address, end := serves(t, "fleet", "serve", "--nodes", "../../examples/fleet/nodes.yaml", "--pods", "../../examples/pods", "--listen", "127.0.0.1:0")
	manifest, err := os.ReadFile("../../examples/pods/10-inference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host, body string
		code       int
		want       string
	}{
		{"", string(manifest), http.StatusOK, `"pod":"default/inference","node":"`},
		{"", "{{{", http.StatusBadRequest, `{"error":"json: line 1: invalid character '{'`},
		{"", "kind: Nonsense", http.StatusBadRequest, `{"error":"document 1 (line 1): Nonsense: `},
		{
			"", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 1000000, template: {spec: {containers: [{name: c}]}}}}", http.StatusBadRequest,
			"it asks for 1000000 pods, and 0 were read before; at most 1000 can be read in all; paste less, or save it in FILE and run: paddock fleet --nodes ../../examples/fleet/nodes.yaml --pods FILE, which places up to 1000000 pods",
		},
		{"", "a: &a " + strings.Repeat("x", 500_000) + "\nb: [" + strings.Repeat("*a, ", 100_000) + "]", http.StatusBadRequest, "more than 65536 fields and list items"},
		{"", "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [" + strings.Repeat("{name: c},", 10_001) + "]}}", http.StatusBadRequest, "its 1 pods have 10001 containers"},
		{"", "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [" + strings.Repeat("{},", 100) + "]}}", http.StatusBadRequest, "Required value: a container is known by its name\\nand 80 errors more"},
		{"evil.example", string(manifest), http.StatusForbidden, "this address answers to localhost"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/api/place", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Host = c.host
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != c.code || !strings.Contains(string(text), c.want) {
			t.Errorf("%q from %q: %d %s, %v; want %d %s", c.body[:min(20, len(c.body))], c.host, answer.StatusCode, text, err, c.code, c.want)
		}
	}
	end()
}

// TestFleetServeOnEveryInterface checks that the address that is printed can be opened: it is not
// the unspecified one.
func TestFleetServeOnEveryInterface(t *testing.T) {
	address, end := serves(t, "fleet", "serve", "--nodes", "../../examples/fleet/nodes.yaml", "--pods", "../../examples/pods", "--listen", "0.0.0.0:0")
	defer end()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("status %d", answer.StatusCode)
	}
}

// serves runs a command until end is called. It returns the address that the command serves on.
func serves(t *testing.T, args ...string) (address string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	printed := lines{came: make(chan struct{})}
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(&printed)
	root.SetErr(io.Discard)
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	pattern := regexp.MustCompile(`http://(127\.0\.0\.1:\d+)/`)
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) { //nolint:forbidigo // Another goroutine prints the address.
		if found := pattern.FindStringSubmatch(printed.text()); found != nil {
			return found[1], func() {
				cancel()
				if err := <-ended; err != nil {
					t.Errorf("ended with %v", err)
				}
			}
		}
	}
	t.Fatalf("no address in %q", printed.text())
	return "", nil
}

// TestFleetLive checks that the commands read the cluster of a kubeconfig and serve it, and that a
// missing permission is an error at once.
func TestFleetLive(t *testing.T) {
	s := objectstest.New(t)
	k := clustertest.New(t, 4)
	s.Set(t, "paddockmachines", k.Object)
	o, p := k.Node("n1")
	s.Set(t, "nodes", o)
	p.Status.Rejections.Counts = []v1alpha1.RejectionCount{{Class: "6 CPUs", Cause: "too large", Count: 2}}
	s.Set(t, "paddocknodes", p)
	s.Set(t, "pods", clustertest.Pod("waits", "", "3"))
	config := filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts: [{name: here, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: \"" + s.Config().Host + "\"}}]\n"
	if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"fleet --nodes live", "1 of 1 pod placed on 1 node: 3 of 7 CPUs (42.9 %)"},
		{"fleet size --nodes live", "metal      1      optimal"},
		{"fleet rejections --nodes live", "       2      1  6 CPUs  too large  metal"},
	} {
		var out bytes.Buffer
		root := newRootCommand()
		root.SetArgs(append(strings.Fields(c.args), "--kubeconfig", config))
		root.SetOut(&out)
		root.SetErr(&out)
		if err := root.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %v\n%s\nwant %s", c.args, err, out.String(), c.want)
		}
	}
	address, end := serves(t, "fleet", "serve", "--nodes", "live", "--kubeconfig", config, "--listen", "127.0.0.1:0")
	for limit := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) { //nolint:forbidigo // The page follows.
		answer, err := http.Get("http://" + address + "/api/fleet") //nolint:noctx // It is on loopback.
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if strings.Contains(string(text), `"title":"Cluster here"`) && strings.Contains(string(text), "1 node with 0 pods, which request 0 of 7 CPUs (0.0 %); 1 pod without a node") {
			break
		}
		if err != nil || time.Now().After(limit) {
			t.Fatalf("%s, %v", text, err)
		}
	}
	end()
	s.Fail(func(*http.Request) int { return http.StatusForbidden })
	root := newRootCommand()
	root.SetArgs([]string{"fleet", "--nodes", "live", "--kubeconfig", config})
	root.SetErr(io.Discard)
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "deploy/fleet/rbac.yaml has one") {
		t.Errorf("without permission: %v", err)
	}
}
