package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/converge"
)

// Kind is what happened to a container.
type Kind int

// The kinds of events.
const (
	// Created with the setting. Of a container that is there several times in the history, each
	// creation has an ID of its own.
	Created Kind = iota
	// Updated to the setting.
	Updated
	// Lost is an update to the setting that was not made.
	Lost
	// Drifted to the setting without being told by Paddock.
	Drifted
	// Stopped, and had the setting last.
	Stopped
)

func (k Kind) String() string {
	switch k {
	case Updated:
		return "updated"
	case Lost:
		return "lost"
	case Drifted:
		return "drifted"
	case Stopped:
		return "stopped"
	case Created:
	}
	return "created"
}

// Event is one line of a container's history.
type Event struct {
	// Sequence orders the events of all containers, from 1.
	Sequence uint64
	Kind     Kind
	ID       string
	Setting  converge.Setting
}

// String is the event in words: "updated cpus 2-3 mems {0} without quota".
func (e Event) String() string {
	words := []string{e.Kind.String()}
	if !e.Setting.CPUs.IsEmpty() {
		words = append(words, fmt.Sprintf("cpus %s", e.Setting.CPUs))
	}
	if !e.Setting.Mems.IsEmpty() {
		words = append(words, fmt.Sprintf("mems %s", e.Setting.Mems))
	}
	if e.Setting.LiftQuota {
		words = append(words, "without quota")
	}
	return strings.Join(words, " ")
}

// How much is remembered: of each container the last events, and of the pods that were
// stopped the last ones.
const (
	MaxEvents  = 64
	MaxStopped = 256
)

// records are the histories of all containers.
type records struct {
	last    uint64
	pods    map[string]map[string][]Event
	stopped []string // pods, the one that was stopped first at the front
}

func newRecords() records { return records{pods: map[string]map[string][]Event{}} }

// open remembers a pod until it is closed, and what it was before if that is known still.
func (r *records) open(uid string) {
	r.stopped = slices.DeleteFunc(r.stopped, func(s string) bool { return s == uid })
	if r.pods[uid] == nil {
		r.pods[uid] = map[string][]Event{}
	}
}

// close lets the pod that was closed longest ago be forgotten.
func (r *records) close(uid string) {
	r.stopped = append(r.stopped, uid)
	if len(r.stopped) > MaxStopped {
		delete(r.pods, r.stopped[0])
		r.stopped = slices.Delete(r.stopped, 0, 1)
	}
}

// add is for pods that are open.
func (r *records) add(k key, e Event) {
	r.last++
	e.Sequence = r.last
	events := r.pods[k.pod][k.container]
	events = append(events, e)
	if len(events) > MaxEvents {
		events = slices.Delete(events, 0, len(events)-MaxEvents)
	}
	r.pods[k.pod][k.container] = events
}

// History is what happened to a container, the newest last: at most MaxEvents events. It is there
// still when the pod was stopped, until MaxStopped other pods were.
func (r *Runtime) History(uid, container string) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.records.pods[uid][container])
}
