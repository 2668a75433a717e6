package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/quota"
)

// Kind is the kind of an event of a container.
type Kind int

// These are the kinds of events. History has those from Created on. The ones before concern
// messages of the plugin and go only to Config.Observe.
const (
	// Replied is the reply to the creation of a container that does not exist yet, with the setting
	// that it will have. If no plugin answered, the setting is empty.
	Replied Kind = iota // replied
	// Undone is the end of a container whose creation failed after the reply.
	Undone // undone
	// Ignored is an update of a container that is not in the store, between the reply to its
	// creation and its registration or after its end. The runtime drops it without an error.
	Ignored // ignored
	// Created is a container that now exists, with its setting. If a container is created several
	// times, each creation has its own ID.
	Created // created
	// Updated is an update to the setting.
	Updated // updated
	// Lost is an update to the setting that was not applied, although the runtime reports success.
	Lost // lost
	// Failed is an update to the setting that the runtime could not apply.
	Failed // failed
	// Drifted is a change to the setting without an update by the plugin.
	Drifted // drifted
	// Stopped is the end of a container, with its last setting.
	Stopped // stopped
)

// Event is one event in a container's history.
type Event struct {
	// Sequence orders the events of all containers, from 1.
	Sequence uint64
	Kind     Kind
	// ID is the runtime's ID, Pod the pod's UID.
	ID, Pod, Container string
	// Hook is the request whose reply caused the event: the name of an NRI request,
	// UpdateContainers for an unsolicited update, or empty if no plugin was involved.
	Hook string
	// Setting is the whole setting after the event, not only what changed.
	Setting converge.Setting
	// KeepsCPUs is true for an update without cpuset.cpus. The container keeps its CPUs.
	KeepsCPUs bool
}

// String returns the event as text, e.g. "updated cpus 2-3 mems {0} without quota".
func (e Event) String() string {
	words := []string{e.Kind.String()}
	if !e.Setting.CPUs.IsEmpty() {
		words = append(words, fmt.Sprintf("cpus %s", e.Setting.CPUs))
	}
	if !e.Setting.Mems.IsEmpty() {
		words = append(words, fmt.Sprintf("mems %s", e.Setting.Mems))
	}
	switch q := e.Setting.Quota; q {
	case quota.Keep:
	case quota.None:
		words = append(words, "without quota")
	default:
		words = append(words, fmt.Sprintf("quota %s", q))
	}
	return strings.Join(words, " ")
}

// These are the limits of the history: it has the last MaxEvents events of each container, and the
// last MaxStopped pods that were stopped.
const (
	MaxEvents  = 16
	MaxStopped = 256
)

// records are the histories of all containers.
type records struct {
	last    uint64
	pods    map[string]map[string][]Event
	open    map[string]int // sandboxes, by pod
	stopped []string       // stopped pods, the one that was stopped first at the front
}

// end ends a sandbox of a pod. If there are too many stopped pods, it drops the one that was
// stopped first.
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

// History returns the events of a container, at most MaxEvents, the newest last. They are kept
// after the pod was stopped, until MaxStopped other pods were stopped.
func (r *Runtime) History(uid, container string) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.records.pods[uid][container])
}
