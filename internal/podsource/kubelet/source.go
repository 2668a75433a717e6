package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/paddock-project/paddock/internal/absence"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/podspec"
)

// Errors that Lookup's errors wrap: for a pod that the kubelet does not list, and for one that it lists and
// that cannot be understood. Any other error is of a kubelet that could not be asked.
var (
	ErrUnknownPod  = errors.New("the kubelet does not list the pod")
	ErrUnusablePod = errors.New("its specification is not usable")
)

// The default times.
const (
	DefaultEvery = 10 * time.Second
	DefaultAgain = 200 * time.Millisecond
)

// Options are how the source reads. Now, After and Log are needed; the rest has defaults.
type Options struct {
	Gates podspec.Gates
	// Now and After are those of package time.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger
	// Every is how often the list is asked for when nothing needs it. Default: DefaultEvery.
	Every time.Duration
	// Again is how long to wait before a pod that is not listed is asked for once more. Default: DefaultAgain.
	Again time.Duration
}

// Source is safe for use by several goroutines.
type Source struct {
	options Options
	client  *client

	mu      sync.Mutex
	pods    map[string]entry // of the answer that was asked for last
	last    time.Time        // when that was
	tracker absence.Tracker
	trouble string // what was logged last, for logging it once
	unready error  // why Run could not read the list the last time
}

// entry is one pod of the list, in numbers, or what is wrong with it.
type entry struct {
	pod request.Pod
	err error
}

// New is a source at an address. Nobody is asked yet; files that the address names are read.
func New(a Address, o Options) (*Source, error) {
	if o.Every == 0 {
		o.Every = DefaultEvery
	}
	if o.Again == 0 {
		o.Again = DefaultAgain
	}
	c, err := newClient(a, o.Now)
	if err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	return &Source{options: o, client: c}, nil
}

// Run keeps the list warm until ctx ends. It returns the cause of that.
func (s *Source) Run(ctx context.Context) error {
	defer s.client.http.CloseIdleConnections()
	if s.client.address.Plain() {
		s.options.Log.WarnContext(ctx, "the kubelet is asked over http: any process of the node that takes the port first can answer in its place; "+
			"want https://127.0.0.1:10250 with tokenFile and caFile", "url", s.client.url)
	}
	for {
		a, err := s.ask(ctx)
		s.say(ctx, a, err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.options.After(s.options.Every):
		}
	}
}

// say logs trouble once, and its end once.
func (s *Source) say(ctx context.Context, a *answer, err error) {
	if ctx.Err() != nil {
		return
	}
	trouble := ""
	var unready error
	switch {
	case err != nil:
		unready = err
		trouble = "the kubelet's list of pods cannot be read: no new pod can start, and no pod is released"
	case a.list.Unreadable > 0:
		trouble = "the kubelet's list has pods without a readable UID: no pod is released that the list does not have"
		err = a.unreadable()
	}
	s.mu.Lock()
	changed := s.trouble != trouble
	s.trouble, s.unready = trouble, unready
	s.mu.Unlock()
	switch {
	case !changed:
	case trouble != "":
		s.options.Log.ErrorContext(ctx, trouble, "error", err)
	default:
		s.options.Log.InfoContext(ctx, "the kubelet's list of pods is read again")
	}
}

// Ready returns why the list cannot be read, by the last time that Run asked; nil: it can. Before the first
// answer that is the reason.
func (s *Source) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unready == nil && s.last.IsZero() {
		return errUnasked
	}
	return s.unready
}

// errUnasked is why a source is not ready that has not been asked.
var errUnasked = errors.New("the kubelet's list of pods was not read yet: no new pod can start")

// Lookup returns what a pod asks for. If it is not known yet the kubelet is asked, and once more after a
// moment, both within ctx. The error wraps ErrUnknownPod if it was not listed then.
func (s *Source) Lookup(ctx context.Context, uid string) (request.Pod, error) {
	s.mu.Lock()
	known, there := s.pods[uid]
	s.mu.Unlock()
	if there {
		return known.pod, known.err
	}
	for again := range 2 {
		if again > 0 {
			select {
			case <-ctx.Done():
				return request.Pod{}, fmt.Errorf("%w; there was no time to ask again", ErrUnknownPod)
			case <-s.options.After(s.options.Again):
			}
		}
		a, err := s.ask(ctx)
		if err != nil {
			return request.Pod{}, err
		}
		if e, there := a.pods[uid]; there {
			return e.pod, e.err
		}
	}
	return request.Pod{}, fmt.Errorf("%w, asked twice", ErrUnknownPod)
}

// List asks which pods there are now, by UID. A pod that cannot be used is there with nothing but its names.
// If the list has an item whose UID cannot be read, which could be any pod, that is an error. Whether a pod
// that is not in the list is gone is for Gone to decide.
func (s *Source) List(ctx context.Context) (map[string]request.Pod, error) {
	a, err := s.ask(ctx)
	if err == nil {
		err = a.unreadable()
	}
	if err != nil {
		return nil, err
	}
	pods := make(map[string]request.Pod, len(a.pods))
	for uid, e := range a.pods {
		pods[uid] = e.pod
	}
	return pods, nil
}

// Gone tells whether a pod is gone by all lists so far (package absence). It asks nobody: List asks.
func (s *Source) Gone(uid string, trace absence.Trace) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tracker.Gone(uid, trace)
}

// ask gets a new list and remembers it, unless one that was asked for later is there already. What it
// returns is not to be changed.
func (s *Source) ask(ctx context.Context) (*answer, error) {
	a := &answer{gates: s.options.Gates, pods: map[string]entry{}, left: maxWeight}
	a.list = absence.List{Asked: s.options.Now(), Pods: map[string]absence.Source{}, Ended: map[string]absence.Source{}}
	process, err := s.client.ask(ctx, a.read)
	if err != nil {
		return nil, err
	}
	a.list.Process = process
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tracker.Observe(a.list)
	if a.list.Asked.After(s.last) {
		s.pods, s.last = a.pods, a.list.Asked
	}
	return a, nil
}
