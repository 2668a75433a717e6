package hollow

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/test/cluster/load"
)

// Trouble is one failed hook: an attempt to start a pod that did not start.
type Trouble struct {
	Node, Kind string
	UID, Pod   string
	// Hook is RunPodSandbox or CreateContainer, or admit where a kubelet decides.
	Hook string
	// Rejected is true if the node rejected the pod. Otherwise the agent did not run or could not
	// decide.
	Rejected bool
	// Cause is the reason and the rule of a rejection.
	Cause string
	At    time.Time
	Error string
	// Ended is when a pod ended on the node the last time before, where a kubelet decides.
	Ended time.Time
	// Unplanned is set if the scheduler had not planned the pod for the node, where a kubelet
	// decides. It binds pods so while it does not know what the kubelet decides by.
	Unplanned bool
	// Try counts the attempts for the pod on this node, from 1.
	Try int
}

// record is what a fleet counts. It is safe for concurrent use.
type record struct {
	mu       sync.Mutex
	troubles []Trouble
	rejected int // how many of the troubles are rejections
	hooks    map[string]*Latency
	decided  map[string]*rejection.Rejection // the last one, by UID
	outcomes map[string]int                  // how pods got their assignments, by handover.Reason
	writes   Writes
	lags     []time.Duration // from the admission of a pod by a kubelet to the object that shows it
}

func (r *record) shown(lag time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lags = append(r.lags, lag)
}

// Writes counts the writes of the nodes' own objects.
type Writes struct {
	Written, Failed int
	// Error is the last error.
	Error string
}

// status returns what a fleet with that number of nodes has seen.
func (r *record) status(nodes int) Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Status{Nodes: nodes, Troubles: len(r.troubles), Rejected: r.rejected, Hooks: map[string]*Latency{}, Outcomes: maps.Clone(r.outcomes), Writes: r.writes, Shown: load.QuantilesOf(slices.Clone(r.lags))}
	for name, l := range r.hooks {
		copied := *l
		s.Hooks[name] = &copied
	}
	return s
}

// after returns the troubles without the first count ones.
func (r *record) after(count string) ([]Trouble, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > len(r.troubles) {
		return nil, fmt.Errorf("after=%q: expected a number up to %d", count, len(r.troubles))
	}
	return r.troubles[n:len(r.troubles):len(r.troubles)], nil
}

// came counts the outcome of a decision.
func (r *record) came(how handover.Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes[how.String()]++
}

// wrote counts a write of the node's object.
func (n *Node) wrote(_ time.Duration, err error) {
	if err == nil {
		n.published.Store(true)
	}
	r := n.record
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.writes.Failed++
		r.writes.Error = err.Error()
		return
	}
	r.writes.Written++
}

// Latency is a histogram of the times of answers.
type Latency struct {
	Count int
	Total time.Duration
	// Below has the number of answers below each bound of Bounds. The last element has the rest.
	Below [len(Bounds) + 1]int
}

// Bounds are the bounds of Latency.Below.
var Bounds = [...]time.Duration{100 * time.Microsecond, 300 * time.Microsecond, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond}

// hook counts the time of an answer.
func (r *record) hook(name string, took time.Duration, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.hooks[name]
	if l == nil {
		l = &Latency{}
		r.hooks[name] = l
	}
	l.Count++
	l.Total += took
	i := 0
	for i < len(Bounds) && took >= Bounds[i] {
		i++
	}
	l.Below[i]++
}

// decisions is a node as an engine.Observer.
type decisions Node

// Decided records the cause of a rejection, and logs why a grant that was handed over is not
// applied.
func (d *decisions) Decided(made engine.Decision) {
	if o := made.Handed; o != nil && o.Reason != handover.Applied && o.Reason != handover.Absent {
		d.fleet.log.Warn("the grant in the pod's annotation is not applied", "node", d.Name, "pod", made.Plan.Pod.ID(), "reason", o.Reason.String(), "error", o.Err)
	}
	if made.Plan == nil || made.Plan.Rejection == nil {
		return
	}
	d.record.mu.Lock()
	defer d.record.mu.Unlock()
	d.record.decided[made.Plan.Pod.UID] = made.Plan.Rejection
}

// Wrote implements engine.Observer.
func (*decisions) Wrote(engine.Write) {}

// Released implements engine.Observer.
func (d *decisions) Released(uid string) {
	d.record.mu.Lock()
	defer d.record.mu.Unlock()
	delete(d.record.decided, uid)
}

// failure is why an attempt failed.
type failure struct {
	hook     string
	err      error
	rejected bool
	// cause is that of a rejection. If empty, it is the agent's, if it has decided.
	cause string
	// See Trouble.
	ended     time.Time
	unplanned bool
}

// trouble records a failed attempt.
func (n *Node) trouble(w *worker, f failure) {
	t := Trouble{
		Node: n.Name, Kind: n.Kind.Name, UID: w.uid, Pod: w.pod().Namespace + "/" + w.pod().Name, Hook: f.hook, At: time.Now(), Try: w.tries,
		Error: f.err.Error(), Rejected: f.rejected, Cause: f.cause, Ended: f.ended, Unplanned: f.unplanned,
	}
	n.record.mu.Lock()
	defer n.record.mu.Unlock()
	if d, there := n.record.decided[w.uid]; there && t.Rejected && t.Cause == "" {
		t.Cause = string(d.Reason) + " " + d.Rule
	}
	n.record.troubles = append(n.record.troubles, t)
	if t.Rejected {
		n.record.rejected++
	}
}
