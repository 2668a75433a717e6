package absence

import "time"

// Settle is the age from which a kubelet process is expected to know its pods. The kubelet polls
// manifests every 20 s (fileCheckFrequency), and waits at most 30 s between two attempts to list at
// the API server. Both twice, in parts, is less than a minute.
const Settle = time.Minute

// Lists and Grace are the number of lists, and their time span, after which a pod with a sandbox is
// gone. It takes three lists, because one list may be wrong and two may be from the same moment.
// Grace is three times the usual interval of the kubelet source (10 s).
const (
	Lists = 3
	Grace = 30 * time.Second
)

// Unheard is the time after which a pod without a sandbox is gone if no list has it, whatever the
// age of the kubelet and whether or not its source has delivered pods. It is twice the longest
// crash-loop back-off (5 minutes).
const Unheard = 10 * time.Minute

// Source is the source from which a kubelet gets a pod.
type Source uint8

// The sources. A pod that does not name its source counts as a pod of the API server.
const (
	FromAPI Source = iota
	FromFile
	FromHTTP
)

// ParseSource parses the value of the annotation kubernetes.io/config.source.
func ParseSource(text string) Source {
	switch text {
	case "file":
		return FromFile
	case "http":
		return FromHTTP
	}
	return FromAPI
}

// Process is one run of the kubelet, as seen from outside.
type Process struct {
	// Number identifies the process. Answers with the same Number are certainly from the same
	// process.
	Number uint64
	// Since is a time at which the process was already running. It may have started earlier.
	Since time.Time
}

// List is one answer of a kubelet.
type List struct {
	// Asked is the time of the request. The answer may miss later changes.
	Asked   time.Time
	Process Process
	// Pods are the pods that may run, by UID. The Tracker does not change the map and does not keep
	// it.
	Pods map[string]Source
	// Ended are the pods with the phase Succeeded or Failed.
	Ended map[string]Source
	// Unreadable is the number of items without a readable UID.
	Unreadable int
}

// Trace is what the runtime shows of a pod.
type Trace struct {
	// Sandbox is true if the runtime has a sandbox of the pod.
	Sandbox bool
	// Since is the time of the pod's last event: the creation or the end of a sandbox or a
	// container. Only lists that were requested later count.
	Since time.Time
}

// Tracker remembers lists. Its zero value has no list. It is not safe for concurrent use.
type Tracker struct {
	// listed are the pods of the newest list. ended are the ended pods of that list.
	listed map[string]sighting
	ended  map[string]bool
	// vanished are pods of earlier lists that the newest list does not have.
	vanished map[string]sighting
	newest   time.Time
	history  []digest
}

// sighting describes the last list that had a pod.
type sighting struct {
	asked   time.Time
	process uint64
	source  Source
}

// digest is the part of a list that is kept. The sightings show which pods were missing from the
// list.
type digest struct {
	asked time.Time
	kind  kind
}

// kind determines against which pods a list counts.
type kind struct {
	process uint64
	settled bool
	sources uint8 // a bit for each Source that has a pod
}

const (
	// memory is how long lists and vanished pods are kept. It is somewhat longer than the longest
	// time that counts.
	memory = Unheard + 2*time.Minute
	// apart is the time below which lists of one kind are kept as one.
	apart = 2 * time.Second
	// maxDigests and maxVanished limit the memory. maxDigests is more than two lists in each
	// `apart` of memory. maxVanished is more pods than any node replaces in that time. A dropped
	// list makes a pod gone later, never earlier.
	maxDigests  = 1024
	maxVanished = 4096
)

// Observe adds a list. It ignores a list that was not requested after the newest one.
func (t *Tracker) Observe(l List) {
	if !l.Asked.After(t.newest) {
		return
	}
	t.newest = l.Asked
	// Lists are dropped before the pods that they had. Otherwise they would count against those
	// pods.
	for len(t.history) > 0 && t.newest.Sub(t.history[0].asked) > memory {
		t.history = t.history[1:]
	}
	for uid, s := range t.vanished {
		if t.newest.Sub(s.asked) > memory {
			delete(t.vanished, uid)
		}
	}
	t.see(l)
	if l.Unreadable == 0 {
		t.remember(l)
	}
}

// see updates the last list that had each pod.
func (t *Tracker) see(l List) {
	listed := make(map[string]sighting, len(l.Pods))
	for uid, source := range l.Pods {
		listed[uid] = sighting{l.Asked, l.Process.Number, source}
		delete(t.vanished, uid)
	}
	if t.vanished == nil {
		t.vanished = map[string]sighting{}
	}
	for uid, s := range t.listed {
		if _, there := listed[uid]; there {
			continue
		}
		if len(t.vanished) == maxVanished { // Without it, the earlier lists would count against a pod that they had.
			t.vanished, t.history = map[string]sighting{}, nil
		}
		t.vanished[uid] = s
	}
	t.listed, t.ended = listed, make(map[string]bool, len(l.Ended))
	for uid := range l.Ended {
		t.ended[uid] = true
	}
}

// remember adds a list to the history.
func (t *Tracker) remember(l List) {
	d := digest{l.Asked, kind{process: l.Process.Number, settled: l.Asked.Sub(l.Process.Since) >= Settle}}
	for _, pods := range []map[string]Source{l.Pods, l.Ended} {
		for _, source := range pods {
			d.kind.sources |= 1 << source
		}
	}
	if len(t.history) == maxDigests {
		t.history = t.history[1:]
	}
	if n := len(t.history); n >= 2 && d.asked.Sub(t.history[n-2].asked) < apart &&
		t.history[n-1].kind == d.kind && t.history[n-2].kind == d.kind {
		t.history[n-1] = d // The list before it counts for this time.
		return
	}
	t.history = append(t.history, d)
}

// Gone reports whether a pod is gone, according to all lists so far. A pod in the newest list is
// never gone.
func (t *Tracker) Gone(uid string, trace Trace) bool {
	if _, there := t.listed[uid]; there {
		return false
	}
	last, seen := t.vanished[uid]
	var counting, delivered, silent span
	for _, d := range t.history {
		if !d.asked.After(trace.Since) || seen && !d.asked.After(last.asked) {
			continue
		}
		silent.add(d.asked)
		has := d.kind.sources&(1<<last.source) != 0
		if has {
			delivered.add(d.asked)
		}
		if seen && d.kind.process == last.process || t.ended[uid] || d.kind.settled && has {
			counting.add(d.asked)
		}
	}
	if trace.Sandbox {
		return counting.lists >= Lists && counting.over() >= Grace
	}
	return counting.lists > 0 || delivered.lists > 0 || silent.lists >= Lists && silent.over() >= Unheard
}

// span is a number of lists, with the times of the first and the last.
type span struct {
	lists       int
	first, last time.Time
}

func (s *span) add(asked time.Time) {
	if s.lists == 0 {
		s.first = asked
	}
	s.lists++
	s.last = asked
}

func (s *span) over() time.Duration { return s.last.Sub(s.first) }
