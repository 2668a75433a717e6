package kubelet_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/node/podsource/kubelet"
)

// TestTrouble: an error explains what is missing to the person who installs the agent.
func TestTrouble(t *testing.T) {
	status := http.StatusOK
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(list()))
	})
	plain, trusted, strict := httptest.NewServer(handler), tlsServer(t, handler, nil), tlsServer(t, handler, &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12})
	old := tlsServer(t, handler, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	closed := httptest.NewServer(handler)
	closed.Close()
	t.Cleanup(plain.Close)
	token, ca := filepath.Join(t.TempDir(), "token"), filepath.Join(t.TempDir(), "ca.crt")
	write(t, token, []byte("t"))
	write(t, ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: trusted.Certificate().Raw}))
	other := filepath.Join(t.TempDir(), "other.crt")
	write(t, other, otherCA)
	for name, c := range map[string]struct {
		address kubelet.Address
		status  int
		want    string
	}{
		"all is well":       {kubelet.Address{URL: trusted.URL, CAFile: ca, TokenFile: token}, 200, ""},
		"no TLS wanted":     {kubelet.Address{URL: trusted.URL, Insecure: true}, 200, ""},
		"read-only port":    {kubelet.Address{URL: closed.URL}, 200, "refuses the connection: it does not run, or its read-only port (readOnlyPort) is off"},
		"refused":           {kubelet.Address{URL: strings.Replace(closed.URL, "http:", "https:", 1)}, 200, "refuses the connection: it does not run, or listens on another address"},
		"no CA":             {kubelet.Address{URL: trusted.URL}, 200, "set caFile to the CA that signed it, or, on loopback, insecure: true"},
		"another CA":        {kubelet.Address{URL: trusted.URL, CAFile: other}, 200, "not signed by the CA in caFile " + other},
		"another name":      {kubelet.Address{URL: strings.Replace(trusted.URL, "127.0.0.1", "localhost", 1), CAFile: ca}, 200, "is for another address"},
		"plain behind TLS":  {kubelet.Address{URL: strings.Replace(plain.URL, "http:", "https:", 1)}, 200, "does not use TLS"},
		"TLS behind plain":  {kubelet.Address{URL: strings.Replace(trusted.URL, "https:", "http:", 1)}, 200, "the port uses TLS: set an https url"},
		"no certificate":    {kubelet.Address{URL: strict.URL, Insecure: true}, 200, "set certFile and keyFile"},
		"old TLS":           {kubelet.Address{URL: old.URL, Insecure: true}, 200, "the TLS handshake with the kubelet fails: set tlsMinVersion of the kubelet to VersionTLS12 or later"},
		"no token":          {kubelet.Address{URL: trusted.URL, CAFile: ca}, 401, "the request has no credentials: set tokenFile, or certFile and keyFile"},
		"a bad token":       {kubelet.Address{URL: trusted.URL, CAFile: ca, TokenFile: token}, 401, "it does not accept the token in " + token},
		"no role":           {kubelet.Address{URL: trusted.URL, CAFile: ca, TokenFile: token}, 403, `get on nodes/pods in the API group "" (before Kubernetes 1.33, on nodes/proxy`},
		"no file":           {kubelet.Address{URL: trusted.URL, CAFile: ca, TokenFile: token + "s"}, 200, "tokenFile: open"},
		"an internal error": {kubelet.Address{URL: trusted.URL, CAFile: ca}, 500, "500 Internal Server Error"},
	} {
		status = c.status
		_, err := newSource(t, c.address).List(t.Context())
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
}

// TestSlowKubelet: a missing answer is not reported as a connection that was rejected.
func TestSlowKubelet(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(slow.Close)
	source := newSource(t, kubelet.Address{URL: slow.URL})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := source.List(ctx); err == nil || !strings.Contains(err.Error(), "does not answer in time") {
		t.Errorf("error %v", err)
	}
}

// TestPlainAddressIsWarnedOf: an address without TLS is warned about once, when the source starts.
// An address with TLS is not.
func TestPlainAddressIsWarnedOf(t *testing.T) {
	for url, warns := range map[string]bool{"http://127.0.0.1:1": true, "https://127.0.0.1:1": false} {
		var log bytes.Buffer
		source, err := kubelet.New(kubelet.Address{URL: url}, kubelet.Options{Now: time.Now, After: time.After, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = source.Run(ctx)
		if strings.Contains(log.String(), "can answer instead") != warns {
			t.Errorf("%s: logged %s", url, &log)
		}
	}
}

// TestMisspeltAnnotations: an annotation that is probably misspelt is logged once for each pod.
func TestMisspeltAnnotations(t *testing.T) {
	s := newServer(t, `{"kind":"PodList","apiVersion":"v1","items":[
		{"metadata":{"uid":"a","namespace":"n","name":"one","annotations":{"paddock.io/moves":"anywhere","other.io/moves":"x"}}},
		{"metadata":{"uid":"b","namespace":"n","name":"two","annotations":{"paddock-project.github.io/moves":"anywhere"}}}]}`)
	var log bytes.Buffer
	source, err := kubelet.New(kubelet.Address{URL: s.URL}, kubelet.Options{Now: time.Now, After: time.After, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := source.List(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	const want = `"annotation paddock.io/moves has no effect; did you mean paddock-project.github.io/moves?" pod=n/one uid=a`
	if n := strings.Count(log.String(), "has no effect"); n != 1 || !strings.Contains(log.String(), want) {
		t.Errorf("logged %d times: %s", n, &log)
	}
}

func tlsServer(t *testing.T, h http.Handler, config *tls.Config) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.TLS = config
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// otherCA signed none of the certificates of this test.
var otherCA = []byte(`-----BEGIN CERTIFICATE-----
MIIBezCCASGgAwIBAgIUfcqAWadvwv3mWMg/nANZQZquhe0wCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHYW5vdGhlcjAgFw0yNjExMjEyMzUzMTlaGA8yMTI2MTAyODIz
NTMxOVowEjEQMA4GA1UEAwwHYW5vdGhlcjBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABENGS7BqCpckOUQGuzlxoTZ8F5sEW1ZQqIAkOTZn8yXtw/WJWM5+4G7zByr3
nmnVO2RgdAS7o/EyGra2IZ0p8wyjUzBRMB0GA1UdDgQWBBT/oX0Nf8mHTOLYRHnS
Gr6ZcNOSazAfBgNVHSMEGDAWgBT/oX0Nf8mHTOLYRHnSGr6ZcNOSazAPBgNVHRMB
Af8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIBUNR5u4XU8UrwtQor1BNQVLmErM
uYkQqACnqGhu0J45AiEA4JA2V98ykyI0clzuD1Faz69HT0eUCHVv12ic78eQx64=
-----END CERTIFICATE-----
`)
