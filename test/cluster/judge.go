package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/test/cluster/chaos"
	"github.com/paddock-project/paddock/test/cluster/hollow"
	"github.com/paddock-project/paddock/test/cluster/load"
)

// judgement is the result of a load on the nodes.
type judgement struct {
	scheduler string
	*load.Result
	// troubles has the failed attempts for the pods of the load. others has those for the pods of
	// faults.
	troubles, others []hollow.Trouble
	// faults has the number of injected faults by kind. excused has the number of rejected pods
	// that are consequences of them. unexcused has the rejections that no fault excuses.
	faults, excused map[string]int
	unexcused       []hollow.Trouble
	// rejected has the pods that a node rejected at least once. first is the number of those that
	// had not been evicted before, out of born pods: what a user who creates a pod meets.
	rejected    map[types.UID]bool
	first, born int
	// late is the time to Running of rejected pods, from the creation of the first pod of their
	// line.
	late  load.Quantiles
	hooks map[string]*hollow.Latency
	// outcomes counts how the pods of the load got their assignments. writes counts the writes of
	// the nodes' objects.
	outcomes map[string]int
	writes   hollow.Writes
	// shown is the time from the admission of a pod by a kubelet until the object of its node shows
	// it.
	shown load.Quantiles
	nodes int
	// trust compares the predictions of observing agents with the decisions of the kubelets.
	trust trust
	// wrong lists what no load may cause: CPUs or bytes that are assigned twice, or a container
	// that does not run where its grant is.
	wrong []string
	// twice lists the memory that kubelets have assigned twice.
	twice []string
	// different lists where the states that schedulers make of the objects and pods differ from
	// those of the nodes.
	different []string
	// misknown lists where the states of the scheduler itself differ from those of the nodes.
	misknown []string
	// left lists the grants that remain when every pod has ended.
	left []string
}

// judged runs a load, judges the nodes while its pods run, ends the pods, and judges what is left.
func (c *cluster) judged(ctx context.Context, config load.Config) (*judgement, error) {
	before, err := c.hollow.status(ctx)
	if err != nil {
		return nil, err
	}
	empty, err := c.hollow.states(ctx)
	if err != nil {
		return nil, err
	}
	config.Beside = func(ctx context.Context) string { return c.rejections(ctx, before) }
	faults, result, err := c.disturbed(ctx, config)
	if err != nil {
		return nil, err
	}
	after, err := c.hollow.status(ctx)
	if err != nil {
		return nil, err
	}
	troubles, err := c.hollow.troubles(ctx, before)
	if err != nil {
		return nil, err
	}
	j := &judgement{scheduler: config.Scheduler, Result: result, rejected: map[types.UID]bool{}, hooks: after.Hooks, nodes: after.Nodes, faults: faults.Counts(), excused: map[string]int{}}
	j.outcomes, j.writes, j.shown = after.Outcomes, after.Writes, after.Shown
	for how, n := range before.Outcomes {
		j.outcomes[how] -= n
	}
	j.writes.Written, j.writes.Failed = j.writes.Written-before.Writes.Written, j.writes.Failed-before.Writes.Failed
	for _, t := range troubles {
		if strings.HasPrefix(t.Pod, config.Namespace+"/") {
			j.troubles = append(j.troubles, t)
		} else {
			j.others = append(j.others, t)
		}
	}
	j.count(faults)
	// An agent publishes up to two seconds after a change.
	var unknown, silent error
	states, err := c.atRest(ctx, func(states []hollow.NodeState) bool {
		j.wrong, j.twice = violations(states)
		j.different, unknown = c.differences(ctx, states)
		j.misknown, silent = c.misknown(ctx, states)
		return unknown == nil && silent == nil && len(j.wrong)+len(j.different)+len(j.misknown) == 0
	})
	if err := errors.Join(err, unknown, silent); err != nil {
		return nil, err
	}
	j.trust = trustOf(states).since(trustOf(empty))
	if err := c.keepDifferences(states); err != nil {
		return nil, err
	}
	say("%s: ending every pod", config.Scheduler)
	if err := load.Drain(ctx, c.client, config.Namespace); err != nil {
		return nil, err
	}
	if states, err = c.atRest(ctx, func(states []hollow.NodeState) bool { return len(grants(states)) == 0 }); err != nil {
		return nil, err
	}
	j.left = grants(states)
	return j, nil
}

// disturbed runs a load together with the faults of the run.
func (c *cluster) disturbed(ctx context.Context, config load.Config) (*chaos.Chaos, *load.Result, error) {
	var names []string
	for i, k := range c.kinds {
		names = append(names, hollow.NodeName(k, i))
	}
	world := chaos.World{
		Client: c.client, Nodes: names, Order: c.hollow.order, RestartAPI: c.plane.RestartAPI, Namespace: "chaos", Seed: c.seed, Say: say,
		Slow: func(by time.Duration) {
			if c.slow != nil { // Requests of Kubernetes' own scheduler do not pass through it.
				c.slow.By(by)
			}
		},
	}
	faults, err := chaos.New(c.faults, world)
	if err != nil {
		return nil, nil, err
	}
	if err := load.Prepare(ctx, c.client, world.Namespace); err != nil {
		return nil, nil, err
	}
	enough := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- faults.Run(ctx, enough) }()
	config.Placed = func() {
		close(enough)
		ended <- <-ended // The last fault is over.
	}
	if c.changes != nil {
		c.changes.begin(ctx, &config)
	}
	result, err := load.Run(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	if c.changes != nil {
		if err := c.changes.end(); err != nil {
			return nil, nil, err
		}
	}
	return faults, result, errors.Join(<-ended, load.Drain(ctx, c.client, world.Namespace))
}

// resting is how long the nodes may take to come to rest. An agent compares everything every 30 s.
const resting = 70 * time.Second

// atRest returns the states of the nodes as soon as wanted accepts them, or the last states after
// resting.
func (c *cluster) atRest(ctx context.Context, wanted func([]hollow.NodeState) bool) ([]hollow.NodeState, error) {
	for begin := time.Now(); ; {
		states, err := c.hollow.states(ctx)
		if err != nil || wanted(states) || time.Since(begin) > resting {
			return states, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

// violations returns what is wrong at the nodes, and what is a fault of their kubelets.
func violations(states []hollow.NodeState) (wrong, twice []string) {
	for _, s := range states {
		if s.Away {
			wrong = append(wrong, s.Name+": its agent is away")
		}
		for _, w := range s.Wrong {
			wrong = append(wrong, s.Name+": "+w)
		}
		for _, t := range s.Twice {
			twice = append(twice, s.Name+": "+t)
		}
	}
	return wrong, twice
}

// grants lists every grant with its node.
func grants(states []hollow.NodeState) (list []string) {
	for _, s := range states {
		for _, uid := range slices.Sorted(maps.Keys(s.Grants)) {
			list = append(list, s.Name+": "+s.Grants[uid])
		}
	}
	return list
}

// visible is how long before a pod is bound its scheduler can know of the end of another one.
const visible = time.Second

// count finds the pods that were rejected, and how long they took until they ran elsewhere.
func (j *judgement) count(faults *chaos.Chaos) {
	lines := map[time.Time]bool{} // the pods of one line have the same birth time
	for _, t := range j.troubles {
		uid := types.UID(t.UID)
		if !t.Rejected || j.rejected[uid] {
			continue
		}
		j.rejected[uid] = true
		p := j.Pods[uid]
		if p == nil {
			j.unexcused = append(j.unexcused, t)
			continue
		}
		lines[p.Born] = true
		cause := faults.Cause(t.Node, t.UID, p.Bound, t.At)
		if cause == "" && t.Ended.After(p.Bound.Add(-visible)) {
			cause = "ends" // The kubelet has released something that no scheduler could know of.
		}
		if cause == "" && t.Unplanned {
			cause = "unsure" // unsureNodes: pass
		}
		if cause != "" {
			j.excused[cause]++
		} else {
			j.unexcused = append(j.unexcused, t)
		}
	}
	var late []time.Duration
	for uid, p := range j.Pods {
		if p.Created.Equal(p.Born) && !p.Bound.IsZero() {
			j.born++
			if j.rejected[uid] {
				j.first++
			}
		}
		if lines[p.Born] && !p.Running.IsZero() {
			late = append(late, p.Running.Sub(p.Born))
		}
	}
	j.late = load.QuantilesOf(late)
}

// String formats the figures.
func (j *judgement) String() string {
	w := &strings.Builder{}
	fmt.Fprintf(w, "\n%s: %d placements in %.0f s (%.0f a second), %d withdrawn\n", j.scheduler, j.Bound, j.Took.Seconds(), float64(j.Bound)/j.Took.Seconds(), j.Withdrawn)
	fmt.Fprintf(w, "  rejected by their node   %d pods (%.1f %%), %d answers; without those that came back: %d (%.1f %%)\n",
		len(j.rejected), percent(len(j.rejected), j.Bound), len(j.troubles), j.first, percent(j.first, j.born))
	fmt.Fprintf(w, "  lost at the end          %d pods are bound and do not run; %d were evicted\n", j.Lost, j.Evicted)
	fmt.Fprintf(w, "  created to bound         median %v, p95 %v, longest %v\n", j.ToBind.Half, j.ToBind.Most, j.ToBind.All)
	fmt.Fprintf(w, "  room to bound            median %v, p95 %v, longest %v, of %d pods that had waited, from the last end of a pod on their node\n", j.Woken.Half, j.Woken.Most, j.Woken.All, j.Waited)
	fmt.Fprintf(w, "  bound to Running         median %v, p95 %v, longest %v\n", j.ToRun.Half, j.ToRun.Most, j.ToRun.All)
	if len(j.rejected) > 0 {
		fmt.Fprintf(w, "  rejected pods to Running median %v, p95 %v, longest %v, from their creation\n", j.late.Half, j.late.Most, j.late.All)
	}
	if n := j.excused["ends"]; n > 0 {
		fmt.Fprintf(w, "    %6d  rejected after a pod had ended on the node, a second before the binding at the earliest\n", n)
	}
	if n := j.excused["unsure"]; n > 0 {
		fmt.Fprintf(w, "    %6d  rejected by a node that was unsure when the pod was bound\n", n)
	}
	for _, kind := range slices.Sorted(maps.Keys(j.faults)) {
		fmt.Fprintf(w, "    %6d  faults %s, which excuse %d rejected pods\n", j.faults[kind], kind, j.excused[kind])
	}
	if len(j.faults) > 0 {
		fmt.Fprintf(w, "    %6d  rejected pods that no fault excuses; %d answers to pods of the faults\n", len(j.unexcused), len(j.others))
	}
	causes := map[string]int{}
	for _, t := range j.troubles {
		causes[cmp.Or(t.Cause, "no decision: "+anyName.ReplaceAllString(t.Error, "…"))]++
	}
	for _, cause := range slices.SortedFunc(maps.Keys(causes), func(a, b string) int { return cmp.Or(causes[b]-causes[a], cmp.Compare(a, b)) }) {
		fmt.Fprintf(w, "    %6d  %.150s\n", causes[cause], cause)
	}
	if l := j.hooks["RunPodSandbox"]; l != nil {
		fmt.Fprintf(w, "  RunPodSandbox            %d answers, mean %v, below", l.Count, (l.Total / time.Duration(max(l.Count, 1))).Round(time.Microsecond))
		sum := 0
		for i, bound := range hollow.Bounds {
			sum += l.Below[i]
			fmt.Fprintf(w, " %v %.1f %%", bound, percent(sum, l.Count))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "  handed over             ")
	for _, how := range slices.Sorted(maps.Keys(j.outcomes)) {
		fmt.Fprintf(w, " %s %d", how, j.outcomes[how])
	}
	fmt.Fprintf(w, "; %d writes of PaddockNodes, %.3f a second and node, %d failed\n",
		j.writes.Written, float64(j.writes.Written)/j.Took.Seconds()/float64(max(j.nodes, 1)), j.writes.Failed)
	if j.writes.Failed > 0 {
		fmt.Fprintf(w, "    the last of them: %s\n", j.writes.Error)
	}
	if j.trust.admissions.All+j.trust.rejections.All > 0 {
		fmt.Fprintf(w, "  admitted to published    median %v, p95 %v, longest %v\n", j.shown.Half, j.shown.Most, j.shown.All)
		w.WriteString(j.trust.lines())
	}
	fmt.Fprintf(w, "  assigned twice           %d CPUs, bytes or containers; %d grants left when every pod had ended\n", len(j.wrong), len(j.left))
	for _, t := range j.twice {
		fmt.Fprintf(w, "    a kubelet assigned memory twice (Q-41): %s\n", t)
	}
	fmt.Fprintf(w, "  at rest                  %d grants differ between the nodes and what schedulers make of the API server's objects, %d between them and the scheduler\n",
		len(j.different), len(j.misknown))
	return w.String()
}

// anyName matches the names, UIDs and numbers in errors.
var anyName = regexp.MustCompile(`https?://[^ "]+|pod [0-9a-z-]+/[0-9a-z-]+|[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9]+[0-9,-]*\b`)

func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(whole, 1)) }

// check returns an error if something is wrong that must be right under every scheduler.
func (j *judgement) check() error {
	var errs []error
	for _, w := range slices.Concat(j.wrong[:min(len(j.wrong), 20)], j.different[:min(len(j.different), 20)], j.misknown[:min(len(j.misknown), 20)]) {
		errs = append(errs, errors.New(w))
	}
	for _, d := range j.trust.differences {
		errs = append(errs, errors.New(d))
	}
	for _, g := range j.left[:min(len(j.left), 20)] {
		errs = append(errs, fmt.Errorf("a grant is left although every pod has ended: %s", g))
	}
	return errors.Join(errs...)
}
