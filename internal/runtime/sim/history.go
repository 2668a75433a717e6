package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Kind is what happened to a container.
type Kind int

// The kinds of events. History has those from Created on; the ones before it are about the conversation
// with the plugin and go to Config.Observe only.
const (
	// Replied is the reply to the creation of a container that does not exist yet: the setting is what it will
	// be created with. Without a plugin that answered the setting is empty.
	Replied Kind = iota // replied
	// Undone is the end of a container whose creation failed after the reply.
	Undone // undone
	// Ignored is an update of a container that is not in the store, between the reply to its creation and its
	// registration or after its end. The runtime drops it without an error.
	Ignored // ignored
	// Created is a container that exists now, with the setting. Of a container that is there several times in
	// the history, each creation has an ID of its own.
	Created // created
	// Updated to the setting.
	Updated // updated
	// Lost is an update to the setting that was not made, though the runtime reports success.
	Lost // lost
	// Failed is an update to the setting that the runtime could not make.
	Failed // failed
	// Drifted to the setting without an update by the plugin.
	Drifted // drifted
	// Stopped, and had the setting last.
	Stopped // stopped
)

// Event is one line of a container's history.
type Event struct {
	// Sequence orders the events of all containers, from 1.
	Sequence uint64
	Kind     Kind
	// ID is the runtime's, Pod the pod's UID.
	ID, Pod, Container string
	// Hook is the request whose reply it was in: the name of an NRI request, UpdateContainers for an update
	// that the plugin sent by itself, or empty where no plugin was involved.
	Hook string
	// Setting is all that the container has after it, not only what changed.
	Setting converge.Setting
	// KeepsCPUs is true for an update without cpuset.cpus: the container runs where it ran.
	KeepsCPUs bool
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
	switch q := e.Setting.Quota; q {
	case node.KeepQuota:
	case node.NoQuota:
		words = append(words, "without quota")
	default:
		words = append(words, fmt.Sprintf("quota %s", q))
	}
	return strings.Join(words, " ")
}

// Bounds of the history: MaxEvents of each container, and MaxStopped pods that were stopped, the last ones of
// both.
const (
	MaxEvents  = 16
	MaxStopped = 256
)

// records are the histories of all containers.
type records struct {
	last    uint64
	pods    map[string]map[string][]Event
	open    map[string]int // sandboxes, by pod
	stopped []string       // pods, the one that was stopped first at the front
}

func newRecords() records {
	return records{pods: map[string]map[string][]Event{}, open: map[string]int{}}
}

// begin remembers a pod until as many ends as begins came, and what it was before if that is still known.
func (r *records) begin(uid string) {
	r.stopped = slices.DeleteFunc(r.stopped, func(s string) bool { return s == uid })
	r.open[uid]++
	if r.pods[uid] == nil {
		r.pods[uid] = map[string][]Event{}
	}
}

// end lets the pod that ended longest ago be forgotten.
func (r *records) end(uid string) {
	if r.open[uid]--; r.open[uid] > 0 {
		return
	}
	delete(r.open, uid)
	r.stopped = append(r.stopped, uid)
	if len(r.stopped) > MaxStopped {
		delete(r.pods, r.stopped[0])
		r.stopped = slices.Delete(r.stopped, 0, 1)
	}
}

// number gives an event its place.
func (r *records) number(e *Event) {
	r.last++
	e.Sequence = r.last
}

// add keeps an event of a pod that is open.
func (r *records) add(e Event) {
	pod := r.pods[e.Pod]
	if e.Kind < Created || pod == nil {
		return
	}
	events := pod[e.Container]
	events = append(events, e)
	if len(events) > MaxEvents {
		events = slices.Delete(events, 0, len(events)-MaxEvents)
	}
	pod[e.Container] = events
}

// History is what happened to a container, the newest last: at most MaxEvents events. It is kept after the
// pod was stopped, until MaxStopped other pods were.
func (r *Runtime) History(uid, container string) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.records.pods[uid][container])
}
