package fleetcommand

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/base/access"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/node/telemetry"
	"github.com/paddock-project/paddock/internal/ui/fleetpage"
	"github.com/paddock-project/paddock/internal/ui/view"
)

func (c *fleetCommand) serveCommand() *cobra.Command {
	listen, everywhere := "", false
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a page of the fleet: its nodes, what is stranded, and where a pod would go",
		Long: `Serve places the pods as "paddock fleet" does, and serves a page with the answer until Ctrl-C: every node
with its NUMA nodes, a search, the map of each node, and a box for manifests. If you paste the manifest of
a pod into the box, the page shows where the pod would go, and why not elsewhere. It places 20 pods at a time, and
reads up to 1,000 pods with 10,000 containers: for more, use "paddock fleet --pods FILE".

With --nodes live, the page shows the cluster that kubectl is configured for, and follows its changes. In a
pod, it shows the pod's cluster. It needs permission to list and watch nodes, pods, paddocknodes and
paddockmachines, and changes nothing; deploy/fleet has a role. While the API server does not answer, the page
shows since when.

The page names pods. It is served on the loopback interface unless --everywhere is given.
"paddock fleet -o html" writes the same page, without the box, as one file.`,
		Example: `  paddock fleet serve --nodes examples/fleet/nodes.yaml --pods examples/pods
  paddock fleet serve --nodes live --context production`,
		Args: console.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.serve(cmd, listen, everywhere) },
	}
	c.register(cmd)
	c.registerFill(cmd)
	flags := cmd.Flags()
	flags.StringVar(&listen, "listen", "127.0.0.1:9927", "the `ADDR` to serve the page on")
	flags.BoolVar(&everywhere, "everywhere", false, "serve clients on every interface")
	return cmd
}

func (c *fleetCommand) serve(cmd *cobra.Command, listen string, everywhere bool) error {
	live := slices.Equal(c.nodes, []string{discover.LiveName})
	if live { // Only the pods without a node are placed there, as the scheduler tries them.
		if err := console.NoEffect(cmd, "with --nodes live", "fill", "order"); err != nil {
			return err
		}
	}
	s := console.StreamsOf(cmd)
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := telemetry.Listen(ctx, listen) // First, to report an address in use at once.
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer listener.Close()
	if at, is := listener.Addr().(*net.TCPAddr); everywhere && is && at.IP.IsLoopback() {
		return fmt.Errorf("--everywhere has no effect with --listen %s, which only this host can reach: listen on another address, such as --listen 0.0.0.0:%d", listen, at.Port)
	}
	if live {
		return c.serveLive(ctx, s, listener, everywhere)
	}
	q, err := c.one(ctx, s, false)
	if err != nil {
		return err
	}
	q.options.Placements = true
	r, answer, err := c.place(cmd, s, q)
	if err != nil {
		return err
	}
	return serveFleet(ctx, s, listener, everywhere, answer.Summary(), fleetpage.Static{Fleet: c.page(s, q, answer, r)})
}

// serveFleet serves a page until ctx ends.
func serveFleet(ctx context.Context, s console.Streams, listener net.Listener, everywhere bool, summary string, source fleetpage.Source) error {
	host, err := os.Hostname()
	if err != nil {
		host = "" // The name is only one of those that a browser may use.
	}
	guard := access.Guard{Everywhere: everywhere, Switch: "fleet serve runs with --everywhere", Name: host}
	if _, err := fmt.Fprintf(s.Stdout, "%s\nThe page: %s\nCtrl-C ends it.\n", summary, pageAt(listener.Addr(), everywhere, host)); err != nil {
		return err
	}
	return telemetry.Serve(ctx, listener, guard.Handler(fleetpage.New(source, pageClock).Handler()), slog.New(slog.DiscardHandler))
}

// pageAt describes where the page is. An address of all interfaces is not one that a browser opens.
func pageAt(addr net.Addr, everywhere bool, host string) string {
	at, is := addr.(*net.TCPAddr)
	if !is || !at.IP.IsUnspecified() {
		return "http://" + addr.String() + "/"
	}
	port := strconv.Itoa(at.Port)
	here := "http://" + net.JoinHostPort("127.0.0.1", port) + "/"
	switch {
	case !everywhere:
		return here + " (clients on this host only: --everywhere serves others)"
	case host == "":
		return here + " and every other address of this host"
	}
	return "http://" + net.JoinHostPort(host, port) + "/ and every address of this host"
}

var pageClock = fleetpage.Clock{Now: time.Now, After: time.After}

// page returns the answer as a page.
func (c *fleetCommand) page(s console.Streams, q *fleetQuestion, answer *view.Fleet, r *capacity.Result) *fleetpage.Fleet {
	f := &fleetpage.Fleet{Title: c.title(), Summary: answer.Summary(), Answer: *answer, Views: r.Fleet.Views(), Zones: q.nodes.Zones()}
	for _, p := range r.Placements {
		if p.Node == "" {
			f.Rejected = append(f.Rejected, fleetpage.Rejected{Pod: p.Pod, Reason: p.Reason})
		}
	}
	f.Answer.Placements = nil // The page asks the nodes.
	if m := q.nodes.Cluster(); m != nil {
		beside(f, m, nil)
	}
	f.Read = func(ctx context.Context, manifests []byte) (pods []fleet.Pod, notes []string, err error) {
		return c.pasted(ctx, s, q.nodes, manifests)
	}
	return f
}
