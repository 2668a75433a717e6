package agent

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/notice"
	"github.com/paddock-project/paddock/internal/node/promise"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/node/telemetry"
)

// MovesConfig configures how running pods are moved. The policy file determines which pods may be
// moved (cpuManagerPolicy: dynamic).
type MovesConfig struct {
	// Notice is the time between the announcement of a move and the first change of CPUs.
	Notice Duration `json:"notice"`
	// Interval is how long a pod is not moved again after a move.
	Interval Duration `json:"interval"`
	// LeaveAloneAtMost is the maximum time for which a pod that asks for it is left alone. It
	// begins with the first move that waits for the pod.
	LeaveAloneAtMost Duration `json:"leaveAloneAtMost"`
	// OnRequest makes the agent carry out moves that a client on the node requests on Listen, under
	// every policy, for pods that consent. If false, such a client only learns whether the moves
	// that it lists are possible.
	OnRequest bool `json:"onRequest"`
}

// leastKernel is the first Linux version that can move the memory of a container without stalling
// the creation of others.
var leastKernel = version.MustParseGeneric("6.18")

// kernelFile contains the release of the kernel, e.g. "6.18.3-amd64" (proc_sys_kernel(5)).
const kernelFile = "/proc/sys/kernel/osrelease"

// movesMemory reports whether the agent moves memory on a kernel of that release, and if not, why.
func movesMemory(p node.MovePolicy, release string) (bool, string) {
	release = strings.TrimSpace(release)
	v, err := version.ParseGeneric(release)
	switch {
	case p.Bytes == 0 || p.AnyKernel:
		return p.Bytes > 0, ""
	case err != nil:
		return false, fmt.Sprintf("the kernel release %q cannot be read", release)
	case !v.AtLeast(leastKernel):
		return false, fmt.Sprintf("the kernel is %s, and before Linux %s a move of memory can stall the creation of containers", release, leastKernel)
	}
	return true, ""
}

// limitMoves removes memory from the policy's moves if the kernel must not move it. It returns the
// reason.
func (e *environment) limitMoves(c Config) (why string) {
	if e.Policy.Moves.Pods == 0 || c.Machine != discover.LiveName {
		return ""
	}
	release, err := os.ReadFile(kernelFile)
	if err != nil {
		release = []byte(err.Error())
	}
	if may, why := movesMemory(e.Policy.Moves, string(release)); !may && why != "" {
		e.Policy.Moves.Bytes = 0
		return "no memory is moved between NUMA nodes: " + why + "; to move it anyway, set move-memory-on-any-kernel: \"true\""
	}
	return ""
}

// plans has the functions for engine.Config.Plan and engine.Config.Reserve. If plan is nil, the
// node plans by itself. If reserve is nil, nothing is ever reserved.
type plans struct {
	plan    func(*node.State, engine.Candidate) (*node.Plan, *handover.Outcome)
	reserve func(*node.State) *node.State
}

func (a *Agent) plans() plans {
	var by plans
	if a.env.Policy.Moves.Pods > 0 {
		a.promises = promise.New(a.world.Now)
	}
	if a.intake != nil {
		by.plan = a.intake.Plan
	}
	if a.intake != nil || a.promises != nil {
		by.reserve = a.reserve
	}
	return by
}

// reserve implements engine.Config.Reserve. The room that moves make comes first, so that pods that
// are bound to this node but have not started cannot take it.
func (a *Agent) reserve(s *node.State) *node.State {
	var list []node.Reservation
	if a.promises != nil {
		list = a.promises.Reservations()
	}
	if a.intake != nil {
		list = append(slices.Clip(list), a.intake.Reservations(s)...)
	}
	return s.WithReservations(list)
}

// moves returns the value of nri.Config.Moves.
func (a *Agent) moves() nri.MovesConfig {
	c := nri.MovesConfig{Notice: time.Duration(a.config.Moves.Notice), Interval: time.Duration(a.config.Moves.Interval)}
	if a.promises != nil {
		c.Promises = a.promises
	}
	var quiet *notice.Quiet
	counted := a.metrics.NewMoves(func() int { return len(a.status().Moving) }, func() int { return quiet.Waiting(a.world.Now()) })
	quiet = notice.NewQuiet(time.Duration(a.config.Moves.LeaveAloneAtMost), counted.LeftAlone)
	c.May = func(uid string) error {
		until, known := a.asksUntil(uid)
		if !known {
			return errors.New("it is not listed, so it is not known whether it asks to be left alone: ask again later")
		}
		return quiet.MayMove(uid, until, a.world.Now())
	}
	c.Observer = moveObserver{
		counted: counted, notices: a.notices, nodes: a.env.Found.Machine.NodeMask(),
		moved: func(uid string) { a.moved.add(uid, a.world.Now(), a.engine.State()) },
	}
	return c
}

// asksUntil returns the time until which a pod asks not to be moved, according to its present
// manifest. known is false if the manifest was not read since the start.
func (a *Agent) asksUntil(uid string) (until time.Time, known bool) {
	if a.pods != nil {
		return a.pods.Quiet(uid)
	}
	if asked := a.quiet.Load(); asked != nil {
		return (*asked)[uid], true
	}
	return time.Time{}, false
}

// movedPods has the pods that were moved since the start, by UID. Its methods may be called
// concurrently.
type movedPods struct {
	mu   sync.Mutex
	pods map[string]movedPod
}

type movedPod struct {
	times int
	last  time.Time
}

// add records a move that is done. It removes pods that no longer exist.
func (m *movedPods) add(uid string, at time.Time, s *node.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.pods, func(uid string, _ movedPod) bool {
		_, there := s.Grant(uid)
		return !there
	})
	if m.pods == nil {
		m.pods = map[string]movedPod{}
	}
	m.pods[uid] = movedPod{m.pods[uid].times + 1, at}
}

// of implements podres.Options.Moved.
func (m *movedPods) of(uid string) (times int, last time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pods[uid].times, m.pods[uid].last
}

// moveObserver is an nri.MoveObserver that updates the metrics, the moved pods and, if it is not
// nil, the notices.
type moveObserver struct {
	counted *telemetry.Moves
	moved   func(uid string)
	notices *notice.Writer
	// nodes are the NUMA nodes of a container that is not pinned to any.
	nodes mask.Mask
}

// Begun implements nri.MoveObserver.
func (o moveObserver) Begun(m nri.Moving) {
	o.counted.Begun()
	for _, c := range m.Changes {
		if o.notices != nil && !(c.Before.CPUs.Equal(c.After.CPUs) && c.Before.Mems == c.After.Mems) {
			o.notices.Pending(m.UID, c.Container, notice.Change{CPUs: c.After.CPUs, Mems: cmp.Or(c.After.Mems, o.nodes), Deadline: m.Deadline})
		}
	}
}

// Ended implements nri.MoveObserver.
func (o moveObserver) Ended(m nri.Moving, done bool) {
	o.counted.Ended(done, m.Bytes)
	if done {
		o.moved(m.UID)
	}
	if o.notices != nil {
		o.notices.Settled(m.UID)
	}
}
