package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/paddock-project/paddock/internal/node/absence"
)

// askTimeout limits the time for one answer. The caller may have less time.
const askTimeout = 5 * time.Second

// Address is the kubelet's address and the credentials of the agent.
type Address struct {
	// URL is "https://127.0.0.1:10250" for the port with authentication, or
	// "http://127.0.0.1:10255" for the read-only port. If it has no path, the list's path /pods is
	// added.
	URL string
	// TokenFile has a bearer token. It is read for every request, because tokens are rotated.
	TokenFile string
	// CertFile and KeyFile are a client certificate and its key. CAFile has the CA of the kubelet's
	// certificate.
	CertFile, KeyFile, CAFile string
	// Insecure accepts any certificate of the kubelet.
	Insecure bool
}

// Check returns an error if the address is not valid. It sends no request.
func (a Address) Check() error {
	u, err := url.Parse(a.URL)
	switch {
	case err != nil:
		return fmt.Errorf("url: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("url: %q: expected http://HOST:PORT or https://HOST:PORT", a.URL)
	case (a.CertFile == "") != (a.KeyFile == ""):
		return errors.New("certFile and keyFile: set both or none")
	case u.Scheme == "http" && a.TokenFile != "":
		return errors.New("tokenFile: the agent sends no token over http: set an https url")
	case a.Insecure && a.CAFile != "":
		return errors.New("insecure and caFile: set only one of them")
	}
	return nil
}

// Plain reports whether the connection does not use TLS, so that the kubelet does not prove its
// identity.
func (a Address) Plain() bool { return strings.HasPrefix(strings.ToLower(a.URL), "http://") }

// client requests the list. It has one connection to the kubelet, and all answers over one
// connection are from the same process.
type client struct {
	http    *http.Client
	url     string
	address Address
	now     func() time.Time

	mu      sync.Mutex
	process absence.Process
}

func newClient(a Address, now func() time.Time) (*client, error) {
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
	config, err := a.tls()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: config, MaxConnsPerHost: 1, MaxIdleConns: 1, IdleConnTimeout: time.Minute}
	return &client{http: &http.Client{Transport: transport}, url: u.String(), address: a, now: now}, nil
}

func (a Address) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: a.Insecure}
	if a.CAFile != "" {
		pem, err := os.ReadFile(a.CAFile)
		if err != nil {
			return nil, fmt.Errorf("caFile: %w", err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("caFile: %s: the file has no certificate", a.CAFile)
		}
	}
	if a.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(a.CertFile, a.KeyFile); err != nil {
			return nil, fmt.Errorf("certFile, keyFile: %w", err)
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(a.CertFile, a.KeyFile) // Certificates are rotated, too.
			return &pair, err
		}
	}
	return config, nil
}

// ask sends one request and visits the items of the answer (readList). After each request without
// an answer, the next answer counts as one of another process, unless the caller stopped waiting.
func (c *client) ask(ctx context.Context, visit func(item []byte, whole bool) error) (absence.Process, error) {
	within, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	process, err := c.get(within, visit)
	if err != nil && ctx.Err() == nil {
		c.renew()
	}
	return process, err
}

// renew makes the next answer count as one of another process.
func (c *client) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process = absence.Process{Number: c.process.Number + 1, Since: c.now()}
}

func (c *client) get(ctx context.Context, visit func([]byte, bool) error) (absence.Process, error) {
	var process absence.Process
	answer, err := c.send(ctx, c.url)
	if err != nil {
		return process, err
	}
	defer answer.Body.Close()
	c.mu.Lock()
	process = c.process // There is one connection, and the answer came over it.
	c.mu.Unlock()
	err = readList(answer.Body, visit)
	switch {
	case ctx.Err() != nil && err != nil:
		return process, fmt.Errorf("%s: %w", c.url, c.address.unanswered(err))
	case err != nil:
		return process, fmt.Errorf("%s: %w", c.url, err)
	}
	return process, nil
}

// send sends a request. The answer is one with status 200, whose body the caller closes.
func (c *client) send(ctx context.Context, url string) (*http.Response, error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			c.renew()
		}
	}})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	if c.address.TokenFile != "" {
		token, err := os.ReadFile(c.address.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("tokenFile: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, c.address.unanswered(err)
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(answer.Body, maxHead))
		return nil, fmt.Errorf("%s: the kubelet answers %s: %q%s", url, answer.Status, text, c.address.unwelcome(answer.StatusCode, string(text)))
	}
	return answer, nil
}
