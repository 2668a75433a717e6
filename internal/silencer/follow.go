package silencer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/kernelfiles"
	"github.com/paddock-project/paddock/internal/node/podres"
	"github.com/paddock-project/paddock/internal/node/quiet"
)

const (
	// askTime limits one question to a socket.
	askTime = 2 * time.Second
	// podsEvery is how often the process reads the kubelet's list of pods while every container is
	// known. If the same containers stay unknown, for example because an image cannot be pulled, it
	// reads the list after soonAgain, and doubles the time after each reading, up to podsEvery.
	podsEvery = 10 * time.Second
	soonAgain = time.Second
	// forgetAfter is how long the containers of a source that does not answer still count. An
	// update of an agent takes seconds. On a node that was given to another manager, one source
	// never answers.
	forgetAfter = 10 * time.Minute
)

// assigned are the exclusive CPUs of a container according to one source.
type assigned struct {
	namespace, pod, name string
	cpus, to             cpuset.Set
}

// source is a PodResources API.
type source struct {
	socket string
	client *podres.Client
	// last is the last answer, and at its time. answered reports whether the source ever answered,
	// including before a restart of this process.
	last     []assigned
	caches   *podres.Caches
	wrong    error // why caches are those of an earlier answer
	at       time.Time
	answered bool
	err      error
}

// pod is the part of a pod in the kubelet's list that the process keeps.
type pod struct {
	Metadata struct {
		Namespace, Name, UID string
		Annotations          map[string]string
	}
	Spec struct {
		RuntimeClassName           string
		Containers, InitContainers []struct{ Name string }
	}
	Status struct {
		Phase                                    string
		ContainerStatuses, InitContainerStatuses []struct{ Name, ContainerID string }
	}
}

// follower tracks which container has which exclusive CPUs. It must be used by one goroutine only.
type follower struct {
	sources []*source
	kubelet *kubeletClient  // nil without a kubelet
	pods    map[string]*pod // by namespace and name
	podsAt  time.Time
	podsErr error
	// unknown are the containers that were missing in the list, or had no ID, when they caused its
	// last reading. again is how long they wait until the next reading.
	unknown []string
	again   time.Duration
	// groups has the last cgroup of each container, by the container's ID.
	groups map[string]string
	now    func() time.Time
	began  time.Time
}

func newFollower(c *Config, answered []string, now func() time.Time) (*follower, error) {
	f := &follower{pods: map[string]*pod{}, groups: map[string]string{}, now: now, began: now()}
	for _, socket := range c.PodResources {
		f.sources = append(f.sources, &source{socket: socket, answered: slices.Contains(answered, socket), at: now()})
	}
	if c.Kubelet.URL != "" {
		client, err := newClient(c.Kubelet.CAFile, c.Kubelet.Insecure)
		if err != nil {
			return nil, fmt.Errorf("kubelet.%w", err)
		}
		f.kubelet = &kubeletClient{c.Kubelet.URL, c.Kubelet.TokenFile, client}
	}
	return f, nil
}

// answered returns the sockets that have shown containers.
func (f *follower) answered() (sockets []string) {
	for _, s := range f.sources {
		if s.answered {
			sockets = append(sockets, s.socket)
		}
	}
	return sockets
}

// errNoSource is the error while no source answers. errMissed is the error while the only source
// that does not answer is one that had containers before a restart of this process.
var (
	errNoSource = errors.New("nothing is changed until a source of podResources answers")
	errMissed   = errors.New("nothing is changed until the source answers that had containers before, or 10 minutes have passed")
)

// Containers returns the containers with exclusive CPUs, and those that ask for settings without
// having any. It returns an error if it cannot know which containers there are.
func (f *follower) Containers(ctx context.Context, groups []kernelfiles.Cgroup) ([]quiet.Container, error) {
	var wrong []error
	ready, missed := false, false
	for _, s := range f.sources {
		s.ask(ctx, f.now())
		ready = ready || s.err == nil
		missed = missed || s.missed(f.now(), f.began)
		if s.err != nil {
			wrong = append(wrong, s.err)
		}
	}
	switch {
	case !ready:
		return nil, errors.Join(append(wrong, errNoSource)...)
	case missed:
		return nil, errors.Join(append(wrong, errMissed)...)
	}
	f.readPods(ctx)
	return f.assemble(groups), nil
}

// missed reports whether a source that had containers before a restart of this process has not
// answered since then.
func (s *source) missed(now, began time.Time) bool {
	return s.err != nil && s.answered && s.last == nil && now.Sub(began) < forgetAfter
}

// ask asks a source. If the source does not answer, its earlier answer stays valid.
func (s *source) ask(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	found, err := s.list(ctx)
	if s.err = err; err != nil {
		if now.Sub(s.at) > forgetAfter {
			s.last, s.caches, s.answered = nil, nil, false
		}
		return
	}
	s.last, s.at = found, now
	s.answered = len(found) > 0 || s.caches != nil && len(s.caches.Containers) > 0
}

// classes returns the classes of the first source that knows any, which is the agent.
func (f *follower) classes() *podres.Caches {
	for _, s := range f.sources {
		if s.caches != nil {
			return s.caches
		}
	}
	return nil
}

func (s *source) list(ctx context.Context) ([]assigned, error) {
	if s.client == nil {
		client, err := podres.Dial(ctx, s.socket)
		if err != nil {
			return nil, err
		}
		s.client = client
	}
	var extras podres.Extras
	answer, err := s.client.List(ctx, &extras)
	if err != nil {
		err = errors.Join(err, s.client.Close())
		s.client = nil
		return nil, err
	}
	s.take(&extras)
	to := map[string]cpuset.Set{}
	for i := range extras.Moves {
		if m := &extras.Moves[i]; m.To != "" {
			if set, err := cpuset.Parse(m.To); err == nil {
				to[m.Namespace+"/"+m.Pod] = set
			}
		}
	}
	found := []assigned{}
	for _, p := range answer.GetPodResources() {
		for _, c := range p.GetContainers() {
			if set, _ := podres.CPUs(c.GetCpuIds()); !set.IsEmpty() {
				found = append(found, assigned{p.GetNamespace(), p.GetName(), c.GetName(), set, to[p.GetNamespace()+"/"+p.GetName()]})
			}
		}
	}
	return found, nil
}

// take stores the classes in an answer. Classes that cannot be right change nothing.
func (s *source) take(extras *podres.Extras) {
	if s.wrong = extras.CachesError; s.wrong == nil {
		s.caches = extras.Caches
	}
}

// readPods reads the kubelet's list of pods, if the last one is old or lacks a container.
func (f *follower) readPods(ctx context.Context) {
	if f.kubelet == nil {
		return
	}
	var unknown []string
	for _, s := range f.sources {
		for i := range s.last {
			a := &s.last[i]
			if p := f.pods[a.namespace+"/"+a.pod]; p == nil || p.id(a.name) == "" {
				unknown = append(unknown, a.namespace+"/"+a.pod+"/"+a.name)
			}
		}
	}
	age, wait := f.now().Sub(f.podsAt), podsEvery
	if len(unknown) > 0 {
		slices.Sort(unknown)
		if !slices.Equal(unknown, f.unknown) {
			f.unknown, f.again = unknown, 0
		}
		wait = f.again
	}
	if age < wait {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	found, err := f.kubelet.pods(ctx)
	if f.podsErr = err; err == nil {
		f.pods, f.podsAt = found, f.now()
		f.again = min(podsEvery, max(soonAgain, 2*f.again))
	}
}

// containers returns the names of the containers.
func (p *pod) containers() (names []string) {
	for _, list := range [][]struct{ Name string }{p.Spec.Containers, p.Spec.InitContainers} {
		for _, c := range list {
			names = append(names, c.Name)
		}
	}
	return names
}

// id returns the ID of a container, or "".
func (p *pod) id(container string) string {
	for _, list := range [][]struct{ Name, ContainerID string }{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for _, c := range list {
			if _, id, found := strings.Cut(c.ContainerID, "://"); found && c.Name == container {
				return id
			}
		}
	}
	return ""
}

// assemble combines the sources, the pods and the cgroups.
func (f *follower) assemble(groups []kernelfiles.Cgroup) (all []quiet.Container) {
	has := map[string]bool{}
	for _, s := range f.sources {
		for i := range s.last {
			a := &s.last[i]
			c := quiet.Container{Namespace: a.namespace, Pod: a.pod, Name: a.name, Assigned: a.cpus.Union(a.to)}
			has[a.namespace+"/"+a.pod] = true
			id := ""
			if p := f.pods[a.namespace+"/"+a.pod]; p != nil {
				c.UID, c.RuntimeClass, c.Annotations = p.Metadata.UID, p.Spec.RuntimeClassName, p.Metadata.Annotations
				id = p.id(a.name)
			}
			if g := f.group(&c, id, a.cpus, groups); g != nil {
				c.Cgroup, c.Runs = g.Path, g.CPUs
				f.groups[c.ID()] = g.Path
			} else {
				delete(f.groups, c.ID())
			}
			all = append(all, c)
		}
	}
	for name, p := range f.pods {
		if !has[name] && p.Status.Phase == "Running" && len(p.Spec.Containers) > 0 && quiet.Asks(p.Metadata.Annotations) {
			all = append(all, quiet.Container{
				Namespace: p.Metadata.Namespace, Pod: p.Metadata.Name, UID: p.Metadata.UID, Name: p.Spec.Containers[0].Name,
				RuntimeClass: p.Spec.RuntimeClassName, Annotations: p.Metadata.Annotations,
			})
		}
	}
	slices.SortFunc(all, func(a, b quiet.Container) int { return strings.Compare(a.ID(), b.ID()) })
	return all
}

// group returns the cgroup of a container: the one with its ID, otherwise the one with exactly its
// CPUs, otherwise its earlier one, or otherwise the only one within its CPUs.
func (f *follower) group(c *quiet.Container, id string, cpus cpuset.Set, groups []kernelfiles.Cgroup) *kernelfiles.Cgroup {
	before := f.groups[c.ID()]
	var within, equal, same *kernelfiles.Cgroup
	count := 0
	for i := range groups {
		g := &groups[i]
		if c.UID != "" && g.UID != "" && c.UID != g.UID {
			continue
		}
		switch {
		case id != "" && g.ID == id:
			return g
		case g.CPUs.Equal(cpus):
			equal = g
		case g.Path == before:
			same = g
		}
		if c.Assigned.Contains(g.CPUs) {
			within = g
			count++
		}
	}
	switch {
	case equal != nil:
		return equal
	case same != nil:
		return same
	case count == 1:
		return within
	}
	return nil
}

// problems returns what the follower could not read, except for sources that do not exist on this
// node.
func (f *follower) problems() (all []quiet.Problem) {
	for _, s := range f.sources {
		if s.err != nil && (s.answered || !errors.Is(s.err, podres.ErrNoListener) && !errors.Is(s.err, fs.ErrNotExist)) {
			all = append(all, quiet.Problem{File: s.socket, Text: s.err.Error()})
		}
	}
	for _, s := range f.sources {
		if s.wrong != nil {
			all = append(all, quiet.Problem{File: s.socket, Text: fmt.Sprintf("the classes of the caches that %s shows: %v; the classes stay as they were: restart the agent, and report this if it stays", s.socket, s.wrong)})
		}
	}
	if f.podsErr != nil {
		all = append(all, quiet.Problem{Text: "the kubelet's pods: " + f.podsErr.Error() + "; what pods ask for is as it was before"})
	}
	return all
}

// Close closes the connections.
func (f *follower) Close() {
	for _, s := range f.sources {
		if s.client != nil {
			_ = s.client.Close() // The process ends.
		}
	}
	if f.kubelet != nil {
		f.kubelet.client.CloseIdleConnections()
	}
}
