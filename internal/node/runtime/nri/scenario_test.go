package nri_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/golden"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// TestScenarios plays the files in testdata/resize: a kubelet and a runtime with the bench's
// machine. These are the commands:
//
//	policy TOPOLOGY            restart the agent with another policy of the Topology Manager
//	run POD CONTAINER=CPUS…    list a pod and start it; "log=0.5" shares, "pool=4" is a pod-level request, "app=2/128" has
//	                           128 MiB in place of 64; a container of a pool without a number has no request
//	resize POD …               list other amounts, and make the kubelet resize the pod
//	ask POD …                  list other amounts; the kubelet asks about the CPUs of the pod and changes no container yet
//	list POD …                 only list other amounts
//	pending POD WORDS…         the kubelet does not apply the amounts that it lists; without words it does
//	accepted POD …             make the kubelet resize the pod to other amounts than it lists
//	retry POD                  make the kubelet continue a resize
//	stop POD                   the pod ends and is gone
//	runtime silent|asks        the runtime does not forward UpdatePodSandbox, or does
//	disk stalls|goes on        writes wait, or continue
//	update lost|fails          the next update that may fail is lost, or the kubelet's next one of a container fails
//	kill                       the agent ends at this moment and starts again with the state on disk
//	wait DURATION
//
// The answer is the error that the kubelet got, and then the containers with their settings.
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/resize/*.txt", func(t *testing.T, script golden.Script) {
		synctest.Test(t, func(t *testing.T) {
			s := &stage{bench: live(t), actuated: map[string]*resizing{}}
			s.start()
			script.Play(func(c scenario.Command) []string { return s.command(t, c.Name, c.Args) })
			s.goOn()
			s.check(t)
		})
	})
}

// stage is a bench with the resizes that its kubelet has applied.
type stage struct {
	*bench
	actuated map[string]*resizing
	stalled  chan struct{}
}

func (s *stage) command(t *testing.T, name string, args []string) []string {
	t.Helper()
	uid := slices.Concat(args, []string{""})
	var err error
	switch name {
	case "policy":
		s.policy.Topology = map[string]node.TopologyPolicy{"best-effort": node.TopologyBestEffort, "restricted": node.TopologyRestricted, "single-numa-node": node.TopologySingleNUMANode}[args[0]]
		s.again()
	case "run", "resize", "ask", "list":
		pod := s.describe(t, uid[0], args[1:])
		s.list(pod)
		switch name {
		case "run":
			s.actuated[pod.UID] = actuated(pod)
			err = s.bench.run(pod.UID)
		case "resize":
			err = s.resize(s.actuated[pod.UID], pod)
		case "ask":
			err = s.resizePod(s.box(pod.UID), s.actuated[pod.UID], podSizes(pod), func(z *sizes) *int64 { return &z.milli })
		}
	case "accepted":
		err = s.resize(s.actuated[uid[0]], s.describe(t, uid[0], args[1:]))
	case "retry":
		err = s.resize(s.actuated[uid[0]], s.source[uid[0]])
	case "pending":
		s.pending[uid[0]] = strings.Join(args[1:], " ")
	case "stop":
		s.end(uid[0])
	case "runtime":
		s.deafToPods = args[0] == "silent"
	case "disk":
		if s.goOn(); args[0] == "stalls" {
			s.stalled = make(chan struct{})
			s.stall.Store(&s.stalled)
		}
	case "update":
		if args[0] == "fails" {
			s.broken = errors.New("device or resource busy")
		} else {
			s.lose = func(*api.ContainerUpdate) bool { s.lose = nil; return true }
		}
	case "kill":
		s.again()
	case "wait":
		var d time.Duration
		if d, err = time.ParseDuration(args[0]); err == nil {
			pass(d)
		}
	default:
		err = errors.New("no such command")
	}
	synctest.Wait()
	return s.answer(err)
}

// again restarts the agent with the state on disk.
func (s *stage) again() {
	s.disconnect()
	s.boot()
	s.connect()
}

func (s *stage) goOn() {
	if s.stalled != nil {
		s.stall.Store(nil)
		close(s.stalled)
		s.stalled = nil
		synctest.Wait()
	}
}

// describe returns the pod that "name=CPUs/MiB" words describe.
func (s *stage) describe(t *testing.T, uid string, words []string) request.Pod {
	t.Helper()
	pod := request.Pod{Identity: request.Identity{UID: uid, Namespace: "default", Name: uid}, Ask: request.Ask{QoS: request.Guaranteed}}
	for _, w := range words {
		name, amounts, limited := strings.Cut(w, "=")
		cpus, mib, _ := strings.Cut(amounts, "/")
		bytes := int64(64)
		if mib != "" {
			bytes, _ = strconv.ParseInt(mib, 10, 64)
		}
		memory := request.Amounts{{Resource: machine.Memory, Value: bytes << 20}}
		n, err := strconv.ParseFloat(cpus, 64)
		if limited && err != nil {
			t.Fatalf("%s: %v", w, err)
		}
		milli := int64(1000 * n)
		if name == "pool" {
			pod.Kind, pod.BudgetCPUs, pod.BudgetCPUMilli, pod.CPULimit, pod.BudgetMemory = request.PodLevel, int(n), milli, milli, memory
			continue
		}
		c := request.Container{Name: name, Type: request.App, CPURequest: milli, CPULimit: milli, Memory: memory, Equivalent: true, Sharing: request.FractionalCPU}
		switch {
		case !limited:
			c.Memory, c.Equivalent, c.Sharing = nil, false, request.NotEquivalent
		case milli%1000 == 0:
			c.CPUs, c.Sharing = int(n), request.NotShared
		}
		pod.Containers = append(pod.Containers, c)
	}
	return pod
}

// answer returns the error that the kubelet got, and the containers with their settings.
func (s *stage) answer(err error) []string {
	var lines []string
	if err != nil {
		lines = append(lines, "error: "+err.Error())
	}
	shown := s.shown()
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		lines = append(lines, fmt.Sprintf("%s on CPUs %s", name, strings.Replace(shown[name], " on ", ", memory of ", 1)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, parent := range slices.Sorted(maps.Keys(s.quotas)) {
		if uid := strings.TrimPrefix(filepath.Base(parent), "pod"); s.quotas[parent] && s.box(uid) != nil {
			lines = append(lines, uid+" has a quota")
		}
	}
	if why := s.plugin.Status().NoVeto; why != nil {
		lines = append(lines, "no veto: "+why.Error())
	}
	return lines
}
