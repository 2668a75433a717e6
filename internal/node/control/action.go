package control

import (
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Action is something to do: the edge carries out the actions of a Step one after the other, before
// the next event. None of them waits, except inside a Job.
type Action interface{ action() }

// Level is how important a line of the log is.
type Level int

// The levels of the log.
const (
	Info Level = iota
	Warn
	Error
)

// The actions that need no outcome.
type (
	// Answer is the answer to the event with that number.
	Answer struct {
		Request uint64
		Reply   any
	}
	// Log is a line of the log, with names and values.
	Log struct {
		Level Level
		Text  string
		Args  []any
	}
	// Wake makes Timer come at that time, and not at an earlier one that was named before.
	Wake struct{ At time.Time }
	// HangUp ends a connection.
	HangUp struct {
		Connection uint64
		Cause      error
	}
	// Publish shows readers the present status.
	Publish struct{ Status *Status }
	// Drop releases the grant of a pod, in the background.
	Drop struct{ UID string }
	// ContainerCreated informs the engine that a container of a pod is created.
	ContainerCreated struct{ UID, Name string }
	// HandedBack ends the wait of HandBack.
	HandedBack struct{}
	// Notify shows a container what it has for certain.
	Notify struct{ Of Noticed }
	// KeepNotices has the UIDs of the pods that are there: the notices of others end.
	KeepNotices struct{ Pods map[string]bool }
	// KeepPlace promises a place to a pod, for which the given grants are moved.
	KeepPlace struct {
		UID   string
		Place *node.Grant
		Moved []*node.Grant
	}
	// KeepUntil ends the promise of a pod at a time.
	KeepUntil struct {
		UID string
		At  time.Time
	}
	// DropPlace ends the promise of a pod now.
	DropPlace struct{ UID string }
	// MoveBegun is for those who follow moves.
	MoveBegun struct{ Of Moving }
	// MoveEnded is, too. Done: the pod has the new place.
	MoveEnded struct {
		Of   Moving
		Done bool
	}
)

// The actions for metrics; see Observer of runtime/nri.
type (
	// CountConnected is the state of the connection.
	CountConnected struct{ Connected bool }
	// CountAway is a time without a connection that has ended.
	CountAway struct{ Took time.Duration }
	// CountVetoes is whether the runtime asks before a resize.
	CountVetoes struct{ Asked bool }
	// CountRepaired is a number of containers that an update brought to their settings.
	CountRepaired struct{ Containers int }
	// CountUnverified is the number of containers that do not have their settings.
	CountUnverified struct{ Containers int }
)

// Update is an unsolicited update. Its outcome is Landed.
type Update struct {
	Connection, Number uint64
	Updates            []converge.Update
}

// Job is an action that may wait. The edge carries it out beside the loop, and its outcome is Done
// with the name.
type Job struct {
	Name string
	Of   Action
	// Until is when it ends at the latest, so that a request can be answered; zero: see the action.
	Until time.Time
}

// The actions of jobs, and the outcome of each. Those without a time of their own end at Job.Until.
type (
	// Find asks for the request of a pod, and estimates it if the source of pods does not have it.
	// Found.
	Find struct{ Of Admission }
	// Preview plans a pod, and changes nothing. Previewed.
	Preview struct{ Of Admission }
	// FindRoom looks for moves of running pods, except those that stay, after which a pod fits in
	// the state Base. RoomFound.
	FindRoom struct {
		Of   Admission
		Base *node.State
		Stay map[string]bool
		by   any
	}
	// BeginSet makes the first move of a set durable, if all of them are possible, one after the
	// other, and if Pod has Place then. Without Pod, an operator asked for the set: each pod is
	// asked whether it may be moved now. If Dry is true, nothing changes. SetBegun.
	BeginSet struct {
		Left    []moves.Move
		Pod     *request.Pod
		Place   *node.Grant
		Dry     bool
		room    uint64
		request uint64
		of      Admission
		by      any
	}
	// Decide decides about a pod, and makes the decision durable. By is that of Previewed; nil: the
	// pod has a grant. Decided.
	Decide struct {
		Of      Admission
		By      any
		version uint64
	}
	// ListLatest asks the source of pods which pods there are, as ListGone does, and what it lists
	// of one of them. LatestFound.
	ListLatest struct {
		UID    string
		Traces map[string]Trace
		of     resizing
	}
	// ResizePod decides about the resize of a pod, and makes the decision durable. PodResized.
	ResizePod struct {
		Pod     request.Pod
		of      resizing
		version uint64
	}
	// ListGone asks the source of pods which pods there are and, for each trace, whether its pod is
	// gone. GoneListed.
	ListGone struct {
		Of     listener
		Traces map[string]Trace
	}
	// FindAll asks for the requests of pods that run. AllFound.
	FindAll struct{ Of Adoption }
	// AdmitAll decides about pods in this order, and makes the decisions durable. AllDecided.
	AdmitAll struct {
		Of   Adoption
		Pods []Candidate
	}
	// Write makes the state durable, in Period. Written.
	Write struct{ Releases bool }
	// LatestPods asks what the source of pods listed last, for these UIDs. It does not wait.
	// LatestListed.
	LatestPods struct{ UIDs []string }
	// SetQuotas writes the CFS quotas of pods' cgroups. No outcome.
	SetQuotas struct{ Pods []PodQuota }
	// Read reads the cgroups of containers. With a time of its own it is left when that has come.
	// Saw.
	Read struct {
		Sights []Sight
		of     *synchronising
	}
	// Inspect lists what runs, with the paths of cgroups by id, in Period. Inspected.
	Inspect struct {
		Paths   map[string]string
		touched map[string]int
		since   time.Time
	}
	// Prove reads back that containers have their settings and, with Pages, that their memory is on
	// their NUMA nodes. Proven.
	Prove struct {
		UID    string
		Proofs []Proof
		Pages  bool
		move   uint64
		step   node.MoveStep
	}
	// EndMove makes it durable, in Period, that a pod has one place: the new one if the move is
	// done. MoveWritten.
	EndMove struct {
		UID  string
		Done bool
		move uint64
	}
	// BeginMove begins a move of a pod in Period, if it may be moved now. NextBegun.
	BeginMove struct {
		To   *node.Grant
		room uint64
	}
	// Follow resizes pods whose request the kubelet has carried out already. Followed.
	Follow struct {
		Pods      []request.Pod
		version   uint64
		connected time.Time
	}
	// KeepAlive notes that the runtime is connected. No outcome.
	KeepAlive struct{ At time.Time }
)

// Trace is what the loop knows of a pod that may be gone; see package absence.
type Trace struct {
	Sandbox bool
	Since   time.Time
}

// PodQuota is the CFS quota that the cgroups of a pod should have.
type PodQuota struct {
	Grant   *node.Grant
	Want    node.Quota
	Parents []string
}

func (Answer) action()           {}
func (Log) action()              {}
func (Wake) action()             {}
func (HangUp) action()           {}
func (Publish) action()          {}
func (Drop) action()             {}
func (ContainerCreated) action() {}
func (HandedBack) action()       {}
func (Notify) action()           {}
func (KeepNotices) action()      {}
func (KeepPlace) action()        {}
func (KeepUntil) action()        {}
func (DropPlace) action()        {}
func (MoveBegun) action()        {}
func (MoveEnded) action()        {}
func (CountConnected) action()   {}
func (CountAway) action()        {}
func (CountVetoes) action()      {}
func (CountRepaired) action()    {}
func (CountUnverified) action()  {}
func (Update) action()           {}
func (Job) action()              {}
func (Find) action()             {}
func (Preview) action()          {}
func (FindRoom) action()         {}
func (BeginSet) action()         {}
func (Decide) action()           {}
func (ListLatest) action()       {}
func (ResizePod) action()        {}
func (ListGone) action()         {}
func (FindAll) action()          {}
func (AdmitAll) action()         {}
func (Write) action()            {}
func (LatestPods) action()       {}
func (SetQuotas) action()        {}
func (Read) action()             {}
func (Inspect) action()          {}
func (Prove) action()            {}
func (EndMove) action()          {}
func (BeginMove) action()        {}
func (Follow) action()           {}
func (KeepAlive) action()        {}
