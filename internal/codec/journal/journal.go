// Package journal encodes decisions so that they survive a restart of the agent: why pods were
// rejected, with the account, and when the pods of the node were admitted. It only encodes and
// decodes bytes: internal/ui/web provides the values, and internal/agent reads and writes the file.
//
// A journal explains decisions and has no influence on them. If it is lost, only explanations are
// lost, because the assignments of pods are in the state file alone. So a journal that cannot be
// read is ignored, and the agent writes it when it has time.
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
// Memory is in bytes, and members whose names end in Milli are thousandths of a CPU. Members that
// are empty, zero or false are omitted. The journal does not have the inputs of a decision (the
// machine, the policy and the other pods), because all of them may be different after a restart.
//
// # Bounds
//
// A journal has at most MaxSize bytes, MaxRejections rejections and MaxAdmissions admissions.
// Encode leaves out the oldest entries and every single entry that does not fit. Decode rejects
// journals that exceed these bounds.
//
// # Versions
//
// Decode ignores unknown members, so the form can get new members without a new version. Any other
// change requires a new version, for which an older Decode returns ErrNewer.
package journal

import (
	"errors"
	"time"

	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Bounds of a journal.
const (
	// MaxSize is the maximum size of a journal in bytes. A rejection of a pod with four containers
	// on eight NUMA nodes needs about 3 KiB, an admission 120 bytes.
	MaxSize = 1 << 20
	// MaxRejections is the maximum number of rejections, which is also the number that the web
	// server keeps.
	MaxRejections = 100
	// MaxAdmissions is the maximum number of admissions. A node usually has at most 250 pods,
	// limited by the kubelet's maxPods, and rarely 500.
	MaxAdmissions = 1000
	// maxAdmissionBytes is the part of MaxSize that admissions may use.
	maxAdmissionBytes = MaxSize / 4

	format  = "paddock-history"
	version = 1
)

var (
	// ErrDamaged means that the bytes are not a complete journal.
	ErrDamaged = errors.New("damaged")
	// ErrNewer means that a later version of Paddock wrote the journal.
	ErrNewer = errors.New("written by a newer version")
)

// Journal is a record of decisions. Rejections are in ascending order of Number. Admissions have no
// order.
type Journal struct {
	Rejections []Rejection
	Admissions []Admission
}

// Rejection describes a pod that was rejected, for the same reason each time.
type Rejection struct {
	// Number numbers the rejections of a node. It is unique.
	Number int
	Pod    request.Pod
	// Revision is the revision of the state that was asked.
	Revision uint64
	// Rejection is the reason with the account. It is nil if the pod fitted but the state could not
	// be written. In that case, Error is the reason.
	Rejection *rejection.Rejection
	Error     string
	// First and Last are the times of the first and the last rejection. Times is the number of
	// rejections.
	First, Last time.Time
	Times       int
}

// Admission records when a pod was admitted. Revision is the Sequence of its grant: another grant
// for the same UID is another admission.
type Admission struct {
	UID      string
	At       time.Time
	Revision uint64
}
