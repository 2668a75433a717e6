package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
)

//go:generate go tool stringer -type=Point,Kind -linecomment -output=enum_string.go

// Point is a place at which a fault can occur.
type Point int

// These are the points. All but Registered, Storing, and UpdateContainers' Asking and Answered are
// under the runtime's lock: a delay at one of them delays all other requests.
const (
	// Registered is a plugin that has registered and is not configured yet.
	Registered Point = iota // registered
	// Asking is a request that is about to be sent to a plugin. UpdateContainers, which the plugin
	// sends, has arrived and does not wait for the lock yet. A delay makes it late, and the end of
	// its connection ends it.
	Asking // asking
	// Answered is a request that the plugin has answered, before the reply is applied.
	// UpdateContainers has been applied, and its answer is not sent yet. A delay makes it hang.
	Answered // answered
	// Storing is a container whose reply was applied and that is not in the store yet.
	Storing // storing
	// Starting is a container whose cgroup exists and that does not run yet. Updates change only
	// its specification.
	Starting // starting
	// Updating is one update of one container.
	Updating // updating
	// Listing is the kubelet's list of pods, or the lookup of one pod.
	Listing // listing
)

// Step is a point in one request.
type Step struct {
	Point Point
	// Hook is the name of the NRI request. It is empty for Registered, Storing, Starting and
	// Listing.
	Hook string
	// ID is the runtime's ID, Pod the pod's UID. Container is empty for requests about pods, and
	// all three are empty for requests about neither.
	ID, Pod, Container string
}

// Fault is the fault of a step. The zero value is no fault. A delay comes before the other effects.
type Fault struct {
	Delay time.Duration
	// Err fails the step. A request to the plugin is not sent, or its reply is dropped, and the
	// kubelet's request fails. After the reply to CreateContainer the creation is undone. An update
	// fails. The list of pods has no answer.
	Err error
	// Lose applies to Updating, where the update has no effect and the runtime reports success, and
	// to Listing, where the list is empty.
	Lose bool
	// Drop closes the connection to the plugin. The request continues without it.
	Drop bool
}

// suffer applies the fault of a step on the way to a plugin. With an error, the step has failed.
func (r *Runtime) suffer(s Step, p *peer) error {
	f := r.fault(s)
	if err := r.sleep(f.Delay); err != nil {
		return err
	}
	if f.Drop {
		p.close()
	}
	return f.Err
}

// fault returns the fault of a step.
func (r *Runtime) fault(s Step) Fault {
	if r.config.Fault == nil {
		return Fault{}
	}
	return r.config.Fault(s)
}

// key is a container of a pod.
type key struct{ pod, container string }

func (k key) String() string { return fmt.Sprintf("container %s of pod %s", k.container, k.pod) }

// faults are the faults that are set for a container and did not occur yet.
type faults struct {
	creations []error // the errors of the next creations
	losses    int     // the number of the next updates that are lost
}

// FailNextCreate makes the next creation of a container fail with err after the plugin's reply. The
// pod need not exist yet. If it is called twice, two creations fail. err must not be nil.
func (r *Runtime) FailNextCreate(uid, container string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.waiting(key{uid, container})
	f.creations = append(f.creations, err)
}

// LoseNextUpdate makes the next update of a container have no effect, although the runtime reports
// success. If it is called twice, two updates are lost.
func (r *Runtime) LoseNextUpdate(uid, container string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting(key{uid, container}).losses++
}

// Drift changes the setting of a running container's cgroup, as if another process had written to
// it. The runtime still reports the old setting. The error wraps ErrNotRunning.
func (r *Runtime) Drift(uid, name string, setting converge.Setting) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.containers {
		if c.cgroup != nil && c.sandbox.asked.UID == uid && c.name == name {
			drifted := c.cgroup.with(setting)
			c.cgroup = &drifted
			r.emit(c.event(Drifted, "", setting))
			return nil
		}
	}
	return fmt.Errorf("%s: %w", key{uid, name}, ErrNotRunning)
}

// waiting returns the faults that are set for a container. The caller has locked mu.
func (r *Runtime) waiting(k key) *faults {
	f := r.faults[k]
	if f == nil {
		f = &faults{}
		r.faults[k] = f
	}
	return f
}

// takeLoss reports whether the next update is lost. The caller has locked mu.
func (r *Runtime) takeLoss(k key) bool {
	f := r.faults[k]
	if f == nil || f.losses == 0 {
		return false
	}
	f.losses--
	r.tidy(k, f)
	return true
}

// tidy drops faults that occurred. The caller has locked mu.
func (r *Runtime) tidy(k key, f *faults) {
	if len(f.creations) == 0 && f.losses == 0 {
		delete(r.faults, k)
	}
}

// errUpdates is containerd's answer if some updates of a request failed.
var errUpdates = errors.New("NRI update of some containers failed")
