package podres

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

var serveAt = flag.String("serve", "", "serve TestServeClaims at this `socket` until the test is killed, for test/podresources")

// TestServeClaims checks that List returns 250 pods with 500 claims. With -serve it serves them to
// clients in other processes instead.
func TestServeClaims(t *testing.T) {
	state := claimed(crowd(t), 2)
	if *serveAt != "" {
		server, err := NewServer(publish(state), unlimited)
		if err != nil {
			t.Fatal(err)
		}
		l, err := Listen(*serveAt)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(os.Stderr, "serving")
		if err := server.Serve(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	response, err := dial(t, start(t, publish(state), unlimited)).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, p := range response.GetPodResources() {
		for _, c := range p.GetContainers() {
			for _, r := range c.GetDynamicResources() {
				listed[r.GetClaimNamespace()+"/"+r.GetClaimName()] = true
			}
		}
	}
	if len(response.GetPodResources()) != 250 || len(listed) != 500 {
		t.Errorf("%d pods and %d claims", len(response.GetPodResources()), len(listed))
	}
}
