package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/base/authorizer"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/observe"
	"github.com/paddock-project/paddock/internal/node/telemetry"
	"github.com/paddock-project/paddock/internal/ui/view"
	"github.com/paddock-project/paddock/internal/ui/web"
)

// questions asks a kubelet about itself while the agent continues to look at its pods. A kubelet on
// a busy node can take many seconds for its metrics.
type questions struct {
	o        *Observing
	answered chan setUpAnswers
	asking   sync.WaitGroup
	// begun is the time of the last question, and err the fault of the last answers. waits is set
	// until the answers are processed.
	begun time.Time
	err   error
	waits bool
}

// goOn processes answers that have arrived, and asks again when it is time.
func (q *questions) goOn(ctx context.Context) {
	select {
	case a := <-q.answered:
		q.waits, q.err = false, q.o.take(ctx, a)
	default:
	}
	if now := q.o.world.Now(); !q.waits && now.Sub(q.begun) >= q.pause() {
		q.waits, q.begun = true, now
		q.asking.Go(func() { q.answered <- q.o.ask(ctx) })
	}
}

// pause returns the time between two questions.
func (q *questions) pause() time.Duration {
	switch {
	case q.o.session.Load() == nil:
		return waitingEvery
	case q.err != nil:
		return setUpAgain
	case q.another():
		return waitingEvery
	case q.o.objectStarting:
		return setUpAgain
	case q.o.askObject != nil && q.o.world.Now().Sub(q.o.session.Load().since) < nodeSettles:
		return setUpAgain
	}
	return setUpEvery
}

// another reports whether the kubelet's process differs from the one whose version and
// configuration are known. That one is the first process that answered about its pods.
func (q *questions) another() bool {
	now := q.o.endpoint.Process()
	if q.o.process == 0 {
		q.o.process = now
	}
	return now != q.o.process
}

// trouble returns why it is unknown which kubelet decides. Earlier answers of a process still
// count.
func (q *questions) trouble() error {
	switch {
	case q.o.session.Load() == nil:
		return q.err
	case !q.another():
		return nil
	case q.err == nil && q.waits && q.o.world.Now().Sub(q.begun) >= setUpAgain:
		return errors.New("the kubelet was started again, and does not answer which version it is")
	}
	return q.err
}

// setUpAnswers has a kubelet's answers about itself, or the reasons why there are none.
type setUpAnswers struct {
	// process is the kubelet's process at the time of the question, as o.endpoint counts processes.
	process             uint64
	metrics, config     []byte
	ofMetrics, ofConfig error
	// object is the Node. It is nil if the agent did not ask for it, or for the reason ofObject.
	object   *v1.Node
	ofObject error
}

// ask waits for the answers, for at most setUpTime. It uses a connection of its own, so that a
// kubelet with slow metrics still answers about its pods.
func (o *Observing) ask(ctx context.Context) setUpAnswers {
	ctx, cancel := context.WithTimeout(ctx, setUpTime)
	defer cancel()
	a := setUpAnswers{process: o.endpoint.Process()}
	if a.metrics, a.ofMetrics = o.about.Get(ctx, "/metrics", mostMetrics); a.ofMetrics == nil {
		a.config, a.ofConfig = o.about.Get(ctx, "/configz", mostConfigz)
	}
	if o.askObject != nil {
		a.object, a.ofObject = o.askObject(ctx)
	}
	return a
}

// take processes the kubelet's version and configuration. If they have changed, it begins a new
// session, because earlier predictions were about another kubelet.
func (o *Observing) take(ctx context.Context, a setUpAnswers) error {
	if a.ofMetrics != nil {
		return fmt.Errorf("the version of the kubelet is not known: %w", a.ofMetrics)
	}
	text, err := versionIn(a.metrics)
	if err != nil {
		return err
	}
	before := o.session.Load()
	config, doubts, err := o.configuration(a, before != nil && !before.byFile)
	if err != nil {
		return err
	}
	s := &session{
		release: text, config: config, gates: gatesIn(a.metrics), since: o.world.Now(), doubts: doubts, byFile: len(doubts) > 0,
		pages: o.world.hugePages(o.config), object: o.takeObject(ctx, a),
	}
	s.digest = s.digestOf()
	var exact bool
	if s.version, exact, err = behavior.OfNode(text); err != nil {
		return err
	}
	o.process = a.process
	if before != nil && before.digest == s.digest {
		before.object = s.object
		if before.startedAt(startIn(a.metrics), a.process, o.world.Now()) {
			before.lose()
		}
		return nil
	}
	if newest, _ := behavior.Newest(s.version.Minor); !exact {
		s.doubts = append(s.doubts, view.Doubt{
			Reason: fmt.Sprintf("the node runs kubelet %s, and of this minor the answers of %s are recorded", text, newest),
			Give:   "compare the predictions: paddock trust",
		})
	}
	if err := o.resolve(ctx, s); err != nil {
		return err
	}
	if before != nil {
		if last := before.shown.Load(); last != nil {
			s.from = last.snapshot.State.Generation() + 1
		}
	}
	s.started = startIn(a.metrics)
	s.ctx, s.end = context.WithCancel(ctx) // Streams of a session end with it, so that pages ask the next one.
	o.session.Store(o.begin(s))
	if before != nil {
		before.end()
	}
	o.log.InfoContext(ctx, "the kubelet decides, and is observed", "kubelet", text, "as", s.version.String(), "policy", s.node.Policy.Text)
	if p := &s.node.Policy.Policy; !p.StaticCPU && !p.StaticMemory {
		o.log.WarnContext(ctx, "this kubelet assigns neither CPUs nor memory (cpuManagerPolicy none, memoryManagerPolicy None): there is nothing to predict on this node, and an observing agent is of use only if you plan to change that")
	}
	for _, d := range s.doubts {
		o.log.WarnContext(ctx, "predictions can be wrong", "reason", d.Reason, "do", d.Give)
	}
	return nil
}

// digestOf returns a digest of the version, the configuration and the feature gates.
func (s *session) digestOf() [sha256.Size]byte {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s\n%v\n%s", s.release, s.gates, s.config) // A map is printed in the order of its keys.
	return [sha256.Size]byte(h.Sum(nil))
}

// resolve sets the node of a session, what the node has for pods, and the gates that the
// configuration does not have.
func (o *Observing) resolve(ctx context.Context, s *session) error {
	if s.gates == nil {
		s.doubts = append(s.doubts, view.Doubt{
			Reason: "the metrics of the kubelet have no feature gates (kubernetes_feature_enabled): those of its configuration and the defaults of its minor are assumed",
			Give:   "ask the vendor of the kubelet for this metric, which Kubernetes has since 1.26",
		})
	}
	reader := func() inputs.Reader {
		return inputs.Reader{Names: inputs.Fields, Minor: s.version.Minor, Gates: s.gates, Stdin: bytes.NewReader(s.config)}
	}
	quota, err := CPUQuotaConfig{Mode: QuotaKubelet, Ephemeral: o.config.CPUQuota.Ephemeral}.Policy()
	if err != nil {
		return err
	}
	s.node, err = reader().Node(inputs.NodeFiles{Machine: o.config.Machine, Policy: "-", Devices: o.config.Devices, Quota: quota})
	if err != nil {
		return fmt.Errorf("the configuration of the kubelet: %w", err)
	}
	config, err := reader().KubeletConfig("-")
	if err != nil {
		return fmt.Errorf("the configuration of the kubelet: %w", err)
	}
	if s.unlike = config.Unlike(); len(s.unlike) > 0 {
		o.log.InfoContext(ctx, "the kubelet has other feature gates than its configuration and its version give", "gates", s.unlike)
	}
	if s.byFile {
		return nil
	}
	total := s.node.Allocatable()
	s.configured = &total
	return nil
}

// takeObject processes the Node, and returns it. While the API server does not answer, or is
// starting, it returns the last Node.
func (o *Observing) takeObject(ctx context.Context, a setUpAnswers) *v1.Node {
	if a.object != nil {
		o.object = a.object
	}
	now := o.world.Now()
	err := o.objectAllowed.Judge(a.ofObject, now)
	if o.objectStarting = authorizer.IsStarting(err); o.objectStarting {
		if o.objectAllowed.Announce(now) {
			o.log.InfoContext(ctx, "the Node is not known yet, and is asked for again", "error", err)
		}
		return o.object
	}
	if failed := a.ofObject != nil; failed != o.withoutObject && ctx.Err() == nil {
		if o.withoutObject = failed; failed {
			o.log.WarnContext(ctx, "what the Node has for all pods is not known: it is computed from the kubelet's configuration, and without extended resources and ephemeral storage", "error", a.ofObject)
		} else {
			o.log.InfoContext(ctx, "the Node can be read")
		}
	}
	return o.object
}

// limits returns the inputs that are missing and without which the agent continues, each with the
// consequence.
func (o *Observing) limits() []string {
	if all := o.missing.Load(); all != nil {
		return *all
	}
	return nil
}

// noteLimits stores the limits for other goroutines.
func (o *Observing) noteLimits() {
	var all []string
	if o.object == nil {
		all = append(all, "without the Node: what it has for all pods is computed from the kubelet's configuration, without extended resources and ephemeral storage")
	} else if o.withoutObject {
		all = append(all, "the API server does not answer with the Node: what it had for all pods counts")
	}
	switch {
	case o.config.Kubelet.PodResources == "":
		all = append(all, "without the kubelet's PodResources socket: answers about pods that ask for devices of plugins that no pod has are unsure")
	case o.near.failed:
		all = append(all, "the kubelet's PodResources socket does not answer: answers about pods that ask for devices of plugins that no pod has are unsure, unless it listed them before")
	}
	if why := o.withoutPushes(); why != "" {
		all = append(all, why)
	}
	if before := o.limits(); !slices.Equal(before, all) {
		o.missing.Store(&all)
		o.changed()
	}
}

// begin sets up the page and the metrics of a session.
func (o *Observing) begin(s *session) *session {
	snapshot := func() *engine.Snapshot {
		if last := s.shown.Load(); last != nil {
			return last.snapshot
		}
		return nil
	}
	s.metrics = telemetry.New(telemetry.Config{
		Policy: s.node.Policy.Policy, Build: o.build, Snapshot: snapshot, Stranded: stranded,
		Checks: []telemetry.Check{{Name: "kubelet", Ready: o.ready, Limits: o.limits}},
	})
	s.metrics.NewPredictions(observe.Results(), s.count)
	s.metrics.NewHugePages(s.takenPages)
	var interrupted func() *view.Interruptions
	if o.interrupting != nil {
		interrupted = o.interrupting.shown
		s.metrics.NewInterruptions(o.interrupting.series)
	}
	name, _ := os.Hostname() // A map without a name is better than none.
	s.web = web.New(web.Config{
		Machine: name, Policy: s.version.Name() + " decides: " + s.node.Policy.Text, Snapshot: snapshot, Notice: o.notice, Warning: s.warning,
		Advise: s.advise, Interruptions: interrupted,
		Search: func(ctx context.Context, s *node.State, pod request.Pod) (explain.Remedies, error) {
			return explain.SearchOfKubelet(ctx, s, pod, nil)
		},
		Now: o.world.Now, After: o.world.After,
	})
	s.observers = []engine.Observer{s.web}
	if o.publisher != nil {
		s.published = s.metrics.NewPublication()
		s.observers = append(s.observers, o.publisher)
	}
	return s
}

// configuration returns the configuration with which the kubelet runs. Without the kubelet's
// answer, this is the configured file, or the file in the kubelet's directory, unless the kubelet
// answered earlier.
func (o *Observing) configuration(a setUpAnswers, answered bool) (config []byte, doubts []view.Doubt, err error) {
	if err = a.ofConfig; err == nil {
		return a.config, nil, nil
	}
	if answered {
		return nil, nil, fmt.Errorf("the configuration of the kubelet: %w", err)
	}
	name := o.config.KubeletConfig
	if name == "" {
		name = filepath.Join(o.config.Kubelet.Dir, "config.yaml")
	}
	data, missing := inputs.Reader{Names: inputs.Fields}.File(name)
	if missing != nil {
		return nil, nil, fmt.Errorf("it is not known how the kubelet is configured: %w; %w", err, missing)
	}
	return data, []view.Doubt{{
		Reason: fmt.Sprintf("the configuration is that of %s, without the kubelet's flags and drop-in files: %v", name, err),
		Give:   "allow the agent to get nodes/configz",
	}}, nil
}

// versionIn returns the version in the kubelet's metrics.
func versionIn(metrics []byte) (string, error) {
	for line := range bytes.Lines(metrics) {
		if bytes.HasPrefix(line, []byte("kubernetes_build_info{")) {
			if version, has := labelIn(string(line), "git_version"); has {
				return version, nil
			}
		}
	}
	return "", errors.New("the version of the kubelet is not known: its metrics have no kubernetes_build_info with git_version: is this the address of a kubelet?")
}

// startIn returns the start time of the kubelet's process in its metrics, or "".
func startIn(metrics []byte) string {
	for line := range bytes.Lines(metrics) {
		if start, found := bytes.CutPrefix(line, []byte("process_start_time_seconds ")); found {
			return string(bytes.TrimSpace(start))
		}
	}
	return ""
}

// gatesIn returns the feature gates in the kubelet's metrics by name, or nil if there are none. A
// configuration lacks gates that are set in another way, and gates whose default a vendor has
// changed.
func gatesIn(metrics []byte) map[string]bool {
	var gates map[string]bool
	for line := range bytes.Lines(metrics) {
		if !bytes.HasPrefix(line, []byte("kubernetes_feature_enabled{")) {
			continue
		}
		text := string(bytes.TrimSpace(line))
		if name, has := labelIn(text, "name"); has {
			if gates == nil {
				gates = map[string]bool{}
			}
			gates[name] = strings.HasSuffix(text, " 1")
		}
	}
	return gates
}

// labelIn returns the value of a label in a line of metrics.
func labelIn(line, label string) (string, bool) {
	for _, before := range []string{"{", ","} {
		if _, rest, found := strings.Cut(line, before+label+`="`); found {
			value, _, closed := strings.Cut(rest, `"`)
			return value, closed
		}
	}
	return "", false
}
