package hollow

import (
	"context"
	"net/http"
	"net/http/pprof"

	"github.com/paddock-project/paddock/internal/ui/view"
	"github.com/paddock-project/paddock/test/cluster/load"
)

// Status is what a fleet has seen since it started.
type Status struct {
	Nodes int
	// Troubles is the number of failed attempts. Rejected is how many of them nodes rejected.
	Troubles, Rejected int
	Hooks              map[string]*Latency
	// Outcomes counts how pods got their assignments, by the name of the handover.Reason.
	Outcomes map[string]int
	Writes   Writes
	// Shown is the time from the admission of pods by kubelets until the objects of their nodes show
	// them.
	Shown load.Quantiles
}

// NodeState is the state of a node at rest.
type NodeState struct {
	Name, Kind string
	// Away is true if the agent does not run. Then nothing else is known.
	Away bool
	// Wrong lists the violations of the node's invariants, found by its own check and in its
	// cgroups.
	Wrong []string
	// Twice lists the memory that a kubelet has assigned twice, as its own state has it.
	Twice []string
	// Grants has each grant in the form of the state file, by UID.
	Grants map[string]string
	// Trust is how the predictions of each run of an observing agent compare, and Differences are the
	// decisions of the last run that differ, as scenarios, with the last orders to the kubelet.
	Trust       []view.Trust
	Differences []string
	// Unseen are the UIDs of pods whose decision differs because another pod was admitted and ended
	// before the agent looked.
	Unseen []string
}

// serveDriver serves the requests and orders of the driver of the load:
//
//	GET  /status                           Status
//	GET  /troubles?after=                  every Trouble except the first ones, of which after is the number; oldest first
//	GET  /states                           the NodeState of every node
//	GET  /debug/pprof/profile?seconds=     a CPU profile, for go tool pprof
//	POST /restart?node=&away=              kills the agent of a node, and starts it again after that time
//	POST /policy?node=                     restarts it with another policy
//	POST /static?node=&namespace=&name=    starts a static pod; /unstatic ends it
//	POST /tamper?node=&how=                loses, corrupts or forges the grants of pods that arrive from now on; empty: stops that
//	POST /slow?by=                         delays every event of the watch of pods by that time; 0s: stops that
//
// The answer to an order is sent when the order has been carried out.
func (f *Fleet) serveDriver(ctx context.Context, mux *http.ServeMux) {
	mux.HandleFunc("POST /{order}", func(w http.ResponseWriter, r *http.Request) {
		if err := f.obey(ctx, r.PathValue("order"), r.FormValue); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, f.record.status(len(f.order)))
	})
	mux.HandleFunc("GET /troubles", func(w http.ResponseWriter, r *http.Request) {
		troubles, err := f.record.after(r.FormValue("after"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(w, troubles)
	})
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /states", func(w http.ResponseWriter, _ *http.Request) {
		var states []NodeState
		for _, n := range f.order {
			states = append(states, n.inspect())
		}
		answer(w, states)
	})
}
