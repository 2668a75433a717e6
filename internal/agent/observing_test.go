package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/node/telemetry"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// stockKubelet is a kubelet that decides: it has a directory with state files, and answers with its
// pods, its configuration and its metrics. It decides as Paddock does, which for ordinary pods is
// how every kubelet does.
type stockKubelet struct {
	t      *testing.T
	dir    string
	node   *inputs.Node
	state  *node.State
	server *httptest.Server
	slow   bool   // no container of an admitted pod starts
	onList func() // called when it lists its pods

	mu      sync.Mutex
	hangs   string // the path to which it does not answer
	list    []v1.Pod
	answers map[string]string // by path; "" means that the kubelet forbids it
}

const gateLine = `kubernetes_feature_enabled{name="PodLevelResources",stage="BETA"} 1`

const configz = `{"kubeletconfig":{"cpuManagerPolicy":"static","topologyManagerPolicy":"single-numa-node","reservedSystemCPUs":"0"}}`

func newStockKubelet(t *testing.T) (*stockKubelet, Config) {
	t.Helper()
	b := newBench(t)
	k := &stockKubelet{t: t, dir: t.TempDir(), answers: map[string]string{
		"/configz": configz, "/metrics": "# TYPE kubernetes_build_info gauge\nkubernetes_build_info{build_date=\"x\",git_version=\"v1.36.4\",major=\"1\"} 1\n" + gateLine,
	}}
	k.server = httptest.NewServer(http.HandlerFunc(k.serve))
	t.Cleanup(k.server.Close)
	var err error
	k.node, err = inputs.Reader{Names: inputs.Fields, Minor: 36, Stdin: strings.NewReader(configz)}.Node(inputs.NodeFiles{Machine: b.config.Machine, Policy: "-"})
	if err != nil {
		t.Fatal(err)
	}
	if k.state, err = node.New(k.node.Found.Machine, k.node.Policy.Policy); err != nil {
		t.Fatal(err)
	}
	k.write()
	c := b.config
	c.Decides, c.Pods, c.Kubelet.URL, c.Kubelet.Dir, c.KubeletConfig = DecidesKubelet, nil, k.server.URL, k.dir, ""
	return k, c
}

func (k *stockKubelet) serve(rw http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	if k.hangs == r.URL.Path {
		k.mu.Unlock()
		<-r.Context().Done()
		return
	}
	defer k.mu.Unlock()
	answer, known := k.answers[r.URL.Path]
	switch {
	case r.URL.Path == "/pods":
		if k.onList != nil {
			k.onList()
		}
		_ = json.NewEncoder(rw).Encode(v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: k.list})
	case known && answer != "":
		_, _ = rw.Write([]byte(answer))
	default:
		http.Error(rw, "Forbidden", http.StatusForbidden)
	}
}

// write replaces the state files.
func (k *stockKubelet) write() {
	k.t.Helper()
	k.writeChanged(func(*doctor.State) {})
}

// writeChanged replaces the state files with changed ones.
func (k *stockKubelet) writeChanged(change func(*doctor.State)) {
	k.t.Helper()
	s, _, err := doctor.FromPaddock(&statefile.File{Policy: k.node.Policy.Policy, Grants: k.state.Grants()}, k.node.Found.Machine)
	if err != nil {
		k.t.Fatal(err)
	}
	change(s)
	files, err := s.Encode(kubeletstate.Kubelet{Minor: 36})
	if err != nil {
		k.t.Fatal(err)
	}
	for m, data := range files {
		name := filepath.Join(k.dir, m.FileName())
		if err := os.WriteFile(name+".new", data, 0o600); err != nil {
			k.t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			k.t.Fatal(err)
		}
	}
}

// admit decides about a pod. Without a status the kubelet has not decided yet.
func (k *stockKubelet) admit(name, cpus string) {
	k.t.Helper()
	k.bind(name, cpus)
	pod := &k.list[len(k.list)-1]
	gates := podspec.GatesOf(k.node.Policy.Policy)
	asked, err := podspec.Request(podspec.Default(pod, gates), gates)
	if err != nil {
		k.t.Fatal(err)
	}
	plan := k.state.Plan(asked)
	if k.state, err = k.state.Apply(plan); err != nil {
		k.t.Fatal(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if plan.Rejection != nil {
		pod.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: string(plan.Rejection.Reason), Message: "Pod was rejected: " + plan.Rejection.Error()}
		return
	}
	if k.slow {
		k.write()
		return
	}
	pod.Status = v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{Name: "c", ContainerID: "containerd://x", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}}
	k.write()
}

// bind adds a pod to the kubelet's list.
func (k *stockKubelet) bind(name, cpus string) {
	k.t.Helper()
	var pod v1.Pod
	if err := yaml.Unmarshal([]byte(manifest(name+" "+cpus)), &pod); err != nil {
		k.t.Fatal(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	pod.Namespace, pod.Spec.NodeName, pod.Status.Phase = "default", "n", v1.PodPending
	pod.CreationTimestamp = metav1.NewTime(time.Unix(int64(1000+len(k.list)), 0))
	k.list = append(k.list, pod)
}

// lists replaces the list, and returns the one before.
func (k *stockKubelet) lists(list []v1.Pod) []v1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.list
	k.list = list
	return before
}

// set replaces an answer.
func (k *stockKubelet) set(path, answer string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answers[path] = answer
}

func (k *stockKubelet) end(name string) {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.list {
		if k.list[i].UID == types.UID(name) {
			k.list = append(k.list[:i:i], k.list[i+1:]...)
			break
		}
	}
	k.state = k.state.Release(name)
	k.write()
}

// observer returns an observing agent that has looked once.
func observer(t *testing.T, c Config) *Observing {
	t.Helper()
	w := Here()
	w.After = func(time.Duration) <-chan time.Time {
		passed := make(chan time.Time, 1)
		passed <- time.Time{}
		return passed
	}
	o, err := NewObserving(c, w, telemetry.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.setUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	look(t, o)
	return o
}

func look(t *testing.T, o *Observing) {
	t.Helper()
	if err := o.look(t.Context(), o.session.Load()); err != nil {
		t.Fatal(err)
	}
}

// TestObserving compares admissions, a rejection, and pods that came together, and shows the node.
func TestObserving(t *testing.T) {
	k, c := newStockKubelet(t)
	k.admit("old", "1")
	o := observer(t, c)
	s := o.session.Load()
	if got := holds(s.shown.Load().snapshot.State); got != "old=1" {
		t.Errorf("it shows %s", got)
	}
	k.admit("a", "2")
	look(t, o)
	k.admit("large", "5")
	look(t, o)
	k.admit("b", "1")
	k.admit("c", "3")
	look(t, o)
	k.end("a")
	look(t, o)
	k.bind("d", "2")
	look(t, o)
	trust := s.trust()
	if trust.Admissions != (view.TrustCount{All: 3, AsPredicted: 3}) || trust.Rejections != (view.TrustCount{All: 1, AsPredicted: 1}) {
		t.Errorf("admissions %+v, rejections %+v, %+v", trust.Admissions, trust.Rejections, trust.Unpredicted)
	}
	if trust.Certainty.Answer != view.Pending || strings.Join(trust.Certainty.Pods, " ") != "default/d" {
		t.Errorf("the certainty is %+v", trust.Certainty)
	}
	handler := o.handler()
	for path, want := range map[string]string{
		"/readyz": "ready", TrustPath: `"asPredicted":3`, "/metrics": `paddock_predictions_total{result="as-predicted"} 4`,
		"/api/rejections": "default/large", "/api/explain?pod=default/c": `"admitted":true`, "/api/report": `"numaNodes"`,
	} {
		answer := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host, r.RemoteAddr = "127.0.0.1", "127.0.0.1:1000"
		if handler.ServeHTTP(answer, r); answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s: %d %.300s, want %s", path, answer.Code, answer.Body, want)
		}
	}
}

// TestObservingWaitsForWholeDecisions checks that a pod that has not started is compared when the
// files have had the same of it for a second, and other pods with it, and that a kubelet that was
// started again shows nothing before it lists all its pods.
func TestObservingWaitsForWholeDecisions(t *testing.T) {
	k, c := newStockKubelet(t)
	o := observer(t, c)
	now := time.Now()
	o.world.Now = func() time.Time { return now }
	trust := func() view.TrustCount { return o.session.Load().trust().Admissions }
	k.slow = true
	k.admit("a", "2")
	look(t, o)
	k.slow = false
	k.admit("b", "1")
	if look(t, o); trust().All != 0 {
		t.Errorf("at once: %+v", trust())
	}
	now = now.Add(settledAfter)
	if look(t, o); trust() != (view.TrustCount{All: 2, AsPredicted: 2}) {
		t.Errorf("a second later: %+v", trust())
	}

	// Not as predicted, but not started: the kubelet can still be at it.
	k.slow = true
	k.admit("c", "2")
	k.writeChanged(func(s *doctor.State) {
		s.CPU.Entries["c"]["c"], s.CPU.Default = "6-7", "0,4-5"
	})
	look(t, o)
	now = now.Add(settledAfter)
	if look(t, o); trust().All != 2 {
		t.Errorf("before it is whole: %+v", trust())
	}
	k.write()
	look(t, o)
	now = now.Add(settledAfter)
	if look(t, o); trust() != (view.TrustCount{All: 3, AsPredicted: 3}) {
		t.Errorf("when it is whole: %+v", trust())
	}

	k.server.CloseClientConnections() // As when it is started again.
	all := k.lists(nil)
	if err := o.look(t.Context(), o.session.Load()); err == nil || !strings.Contains(err.Error(), "does not list all pods") {
		t.Errorf("with no pod: %v", err)
	}
	if got := holds(o.session.Load().shown.Load().snapshot.State); got != "a=1-2 b=3 c=4-5" {
		t.Errorf("it shows %s", got)
	}
	k.lists(all)
	look(t, o)
	if trust().All != 3 {
		t.Errorf("pods from before are compared again: %+v", trust())
	}
	k.lists(nil)
	now = now.Add(startingTime)
	if look(t, o); holds(o.session.Load().shown.Load().snapshot.State) != "" {
		t.Error("a list of no pods is never believed")
	}
}

// TestObservingGarbledFiles checks that files that cannot be read for a moment do not matter, and
// that a decision is not compared if they could not be read for settledAtMost.
func TestObservingGarbledFiles(t *testing.T) {
	k, c := newStockKubelet(t)
	o := observer(t, c)
	garbled := func() {
		t.Helper()
		if err := os.WriteFile(filepath.Join(k.dir, "cpu_manager_state"), []byte(`{"policyName":"sta`), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := o.look(t.Context(), o.session.Load()); err == nil || !strings.Contains(err.Error(), "cpu_manager_state") {
			t.Errorf("with a garbled file: %v", err)
		}
	}
	now := time.Now()
	o.world.Now = func() time.Time { return now }
	garbled()
	k.admit("soon", "1") // It is written whole again.
	look(t, o)
	if trust := o.session.Load().trust(); trust.Admissions != (view.TrustCount{All: 1, AsPredicted: 1}) {
		t.Errorf("a decision beside a file that was garbled for a moment: %+v", trust.Admissions)
	}
	garbled()
	now = now.Add(settledAtMost)
	garbled()
	k.admit("late", "1")
	look(t, o)
	if trust := o.session.Load().trust(); trust.Admissions != (view.TrustCount{All: 2, AsPredicted: 1, Unsure: 1}) {
		t.Errorf("a decision before which no state was seen for long: %+v", trust.Admissions)
	}
}

// TestObservingWithoutInputs checks what an observing agent does without an answer or a file: it
// shows the reason, and predicts nothing.
func TestObservingWithoutInputs(t *testing.T) {
	k, c := newStockKubelet(t)
	k.set("/configz", "")
	o, err := NewObserving(c, Here(), telemetry.Build{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.setUp(t.Context()); err == nil || !strings.Contains(err.Error(), "it is not known how the kubelet is configured") || !strings.Contains(err.Error(), "403") {
		t.Errorf("without a configuration: %v", err)
	}
	for path, want := range map[string]string{
		"/api/report": `{"error":"not ready: the kubelet's files and answers were not read yet"}`, ScenariosPath: `{"error":"not ready: `, "/healthz": "ok", "/readyz": "kubelet: not ready: the kubelet's files",
	} {
		answer := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host, r.RemoteAddr = "127.0.0.1", "127.0.0.1:1000"
		if o.handler().ServeHTTP(answer, r); !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", path, answer.Code, answer.Body, want)
		}
	}
	if err := os.WriteFile(filepath.Join(k.dir, "config.yaml"), []byte(usualPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	o = observer(t, c)
	if d := o.session.Load().trust().Certainty; d.Answer != view.Unsure || !strings.Contains(d.Doubts[0].Reason, "without the kubelet's flags") {
		t.Errorf("with the file: %+v", d)
	}
	k.set("/configz", configz)
	k.set("/metrics", "up 1\n")
	if err := o.setUp(t.Context()); err == nil || !strings.Contains(err.Error(), "is this the address of a kubelet?") {
		t.Errorf("without a version: %v", err)
	}
	k.set("/metrics", `kubernetes_build_info{git_version="v1.99.0"} 1`)
	if err := o.setUp(t.Context()); err == nil || !strings.Contains(err.Error(), "how kubelet v1.99.0 decides is not known") {
		t.Errorf("of an unknown version: %v", err)
	}
	k.server.Close()
	if err := o.look(t.Context(), o.session.Load()); err == nil || !strings.Contains(err.Error(), "it is not known which pods are on the node") {
		t.Errorf("without a kubelet: %v", err)
	}
}

// TestObservingRuns runs the loop with its real clock: a decision shows within a few of its
// periods, and a kubelet that is down is waited for.
func TestObservingRuns(t *testing.T) {
	k, c := newStockKubelet(t)
	k.set("/metrics", "")
	log := &logbook{}
	logger, err := telemetry.NewLogger(log, telemetry.FormatJSON, slog.LevelDebug)
	if err != nil {
		t.Fatal(err)
	}
	o, err := NewObserving(c, Here(), telemetry.Build{}, logger)
	if err != nil {
		t.Fatal(err)
	}
	failed, again, observed := log.when("what the kubelet does is not known"), log.when("can be read again"), log.when("is observed")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- o.Run(ctx) }()
	<-failed
	k.set("/metrics", `kubernetes_build_info{git_version="v1.36.4"} 1`)
	<-observed
	<-again
	for o.session.Load().shown.Load() == nil {
		time.Sleep(time.Millisecond) //nolint:forbidigo // It is the real clock.
	}
	k.admit("a", "2")
	for o.session.Load().trust().Admissions.AsPredicted != 1 {
		time.Sleep(time.Millisecond) //nolint:forbidigo // It is the real clock.
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// BenchmarkLook measures one look at a node with many pods, of which one in ten has CPUs of its
// own.
func BenchmarkLook(b *testing.B) {
	for _, n := range []int{10, 250, 1000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			list := v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
			for i := range n {
				var pod v1.Pod
				if err := yaml.Unmarshal([]byte(manifest(fmt.Sprintf("p%d 100m", i))), &pod); err != nil {
					b.Fatal(err)
				}
				pod.Namespace, pod.Spec.NodeName, pod.Status.Phase = "default", "n", v1.PodRunning
				pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", ContainerID: "containerd://x", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
				pod.Annotations = map[string]string{"note": strings.Repeat("x", 4000)} // A pod of a cluster has about 8 KiB.
				list.Items = append(list.Items, pod)
			}
			data, err := json.Marshal(list)
			if err != nil {
				b.Fatal(err)
			}
			dir := b.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "cpu_manager_state"), []byte(`{"policyName":"static","defaultCpuSet":"0-7","checksum":0}`), 0o600); err != nil {
				b.Fatal(err)
			}
			answers := map[string][]byte{"/pods": data, "/configz": []byte(configz), "/metrics": []byte(`kubernetes_build_info{git_version="v1.36.4"} 1`)}
			server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { _, _ = rw.Write(answers[r.URL.Path]) }))
			defer server.Close()
			c := DefaultConfig()
			c.Decides, c.Machine, c.Kubelet.URL, c.Kubelet.Dir, c.State = DecidesKubelet, "../../examples/machines/epyc-2s-nps4.json", server.URL, dir, "unused"
			o, err := NewObserving(c, Here(), telemetry.Build{}, slog.New(slog.DiscardHandler))
			if err != nil {
				b.Fatal(err)
			}
			if err := o.setUp(b.Context()); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := o.look(b.Context(), o.session.Load()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
