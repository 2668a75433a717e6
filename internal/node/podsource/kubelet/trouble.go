package kubelet

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
)

// unanswered adds the reason why a request had no answer, and what to do. The names of settings are
// those of the section kubelet in the agent's configuration.
func (a Address) unanswered(err error) error {
	return fmt.Errorf("%s: %w", a.cause(err), err)
}

func (a Address) cause(err error) string {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		alert     *net.OpError
		timeout   net.Error
	)
	switch {
	case errors.Is(err, context.Canceled):
		return "the request to the kubelet was cancelled"
	case errors.Is(err, syscall.ECONNREFUSED) && a.Plain():
		return "the kubelet refuses the connection: it does not run, or its read-only port (readOnlyPort) is off, which is the default; in this case, set url https://127.0.0.1:10250"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the kubelet refuses the connection: it does not run, or listens on another address"
	case errors.As(err, &authority) && a.CAFile == "":
		return "the kubelet's certificate is not signed by a trusted CA: set caFile to the CA that signed it, or, on loopback, insecure: true"
	case errors.As(err, &authority):
		return fmt.Sprintf("the kubelet's certificate is not signed by the CA in caFile %s: set caFile to the CA that signed it (/var/lib/kubelet/pki/kubelet.crt is self-signed)", a.CAFile)
	case errors.As(err, &name):
		return "the kubelet's certificate is for another address: use one of the certificate's names in url, or, on loopback, set insecure: true"
	case errors.As(err, &invalid):
		return "the kubelet's certificate is not valid: renew it, or correct the clock"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "the port of the url does not use TLS: set an http url, or the kubelet's TLS port (10250)"
	case errors.As(err, &alert) && strings.Contains(alert.Err.Error(), "protocol version"): // crypto/tls reports an alert so.
		return "the TLS handshake with the kubelet fails: set tlsMinVersion of the kubelet to VersionTLS12 or later"
	case errors.As(err, &alert) && alert.Op == "remote error":
		return "the kubelet ends the TLS handshake: it requires a client certificate that it trusts; set certFile and keyFile"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "the kubelet does not answer in time"
	}
	return "the kubelet does not answer"
}

// unwelcome returns what to do about a status that is not 200.
func (a Address) unwelcome(status int, text string) string {
	switch {
	case status == http.StatusUnauthorized && a.TokenFile == "" && a.CertFile == "":
		return "; the request has no credentials: set tokenFile, or certFile and keyFile"
	case status == http.StatusUnauthorized && a.TokenFile != "":
		return fmt.Sprintf("; it does not accept the token in %s: it may be expired or for another audience, or the kubelet does not check tokens (authentication.webhook.enabled)", a.TokenFile)
	case status == http.StatusUnauthorized:
		return fmt.Sprintf("; it does not accept the certificate in %s: it may be expired, or signed by a CA that the kubelet does not trust (authentication.x509.clientCAFile)", a.CertFile)
	case status == http.StatusForbidden:
		return "; the agent's identity needs a ClusterRole that allows get on nodes/pods in the API group \"\" (before Kubernetes 1.33, on nodes/proxy)"
	case status == http.StatusBadRequest && a.Plain() && strings.Contains(text, "HTTPS"):
		return "; the port uses TLS: set an https url"
	}
	return ""
}
