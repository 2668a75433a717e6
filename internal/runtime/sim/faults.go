package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
)

//go:generate go tool stringer -type=Point,Kind -linecomment -output=enum_string.go

// Point is a place where something can go wrong.
type Point int

// The points. Everything but Registered, Storing, and UpdateContainers' Asking and Answered is under the runtime's
// lock: a delay there keeps everybody else waiting.
const (
	// Registered is a plugin that has registered and is not configured yet.
	Registered Point = iota // registered
	// Asking is a request that is about to be sent to a plugin. For UpdateContainers, which the plugin sends, it has
	// arrived and does not wait for the lock yet: a delay makes it late, and the end of its connection ends it.
	Asking // asking
	// Answered is a request that the plugin has answered, and nothing of the reply is carried out. For
	// UpdateContainers everything is carried out, and the answer is not sent yet: a delay makes it hang.
	Answered // answered
	// Storing is a container whose reply was carried out and that is not in the store yet.
	Storing // storing
	// Starting is a container whose cgroup exists and that does not run yet: updates change its specification only.
	Starting // starting
	// Updating is one update of one container.
	Updating // updating
	// Listing is the kubelet's list of pods, or the lookup of one of them.
	Listing // listing
)

// Step is a point that was reached.
type Step struct {
	Point Point
	// Hook is the NRI request; empty for Registered, Storing, Starting and Listing.
	Hook string
	// ID is the runtime's, Pod the UID; Container is empty for requests about pods, all three where it is about
	// none.
	ID, Pod, Container string
}

// Fault is what goes wrong at a step; the zero value is nothing. A delay comes first.
type Fault struct {
	Delay time.Duration
	// Err fails the step: a request to the plugin is not sent or its reply thrown away, and what the kubelet wanted
	// fails with it; after the reply to CreateContainer the creation is undone. An update fails. The list of pods is
	// not to be had.
	Err error
	// Lose is for Updating and does nothing while the runtime reports success, and for Listing: the list is empty.
	Lose bool
	// Drop closes the connection to the plugin. What was asked goes on without it.
	Drop bool
}

// suffer carries out what goes wrong at a step on the way to a plugin. With an error the step has failed.
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

// fault is what goes wrong at a step.
func (r *Runtime) fault(s Step) Fault {
	if r.config.Fault == nil {
		return Fault{}
	}
	return r.config.Fault(s)
}

// key is a container of a pod.
type key struct{ pod, container string }

func (k key) String() string { return fmt.Sprintf("container %s of pod %s", k.container, k.pod) }

// faults wait for a container.
type faults struct {
	creations []error // what the next creations fail with
	losses    int     // how many of the next updates get lost
}

// FailNextCreate makes the next creation of a container fail with err after the plugin's reply. The pod need not be
// there yet. Called twice, it fails twice. The error is not nil.
func (r *Runtime) FailNextCreate(uid, container string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.waiting(key{uid, container})
	f.creations = append(f.creations, err)
}

// LoseNextUpdate makes the next update of a container do nothing, while the runtime reports success. Called twice,
// two get lost.
func (r *Runtime) LoseNextUpdate(uid, container string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting(key{uid, container}).losses++
}

// Drift gives the cgroup of a container that runs another setting, as if somebody had written to it. What the
// runtime reports of the container stays as it was. The error wraps ErrNotRunning.
func (r *Runtime) Drift(uid, name string, setting converge.Setting) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.find(key{uid, name})
	if err != nil {
		return err
	}
	drifted := c.cgroup.with(setting)
	c.cgroup = &drifted
	r.emit(c.event(Drifted, "", setting))
	return nil
}

// waiting are the faults of a container. mu held.
func (r *Runtime) waiting(k key) *faults {
	f := r.faults[k]
	if f == nil {
		f = &faults{}
		r.faults[k] = f
	}
	return f
}

// takeFailure returns the error that a creation is to fail with. mu held.
func (r *Runtime) takeFailure(k key) error {
	f := r.faults[k]
	if f == nil || len(f.creations) == 0 {
		return nil
	}
	err := f.creations[0]
	f.creations = f.creations[1:]
	r.tidy(k, f)
	return err
}

// takeLoss tells whether an update is to get lost. mu held.
func (r *Runtime) takeLoss(k key) bool {
	f := r.faults[k]
	if f == nil || f.losses == 0 {
		return false
	}
	f.losses--
	r.tidy(k, f)
	return true
}

// tidy forgets faults that happened. mu held.
func (r *Runtime) tidy(k key, f *faults) {
	if len(f.creations) == 0 && f.losses == 0 {
		delete(r.faults, k)
	}
}

// errUpdates is containerd's answer to updates of which some failed.
var errUpdates = errors.New("NRI update of some containers failed")
