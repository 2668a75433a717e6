package agent

import (
	"errors"
	"strconv"
	"time"

	"github.com/paddock-project/paddock/internal/cli/inputs"
)

// restarts is what an agent knows of the restarts of its kubelet. A kubelet that was started again
// lists its pods little by little, so a pod that it does not list need not be gone. Answers over
// another connection may be from another process. Its metrics have when it was started: if that has
// not changed, the connection broke, and nothing else.
type restarts struct {
	// process is the connection over which the last list came, and same is the last one that
	// certainly leads to the same process as the one before it.
	process, same uint64
	// listed is when the last list was asked for.
	listed time.Time
	// started is when the process was started, as its metrics have it, or "".
	started string
	// restarted is since when the pods of the last list are waited for, or zero. It stays when yet
	// another connection follows, so that the wait ends also if each answer comes over a new one.
	// proven is set if the process was started again, and not only the connection.
	restarted time.Time
	proven    bool
}

// errStarting is the error of a list that does not have all pods of the one before.
var errStarting = errors.New("the kubelet was started again, and does not list all pods that were there before yet")

// startPrecision is how much later than its metrics have it a process can have been started: the
// kernel's start of the machine, to which they refer, has whole seconds.
const startPrecision = time.Second

// listedBy takes in a list that was asked for at a time and came over a connection. The error is
// errStarting until the list has the pods that were there before, for at most startingTime. After
// that, a pod that is not listed is gone.
func (s *session) listedBy(process uint64, pods inputs.Roster, asked, now time.Time) error {
	s.listed = asked
	if s.process != 0 && process != s.process && process > s.same {
		s.lose()
		if s.restarted.IsZero() {
			s.restarted = now
		}
	}
	s.process = process
	waits := !s.restarted.IsZero() && now.Sub(s.restarted) < startingTime && (s.proven || process > s.same)
	if last := s.shown.Load(); last != nil && waits {
		for _, uid := range last.pods {
			if pods[uid] == nil {
				return errStarting
			}
		}
	}
	s.restarted, s.proven = time.Time{}, false
	return nil
}

// startedAt takes in when the kubelet's process was started. It was asked when there had been that
// many connections. It reports whether the process was started again since the last list.
func (r *restarts) startedAt(start string, connections uint64, now time.Time) bool {
	before := r.started
	r.started = start
	switch {
	case start == "" || before == "":
		return false
	case start != before && r.listed.After(startOf(start).Add(startPrecision)):
		// Its metrics are late: the last list is from this process already.
		r.proven, r.same = !r.restarted.IsZero(), max(r.same, r.process)
	case start != before:
		r.restarted, r.proven = now, true
		return true
	case !r.proven && r.process <= connections:
		r.same = connections
	}
	return false
}

// startOf parses the time of startIn. A text that is no time is later than every list.
func startOf(text string) time.Time {
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || seconds < 0 || seconds > 1<<40 {
		return time.Unix(1<<40, 0)
	}
	return time.UnixMilli(int64(seconds * 1000))
}

// patient returns the error of a look. A list over a new connection that lacks pods is none for
// setUpAgain, unless it is proven that the process was started again: until then the node stays
// shown as it was, as long as the kubelet's metrics may take.
func (s *session) patient(err error, now time.Time) error {
	if errors.Is(err, errStarting) && !s.proven && now.Sub(s.restarted) < setUpAgain {
		return nil
	}
	return err
}
