package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/base/terminal"
)

// PodStatus describes the status of a pod, and what happened on its node after a rejection.
type PodStatus struct {
	Node string `json:"node,omitempty"`
	// Phase, Reason and Message come from the status. For a pod that has no node yet, Reason and
	// Message come from the scheduler.
	Phase   string `json:"phase"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Rejected is true if the kubelet rejected the pod before any container ran. With AtStart, the
	// kubelet rejected it while it ran, because the kubelet started again.
	Rejected bool `json:"rejected,omitempty"`
	AtStart  bool `json:"rejectedAtStart,omitempty"`
	// Why is the reason for the earlier rejection, if the pod fits now and the files show the
	// reason.
	Why string `json:"why,omitempty"`
	// At is the time of the rejection, or else of the start. For a pod that ran, it is the time at
	// which its last container ended. It is nil if the time is unknown.
	At *time.Time `json:"at,omitempty"`
	// Ended has the pods of the node that ended after a rejection, and Started those that started
	// then and still run, ordered by time.
	Ended   []Event `json:"endedSince,omitempty"`
	Started []Event `json:"startedSince,omitempty"`
	// Also has the names of the other pods that the kubelet rejected and that are still listed.
	Also []string `json:"alsoRejected,omitempty"`
	// Remarks are additional sentences about the present answer.
	Remarks []string `json:"remarks,omitempty"`
}

// Event is the end or the start of a pod.
type Event struct {
	Pod string    `json:"pod"`
	At  time.Time `json:"at"`
}

// Clock returns a time as people compare it with the events of a cluster.
func Clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// maxEvents is how many of the ended pods, and how many of the started pods, are listed by name.
const maxEvents = 5

func eventsText(events []Event) string {
	var parts []string
	for _, e := range events[max(0, len(events)-maxEvents):] { // The last ones explain the present.
		parts = append(parts, fmt.Sprintf("%s at %s", e.Pod, Clock(e.At)))
	}
	text := strings.Join(parts, ", ")
	if more := len(events) - maxEvents; more > 0 {
		text += fmt.Sprintf(", and %d before", more)
	}
	return text
}

// remarks prints the additional sentences about the present answer, directly below it.
func (w *explanation) remarks(f *PodStatus) {
	for _, sentence := range f.Remarks {
		w.sentence(terminal.Strong.Of(sentence))
	}
}

// podStatus prints the status of a pod.
func (w *explanation) podStatus(f *PodStatus) {
	at := "recorded by the scheduler"
	switch {
	case f.Node == "":
	case f.Reason != "":
		at = "recorded by the kubelet of " + f.Node
	default:
		at = "on " + f.Node
	}
	if f.At != nil {
		at += ", " + Clock(*f.At)
	}
	text := f.Phase
	for _, more := range []string{f.Reason, f.Message} {
		if more != "" {
			text += ", " + more
		}
	}
	w.sentence(terminal.Faint.Of(at+":"), terminal.Plain.Of(text))
	if f.Why != "" {
		w.sentence(terminal.Faint.Of("why it was rejected then:"), terminal.Plain.Of(f.Why))
	}
	if len(f.Ended) > 0 {
		w.sentence(terminal.Faint.Of("ended since then:"), terminal.Plain.Of(eventsText(f.Ended)))
	}
	if also := f.Also; len(also) > 0 {
		text := strings.Join(also[:min(len(also), maxEvents)], ", ")
		if more := len(also) - maxEvents; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		w.sentence(terminal.Faint.Of("also rejected here:"), terminal.Plain.Of(text+"; each is answered as if it came alone"))
	}
	if len(f.Started) > 0 {
		w.sentence(terminal.Faint.Of("started since then:"), terminal.Plain.Of(eventsText(f.Started)))
	}
}
