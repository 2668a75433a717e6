package cluster

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// listenEgress serves HTTP CONNECT on a socket. It is the API server's way to the address inside,
// which is reached through a port of loopback. It connects to nothing else. It ends when it is
// closed.
func listenEgress(socket, inside string, port int) (net.Listener, error) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != inside {
			http.Error(w, "the only way leads to "+inside+", not to "+r.Host, http.StatusForbidden)
			return
		}
		there, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer there.Close()
		w.WriteHeader(http.StatusOK)
		here, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer here.Close()
		// If one direction ends, both end. The connection carries TLS, which has its own end.
		done := make(chan struct{}, 2)
		forward := func(to io.Writer, from io.Reader) {
			_, _ = io.Copy(to, from)
			done <- struct{}{}
		}
		go forward(there, buffered)
		go forward(here, there)
		<-done
	})}
	go func() { _ = server.Serve(l) }() // It ends with the listener.
	return l, nil
}
