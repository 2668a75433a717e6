package hollow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/agent"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/apiserver"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletdevices"
	"github.com/paddock-project/paddock/internal/node/telemetry"
	"github.com/paddock-project/paddock/internal/ui/view"
	"github.com/paddock-project/paddock/test/cluster/stock"
)

// observed is the host of a node on which a kubelet decides: the managers of a minor version of
// Kubernetes over real state files, and the observing agent of the product beside them.
type observed struct {
	*Node

	process *stock.Process
	kubelet *stock.Kubelet
	release string // the version that the kubelet reports

	watcher *watcher // nil while the agent does not run
	// unpublished has since when the kubelet decides about the pods that the node's object does not
	// have yet.
	unpublished map[string]time.Time
	// decided has when the kubelet decided about pods, by UID. unseen are the pods that ended before
	// the agent looked: no prediction about a pod that was decided meanwhile can be right.
	decided map[string]time.Time
	unseen  []span
	// before has the results of earlier runs of the agent.
	before []view.Trust

	// orders is locked from an order to the kubelet until its answer is stored. last is the last one
	// that has what the managers have, and history has the last orders.
	orders  sync.Mutex
	last    *stock.Answer
	history []string
	ended   time.Time // when a pod ended
}

// span is a time from the admission of a pod to its end.
type span struct{ from, to time.Time }

// together is how long after a decision a later one can be compared at the same time, in the order
// that explains most.
const together = 2 * time.Second

// watcher is one run of the observing agent.
type watcher struct {
	*agent.Observing

	cancel context.CancelFunc
	ended  chan struct{}
}

// observerName is the name of the service account of deploy/base/observe.yaml.
const observerName = "paddock-observe"

func (n *observed) version() string { return n.release }

func (*observed) account() string { return observerName }

// begin starts the kubelet, and then the agent.
func (n *observed) begin(ctx context.Context) error {
	var err error
	if n.kubelet, err = n.process.Begin(n.Name, n.Kind.scenario); err != nil {
		return err
	}
	if n.release, err = release(ctx, n.kubelet.URL); err != nil {
		return err
	}
	if err := os.WriteFile(n.machineFile(), n.Kind.machine, 0o600); err != nil {
		return err
	}
	n.fleet.workers.Go(func() { n.reconcile(ctx) })
	return n.startWatcher(ctx)
}

// reconcileEvery is the kubelet's cpuManagerReconcilePeriod.
const reconcileEvery = 10 * time.Second

// reconcile lets the CPU Manager release what ended pods had, as its loop does in a kubelet.
func (n *observed) reconcile(ctx context.Context) {
	for wait := time.Duration(rand.Int64N(int64(reconcileEvery))); ; wait = reconcileEvery {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if _, err := n.do(stock.Event{Op: "reconcile"}, nil); err != nil && ctx.Err() == nil {
			n.fleet.log.Error("a kubelet does not reconcile", "node", n.Name, "error", err)
		}
	}
}

func (n *observed) machineFile() string { return filepath.Join(n.kubelet.Dir, "machine.json") }

var gitVersion = regexp.MustCompile(`git_version="(v[^"]+)"`)

// release asks a kubelet for its version.
func release(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	found := gitVersion.FindSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("%s/metrics has no git_version", url)
	}
	return string(found[1]), nil
}

// startWatcher starts the observing agent, and waits until it has looked at the kubelet.
func (n *observed) startWatcher(ctx context.Context) error {
	config := agent.DefaultConfig()
	config.Decides, config.Machine, config.NodeName, config.Publish, config.Listen = agent.DecidesKubelet, n.machineFile(), n.Name, true, ""
	config.Kubelet = agent.KubeletConfig{URL: n.kubelet.URL, Dir: n.kubelet.Dir}
	config.APIServer = agent.APIServerConfig{URL: apiserver.InCluster}
	world := agent.Here()
	world.Allocatable = func(context.Context) ([]kubeletdevices.Device, error) { return nil, nil }
	world.Object = func(context.Context) (*v1.Node, error) { return stock.Boundless(), nil }
	world.Publication, world.Watch = n.fleet.publishers[n.Name], agent.Watch{Published: n.wroteObserved}
	made, err := agent.NewObserving(config, world, telemetry.Build{}, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})).With("node", n.Name))
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	w := &watcher{Observing: made, ended: make(chan struct{})}
	running, cancel := context.WithCancel(ctx)
	w.cancel = cancel
	go func() {
		defer close(w.ended)
		if err := w.Run(running); err != nil {
			n.fleet.log.Error("an observing agent has ended", "node", n.Name, "error", err)
		}
	}()
	n.mu.Lock()
	n.watcher = w
	n.mu.Unlock()
	return await(ctx, func() bool { return w.State() != nil })
}

// wroteObserved counts a write of the node's object, and how long ago the kubelet admitted the pods
// that it shows for the first time.
func (n *observed) wroteObserved(took time.Duration, err error) {
	n.wrote(took, err)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil || n.watcher == nil || n.watcher.State() == nil {
		return
	}
	state, now := n.watcher.State(), time.Now()
	for uid, at := range n.unpublished {
		if _, shown := state.Grant(uid); shown {
			delete(n.unpublished, uid)
			n.record.shown(now.Sub(at))
		}
	}
}

// do carries out an event, and keeps the answer.
func (n *observed) do(e stock.Event, pod *v1.Pod) (*stock.Answer, error) {
	n.orders.Lock()
	defer n.orders.Unlock()
	a, err := n.kubelet.Do(e, pod)
	if err != nil {
		return nil, err
	}
	if a.CPU != nil {
		n.last = a
	}
	switch e.Op {
	case "admit":
		n.mu.Lock()
		n.decided[e.Pod] = time.Now()
		n.mu.Unlock()
	case "endPod":
		n.ended = time.Now()
	}
	if len(n.history) == mostHistory {
		n.history = slices.Delete(n.history, 0, 1)
	}
	n.history = append(n.history, fmt.Sprintf("%s %s %s %s %v", time.Now().Format("15:04:05.000"), e.Op, e.Pod, a.Reason, a.CPUs(e.Pod)))
	return a, nil
}

// mostHistory is how many orders are kept for a decision that differs, and mostShown how many are
// logged with a rejection.
const mostHistory, mostShown = 400, 40

// start implements host: the kubelet decides once. It starts the containers of a pod that it admits.
func (n *observed) start(ctx context.Context, w *worker) progress {
	pod := w.pod()
	n.mu.Lock()
	n.unpublished[w.uid] = time.Now() // The agent can be faster than the answer.
	n.mu.Unlock()
	a, err := n.do(stock.Event{Op: "admit", Pod: w.uid}, pod)
	n.mu.Lock()
	if err != nil || a.Admitted == nil || !*a.Admitted || !a.Has(w.uid) {
		delete(n.unpublished, w.uid)
	} else if _, still := n.unpublished[w.uid]; still {
		n.unpublished[w.uid] = time.Now() // The kubelet has written now; before, the order waited for others.
	}
	n.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return waiting
	case err == nil && a.Panic != "":
		err = errors.New(a.Panic)
	case err == nil && a.Admitted == nil:
		err = errors.New("the kubelet did not decide")
	}
	if err != nil {
		n.trouble(w, failure{hook: "admit", err: err})
		return waiting
	}
	if *a.Admitted {
		w.admitted = true
		return running
	}
	message := "Pod was rejected: " + a.Message
	n.orders.Lock()
	history, ended := strings.Join(n.history[max(0, len(n.history)-mostShown):], "\n\t"), n.ended
	n.orders.Unlock()
	// paddock-scheduler plans a pod for a node, unless the node is unsure: then it takes any pod.
	planned := pod.Annotations[handover.Annotation] != ""
	n.trouble(w, failure{hook: "admit", err: errors.New(message), rejected: true, cause: a.Reason, ended: ended, unplanned: !planned})
	n.fleet.log.Warn("the kubelet rejects a pod", "node", n.Name, "pod", w.uid, "reason", a.Reason, "planned", planned)
	fmt.Fprintf(os.Stderr, "\t%s\n", history)
	n.fleet.patchStatus(ctx, pod, v1.PodStatus{Phase: v1.PodFailed, Reason: a.Reason, Message: message}, false)
	return rejected
}

// stop implements host. What the pod has stays in the files until the kubelet's next admission.
func (n *observed) stop(ctx context.Context, w *worker) {
	if w.admitted {
		n.end(ctx, "endPod", w)
		n.mu.Lock()
		if _, there := n.unpublished[w.uid]; there && !n.seen(w.uid) {
			n.unseen = append(n.unseen, span{n.decided[w.uid], time.Now().Add(together)})
		}
		delete(n.unpublished, w.uid)
		n.mu.Unlock()
	}
}

// seen reports whether the agent has a pod, or none is known because it is away. The caller must have
// locked mu.
func (n *observed) seen(uid string) bool {
	if n.watcher == nil || n.watcher.State() == nil {
		return true
	}
	_, has := n.watcher.State().Grant(uid)
	return has
}

// besideUnseen returns the UIDs of pods that were decided while a pod was there that the agent never
// saw, among those that differ.
func (n *observed) besideUnseen(runs []view.Trust) (uids []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, run := range runs {
		for _, d := range run.Differences {
			at := n.decided[d.UID]
			if slices.ContainsFunc(n.unseen, func(s span) bool { return !at.Before(s.from) && !at.After(s.to) }) {
				uids = append(uids, d.UID)
			}
		}
	}
	return uids
}

// gone implements host.
func (n *observed) gone(w *worker) { n.end(n.fleet.ctx, "unlistPod", w) }

func (n *observed) end(ctx context.Context, op string, w *worker) {
	if _, err := n.do(stock.Event{Op: op, Pod: w.uid}, nil); err != nil && ctx.Err() == nil {
		n.trouble(w, failure{hook: op, err: err})
	}
}

// restart implements host. The kubelet does not notice.
func (n *observed) restart(ctx context.Context, away time.Duration) error {
	n.mu.Lock()
	w := n.watcher
	n.watcher = nil
	n.mu.Unlock()
	if w == nil {
		return fmt.Errorf("node %s: its agent is away already", n.Name)
	}
	w.cancel()
	<-w.ended
	if t, known := w.Trust(); known {
		n.mu.Lock()
		n.before = append(n.before, t)
		n.mu.Unlock()
	}
	// The agent is ready when it has looked. If nothing has changed, it writes nothing.
	return n.comeBack(ctx, away, func() error { return n.startWatcher(n.fleet.ctx) })
}

func (n *observed) changePolicy(context.Context) error {
	return fmt.Errorf("node %s: a kubelet decides there, whose policy does not change", n.Name)
}

// close implements host. The kubelets end with their process.
func (*observed) close() {}

// inspect implements host. What the agent shows is judged, and compared with the answers of the
// managers.
func (n *observed) inspect(out *NodeState) {
	n.mu.Lock()
	w := n.watcher
	out.Trust = append(out.Trust, n.before...)
	n.mu.Unlock()
	if w == nil {
		out.Away = true
		return
	}
	if t, known := w.Trust(); known {
		out.Trust = append(out.Trust, t)
		if len(t.Differences) > 0 {
			out.Differences = append(out.Differences, n.differences(w)...)
		}
	}
	out.Unseen = n.besideUnseen(out.Trust)
	s := w.State()
	if !out.see(s) {
		return
	}
	n.orders.Lock()
	a := n.last
	n.orders.Unlock()
	if a == nil || a.CPU == nil {
		return
	}
	out.Wrong = append(out.Wrong, n.other(s, a)...)
	n.judgeBytes(s.Grants(), a, out)
}

// judgeBytes judges memory that is assigned twice. With best-effort, a kubelet does that, and
// then its agent shows it.
func (n *observed) judgeBytes(grants []*node.Grant, a *stock.Answer, out *NodeState) {
	s := n.Kind.State
	shown := doubleBytes(s, chargedBy(grants))
	if s.Policy().Topology != node.TopologyBestEffort {
		out.Wrong = append(out.Wrong, shown...)
		return
	}
	has := map[charge]int64{}
	for _, g := range grants {
		for c, bytes := range chargesOf(a.Bytes(g.Pod.UID)) {
			has[c] += bytes
		}
	}
	byKubelet := doubleBytes(s, has)
	for _, text := range shown {
		if slices.Contains(byKubelet, text) {
			out.Twice = append(out.Twice, text)
		} else {
			out.Wrong = append(out.Wrong, text)
		}
	}
}

// differences returns the decisions that differ, and the last orders.
func (n *observed) differences(w *watcher) []string {
	var text bytes.Buffer
	if err := w.WriteScenarios(&text); err != nil {
		return []string{err.Error()}
	}
	n.orders.Lock()
	defer n.orders.Unlock()
	return append(strings.Split(strings.TrimSpace(text.String()), "\n"), n.history...)
}

// other returns the pods that run and have other CPUs or other memory for the agent than for the
// kubelet.
func (n *observed) other(s *node.State, a *stock.Answer) (wrong []string) {
	n.mu.Lock()
	var runs []string
	for uid, w := range n.pods {
		if w.phase == v1.PodRunning && !w.ending {
			runs = append(runs, uid)
		}
	}
	n.mu.Unlock()
	for _, uid := range runs {
		has := cpuset.Set{}
		for _, text := range a.CPUs(uid) {
			cpus, err := cpuset.Parse(text)
			if err != nil {
				wrong = append(wrong, fmt.Sprintf("pod with UID %s: CPUs %q: %v", uid, text, err))
			}
			has = has.Union(cpus)
		}
		shown, bytes := cpuset.Set{}, map[charge]int64{}
		if g, there := s.Grant(uid); there {
			shown, bytes = g.CPUs(), chargedBy([]*node.Grant{g})
		}
		if !shown.Equal(has) {
			wrong = append(wrong, fmt.Sprintf("pod with UID %s has CPUs %s for the kubelet, and %s for the agent", uid, has, shown))
		}
		if kept := chargesOf(a.Bytes(uid)); !maps.Equal(bytes, kept) {
			wrong = append(wrong, fmt.Sprintf("pod with UID %s has memory %v for the kubelet, and %v for the agent", uid, kept, bytes))
		}
	}
	return wrong
}

// chargesOf sums up the blocks of a kubelet.
func chargesOf(blocks []stock.Block) map[charge]int64 {
	sums := map[charge]int64{}
	for _, b := range blocks {
		sums[charge{b.Type, mask.Of(b.NUMA...)}] += b.Size
	}
	return sums
}

// ofKubelet adds what a kubelet of a minor version needs to begin on the machine of a kind, with its
// policy.
func (k *Kind) ofKubelet() error {
	m, p := k.State.Machine(), k.State.Policy()
	var err error
	if k.machine, err = machineInfo(m); err != nil {
		return err
	}
	var sum int64
	var reserved []any
	for _, id := range slices.Sorted(maps.Keys(p.ReservedMemory)) {
		limits := map[string]string{}
		for kind, bytes := range p.ReservedMemory[id] {
			limits[kind] = fmt.Sprint(bytes)
			if kind == string(v1.ResourceMemory) {
				sum += bytes
			}
		}
		reserved = append(reserved, map[string]any{"numaNode": id, "limits": limits})
	}
	config := map[string]any{
		"topologyManagerPolicy": p.Topology.String(), "topologyManagerScope": p.Scope.String(),
		"cpuManagerPolicy": "static", "reservedSystemCPUs": p.ReservedCPUs.String(),
		"memoryManagerPolicy": "Static", "reservedMemory": reserved, "systemReserved": map[string]string{"memory": fmt.Sprint(sum)},
		"evictionHard": map[string]string{"imagefs.available": "1%"}, // No threshold of memory.
	}
	if p.PodLevelManagers {
		config["featureGates"] = map[string]bool{"PodLevelResourceManagers": true}
	}
	k.scenario, err = json.Marshal(map[string]any{"name": k.Name, "machine": json.RawMessage(k.machine), "kubeletConfig": config, "pods": []any{}, "events": []any{}})
	return err
}
