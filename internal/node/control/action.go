package control

import (
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Action is something for the edge to do. The edge carries out the actions of a Step one after the
// other, before the next event. No action waits, except inside a Job.
type Action interface{ action() }

// Level is the severity of a line of the log.
type Level int

// The levels of the log.
const (
	Info Level = iota
	Warn
	Error
)

// The actions that have no outcome.
type (
	// Answer answers the event that has the number Request.
	Answer struct {
		Request uint64
		Reply   any
	}
	// Log writes a line to the log. Args alternates names and values.
	Log struct {
		Level Level
		Text  string
		Args  []any
	}
	// Wake makes Timer come at the time At. It replaces the Wake before it.
	Wake struct{ At time.Time }
	// HangUp ends a connection.
	HangUp struct {
		Connection uint64
		Cause      error
	}
	// Publish makes Status the status that readers see.
	Publish struct{ Status *Status }
	// Drop releases the grant of a pod, in the background.
	Drop struct{ UID string }
	// ContainerCreated informs the engine that a container of a pod is created.
	ContainerCreated struct{ UID, Name string }
	// HandedBack ends the wait of HandBack.
	HandedBack struct{}
	// Notify shows a container the setting that it certainly has.
	Notify struct{ Of Noticed }
	// KeepNotices ends the notices of all pods except those in Pods, by UID.
	KeepNotices struct{ Pods map[string]bool }
	// KeepPlace promises Place to a pod. Moved are the grants that other pods get to make it free.
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
	// MoveBegun reports a move that has begun to those who follow moves.
	MoveBegun struct{ Of Moving }
	// MoveEnded reports a move that has ended to them. If Done is true, the pod has the new place.
	MoveEnded struct {
		Of   Moving
		Done bool
	}
)

// The actions for metrics; see Observer of runtime/nri.
type (
	// CountConnected reports whether the runtime is connected.
	CountConnected struct{ Connected bool }
	// CountAway reports how long a time without a connection took that has ended.
	CountAway struct{ Took time.Duration }
	// CountVetoes reports whether the runtime asks before a resize.
	CountVetoes struct{ Asked bool }
	// CountRepaired reports how many containers an update brought to their settings.
	CountRepaired struct{ Containers int }
	// CountUnverified reports how many containers do not have their settings.
	CountUnverified struct{ Containers int }
	// CountUnsettled reports how many containers do not have their settings yet: an update of them
	// waits or is under way, or they are being created.
	CountUnsettled struct{ Containers int }
)

// Update is an unsolicited update. Its outcome is Landed.
type Update struct {
	Connection, Number uint64
	Updates            []converge.Update
}

// Job is an action that may wait. The edge carries it out beside the loop. Its outcome is a Done
// with the same name.
type Job struct {
	Name string
	Of   Action
	// Until is the latest time at which the job ends, so that a request can be answered. If zero,
	// the action has a limit of its own.
	Until time.Time
}

// The actions of jobs. An action without a limit of its own ends at Job.Until.
type (
	// Find asks the source of pods for the request of a pod, and estimates the request if the
	// source does not have it. Its outcome is Found.
	Find struct{ Of Admission }
	// Preview plans a pod, and changes nothing. Its outcome is Previewed.
	Preview struct{ Of Admission }
	// FindRoom looks for moves of running pods after which a pod fits in the state Base. It does
	// not move the pods in Stay, by UID. Cgroups has the paths of the containers of each pod. Its
	// outcome is RoomFound.
	FindRoom struct {
		Of      Admission
		Base    *node.State
		Stay    map[string]bool
		Cgroups map[string][]string
		by      any
	}
	// BeginSet makes the first move of a set durable, if all of its moves are possible one after
	// the other, and if Pod then has Place. If Pod is nil, an operator asked for the set, and
	// BeginSet asks for each pod whether it may be moved now, with the paths of its containers in
	// Cgroups. If Dry is true, nothing changes. Its outcome is SetBegun.
	BeginSet struct {
		Left    []moves.Move
		Cgroups map[string][]string
		Pod     *request.Pod
		Place   *node.Grant
		Dry     bool
		room    uint64
		request uint64
		of      Admission
		by      any
	}
	// Decide decides about a pod, and makes the decision durable. By is that of Previewed. If nil,
	// the pod has a grant already. Its outcome is Decided.
	Decide struct {
		Of      Admission
		By      any
		version uint64
	}
	// ListLatest asks the source of pods which pods exist, as ListGone does, and what it lists for
	// one of them. Its outcome is LatestFound.
	ListLatest struct {
		UID    string
		Traces map[string]Trace
		of     resizing
	}
	// ResizePod decides about the resize of a pod, and makes the decision durable. Its outcome is
	// PodResized.
	ResizePod struct {
		Pod     request.Pod
		of      resizing
		version uint64
	}
	// ListGone asks the source of pods which pods exist and, for each trace, whether its pod is
	// gone. Its outcome is GoneListed.
	ListGone struct {
		Of     listener
		Traces map[string]Trace
	}
	// FindAll asks for the requests of running pods. Its outcome is AllFound.
	FindAll struct{ Of Adoption }
	// AdmitAll decides about pods in the order of Pods, and makes the decisions durable. Its
	// outcome is AllDecided.
	AdmitAll struct {
		Of   Adoption
		Pods []Candidate
	}
	// Write makes the state durable, within Config.Period. Its outcome is Written.
	Write struct{ Releases bool }
	// LatestPods asks what the source of pods listed last for the given UIDs. It does not wait. Its
	// outcome is LatestListed.
	LatestPods struct{ UIDs []string }
	// SetQuotas writes the CFS quotas of pods' cgroups. It has no outcome.
	SetQuotas struct{ Pods []PodQuota }
	// Read reads the cgroups of containers. If Job.Until is set, the edge stops waiting for it
	// then. Its outcome is Saw.
	Read struct {
		Sights []Sight
		of     *synchronising
	}
	// Inspect lists the running containers, within Config.Period. Paths has their cgroups by
	// container ID. Its outcome is Inspected.
	Inspect struct {
		Paths   map[string]string
		touched map[string]int
		since   time.Time
	}
	// Prove reads back whether containers have their settings and, if Pages is true, whether their
	// memory is on their NUMA nodes. Its outcome is Proven.
	Prove struct {
		UID    string
		Proofs []Proof
		Pages  bool
		move   uint64
		step   node.MoveStep
	}
	// EndMove makes it durable, within Config.Period, that a pod has one place: the new one if Done
	// is true. Its outcome is MoveWritten.
	EndMove struct {
		UID  string
		Done bool
		move uint64
	}
	// BeginMove begins a move of a pod, within Config.Period, if the pod may be moved now. Cgroups
	// has the paths of its containers. Its outcome is NextBegun.
	BeginMove struct {
		To      *node.Grant
		Cgroups []string
		room    uint64
	}
	// Follow resizes pods whose resize the kubelet has carried out already. Its outcome is
	// Followed.
	Follow struct {
		Pods      []request.Pod
		version   uint64
		connected time.Time
	}
	// KeepAlive notes that the runtime is connected. It has no outcome.
	KeepAlive struct{ At time.Time }
)

// Trace is what the loop knows about a pod that may be gone; see package absence.
type Trace struct {
	Sandbox bool
	Since   time.Time
}

// PodQuota is the CFS quota that the cgroups of a pod should have.
type PodQuota struct {
	Grant   *node.Grant
	Want    quota.Quota
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
func (CountUnsettled) action()   {}
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
