// Package inspect serves what a scheduler knows of the nodes that Paddock manages, for people and
// for tests that compare it with the nodes:
//
//	GET /paddock/nodes[?node=NAME]...   a line of JSON for each node, cluster.Shown, in order of their names
//
// It is served on the loopback interface alone, because it names pods: with `kubectl port-forward`
// it is for those who may forward ports of the scheduler's pod. One answer is made at a time, and a
// node at a time, so that the memory and the locks that it takes do not grow with the number of
// nodes.
package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/paddock-project/paddock/internal/access"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// longest limits one answer: 5,000 nodes with 20 grants each take seconds.
const longest = time.Minute

// Nodes is the cluster.
type Nodes interface {
	Names() []string
	Show(name string) *cluster.Shown
}

// Start serves on an address until the context ends. The error names what is wrong with the
// address.
func Start(ctx context.Context, address string, nodes Nodes) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%q is not a loopback address: the endpoint shows pods without authentication; use an address such as 127.0.0.1", host)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: access.Guard{}.Handler(handler(nodes)), ReadHeaderTimeout: longest, WriteTimeout: longest}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "The inspection endpoint has stopped", "address", address)
		}
	}()
	return nil
}

func handler(nodes Nodes) http.Handler {
	turn := make(chan struct{}, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /paddock/nodes", func(w http.ResponseWriter, r *http.Request) {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-r.Context().Done():
			return
		}
		names := r.URL.Query()["node"]
		if len(names) == 0 {
			names = nodes.Names()
		}
		slices.Sort(names)
		w.Header().Set("Content-Type", "application/x-ndjson")
		encoder := json.NewEncoder(w)
		for _, name := range slices.Compact(names) {
			if shown := nodes.Show(name); shown != nil && encoder.Encode(shown) != nil {
				return // The client has gone.
			}
		}
	})
	return mux
}
