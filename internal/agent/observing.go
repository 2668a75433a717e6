package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/paddock-project/paddock/internal/base/access"
	"github.com/paddock-project/paddock/internal/base/authorizer"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/node/podsource/kubelet"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletpods"
	"github.com/paddock-project/paddock/internal/node/publication"
	"github.com/paddock-project/paddock/internal/node/telemetry"
	"github.com/paddock-project/paddock/internal/ui/view"
	"github.com/paddock-project/paddock/internal/ui/web"
)

// These are the times of an observing agent.
const (
	// glanceEvery is how often the agent checks whether a state file was replaced, which takes some
	// microseconds. A change shows within this time and the time of one look.
	glanceEvery = 250 * time.Millisecond
	// lookEvery is how often the agent asks for the pods although no file was replaced. While pods
	// wait for the kubelet's decision, it asks every waitingEvery.
	lookEvery, waitingEvery = 30 * time.Second, time.Second
	// setUpEvery is how often the agent asks for the version and the configuration of the kubelet.
	// They only change when the kubelet is started again, and then the agent asks at once. Without
	// an answer, it asks again after setUpAgain, or after waitingEvery if there was no earlier
	// answer. It waits for an answer for at most setUpTime, and looks at the pods in the meantime.
	setUpEvery, setUpAgain, setUpTime = 10 * time.Minute, 10 * time.Second, 30 * time.Second
	// nodeSettles is how long a kubelet that was started can have an old Node. Until then, the
	// agent asks for the Node every setUpAgain.
	nodeSettles = time.Minute
	// tornTries is how often the agent reads files again that do not add up, because the kubelet
	// replaces a file twice for one admission. tornWait is the time between two tries. If the files
	// still do not add up after settledAtMost, the agent shows and compares them as they are.
	tornTries, tornWait = 5, 20 * time.Millisecond
	// startingTime is how long a kubelet that was started again can take to list all pods.
	startingTime = time.Minute
	// settledAfter is how long the files must have had the same for a pod that has not started,
	// before its decision counts as complete. settledAtMost is how long other decisions wait for
	// that.
	settledAfter, settledAtMost = time.Second, 10 * time.Second
)

// These are the largest answers of the kubelet that the agent reads, in bytes.
const (
	mostConfigz, mostMetrics = 1 << 20, 16 << 20
)

// Observing is an agent on a node on which the kubelet decides. It reads the kubelet's files and
// answers, shows the node as it is, and compares each decision of the kubelet with its prediction.
// It changes nothing on the node, and needs no runtime. With Config.Publish, it also writes the
// objects of the node, which show schedulers and people what the kubelet has.
type Observing struct {
	config Config
	world  World
	build  telemetry.Build
	log    *slog.Logger
	// endpoint answers about pods, and about is another connection for the kubelet itself.
	endpoint, about *kubelet.Endpoint

	// process is the process of the kubelet whose version and configuration are known.
	process uint64
	// session is nil until the kubelet's version and configuration are known. problem is the reason
	// why there is none, or why the last look failed.
	session atomic.Pointer[session]
	problem atomic.Pointer[string]
	// missing has the result of limits.
	missing atomic.Pointer[[]string]
	// publisher is nil without Config.Publish.
	publisher *publication.Publisher
	near      near
	// interrupting counts interruptions of exclusive CPUs. It is nil if the machine is not the one
	// on which the agent runs.
	interrupting *interrupting
	// pushed has the kubelet's own status of its pods, if the kubelet has the PodsAPI.
	pushed *kubeletpods.Watch
	// askObject returns the Node of this node. It is nil without an API server. object is its last
	// answer, and withoutObject is set while the API server does not answer.
	askObject     func(context.Context) (*v1.Node, error)
	object        *v1.Node
	withoutObject bool
	// objectAllowed tracks whether the agent may read the Node. objectStarting is set while the API
	// server forbids it and may be starting.
	objectAllowed  authorizer.Watch
	objectStarting bool
}

// NewObserving returns an observing agent. It does not read anything from the node yet.
func NewObserving(c Config, w World, build telemetry.Build, log *slog.Logger) (*Observing, error) {
	w = w.complete(c)
	if err := c.Check(); err != nil {
		return nil, err
	}
	o := &Observing{config: c, world: w, build: build, log: log, pushed: kubeletpods.New(kubeletpods.Socket(c.Kubelet.Dir), w.After)}
	for _, to := range []**kubelet.Endpoint{&o.endpoint, &o.about} {
		endpoint, err := kubelet.NewEndpoint(c.Kubelet.address(), w.Now)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
		*to = endpoint
	}
	if o.askObject = w.Object; o.askObject == nil && c.NodeName != "" && (c.APIServer.URL != "" || w.Publication != nil) {
		client, err := w.client(c)
		if err != nil {
			return nil, err
		}
		o.askObject = func(ctx context.Context) (*v1.Node, error) { return client.Node(ctx, c.NodeName) }
	}
	if c.Machine == discover.LiveName {
		o.interrupting = newInterrupting(w, o.State, log)
	}
	if !c.Publish {
		return o, nil
	}
	return o, o.publishes()
}

// Run observes until ctx ends.
func (o *Observing) Run(ctx context.Context) error {
	defer o.endpoint.Close()
	defer o.about.Close()
	defer o.near.close()
	group, within := errgroup.WithContext(ctx)
	if o.config.Listen != "" {
		listener, err := telemetry.Listen(within, o.config.Listen)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		o.log.InfoContext(within, "metrics and health", "address", listener.Addr().String())
		group.Go(func() error { return telemetry.Serve(within, listener, o.handler(), o.log) })
	}
	if o.publisher != nil {
		group.Go(func() error { return o.publisher.Run(within) })
	}
	group.Go(func() error { return o.pushed.Run(within) })
	if o.interrupting != nil {
		group.Go(func() error { return o.interrupting.run(within) })
	}
	group.Go(func() error { return o.watch(within) })
	err := group.Wait()
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}

// watch looks at the node until ctx ends.
func (o *Observing) watch(ctx context.Context) error {
	var looked time.Time
	var ofLook error // of the last time
	var pushed bool  // since the last look
	about := questions{o: o, answered: make(chan setUpAnswers, 1)}
	defer about.asking.Wait()
	for {
		about.goOn(ctx)
		if s := o.session.Load(); s != nil && (pushed || o.due(s, o.world.Now().Sub(looked))) {
			looked, pushed = o.world.Now(), false
			ofLook = s.patient(o.look(ctx, s), o.world.Now())
		}
		o.noteLimits()
		o.trouble(ctx, cmp.Or(about.trouble(), ofLook))
		wait := glanceEvery
		if o.session.Load() == nil {
			wait = waitingEvery
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-o.world.After(wait):
		case <-o.pushed.Changed(): // A burst of events costs one look.
			pushed = true
			o.pause(ctx, glanceEvery-o.world.Now().Sub(looked))
		}
	}
}

// due reports whether the given time has passed since the last look.
func (o *Observing) due(s *session, after time.Duration) bool {
	last := s.shown.Load()
	switch {
	case last == nil || after >= lookEvery || (o.problem.Load() != nil || !s.restarted.IsZero()) && after >= waitingEvery:
		return true
	case (last.certainty.Answer == view.Pending || !s.postponed.IsZero()) && after >= waitingEvery:
		return true
	}
	return o.signature() != last.signature
}

// trouble logs a problem once, and its end once.
func (o *Observing) trouble(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	before := o.problem.Load()
	switch {
	case err == nil && before != nil:
		o.problem.Store(nil)
		o.changed()
		o.log.InfoContext(ctx, "the kubelet's files and answers can be read again")
	case err != nil && (before == nil || *before != err.Error()):
		text := err.Error()
		o.problem.Store(&text)
		o.changed()
		o.log.ErrorContext(ctx, "what the kubelet does is not known: what is shown can be out of date, and nothing is predicted", "error", err)
	}
}

// signature returns a value that changes when the kubelet replaces one of its files, or lists other
// devices.
func (o *Observing) signature() string {
	var b strings.Builder
	fmt.Fprintf(&b, "devices %d\n", o.near.revision)
	for _, name := range stateFiles() {
		if info, err := os.Stat(filepath.Join(o.config.Kubelet.Dir, name)); err == nil {
			fmt.Fprintf(&b, "%s %d %d\n", name, info.ModTime().UnixNano(), info.Size())
		}
	}
	return b.String()
}

func stateFiles() []string {
	return []string{
		kubeletstate.CPUManager.FileName(), kubeletstate.MemoryManager.FileName(), kubeletstate.DRAManager.FileName(),
		deviceFile(),
	}
}

// deviceFile is the file about the devices of device plugins, in the kubelet's directory.
func deviceFile() string {
	return filepath.Join("device-plugins", kubeletstate.DeviceManager.FileName())
}

// look reads the files and the pods, and compares the kubelet's decisions with their predictions.
func (o *Observing) look(ctx context.Context, s *session) error {
	for try := 1; ; try++ {
		signature := o.signature()
		listed, err := o.pods(ctx, s)
		if err != nil {
			s.fail(o.world.Now())
			return err
		}
		shown, texts, err := o.state(ctx, s, listed.pods)
		if err != nil && try == tornTries {
			s.fail(o.world.Now())
			return err
		}
		if err == nil {
			l := reading{listing: listed, signature: signature, shown: shown, texts: texts, replaced: signature != o.signature(), torn: s.torn(shown.State, listed.pods)}
			if !l.replaced && !l.torn || try == tornTries {
				s.see(o.world.Now(), l)
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-o.world.After(tornWait):
		}
	}
}

// state returns the state that the kubelet's files show, and the files.
func (o *Observing) state(ctx context.Context, s *session, pods inputs.Roster) (*treatment.Shown, []treatment.Text, error) {
	found := treatment.Found{Path: o.config.Kubelet.Dir, Pods: pods, Version: s.version, Near: o.placesOfDevices(ctx)}
	texts, err := found.Texts(inputs.Reader{Names: inputs.Fields})
	if err != nil {
		return nil, nil, err
	}
	shown, err := found.OfFiles(texts, s.node)
	return shown, texts, err
}

// listing is the kubelet's list, by UID.
type listing struct {
	pods inputs.Roster
	// asked are the requests by which the managers decide, and requests are those that the kubelet
	// adds up.
	asked    map[string]request.Pod
	requests map[string]request.Totals
}

// pods returns the pods of the node with their status, and their requests. If the request of a pod
// cannot be read, the pod gets nothing of its own, and pods omits it. For a kubelet that may have
// been started again, the error can be errStarting.
func (o *Observing) pods(ctx context.Context, s *session) (listing, error) {
	out := listing{inputs.Roster{}, map[string]request.Pod{}, map[string]request.Totals{}}
	gates, asked := podspec.GatesOf(s.node.Policy.Policy), o.world.Now()
	process, err := o.endpoint.Pods(ctx, func(item []byte) error {
		var pod v1.Pod
		if err := kjson.UnmarshalCaseSensitivePreserveInts(item, &pod); err != nil {
			return err
		}
		uid := podspec.UID(&pod)
		o.further(uid, &pod)
		if out.pods[uid] != nil {
			return fmt.Errorf("it has the pod %s/%s (UID %s) twice", pod.Namespace, pod.Name, uid)
		}
		full := podspec.Default(&pod, gates)
		if r, err := podspec.Request(full, gates); err == nil {
			out.pods[uid], out.asked[uid], out.requests[uid] = inputs.Slim(&pod), r, requestsOf(full, gates)
		}
		return nil
	})
	if err != nil {
		return listing{}, fmt.Errorf("it is not known which pods are on the node: %w", err)
	}
	return out, s.listedBy(process.Number, out.pods, asked, o.world.Now())
}

// notice returns why the displayed state may be out of date.
func (o *Observing) notice() string {
	if why := o.problem.Load(); why != nil {
		return "What the kubelet does is not known: " + *why
	}
	return ""
}

func (o *Observing) ready() error {
	if why := o.problem.Load(); why != nil {
		return errors.New(*why)
	}
	if s := o.session.Load(); s == nil || s.shown.Load() == nil {
		return errors.New("the kubelet's files and answers were not read yet")
	}
	return nil
}

// Trust returns how the predictions compare with the kubelet's decisions. It reports false before
// the first look.
func (o *Observing) Trust() (view.Trust, bool) {
	s := o.session.Load()
	if s == nil || s.shown.Load() == nil {
		return view.Trust{}, false
	}
	return s.trust(), true
}

// State returns the state of the kubelet. It is nil before the first look.
func (o *Observing) State() *node.State {
	if s := o.session.Load(); s != nil {
		if last := s.shown.Load(); last != nil {
			return last.snapshot.State
		}
	}
	return nil
}

// WriteScenarios writes the last decisions that differ from their predictions, each as a scenario
// on a line of its own.
func (o *Observing) WriteScenarios(w io.Writer) error {
	if s := o.session.Load(); s != nil {
		return s.writeScenarios(w)
	}
	return nil
}

// TrustPath is the path at which an observing agent serves the comparison of its predictions.
const TrustPath = "/api/trust"

// ScenariosPath is the path at which an observing agent serves the last decisions that differ, each
// as a scenario on a line of its own.
const ScenariosPath = TrustPath + "/scenarios"

// handler serves the data of the present session.
func (o *Observing) handler() http.Handler {
	name, _ := os.Hostname() // If there is no name, clients use localhost or an address.
	guard := access.Guard{Everywhere: o.config.Map == MapEverywhere, Switch: mapSwitch, Name: name}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+ScenariosPath, func(rw http.ResponseWriter, r *http.Request) {
		if _, known := o.Trust(); known {
			rw.Header().Set("Content-Type", "application/jsonl")
			_ = o.WriteScenarios(rw) // The client is gone if this fails.
			return
		}
		o.serveEarly(rw, r)
	})
	mux.HandleFunc("GET "+TrustPath, func(rw http.ResponseWriter, r *http.Request) {
		if t, known := o.Trust(); known {
			rw.Header().Set("Content-Type", "application/json")
			rw.Header().Set(web.NoticeHeader, o.notice())
			_ = json.NewEncoder(rw).Encode(t) // The client is gone if this fails.
			return
		}
		o.serveEarly(rw, r)
	})
	var (
		mu      sync.Mutex
		of      *session
		current http.Handler
	)
	mux.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {
		s := o.session.Load()
		if s == nil {
			o.serveEarly(rw, r)
			return
		}
		mu.Lock()
		if of != s {
			of, current = s, s.web.Handler(s.ctx, s.metrics.Handler(o.config.Profile))
		}
		handler := current
		mu.Unlock()
		handler.ServeHTTP(rw, r)
	})
	return guard.Handler(mux)
}

// serveEarly answers before the kubelet is known. It serves the health checks, and the reason at
// all other paths. As with /readyz later, only clients on the node get the reason.
func (o *Observing) serveEarly(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" {
		_, _ = rw.Write([]byte("ok\n"))
		return
	}
	why := "not ready"
	if err := o.ready(); err != nil && access.Local(r) { // It can have become ready in between.
		why += ": " + err.Error()
	}
	if strings.HasPrefix(r.URL.Path, "/api/") {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(rw).Encode(map[string]string{"error": why})
		return
	}
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.WriteHeader(http.StatusServiceUnavailable)
	_, _ = fmt.Fprintf(rw, "kubelet: %s\nnot ready\n", why)
}
