package apiserver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"

	"k8s.io/client-go/rest"

	"github.com/paddock-project/paddock/internal/base/build"
)

// InCluster is the URL for the address that Kubernetes sets in the environment of every pod.
const InCluster = "in-cluster"

// maxAnswer limits one answer, in bytes. It is ten times the size of the slices of a node with
// 2,000 devices.
const maxAnswer = 16 << 20

// ErrTooLarge is the error for an answer that is larger than maxAnswer.
var ErrTooLarge = fmt.Errorf("the answer of the API server has more than %d MiB", maxAnswer>>20)

// Address is the address of an API server, with the credentials of the agent.
type Address struct {
	// URL is the URL of the server, such as "https://10.96.0.1:443", or InCluster.
	URL string
	// TokenFile is the path of a file with a bearer token. It is read again every minute, because
	// tokens are replaced.
	TokenFile string
	// CAFile is the path of the CA certificate for the server.
	CAFile string
}

// Check returns an error if the address is not valid. It sends no request.
func (a Address) Check() error {
	if a.URL != InCluster {
		u, err := url.Parse(a.URL)
		switch {
		case err != nil:
			return fmt.Errorf("url: %w", err)
		case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			return fmt.Errorf("url: %q: expected https://HOST:PORT, or %s", a.URL, InCluster)
		case u.Scheme == "http" && a.TokenFile != "":
			return errors.New("tokenFile: the agent sends no token over http: set an https url")
		}
	}
	return nil
}

// Config returns the configuration for client-go. environment is os.Getenv.
func (a Address) Config(environment func(string) string) (*rest.Config, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	if a.URL == InCluster {
		host, port := environment("KUBERNETES_SERVICE_HOST"), environment("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return nil, fmt.Errorf("url: %s: expected KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT in the environment, as in a pod", InCluster)
		}
		a.URL = "https://" + net.JoinHostPort(host, port)
	}
	if a.CAFile != "" {
		if _, err := os.Stat(a.CAFile); err != nil {
			return nil, fmt.Errorf("caFile: %w", err)
		}
	}
	return &rest.Config{
		Host: a.URL, BearerTokenFile: a.TokenFile, TLSClientConfig: rest.TLSClientConfig{CAFile: a.CAFile}, UserAgent: build.UserAgent("paddock-agent"),
		WrapTransport: func(next http.RoundTripper) http.RoundTripper { return limited{next} },
	}, nil
}

// limited limits the size of each answer.
type limited struct{ next http.RoundTripper }

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.next.RoundTrip(r)
	if err == nil {
		answer.Body = &body{ReadCloser: answer.Body, left: maxAnswer}
	}
	return answer, err
}

type body struct {
	io.ReadCloser
	left int
}

func (b *body) Read(to []byte) (int, error) {
	if b.left <= 0 {
		return 0, ErrTooLarge
	}
	n, err := b.ReadCloser.Read(to[:min(len(to), b.left)])
	b.left -= n
	return n, err
}
