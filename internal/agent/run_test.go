package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/node/podres"
	"github.com/paddock-project/paddock/internal/testing/crashfs"
)

// patience bounds waits for events that must happen. It only ends tests that hang, so it is longer
// than a busy machine needs.
const patience = 5 * time.Minute

// running is an agent that runs in Run.
type running struct {
	*Agent
	end   context.CancelFunc
	ended chan error
}

func (b *bench) run() *running {
	b.t.Helper()
	return b.runs(b.start())
}

// runs runs an agent until the test ends.
func (b *bench) runs(a *Agent) *running {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	r := &running{Agent: a, end: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- a.Run(ctx) }()
	b.t.Cleanup(cancel)
	return r
}

// until waits until the running containers include what.
func (r *running) until(t *testing.T, what string) {
	t.Helper()
	for deadline := time.Now().Add(patience); !strings.Contains(runs(r.Agent), what); {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not run: %q", what, runs(r.Agent))
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // The simulated runtime has a clock of its own.
	}
}

// stop ends the agent and waits for its end.
func (r *running) stop(t *testing.T) {
	t.Helper()
	r.end()
	if err := await(t, "the end", r.ended); err != nil {
		t.Error(err)
	}
}

func await[T any](t *testing.T, what string, c <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-c:
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
	}
	return value
}

// write replaces a manifest in one step.
func (b *bench) write(name, text string) {
	b.t.Helper()
	path := filepath.Join(b.config.Pods[0], name)
	if err := os.WriteFile(path+".tmp", []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		b.t.Fatal(err)
	}
}

// address returns the address of the metrics, which it reads from the log.
func (b *bench) address() string {
	for line := range strings.Lines(b.log.take()) {
		var fields struct{ Msg, Address string }
		if json.Unmarshal([]byte(line), &fields) == nil && fields.Msg == "metrics and health" {
			return fields.Address
		}
	}
	b.t.Fatal("no address in the log")
	return ""
}

// TestManifestsAreFollowed checks that manifests in a directory are followed, and that a broken
// manifest does not block the others.
func TestManifestsAreFollowed(t *testing.T) {
	b := newBench(t)
	b.write("a.yaml", manifest("a 2"))
	b.write("b.yaml", manifest("b 1"))
	admitted := b.log.when(`"msg":"pod admitted","pod":"default/b"`)
	r := b.run()
	await(t, "b", admitted)
	broken, c := b.log.when("a manifest cannot be used"), b.log.when(`"msg":"pod admitted","pod":"default/c"`)
	b.write("a.yaml", "kind: Pod\nspec: [")
	b.write("c.yaml", manifest("c 1"))
	await(t, "the problem", broken)
	await(t, "c", c)
	released := b.log.when(`"msg":"pod released","pod":"default/b"`)
	if err := os.Remove(filepath.Join(b.config.Pods[0], "b.yaml")); err != nil {
		t.Fatal(err)
	}
	await(t, "the release", released)
	r.stop(t)
	same(t, "held", holds(r.engine.State()), "a=1-2 c=4")
	contains(t, "log", b.log.take(), "the pod that was read from it before is kept")
}

// TestEndWritesTheState checks that changes which did not cause a write are written at the end.
func TestEndWritesTheState(t *testing.T) {
	b := newBench(t)
	b.policy(usualPolicy + "memoryManagerPolicy: Static\nsystemReserved: {memory: 100Mi}\nreservedMemory: [{numaNode: 0, limits: {memory: 200Mi}}]\n")
	b.write("a.yaml", `{apiVersion: v1, kind: Pod, metadata: {name: a, uid: a}, spec: {
  initContainers: [{name: i, image: x, resources: {limits: {cpu: "2", memory: 2Gi}}}],
  containers: [{name: c, image: x, resources: {limits: {cpu: "1", memory: 64Mi}}}]}}`)
	r := b.run()
	for len(r.runtime.History("a", "c")) == 0 { // The init container has ended by then.
		time.Sleep(time.Millisecond) //nolint:forbidigo // The runtime is polled.
	}
	r.stop(t)
	assigned := r.engine.State()
	g, _ := assigned.Grant("a")
	if len(g.Containers[0].Memory) != 0 {
		t.Fatalf("the init container's memory is held: %v", g.Containers[0].Memory)
	}
	b.disk = b.disk.Crash(crashfs.KeepNothing)
	g, _ = b.start().engine.State().Grant("a")
	if len(g.Containers[0].Memory) != 0 {
		t.Errorf("the end of the init container's memory is not written: %v", g.Containers[0].Memory)
	}
}

// TestEndDoesNotWaitForClients checks that clients that connected and send nothing do not delay the
// end.
func TestEndDoesNotWaitForClients(t *testing.T) {
	b := newBench(t)
	b.config.Listen, b.config.Profile = "127.0.0.1:0", true
	b.config.PodResources.Socket = filepath.Join(t.TempDir(), "s")
	serving := b.log.when("PodResources API")
	r := b.run()
	await(t, "the socket", serving)
	address := b.address()
	for network, at := range map[string]string{"tcp": address, "unix": b.config.PodResources.Socket} {
		silent, err := net.Dial(network, at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = silent.Close() })
	}
	profile, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer profile.Close()
	if _, err := io.WriteString(profile, "GET /debug/pprof/trace?seconds=3600 HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answers(t, b.config.PodResources.Socket, address)
	r.stop(t) // The clients stay connected for longer than the end waits.
}

// answers sends one request to the socket and one to the address.
func answers(t *testing.T, socket, address string) {
	t.Helper()
	client, err := podres.Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.List(t.Context()); err != nil {
		t.Error(err)
	}
	if status, _ := get(t, "http://"+address+"/healthz"); status != http.StatusOK {
		t.Errorf("healthz: %d", status)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// TestReadiness checks that readiness is 503 with the reason while the state cannot be written.
func TestReadiness(t *testing.T) {
	b := newBench(t)
	b.config.Listen = "127.0.0.1:0"
	serving, started := b.log.when("metrics and health"), b.log.when("pod admitted")
	b.write("a.yaml", manifest("a 1"))
	r := b.run()
	await(t, "the address", serving)
	await(t, "the pod", started)
	url := "http://" + b.address() + "/readyz"
	if status, text := get(t, url); status != http.StatusOK {
		t.Errorf("%d: %s", status, text)
	}
	rejected := b.log.when("pod not admitted")
	b.disk.Inject(crashfs.From(0, syscall.ENOSPC, crashfs.Full...))
	b.write("b.yaml", manifest("b 1"))
	await(t, "the refusal", rejected)
	status, text := get(t, url)
	for begin := time.Now(); status != http.StatusServiceUnavailable; status, text = get(t, url) { // The rejection can be due to a late write, before that write fails.
		if time.Since(begin) > patience {
			t.Fatalf("status %d: %s", status, text)
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // The agent is polled.
	}
	contains(t, "readyz", text, "state: not ready", "no space left on device")
	b.disk.Inject(nil)
	r.stop(t)
}

// TestDoorThatIsTaken checks that an address in use makes the start fail, and that nothing keeps
// running.
func TestDoorThatIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	b := newBench(t)
	b.config.Listen = taken.Addr().String()
	if err := b.start().Run(t.Context()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("error %v, want EADDRINUSE", err)
	}
	b.config.Listen = "127.0.0.1:0"
	b.config.PodResources.Socket = filepath.Join(t.TempDir(), strings.Repeat("s", 120))
	if err := b.start().Run(t.Context()); err == nil {
		t.Error("a path that no socket can have was taken")
	}
}
