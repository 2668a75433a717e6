package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/request"
)

// The errors that a caller may meet without having done wrong; others wrap them.
var (
	// ErrRuns is of a pod or a container that runs already, or is being started.
	ErrRuns = errors.New("it runs already")
	// ErrNotRunning is of a pod or a container that does not run, or does not run any more.
	ErrNotRunning = errors.New("it does not run")
)

// Runtime is safe for use by several goroutines.
type Runtime struct {
	creating func(podUID, container string) (converge.Setting, error)

	mu      sync.Mutex
	pods    map[string]*pod
	faults  map[key]*faults
	records records
	lastID  uint64
}

// key is a container of a pod.
type key struct{ pod, container string }

func (k key) String() string { return fmt.Sprintf("container %s of pod %s", k.container, k.pod) }

// pod is one that was started and not stopped.
type pod struct {
	containers []request.Container
	starting   bool
	running    map[string]*container
}

type container struct {
	id      string
	setting converge.Setting
}

// New is a runtime without containers. It calls creating right before each creation, not under
// a lock, and creates the container with that setting; with an error it does not.
func New(creating func(podUID, container string) (converge.Setting, error)) *Runtime {
	return &Runtime{creating: creating, pods: map[string]*pod{}, faults: map[key]*faults{}, records: newRecords()}
}

// StartPod creates the containers in their order: request.Pod has the init containers first. It
// returns when the last one runs. With an error, which names the container, nothing of the pod runs.
func (r *Runtime) StartPod(uid string, containers []request.Container) error {
	if err := check(containers); err != nil {
		return fmt.Errorf("pod %s: %w", uid, err)
	}
	p := &pod{containers: slices.Clone(containers), starting: true, running: map[string]*container{}}
	if err := r.enter(uid, p); err != nil {
		return err
	}
	for _, c := range p.containers {
		if err := r.create(uid, p, c); err != nil {
			r.leave(uid, p)
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p.starting = false
	return nil
}

// check refuses lists that no pod has.
func check(containers []request.Container) error {
	names := map[string]bool{}
	apps := false
	for _, c := range containers {
		if names[c.Name] {
			return fmt.Errorf("container %s: two have this name", c.Name)
		}
		if apps && c.Lane != request.App {
			return fmt.Errorf("container %s: an init container cannot come after the app containers", c.Name)
		}
		names[c.Name], apps = true, c.Lane == request.App
	}
	return nil
}

func (r *Runtime) enter(uid string, p *pod) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, there := r.pods[uid]; there {
		return fmt.Errorf("pod %s: %w; stop it first", uid, ErrRuns)
	}
	r.pods[uid] = p
	r.records.open(uid)
	return nil
}

// leave stops p if it is there still.
func (r *Runtime) leave(uid string, p *pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods[uid] != p {
		return // StopPod was faster
	}
	delete(r.pods, uid)
	for _, c := range slices.Backward(p.containers) {
		if p.running[c.Name] != nil {
			r.end(key{uid, c.Name}, p)
		}
	}
	r.records.close(uid)
}

// create makes one container run; a standard init container has ended when it returns.
func (r *Runtime) create(uid string, p *pod, c request.Container) error {
	k := key{uid, c.Name}
	setting, err := r.creating(uid, c.Name)
	if err != nil {
		return fmt.Errorf("%s: it is not created: %w", k, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.pods[uid] != p:
		return fmt.Errorf("%s: the pod was stopped before it was created: %w", k, ErrNotRunning)
	case p.running[c.Name] != nil:
		return fmt.Errorf("%s: %w", k, ErrRuns)
	}
	if err := r.takeFailure(k); err != nil {
		return fmt.Errorf("%s: it could not be created: %w", k, err)
	}
	r.lastID++
	made := &container{id: fmt.Sprintf("sim-%d", r.lastID), setting: setting}
	p.running[c.Name] = made
	r.records.add(k, Event{Kind: Created, ID: made.id, Setting: setting})
	if c.Lane == request.Init {
		r.end(k, p)
	}
	return nil
}

// end stops a container that runs.
func (r *Runtime) end(k key, p *pod) {
	c := p.running[k.container]
	delete(p.running, k.container)
	r.records.add(k, Event{Kind: Stopped, ID: c.id, Setting: c.setting})
}

// StopPod stops all containers of a pod, the last one first, also one that is being started. A
// pod that is not there is stopped already.
func (r *Runtime) StopPod(uid string) {
	r.mu.Lock()
	p := r.pods[uid]
	r.mu.Unlock()
	if p != nil {
		r.leave(uid, p)
	}
}

// StopContainer stops one container, as if it had ended. The error wraps ErrNotRunning.
func (r *Runtime) StopContainer(uid, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := key{uid, name}
	if _, err := r.find(k); err != nil {
		return err
	}
	r.end(k, r.pods[uid])
	return nil
}

// find returns a container that runs. The error wraps ErrNotRunning.
func (r *Runtime) find(k key) (*container, error) {
	if p := r.pods[k.pod]; p != nil && p.running[k.container] != nil {
		return p.running[k.container], nil
	}
	return nil, fmt.Errorf("%s: %w", k, ErrNotRunning)
}

// RestartContainer creates a container of a pod that runs anew, and stops it before if it runs. A
// standard init container runs and ends once more. With an error the container does not run; the
// error wraps ErrNotRunning when the pod does not, and ErrRuns while it is being started.
func (r *Runtime) RestartContainer(uid, name string) error {
	p, c, err := r.stopFor(uid, name)
	if err != nil {
		return err
	}
	return r.create(uid, p, c)
}

// stopFor makes the place of a container free.
func (r *Runtime) stopFor(uid, name string) (*pod, request.Container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := key{uid, name}
	p := r.pods[uid]
	switch {
	case p == nil:
		return nil, request.Container{}, fmt.Errorf("%s: the pod: %w", k, ErrNotRunning)
	case p.starting:
		return nil, request.Container{}, fmt.Errorf("%s: the pod is being started: %w", k, ErrRuns)
	}
	i := slices.IndexFunc(p.containers, func(c request.Container) bool { return c.Name == name })
	if i < 0 {
		return nil, request.Container{}, fmt.Errorf("%s: the pod has no such container", k)
	}
	if p.running[name] != nil {
		r.end(k, p)
	}
	return p, p.containers[i], nil
}

// Observe returns the containers that run, by pod, then by name.
func (r *Runtime) Observe() []converge.Observed {
	r.mu.Lock()
	defer r.mu.Unlock()
	observed := []converge.Observed{}
	for uid, p := range r.pods {
		for name, c := range p.running {
			observed = append(observed, converge.Observed{ID: c.id, Pod: uid, Container: name, Setting: c.setting})
		}
	}
	slices.SortFunc(observed, func(a, b converge.Observed) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
	})
	return observed
}

// Update makes the updates, in their order. An update that would leave a container that has a
// cpuset.cpus or a cpuset.mems with an empty one is a bug of the caller's, since to a runtime that says "no
// change": none of the updates is made then. A container that ended meanwhile is passed over, and the
// others are updated; the error wraps ErrNotRunning.
func (r *Runtime) Update(updates []converge.Update) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range updates {
		if err := r.refuse(u); err != nil {
			return err
		}
	}
	var errs []error
	for _, u := range updates {
		k := key{u.Pod, u.Container}
		c, err := r.find(k)
		switch {
		case err != nil:
			errs = append(errs, err)
		case c.id != u.ID:
			errs = append(errs, fmt.Errorf("%s: %s: %w; it was made anew as %s", k, u.ID, ErrNotRunning, c.id))
		default:
			r.update(k, c, u.After)
		}
	}
	return errors.Join(errs...)
}

// refuse says what is wrong with an update.
func (r *Runtime) refuse(u converge.Update) error {
	has := u.Before
	if c, err := r.find(key{u.Pod, u.Container}); err == nil && c.id == u.ID {
		has = c.setting
	}
	k := key{u.Pod, u.Container}
	switch {
	case u.After.CPUs.IsEmpty() && !has.CPUs.IsEmpty():
		return fmt.Errorf("%s: refused, a bug: the update has an empty cpuset.cpus in place of %s; no update was made", k, has.CPUs)
	case u.After.Mems.IsEmpty() && !has.Mems.IsEmpty():
		return fmt.Errorf("%s: refused, a bug: the update has an empty cpuset.mems in place of %s; no update was made", k, has.Mems)
	}
	return nil
}

func (r *Runtime) update(k key, c *container, setting converge.Setting) {
	if r.takeLoss(k) {
		r.records.add(k, Event{Kind: Lost, ID: c.id, Setting: setting})
		return
	}
	c.setting = setting
	r.records.add(k, Event{Kind: Updated, ID: c.id, Setting: setting})
}
