package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/absence"
)

// ErrUnknownPod is wrapped by errors of Lookup for a pod that the kubelet does not list, and
// ErrUnusablePod for a listed pod with fields that cannot be used. Any other error means that the
// kubelet did not answer.
var (
	ErrUnknownPod  = errors.New("the kubelet does not list the pod")
	ErrUnusablePod = errors.New("its specification cannot be used")
)

// These are the default times.
const (
	DefaultEvery = 10 * time.Second
	DefaultAgain = 200 * time.Millisecond
)

// Options configure a source. Now, After and Log are required. The other fields have defaults.
type Options struct {
	Gates podspec.Gates
	// Now and After are time.Now and time.After.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger
	// Every is the time between two regular reads of the list. If zero, it is DefaultEvery.
	Every time.Duration
	// Again is the wait before the second request for a pod that is not listed. If zero, it is
	// DefaultAgain.
	Again time.Duration
}

// Source is a source of pods. It is safe for use by several goroutines.
type Source struct {
	options Options
	client  *client

	// listing is from the same answer as pods.
	listing atomic.Pointer[handover.Listing]

	mu      sync.Mutex
	pods    map[string]entry // from the answer to the latest request
	last    time.Time        // the time of that request
	tracker absence.Tracker
	trouble string // the problem that was logged last, so that it is logged once
	unready error  // the reason why Run could not read the list the last time
}

// entry is one pod of the list: a request and the grant of its annotation, or an error. pending is
// the reason why the kubelet does not apply the request after a resize. quiet is the time until
// which the pod asks not to be moved.
type entry struct {
	pod           request.Pod
	text, pending string
	quiet         time.Time
	odd           []string // sentences about annotations that are probably misspelt
	err           error
}

// New returns a source for an address. It reads the files that the address names, and sends no
// request yet.
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

// Run reads the list regularly until ctx ends. It returns the cause of ctx.
func (s *Source) Run(ctx context.Context) error {
	defer s.client.http.CloseIdleConnections()
	if s.client.address.Plain() {
		s.options.Log.WarnContext(ctx, "the agent asks the kubelet over http: any process of the node that takes the port first can answer instead; "+
			"set url https://127.0.0.1:10250 with tokenFile and caFile", "url", s.client.url)
	}
	for {
		a, err := s.ask(ctx)
		s.report(ctx, a, err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.options.After(s.options.Every):
		}
	}
}

// report logs a problem once, and its end once.
func (s *Source) report(ctx context.Context, a *answer, err error) {
	if ctx.Err() != nil {
		return
	}
	trouble := ""
	var unready error
	switch {
	case err != nil:
		unready = err
		trouble = "the kubelet's list of pods cannot be read: no new pod is admitted, and no pod is released"
	case a.list.Unreadable > 0:
		trouble = "the kubelet's list has pods without a readable UID: no pod that is missing from the list is released"
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
		s.options.Log.InfoContext(ctx, "the kubelet's list of pods can be read again")
	}
}

// Ready returns the reason why the last read of Run failed, or nil if it succeeded. Before the
// first answer it returns errUnasked.
func (s *Source) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unready == nil && s.last.IsZero() {
		return errUnasked
	}
	return s.unready
}

// errUnasked is the reason why a source that has not read a list is not ready.
var errUnasked = errors.New("the kubelet's list of pods has not been read yet: no new pod is admitted")

// Lookup returns the request of a pod. If the pod is not known yet, Lookup asks the kubelet, and
// once more after a wait, both within ctx. The error wraps ErrUnknownPod if the pod is still not
// listed.
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
				return request.Pod{}, fmt.Errorf("%w, and there was no time to ask again", ErrUnknownPod)
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

// List requests the list of pods and returns them by UID. A pod that cannot be used has only its
// names. List returns an error if the list has an item whose UID cannot be read, because that could
// be any pod. Gone decides whether a pod that is not in the list is gone.
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

// Latest returns a pod of the last list, with the request of its specification. pending is the
// reason why the kubelet does not apply that request: the reason and the message of the condition
// PodResizePending. It is empty if the kubelet applies it. A pod that cannot be used is not known.
// Latest sends no request.
func (s *Source) Latest(uid string) (pod request.Pod, pending string, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, there := s.pods[uid]
	return e.pod, e.pending, there && e.err == nil
}

// Listing returns the list that the kubelet sent last, or nil if there is none yet. It sends no
// request.
func (s *Source) Listing() *handover.Listing { return s.listing.Load() }

// Quiet returns the time until which a pod asks not to be moved, according to the list that was
// read last. The time is not known if the pod is not listed, or cannot be used. Quiet sends no
// request.
func (s *Source) Quiet(uid string) (until time.Time, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, there := s.pods[uid]
	return e.quiet, there && e.err == nil
}

// Gone reports whether a pod is gone, according to all lists so far (package absence). It sends no
// request.
func (s *Source) Gone(uid string, trace absence.Trace) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tracker.Gone(uid, trace)
}

// ask reads a new list and stores it, unless the answer to a later request is already stored. The
// caller must not change the answer.
func (s *Source) ask(ctx context.Context) (*answer, error) {
	a := &answer{gates: s.options.Gates, pods: map[string]entry{}, left: maxWeight}
	a.list = absence.List{Asked: s.options.Now(), Pods: map[string]absence.Source{}, Ended: map[string]absence.Source{}}
	process, err := s.client.ask(ctx, a.read)
	if err != nil {
		return nil, err
	}
	a.list.Process = process
	s.mu.Lock()
	s.tracker.Observe(a.list)
	before := s.pods
	if a.list.Asked.After(s.last) {
		s.pods, s.last = a.pods, a.list.Asked
		s.listing.Store(a.listing())
	}
	s.mu.Unlock()
	for uid, e := range a.pods {
		if !slices.Equal(before[uid].odd, e.odd) {
			for _, text := range e.odd {
				s.options.Log.WarnContext(ctx, text, "pod", e.pod.Namespace+"/"+e.pod.Name, "uid", uid)
			}
		}
	}
	return a, nil
}
