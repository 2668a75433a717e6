package silencer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/node/quiet"
)

// This file has clients that do not use the libraries of Kubernetes, because these take more memory
// than the process may have: 5 MiB for the types of a pod, and 10 MiB for client-go.

// mostPods is the largest list of pods that the process reads, in bytes. A pod has about 20 KiB,
// and can have 1.5 MiB. Only what readPods keeps of a pod stays in memory.
const mostPods = 256 << 20

// newClient returns a client that checks certificates with the CA of a file.
func newClient(caFile string, insecure bool) (*http.Client, error) {
	settings := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure} //nolint:gosec // A kubelet's certificate is often self-signed; the configuration allows it, on loopback.
	if caFile != "" {
		authority, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("caFile: %w", err)
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(authority) {
			return nil, fmt.Errorf("caFile: %s has no certificate", caFile)
		}
	}
	return &http.Client{Timeout: askTime, Transport: &http.Transport{TLSClientConfig: settings, MaxIdleConns: 1, IdleConnTimeout: 30 * time.Second}}, nil
}

// checkURL returns an error for an address to which no token may be sent.
func checkURL(address, tokenFile string) error {
	at, err := url.Parse(address)
	switch {
	case err != nil:
		return fmt.Errorf("url: %w", err)
	case at.Scheme != "http" && at.Scheme != "https" || at.Host == "":
		return fmt.Errorf("url: %q: expected https://HOST:PORT", address)
	case at.Scheme == "http" && tokenFile != "":
		return fmt.Errorf("url: %q: no token is sent over http: set an https URL", address)
	}
	return nil
}

// authorize adds the token from a file, which is replaced every hour.
func authorize(request *http.Request, tokenFile string) error {
	if tokenFile == "" {
		return nil
	}
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return fmt.Errorf("tokenFile: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	return nil
}

// kubeletClient reads the list of pods of a kubelet.
type kubeletClient struct {
	url, tokenFile string
	client         *http.Client
}

// pods returns the kubelet's pods by namespace and name.
func (k *kubeletClient) pods(ctx context.Context) (found map[string]*pod, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(k.url, "/")+"/pods", http.NoBody)
	if err == nil {
		err = authorize(request, k.tokenFile)
	}
	if err != nil {
		return nil, err
	}
	answer, err := k.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the kubelet answers %s: expected permission to get nodes/pods (Kubernetes 1.33 or later) or nodes/proxy", answer.Status)
	}
	return readPods(io.LimitReader(answer.Body, mostPods))
}

// readPods reads a v1 PodList, one pod after another. Of the annotations, it keeps only the wishes.
func readPods(from io.Reader) (map[string]*pod, error) {
	in := json.NewDecoder(from)
	var skipped json.RawMessage
	for token, err := in.Token(); token != "items"; token, err = in.Token() {
		if err == nil && token != json.Delim('{') { // The name of another member.
			err = in.Decode(&skipped)
		}
		if err != nil {
			return nil, fmt.Errorf("a list of pods: %w", err)
		}
	}
	found := map[string]*pod{}
	if token, err := in.Token(); err != nil || token == nil {
		return found, err // null, an empty list
	}
	for in.More() {
		p := &pod{}
		if err := in.Decode(p); err != nil {
			return nil, fmt.Errorf("a list of pods: %w", err)
		}
		p.Metadata.Annotations = quiet.Wishes(p.Metadata.Annotations, p.containers())
		found[p.Metadata.Namespace+"/"+p.Metadata.Name] = p
	}
	if _, err := in.Token(); err != nil { // A list that is cut off is no list.
		return nil, fmt.Errorf("a list of pods: %w", err)
	}
	return found, nil
}
