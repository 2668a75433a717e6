package apiserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestConfig(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pod := map[string]string{"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
	for _, c := range []struct {
		address     Address
		environment map[string]string
		want        string
	}{
		{Address{URL: InCluster, CAFile: ca, TokenFile: "t"}, pod, "https://[fd00::1]:443"},
		{Address{URL: "https://10.96.0.1:6443", TokenFile: "t"}, nil, "https://10.96.0.1:6443"},
		{Address{URL: InCluster}, nil, "expected KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT in the environment"},
		{Address{URL: "10.96.0.1"}, nil, "expected https://HOST:PORT, or in-cluster"},
		{Address{URL: "https://a\x00"}, nil, "invalid control character"},
		{Address{URL: "http://10.96.0.1", TokenFile: "t"}, nil, "the agent sends no token over http"},
		{Address{URL: "https://10.96.0.1", CAFile: ca + "x"}, nil, "caFile: "},
	} {
		config, err := c.address.Config(func(name string) string { return c.environment[name] })
		got := fmt.Sprint(err)
		if err == nil {
			got = config.Host
		}
		if !strings.Contains(got, c.want) || err == nil && config.BearerTokenFile != c.address.TokenFile {
			t.Errorf("%+v: %s, want %s", c.address, got, c.want)
		}
	}
}

// TestAnswerIsLimited: the size of an answer is limited even if its length is not announced.
func TestAnswerIsLimited(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 20 {
			_, _ = w.Write(make([]byte, 1<<20))
		}
	}))
	defer s.Close()
	config, err := Address{URL: s.URL}.Config(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if n, err := io.Copy(io.Discard, answer.Body); n != maxAnswer || !errors.Is(err, ErrTooLarge) {
		t.Errorf("%d bytes, %v", n, err)
	}
}
