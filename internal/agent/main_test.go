package agent

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/podsource/manifests"
	"github.com/paddock-project/paddock/internal/node/store"
	"github.com/paddock-project/paddock/internal/node/telemetry"
	"github.com/paddock-project/paddock/internal/testing/crashfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is an environment in which an agent can be started repeatedly: a machine of eight CPUs on
// two NUMA nodes, a policy, and a disk that can fail and lose power.
type bench struct {
	t      *testing.T
	config Config
	disk   *crashfs.FS
	log    *logbook
	halts  map[*Agent]func() // stops the agents that are driven
}

const usualPolicy = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: best-effort
reservedSystemCPUs: "0"
`

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, config: DefaultConfig(), disk: crashfs.New(), log: &logbook{}, halts: map[*Agent]func(){}}
	b.config.State, b.config.Listen, b.config.PodResources.Socket = "/var/lib/paddock/state.json", "", ""
	b.config.Pods = []string{t.TempDir()}
	b.machine(0, 1, 2, 3, 4, 5, 6, 7)
	b.policy(usualPolicy)
	return b
}

// machine gives the bench a machine with these CPUs. CPUs below 4 are on NUMA node 0.
func (b *bench) machine(cpus ...int) {
	b.t.Helper()
	cores := make([][]string, 2)
	for _, id := range cpus {
		cores[id/4] = append(cores[id/4], fmt.Sprintf(`{"core_id": %d, "thread_ids": [%d], "socket_id": 0}`, id, id))
	}
	var nodes []string
	for n, list := range cores {
		nodes = append(nodes, fmt.Sprintf(`{"node_id": %d, "memory": 8589934592, "cores": [%s]}`, n, strings.Join(list, ",")))
	}
	b.config.Machine = b.file("machine.json", fmt.Sprintf(`{"num_cores": %d, "num_sockets": 1, "topology": [%s]}`, len(cpus), strings.Join(nodes, ",")))
}

func (b *bench) policy(text string) { b.config.KubeletConfig = b.file("kubelet.yaml", text) }

func (b *bench) file(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// try tries to start an agent.
func (b *bench) try(fsys store.FS) (*Agent, error) {
	log, err := telemetry.NewLogger(b.log, telemetry.FormatJSON, slog.LevelDebug)
	if err != nil {
		b.t.Fatal(err)
	}
	w := Here()
	w.FS = fsys
	return New(b.t.Context(), b.config, w, telemetry.Build{}, log)
}

// start starts an agent that must start. It is closed at the end of the test at the latest.
func (b *bench) start() *Agent {
	b.t.Helper()
	a, err := b.try(b.disk)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = a.Close() })
	return a
}

// bubble runs a test with a fake clock, which advances only while all goroutines are blocked. So
// waits take no real time.
func bubble(t *testing.T, test func(*testing.T, *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newBench(t)) })
}

// moment is how long the clock runs for events that must happen at once. period is how long it runs
// until everything has been compared once more.
const (
	moment = 2 * time.Second
	period = 11 * time.Second
)

// drive runs the control loop, the runtime and the kubelet of an agent until the test ends or
// b.halts[a] is called.
func (b *bench) drive(a *Agent) {
	if b.halts[a] != nil {
		return
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = a.plugin.Run(ctx) })
	group.Go(func() { _ = a.kubelet.Run(ctx) })
	b.halts[a] = sync.OnceFunc(func() {
		cancel()
		a.runtime.Close()
		group.Wait()
	})
	b.t.Cleanup(b.halts[a])
}

// kill ends the control loop, the runtime and the kubelet of an agent, and kills the process of its
// disk.
func (b *bench) kill(a *Agent) {
	b.halts[a]()
	b.disk.Kill()
}

// follow gives the kubelet the "NAME CPUS" lines as the set of manifests, and waits for a moment. A
// pod without CPUS shares CPUs.
func (b *bench) follow(a *Agent, pods ...string) {
	b.t.Helper()
	var texts []string
	for _, line := range pods {
		texts = append(texts, manifest(line))
	}
	b.deliver(a, manifestsOf(b.t, a, texts...))
}

// deliver gives the kubelet a set of manifests, and waits for a moment.
func (b *bench) deliver(a *Agent, set manifests.Set) {
	a.follower()(b.t.Context(), set)
	b.drive(a)
	time.Sleep(moment) //nolint:forbidigo // The time is that of the bubble.
}

// tick waits until everything has been compared once.
func (b *bench) tick() {
	time.Sleep(period) //nolint:forbidigo // The time is that of the bubble.
}

// manifest returns the manifest of a pod from a line "NAME CPUS".
func manifest(line string) string {
	name, cpus, exclusive := strings.Cut(line, " ")
	resources := "{}"
	if exclusive {
		resources = fmt.Sprintf(`{limits: {cpu: %q, memory: 64Mi}}`, cpus)
	}
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, uid: %s}, spec: {containers: [{name: c, image: x, resources: %s}]}}`, name, name, resources)
}

// holds returns the CPUs of every pod that has a grant: "a=1-2 b=".
func holds(s *node.State) string {
	var words []string
	for _, g := range s.Grants() {
		words = append(words, g.Pod.UID+"="+g.CPUs().String())
	}
	return strings.Join(words, " ")
}

// runs returns the running containers and the CPUs on which they run: "a/c=1-2 b/c=0,3-7".
func runs(a *Agent) string {
	var words []string
	for _, o := range a.runtime.Observe() {
		words = append(words, o.Pod+"/"+o.Container+"="+o.CPUs.String())
	}
	return strings.Join(words, " ")
}

// logbook keeps the log.
type logbook struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wants []waiting
}

type waiting struct {
	word string
	seen chan struct{}
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.wants {
		if bytes.Contains(p, []byte(w.word)) {
			select {
			case w.seen <- struct{}{}:
			default:
			}
		}
	}
	return l.text.Write(p)
}

// when returns a channel that gets an element when a line that contains word is logged from now on.
func (l *logbook) when(word string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := waiting{word, make(chan struct{}, 1)}
	l.wants = append(l.wants, w)
	return w.seen
}

// take returns the lines since the last call.
func (l *logbook) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got  %s\n want %s", what, got, want)
	}
}

func contains(t *testing.T, what, got string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(got, w) {
			t.Errorf("%s: want %q in:\n%s", what, w, got)
		}
	}
}

var discard = slog.New(slog.DiscardHandler)
