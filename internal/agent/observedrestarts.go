package agent

import (
	"errors"
	"strconv"
	"time"

	"github.com/paddock-project/paddock/internal/cli/inputs"
)

// restarts is what an agent knows about the restarts of its kubelet. A kubelet that was started
// again lists its pods little by little, so a pod that it does not list need not be gone. Answers
// over another connection may come from another process. The kubelet's metrics have the start time
// of the process: if that has not changed, only the connection broke.
type restarts struct {
	// process is the connection over which the last list came. same is the last connection that
	// certainly leads to the same process as the one before it.
	process, same uint64
	// listed is the time at which the agent asked for the last list.
	listed time.Time
	// started is the start time of the process according to its metrics, or "".
	started string
	// restarted is the time since which the agent waits for the pods of the last list, or zero. It
	// does not change when yet another connection follows, so that the wait also ends if each
	// answer comes over a new connection. proven is set if the process was started again, and not
	// only the connection.
	restarted time.Time
	proven    bool
}

// errStarting is the error for a list that lacks pods of the previous list.
var errStarting = errors.New("the kubelet was started again, and does not list all pods that were there before yet")

// startPrecision is how much later than its metrics indicate a process can have started: the
// metrics refer to the kernel's start of the machine, which has whole seconds.
const startPrecision = time.Second

// listedBy processes a list that the agent asked for at a given time and that came over a given
// connection. It returns errStarting until the list has the pods that were there before, but for at
// most startingTime. After that, a pod that is not listed is gone.
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

// startedAt processes the start time of the kubelet's process. connections is the number of
// connections at the time of the question. It reports whether the process was started again since
// the last list.
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

// startOf parses the time of startIn. A text that is not a time counts as later than every list.
func startOf(text string) time.Time {
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || seconds < 0 || seconds > 1<<40 {
		return time.Unix(1<<40, 0)
	}
	return time.UnixMilli(int64(seconds * 1000))
}

// patient returns the error of a look. For setUpAgain, it returns nil if a list over a new
// connection lacks pods, unless it is proven that the process was started again. Until then, the
// node is shown as it was, for as long as the kubelet's metrics may take.
func (s *session) patient(err error, now time.Time) error {
	if errors.Is(err, errStarting) && !s.proven && now.Sub(s.restarted) < setUpAgain {
		return nil
	}
	return err
}
