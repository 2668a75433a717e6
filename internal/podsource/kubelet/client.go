package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

// maxAnswer bounds the kubelet's answer, in bytes. A node with 500 pods answers with about 5 MiB.
const maxAnswer = 64 << 20

// askTimeout is the longest time for one answer, unless the caller has less.
const askTimeout = 5 * time.Second

// Address is where the kubelet is, and how to be let in.
type Address struct {
	// URL is "http://127.0.0.1:10255" for the read-only port, "https://127.0.0.1:10250" for the one with
	// authentication. Without a path it is that of the list, /pods.
	URL string
	// TokenFile holds a bearer token; it is read for every call, because tokens are exchanged.
	TokenFile string
	// CertFile and KeyFile are a client certificate; CAFile signs the kubelet's own.
	CertFile, KeyFile, CAFile string
	// Insecure takes any certificate of the kubelet's.
	Insecure bool
}

// Check says what is wrong with the address, without asking anybody.
func (a Address) Check() error {
	u, err := url.Parse(a.URL)
	switch {
	case err != nil:
		return fmt.Errorf("url: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("url: %q: want http://HOST:PORT or https://HOST:PORT", a.URL)
	case (a.CertFile == "") != (a.KeyFile == ""):
		return errors.New("certFile and keyFile: want both or none")
	case u.Scheme == "http" && a.TokenFile != "":
		return errors.New("tokenFile: a token is not sent over http: want an https url")
	case a.Insecure && a.CAFile != "":
		return errors.New("insecure and caFile: want one of them")
	}
	return nil
}

// client asks for the list.
type client struct {
	http  *http.Client
	url   string
	token string // the name of a file
}

func newClient(a Address) (*client, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	u, err := url.Parse(a.URL)
	if err != nil {
		return nil, err
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/pods"
	}
	warm()
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: a.Insecure}
	if a.CAFile != "" {
		pem, err := os.ReadFile(a.CAFile)
		if err != nil {
			return nil, fmt.Errorf("caFile: %w", err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("caFile: %s: no certificate in it", a.CAFile)
		}
	}
	if a.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(a.CertFile, a.KeyFile); err != nil {
			return nil, fmt.Errorf("certFile, keyFile: %w", err)
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(a.CertFile, a.KeyFile) // They are exchanged, too.
			return &pair, err
		}
	}
	transport := &http.Transport{TLSClientConfig: config, MaxIdleConns: 2, IdleConnTimeout: time.Minute}
	return &client{http: &http.Client{Transport: transport}, url: u.String(), token: a.TokenFile}, nil
}

// list asks once.
func (c *client) list(ctx context.Context) ([]v1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		token, err := os.ReadFile(c.token)
		if err != nil {
			return nil, fmt.Errorf("tokenFile: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the kubelet does not answer: %w", err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: the answer ends early: %w", c.url, err)
	case len(data) > maxAnswer:
		return nil, fmt.Errorf("%s: the answer is larger than %d MiB", c.url, maxAnswer>>20)
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: the kubelet answers %s: %.200s%s", c.url, answer.Status, data, advice(answer.StatusCode))
	}
	return decode(c.url, data)
}

func advice(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "; give a token or a client certificate that it knows"
	case http.StatusForbidden:
		return "; whoever asks needs to get nodes/pods (or nodes/proxy) in the API group \"\""
	}
	return ""
}

// warm reads a list with everything in it that pods usually have, once. What the decoder learns of a type
// when it meets it first takes longer than a list, and else a pod that starts would wait for it.
var warm = sync.OnceFunc(func() {
	const list = `{"kind":"PodList","items":[{
		"metadata":{"ownerReferences":[{}],"labels":{"a":"b"},"creationTimestamp":null},
		"spec":{"volumes":[{"projected":{"sources":[{}]}}],"tolerations":[{}],"securityContext":{},"resources":{"requests":{"cpu":"1"}},
			"containers":[{"resources":{"limits":{"cpu":"1"}},"env":[{"valueFrom":{"fieldRef":{}}}],"ports":[{}],"volumeMounts":[{}],
				"livenessProbe":{"httpGet":{}},"securityContext":{}}]},
		"status":{"conditions":[{}],"containerStatuses":[{"state":{"running":{}}}]}}]}`
	if _, err := decode("", []byte(list)); err != nil {
		panic(err) // It is a constant.
	}
})

// decode reads a PodList. Fields that are not known are of a newer kubelet and left out.
func decode(from string, data []byte) ([]v1.Pod, error) {
	var list v1.PodList
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%s: the answer is no list of pods: %w", from, err)
	}
	if list.Kind != "" && list.Kind != "PodList" {
		return nil, fmt.Errorf("%s: the answer is a %s, want a PodList", from, list.Kind)
	}
	return list.Items, nil
}
