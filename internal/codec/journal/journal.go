// Package journal is the form in which decisions outlive the agent that made them: why pods were
// rejected, with the account, and when the pods of the node were admitted. It is bytes and back;
// internal/ui/web has the values and internal/agent reads and writes the file.
//
// A journal explains, and decides nothing. Who loses it loses explanations: what pods have is in
// the state file alone. So a journal that cannot be read is ignored, and one is written when there
// is time.
//
// # Form
//
// A journal is one JSON object with a line for each entry:
//
//	{"format":"paddock-history","version":1,
//	"admissions":[
//	{"uid":"4cdf…","at":"2026-03-01T12:00:00Z","revision":7}],
//	"rejections":[
//	{"number":3,"first":"…","last":"…","times":2,"revision":9,"pod":{…},"rejection":{…}}]}
//
// Memory is in bytes, and names that end in Milli are thousandths of a CPU. A member that is empty,
// zero or false is left out. What a decision was made on, the machine, the policy and the other
// pods, is not part of it: all of them may be different after a restart.
//
// # Bounds
//
// A journal has at most MaxSize bytes, MaxRejections rejections and MaxAdmissions admissions.
// Encode leaves out the oldest entries, and any single one that does not fit. Decode takes nothing
// larger.
//
// # Versions
//
// Decode ignores members that it does not know, so that a form with one more keeps its version. Any
// other change is a new version, and Decode answers ErrNewer.
package journal

import (
	"errors"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Bounds of a journal.
const (
	// MaxSize is how many bytes a journal has at most. A rejection of a pod of four containers on
	// eight NUMA nodes needs about 3 KiB, an admission 120 bytes.
	MaxSize = 1 << 20
	// MaxRejections is how many rejections it has at most, as many as the web keeps.
	MaxRejections = 100
	// MaxAdmissions is how many admissions it has at most. A node has 250 pods or fewer, by the
	// kubelet's maxPods, rarely 500.
	MaxAdmissions = 1000
	// maxAdmissionBytes is the part of MaxSize that admissions may take.
	maxAdmissionBytes = MaxSize / 4

	format  = "paddock-history"
	version = 1
)

var (
	// ErrDamaged means that bytes are no journal, or not a whole one.
	ErrDamaged = errors.New("damaged")
	// ErrNewer means that a later version of Paddock wrote the journal.
	ErrNewer = errors.New("written by a newer version")
)

// Journal is what was decided. Rejections ascend by Number, admissions have no order.
type Journal struct {
	Rejections []Rejection
	Admissions []Admission
}

// Rejection is a pod that was not admitted, for the same reason each time.
type Rejection struct {
	// Number counts the rejections of a node; no two have the same one.
	Number int
	Pod    request.Pod
	// Revision is of the state that was asked.
	Revision uint64
	// Rejection is the reason with the account; nil where the pod fitted and the state could not be
	// written, and Error is why.
	Rejection *node.Rejection
	Error     string
	// First and Last are when it was rejected, Times how often.
	First, Last time.Time
	Times       int
}

// Admission is when a pod was admitted. Revision is the Sequence of its grant: another grant of the
// same UID is another admission.
type Admission struct {
	UID      string
	At       time.Time
	Revision uint64
}
