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

// The kinds of events. History has those from Created on; the ones before are about messages of the
// plugin and go to Config.Observe only.
const (
	// Replied is the reply to the creation of a container that does not exist yet, with the setting
	// that it will have. Without a plugin that answered, the setting is empty.
	Replied Kind = iota // replied
	// Undone is the end of a container whose creation failed after the reply.
	Undone // undone
	// Ignored is an update of a container that is not in the store, between the reply to its
	// creation and its registration or after its end. The runtime drops it without an error.
	Ignored // ignored
	// Created is a container that exists now, with the setting. If a container is created several
	// times, each creation has its own ID.
	Created // created
	// Updated is an update to the setting.
	Updated // updated
	// Lost is an update to the setting that was not made, although the runtime reports success.
	Lost // lost
	// Failed is an update to the setting that the runtime could not make.
	Failed // failed
	// Drifted is a change to the setting without an update by the plugin.
	Drifted // drifted
	// Stopped is the end of a container, with its last setting.
	Stopped // stopped
)

// Event is one line of a container's history.
type Event struct {
	// Sequence orders the events of all containers, from 1.
	Sequence uint64
	Kind     Kind
	// ID is the runtime's, Pod the pod's UID.
	ID, Pod, Container string
	// Hook is the request with the reply: the name of an NRI request, UpdateContainers for an
	// unsolicited update, or empty if no plugin was involved.
	Hook string
	// Setting is the whole setting after the event, not only what changed.
	Setting converge.Setting
	// KeepsCPUs is true for an update without cpuset.cpus: the container keeps its CPUs.
	KeepsCPUs bool
}

// String is the event as text: "updated cpus 2-3 mems {0} without quota".
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

// The limits of the history: the last MaxEvents of each container, and the last MaxStopped pods
// that were stopped.
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

// end ends a sandbox of a pod. It drops the pod that ended longest ago if there are too many.
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

// History has the events of a container, the newest last: at most MaxEvents. It is kept after the
// pod was stopped, until MaxStopped other pods were stopped.
func (r *Runtime) History(uid, container string) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.records.pods[uid][container])
}
