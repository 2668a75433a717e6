// Package inspect serves what a scheduler knows of the nodes that Paddock manages, for people and
// for tests that compare it with the nodes:
//
//	GET /paddock/nodes[?node=NAME]...   a line of JSON (cluster.Shown) for each node, sorted by name
//
// It is served only on the loopback interface, because it names pods. Through `kubectl
// port-forward`, everyone who may forward ports of the scheduler's pod can read it. One node is
// shown at a time, to a few clients, so that its use of memory and locks does not grow with the
// number of nodes or clients. A client that reads its answer slowly delays no other client.
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

	"github.com/paddock-project/paddock/internal/base/access"
	"github.com/paddock-project/paddock/internal/ui/webui"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// longest limits the time of one answer: 5,000 nodes with 20 grants each take seconds.
const longest = time.Minute

// Nodes is the interface to the cluster.
type Nodes interface {
	Names() []string
	Show(name string) *cluster.Shown
}

// Start serves on an address until the context ends. The error describes what is wrong with the
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

// maxClients is the maximum number of answers that are made at a time.
const maxClients = 8

func handler(nodes Nodes) http.Handler {
	clients, turn := make(chan struct{}, maxClients), webui.NewTurns(1, maxClients)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /paddock/nodes", func(w http.ResponseWriter, r *http.Request) {
		select {
		case clients <- struct{}{}:
			defer func() { <-clients }()
		default:
			webui.Busy(w)
			return
		}
		names := r.URL.Query()["node"]
		if len(names) == 0 {
			names = nodes.Names()
		}
		slices.Sort(names)
		w.Header().Set("Content-Type", "application/x-ndjson")
		for _, name := range slices.Compact(names) {
			line, err := show(r.Context(), turn, nodes, name)
			if err == nil {
				_, err = w.Write(line)
			}
			if err != nil {
				return // The client has disconnected.
			}
		}
	})
	return mux
}

// show returns the line of a node, or nothing if there is no such node. It waits for its turn.
func show(ctx context.Context, turn *webui.Turns, nodes Nodes, name string) (line []byte, err error) {
	err = turn.Do(ctx, func() error {
		shown := nodes.Show(name)
		if shown == nil {
			return nil
		}
		line, err = json.Marshal(shown)
		line = append(line, '\n')
		return err
	})
	return line, err
}
