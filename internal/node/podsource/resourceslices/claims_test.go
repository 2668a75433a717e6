package resourceslices

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/paddock-project/paddock/internal/node/apiserver"
)

// TestAllocation: Allocation returns the devices of a claim, or the reason why they are not known,
// whatever the API server answers.
func TestAllocation(t *testing.T) {
	const claim = `{"kind":"ResourceClaim","apiVersion":"resource.k8s.io/v1","status":{"allocation":{"devices":{"results":[{"request":"r","driver":"d","pool":"p","device":"x"}]}}}}`
	for name, c := range map[string]struct {
		answer string
		status int
		want   string
	}{
		"allocated": {claim, http.StatusOK, "[{d p x  r}] <nil>"},
		"pending":   {`{"kind":"ResourceClaim"}`, http.StatusOK, "[] <nil>"},
		"not there": {`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"not found"}`, http.StatusNotFound, "ResourceClaim ns/c: not found"},
		"forbidden": {`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no right"}`, http.StatusForbidden, "no right"},
		"no JSON":   {"<html>", http.StatusOK, "not a ResourceClaim"},
		"cut off":   {claim[:60], http.StatusOK, "not a ResourceClaim"},
		"too large": {`{"kind":"` + strings.Repeat("x", 17<<20), http.StatusOK, "more than 16 MiB"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c" {
				t.Errorf("%s: asked for %s", name, r.URL.Path)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.answer))
		}))
		config, err := apiserver.Address{URL: s.URL}.Config(func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		client, err := NewClaims(config)
		if err != nil {
			t.Fatal(err)
		}
		devices, err := client.Allocation(t.Context(), "ns", "c")
		if got := fmt.Sprint(devices, err); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		s.Close()
	}
	if _, err := NewClaims(&rest.Config{Host: "::"}); err == nil {
		t.Error("a client without an address")
	}
}
