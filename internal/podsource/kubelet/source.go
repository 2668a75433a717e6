package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

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

// Options are how the source reads. After and Log are needed; the rest has defaults.
type Options struct {
	Gates podspec.Gates
	// After is time.After.
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

	mu   sync.Mutex
	pods map[string]entry // of the answer that was asked for last
	last uint64           // the number of that question
	next uint64
	// troubled tells that the last question was not answered, for saying so once.
	troubled bool
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
	c, err := newClient(a)
	if err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	return &Source{options: o, client: c}, nil
}

// Run keeps the list warm until ctx ends. It returns the cause of that.
func (s *Source) Run(ctx context.Context) error {
	defer s.client.http.CloseIdleConnections()
	for {
		_, err := s.ask(ctx)
		s.say(ctx, err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.options.After(s.options.Every):
		}
	}
}

// say tells once of trouble, and once of its end.
func (s *Source) say(ctx context.Context, err error) {
	s.mu.Lock()
	changed := s.troubled != (err != nil)
	s.troubled = err != nil
	s.mu.Unlock()
	switch {
	case ctx.Err() != nil || !changed:
	case err != nil:
		s.options.Log.ErrorContext(ctx, "the kubelet's list of pods is not to be had: no new pod can start", "error", err)
	default:
		s.options.Log.InfoContext(ctx, "the kubelet's list of pods is to be had again")
	}
}

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
		pods, err := s.ask(ctx)
		if err != nil {
			return request.Pod{}, err
		}
		if e, there := pods[uid]; there {
			return e.pod, e.err
		}
	}
	return request.Pod{}, fmt.Errorf("%w, asked twice", ErrUnknownPod)
}

// List asks anew which pods there are, by UID. Pods that cannot be understood are there with nothing but
// their names, since they are there.
func (s *Source) List(ctx context.Context) (map[string]request.Pod, error) {
	entries, err := s.ask(ctx)
	if err != nil {
		return nil, err
	}
	pods := make(map[string]request.Pod, len(entries))
	for uid, e := range entries {
		pods[uid] = e.pod
	}
	return pods, nil
}

// ask gets a new list and remembers it, unless one that was asked for later is there already. What it
// returns is not to be changed.
func (s *Source) ask(ctx context.Context) (map[string]entry, error) {
	s.mu.Lock()
	s.next++
	number := s.next
	s.mu.Unlock()
	list, err := s.client.list(ctx)
	if err != nil {
		return nil, err
	}
	pods := make(map[string]entry, len(list))
	for i := range list {
		pod := &list[i]
		if phase := pod.Status.Phase; phase == v1.PodSucceeded || phase == v1.PodFailed {
			continue
		}
		pods[string(pod.UID)] = s.read(pod)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if number > s.last {
		s.pods, s.last = pods, number
	}
	return pods, nil
}

func (s *Source) read(pod *v1.Pod) entry {
	asked, err := podspec.Request(podspec.Default(pod, s.options.Gates), s.options.Gates)
	if err != nil {
		return entry{request.Pod{UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}, fmt.Errorf("pod %s/%s: %w: %w", pod.Namespace, pod.Name, ErrUnusablePod, err)}
	}
	return entry{pod: asked}
}
