package sim

import "github.com/paddock-project/paddock/internal/core/converge"

// faults wait for a container.
type faults struct {
	creations []error // what the next creations fail with
	losses    int     // how many of the next updates get lost
}

// FailNextCreate makes the next creation of a container fail with err, after creating was
// asked. The pod need not be there yet. Told twice, it fails twice. The error is not nil.
func (r *Runtime) FailNextCreate(uid, container string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.fault(key{uid, container})
	f.creations = append(f.creations, err)
}

// LoseNextUpdate makes the next update of a container do nothing, and say nothing. Told twice,
// two get lost.
func (r *Runtime) LoseNextUpdate(uid, container string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault(key{uid, container}).losses++
}

// Drift gives a container that runs another setting, as if somebody had written to its cgroup. The
// error wraps ErrNotRunning.
func (r *Runtime) Drift(uid, container string, setting converge.Setting) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := key{uid, container}
	c, err := r.find(k)
	if err != nil {
		return err
	}
	c.setting = setting
	r.records.add(k, Event{Kind: Drifted, ID: c.id, Setting: setting})
	return nil
}

func (r *Runtime) fault(k key) *faults {
	f := r.faults[k]
	if f == nil {
		f = &faults{}
		r.faults[k] = f
	}
	return f
}

// takeFailure returns the error that the creation is to fail with.
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

// takeLoss tells whether the update is to get lost.
func (r *Runtime) takeLoss(k key) bool {
	f := r.faults[k]
	if f == nil || f.losses == 0 {
		return false
	}
	f.losses--
	r.tidy(k, f)
	return true
}

// tidy forgets faults that happened.
func (r *Runtime) tidy(k key, f *faults) {
	if len(f.creations) == 0 && f.losses == 0 {
		delete(r.faults, k)
	}
}
