package kueue

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/scheduler/cluster"
)

// Controller is the controllerName of the admission checks that this package answers.
const Controller = "paddock-project.github.io/fleet"

const (
	// Period is the time between two passes.
	Period = 2 * time.Second
	// MaxPass is how long a pass goes on to judge workloads. The next pass judges the others on the
	// nodes as they are then.
	MaxPass = 10 * time.Second
	// KeepFor is how long the places of a workload are kept after it became Ready. Kueue starts its
	// pods within seconds, and a scheduler binds them within seconds if they fit. Longer than that,
	// the place of a workload that waits for something else would keep others out.
	KeepFor = 2 * time.Minute
	// First and Longest bound the time after which Kueue tries a workload again. Kueue 0.17 evicts a
	// workload that is not admitted only at the end of this time, so that its quota is reserved
	// until then: a longer one would keep quota from others.
	First   = 30 * time.Second
	Longest = 4 * time.Minute
	// MaxActivate is the longest time between two tries to mark an admission check as active. The
	// time doubles from Period on: what prevents it, such as a missing permission, stays for long.
	MaxActivate = time.Minute
	// maxPods is the largest number of pods of a workload that is judged. At 20 µs for each they
	// take 1 s.
	maxPods = 50_000
	// maxClasses is the number of kinds of pods whose answers are kept, at 1 MB each on 5,000 nodes.
	maxClasses = 64
)

// These are the outcomes of judging a workload.
const (
	Accepted = "ready"
	Retried  = "retry"
	Unjudged = "unjudged"
	// Conflicted means that the workload had changed before its answer was written. Another pass
	// judges it again. Failed means that the API server did not take the answer for another reason.
	Conflicted = "conflict"
	Failed     = "failed"
)

// World has everything that the checks depend on. What its functions return must not be changed,
// neither by the caller nor later.
type World struct {
	// Now returns the current time.
	Now func() time.Time
	// Checks returns the admission checks of Controller by name, and whether each is marked as
	// active. Activate marks one.
	Checks   func() map[string]bool
	Activate func(ctx context.Context, name string, now time.Time) error
	// Workloads returns all workloads, which may be older than what was written. Flavor returns nil
	// for a flavor that does not exist.
	Workloads func() []*Workload
	Flavor    func(name string) *Flavor
	// Nodes returns all nodes, and Pods all pods that have not ended.
	Nodes func() []*v1.Node
	Pods  func() []*v1.Pod
	// At returns what is known of a node, or nil if it has no objects. Awaited reports whether such
	// a node is expected to get them. Gates are the feature gates with which nodes read pods.
	At      func(node string) *cluster.At
	Awaited func(*v1.Node) bool
	Gates   func() []podspec.Gates
	// Patch patches the status of a workload.
	Patch func(ctx context.Context, w *Workload, patch []byte) error
	// Note records an event for a workload.
	Note func(w *Workload, text string)
	// Count counts outcomes. Passed reports how long a pass took in which workloads were judged,
	// and how many wait for the next one.
	Count  func(outcome string)
	Passed func(took time.Duration, left int)
}

// Checker answers admission checks. It must not be used by several goroutines.
type Checker struct {
	world  World
	ground *ground
	kept   map[types.UID]*kept
	// tries has the workloads that were told to try again.
	tries map[types.UID]try
	// inactive has the admission checks, by name, that could not be marked as active.
	inactive map[string]try
	// answered has the resource version with which each workload was answered last. Until its watch
	// shows another one, it is not judged again.
	answered map[types.UID]string
}

// try is when something is tried again, and how often it has failed. A Kueue that does not know
// requeueAfterSeconds comes back at once: the workload then waits here.
type try struct {
	until time.Time
	count int32
}

// New returns a Checker. Its nodes score places as those of the ranking.
func New(world World, ranking *fleet.Ranking) *Checker {
	return &Checker{world: world, ground: newGround(ranking), kept: map[types.UID]*kept{}, tries: map[types.UID]try{}, inactive: map[string]try{}, answered: map[types.UID]string{}}
}

// Pass answers the workloads that wait for it. If none does, it costs a look at each workload.
func (c *Checker) Pass(ctx context.Context) {
	now := c.world.Now()
	mine := c.world.Checks()
	maps.DeleteFunc(c.inactive, func(name string, _ try) bool { active, there := mine[name]; return active || !there })
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		if !mine[name] {
			c.activate(ctx, name, now)
		}
		mine[name] = true
	}
	due := c.look(mine, now)
	if len(due) == 0 {
		return
	}
	if err := c.judgeAll(ctx, mine, due, now); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Workloads of Kueue are not judged")
	}
}

// activate marks an admission check as active, unless that failed a short time ago. An API server
// that does not allow it would otherwise be asked, and the error logged, in every pass.
func (c *Checker) activate(ctx context.Context, name string, now time.Time) {
	last := c.inactive[name]
	if now.Before(last.until) {
		return
	}
	err := c.world.Activate(ctx, name, now)
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) || ctx.Err() != nil {
		delete(c.inactive, name)
		return
	}
	wait := backoff(Period, MaxActivate, last.count)
	c.inactive[name] = try{until: now.Add(wait), count: last.count + 1}
	klog.FromContext(ctx).Error(err, "An AdmissionCheck is not marked as active, and Kueue admits nothing to its queues", "admissionCheck", name, "triesAgainAfter", wait)
}

// look returns the workloads that are due, those of the highest priority first and then the oldest.
// It begins to keep the places of workloads that have become Ready elsewhere, and forgets those
// that are not needed any more.
func (c *Checker) look(mine map[string]bool, now time.Time) (due []*Workload) {
	seen, ready := map[types.UID]bool{}, map[types.UID]bool{}
	for _, w := range c.world.Workloads() {
		seen[w.UID] = true
		if c.answered[w.UID] == w.ResourceVersion {
			ready[w.UID] = c.kept[w.UID] != nil
			continue
		}
		delete(c.answered, w.UID)
		state, since := w.state(mine)
		if state == "" || !w.Quota || w.Evicted || w.Finished || w.Inactive || w.DeletionTimestamp != nil {
			continue
		}
		fresh := state == Ready && now.Sub(since) < KeepFor
		if k := c.kept[w.UID]; fresh && k != nil {
			k.workload = w
		} else if fresh && w.Flaw == "" {
			c.kept[w.UID] = &kept{workload: w, since: since}
		}
		ready[w.UID] = fresh
		if state == Pending && !now.Before(c.tries[w.UID].until) {
			due = append(due, w)
		}
	}
	maps.DeleteFunc(c.kept, func(uid types.UID, _ *kept) bool { return !ready[uid] })
	maps.DeleteFunc(c.answered, func(uid types.UID, _ string) bool { return !seen[uid] })
	maps.DeleteFunc(c.tries, func(uid types.UID, t try) bool { return !seen[uid] || now.Sub(t.until) > Longest })
	slices.SortFunc(due, func(a, b *Workload) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(string(a.UID), string(b.UID)))
	})
	return due
}

// state returns the state of the checks of this controller: Pending if one of them and no other
// check is pending, Ready with the time of the last of them if all are, and else nothing.
func (w *Workload) state(mine map[string]bool) (state string, since time.Time) {
	for i := range w.Checks {
		switch k := &w.Checks[i]; {
		case !mine[k.Name] && k.State != Ready:
			return "", since
		case !mine[k.Name]:
		case k.State != Ready && k.State != Pending:
			return "", since
		case k.State == Pending || state == Pending:
			state = Pending
		default:
			state = Ready
			if k.Changed.After(since) {
				since = k.Changed
			}
		}
	}
	return state, since
}

// judgeAll judges the workloads that are due until MaxPass is over.
func (c *Checker) judgeAll(ctx context.Context, mine map[string]bool, due []*Workload, begun time.Time) error {
	if err := c.ground.refresh(&c.world); err != nil {
		return err
	}
	defer c.ground.room.Fleet.Forget(0) // A fleet that nobody asks takes no memory for answers.
	if err := c.replay(ctx); err != nil {
		return err
	}
	judged := 0
	for ; judged < len(due); judged++ {
		if judged > 0 && c.world.Now().Sub(begun) >= MaxPass {
			break
		}
		w := due[judged]
		answer, nodes := c.judge(ctx, w)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.write(ctx, mine, w, answer, nodes)
		c.ground.room.Fleet.Forget(maxClasses)
	}
	c.world.Passed(c.world.Now().Sub(begun), len(due)-judged)
	return nil
}

// replay places what is kept, in the order in which the workloads became Ready.
func (c *Checker) replay(ctx context.Context) error {
	all := slices.SortedFunc(maps.Values(c.kept), func(a, b *kept) int {
		return cmp.Or(a.since.Compare(b.since), strings.Compare(string(a.workload.UID), string(b.workload.UID)))
	})
	for _, k := range all {
		if _, err := c.ground.replay(ctx, k, &c.world); err != nil {
			return err
		}
	}
	return nil
}

// judge asks the fleet. nodes has where the pods of each group are expected if the answer is that
// they fit. The answer means nothing if the context has ended.
func (c *Checker) judge(ctx context.Context, w *Workload) (a Answer, nodes []map[string]int64) {
	unjudged := func(why string) (Answer, []map[string]int64) {
		return Answer{State: Ready, Message: "Not judged: " + why, Unjudged: true}, nil
	}
	switch {
	case w.Flaw != "":
		return unjudged(w.Flaw)
	case w.pods() > maxPods:
		return unjudged(fmt.Sprintf("it has %d pods, and at most %d are judged", w.pods(), maxPods))
	case slices.ContainsFunc(w.PodSets, func(s PodSet) bool { return s.Delayed }):
		return unjudged("Kueue assigns its topology after the admission checks")
	}
	all, err := c.ground.parts(w, &c.world)
	if err != nil {
		return unjudged(err.Error())
	}
	joint, err := c.ground.room.Take(ctx, all.groups)
	switch {
	case err != nil:
		return unjudged(err.Error())
	case joint.Short == nil:
		return Answer{State: Ready, Message: accepted(w.pods(), joint.Guessed, joint.Nodes)}, joint.Nodes
	}
	return Answer{State: Retry, Message: joint.Short.Text(), After: backoff(First, Longest, c.retries(w))}, nil
}

// retries returns how often the workload was answered with Retry. Kueue counts, but an old one does
// not.
func (c *Checker) retries(w *Workload) int32 {
	n := c.tries[w.UID].count
	for i := range w.Checks {
		n = max(n, w.Checks[i].Retries)
	}
	return n
}

// backoff returns the time before the next try after n tries. It doubles from first to longest.
func backoff(first, longest time.Duration, n int32) time.Duration {
	return min(longest, first<<min(max(n, 0), 10))
}

// accepted is the message about a workload whose pods fit.
func accepted(pods, guessed int64, nodes []map[string]int64) string {
	names := map[string]bool{}
	for _, on := range nodes {
		for name := range on {
			names[name] = true
		}
	}
	text := fmt.Sprintf("%d pod(s) fit together on %d node(s). This is a prediction, which keeps their places from other workloads of Kueue for %s", pods, len(names), KeepFor)
	if guessed > 0 {
		text += fmt.Sprintf("; for %d of them only sums were compared, because Paddock does not know what their nodes decide", guessed)
	}
	return text
}

// write writes an answer. If the API server does not take it, the workload is due again in the next
// pass, and its places stay taken in this one. A workload that is gone leaves the watch by itself.
func (c *Checker) write(ctx context.Context, mine map[string]bool, w *Workload, a Answer, nodes []map[string]int64) {
	now := c.world.Now()
	patch, err := w.Patch(mine, a, now)
	if err == nil {
		err = c.world.Patch(ctx, w, patch)
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		c.world.Count(Conflicted)
		return
	case err != nil:
		c.world.Count(Failed)
		klog.FromContext(ctx).Error(err, "An answer is not written", "workload", klog.KObj(w), "state", a.State)
		return
	}
	c.answered[w.UID] = w.ResourceVersion
	switch {
	case a.State == Retry:
		c.tries[w.UID] = try{until: now.Add(a.After), count: c.retries(w) + 1}
		c.world.Note(w, a.Message)
		c.world.Count(Retried)
	case a.Unjudged:
		c.world.Count(Unjudged)
	default:
		delete(c.tries, w.UID)
		c.kept[w.UID] = &kept{workload: w, since: now, nodes: nodes}
		c.world.Count(Accepted)
	}
}
