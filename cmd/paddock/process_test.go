package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/agent"
	"github.com/paddock-project/paddock/internal/cli/console"
)

// patience bounds waits for events that must happen. It only ends tests that hang, so it is longer
// than a busy machine needs.
const patience = 5 * time.Minute

// home is a directory with everything that an agent needs.
type home struct {
	t   *testing.T
	dir string
	// args are the arguments of paddock agent.
	args []string
}

// newHome creates a home.
func newHome(t *testing.T, machine string) *home {
	t.Helper()
	h := &home{t: t, dir: t.TempDir()}
	if err := os.Mkdir(h.path("pods"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.write("machine.json", machine)
	h.write("agent.yaml", "podResources: {callsPerSecond: 10000, burst: 10000}\n")
	h.args = []string{
		"agent", "--config", h.path("agent.yaml"), "--machine", h.path("machine.json"), "--pods", h.path("pods"), "--state", h.path("state.json"),
		"--podresources-socket", h.path("s"), "--listen", "127.0.0.1:0", "--log-format", "json",
	}
	return h
}

func (h *home) path(name string) string { return filepath.Join(h.dir, name) }

// write replaces a file atomically.
func (h *home) write(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(h.path(name+".tmp"), []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Rename(h.path(name+".tmp"), h.path(name)); err != nil {
		h.t.Fatal(err)
	}
}

// process is a running agent. Its binary is that of this test, or the one that $PADDOCK names.
type process struct {
	cmd   *exec.Cmd
	log   *lines
	ended chan error
}

// start starts an agent. It ends with the test at the latest.
func (h *home) start(more ...string) *process {
	h.t.Helper()
	binary := "paddock" // TestMain has put it into PATH.
	if named := os.Getenv("PADDOCK"); named != "" {
		binary = named
	}
	p := &process{cmd: exec.Command(binary, append(h.args, more...)...), log: &lines{came: make(chan struct{})}, ended: make(chan error, 1)}
	p.cmd.Stderr = p.log
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOGC=") }) // The agent chooses it.
	p.cmd.Env = append(p.cmd.Env, "GORACE=halt_on_error=1")                                                   // The report of a data race is complete when the process ends.
	if err := p.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		p.ended <- p.cmd.Wait()
	}()
	h.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // It may have ended.
		<-gone
	})
	return p
}

// end sends a signal and waits. It returns nil for exit code 0.
func (p *process) end(t *testing.T, s os.Signal) error {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	return p.wait(t)
}

func (p *process) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.ended:
		return err
	case <-time.After(patience):
		t.Fatalf("the agent does not end; its log:\n%s", p.log.text())
		return nil
	}
}

// event is a line of the log.
type event struct{ Msg, UID, Address, Pod string }

// lines keeps the lines of the log.
type lines struct {
	mu   sync.Mutex
	data bytes.Buffer
	came chan struct{} // closed and replaced when data arrives
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.came)
	l.came = make(chan struct{})
	return l.data.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.String()
}

// events returns the complete lines so far, and a channel that is closed when more data arrives. A
// line that is not of the log, like those of a panic, is an error.
func (l *lines) events() ([]event, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []event
	for line := range strings.Lines(l.data.String()) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return all, l.came, fmt.Errorf("%w in %s", err, line)
		}
		all = append(all, e)
	}
	return all, l.came, nil
}

// events returns the complete lines of the log so far, and a channel that is closed when more data
// arrives. When the agent writes something else, its end is awaited, because the rest of the report
// may be still to come.
func (p *process) events(t *testing.T) ([]event, <-chan struct{}) {
	t.Helper()
	all, more, err := p.log.events()
	if err != nil {
		ended := p.wait(t)
		t.Fatalf("%v; the agent ended with %v; its log:\n%s", err, ended, p.log.text())
	}
	return all, more
}

// await waits until n lines have one of these messages, and returns the last of them.
func (p *process) await(t *testing.T, n int, msgs ...string) event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		all, more := p.events(t)
		count := 0
		for _, e := range all {
			if !slices.Contains(msgs, e.Msg) {
				continue
			}
			if count++; count == n {
				return e
			}
		}
		select {
		case <-more:
		case err := <-p.ended:
			t.Fatalf("the agent ended with %v; its log:\n%s", err, p.log.text())
		case <-ctx.Done():
			t.Fatalf("%q is logged %d times, want %d:\n%s", msgs, count, n, p.log.text())
		}
	}
}

// machineText returns a machine with two threads per core.
func machineText(sockets, nodes, cores int) string {
	var list []string
	all := sockets * nodes * cores
	for n := range sockets * nodes {
		var text []string
		for c := range cores {
			id := n*cores + c
			text = append(text, fmt.Sprintf(`{"core_id": %d, "thread_ids": [%d, %d], "socket_id": %d}`, id, id, id+all, n/nodes))
		}
		list = append(list, fmt.Sprintf(`{"node_id": %d, "memory": 137438953472, "cores": [%s]}`, n, strings.Join(text, ",")))
	}
	return fmt.Sprintf(`{"num_cores": %d, "num_sockets": %d, "topology": [%s]}`, 2*all, sockets, strings.Join(list, ","))
}

// TestSignals checks that SIGTERM and SIGINT end an agent with exit code 0, and that a second
// signal ends it at once although a client delays it.
func TestSignals(t *testing.T) {
	h := newHome(t, machineText(1, 1, 2))
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := h.start()
		p.await(t, 1, "PodResources API")
		begin := time.Now()
		if err := p.end(t, s); err != nil {
			t.Errorf("%v: %v", s, err)
		}
		t.Logf("ended %v after %v", time.Since(begin), s)
	}
	p := h.start()
	p.await(t, 1, "PodResources API")
	silent, err := silentClient(h.path("s"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.await(t, 1, "the agent ends; another signal ends it at once")
	err = p.end(t, syscall.SIGTERM)
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.Error() != "signal: terminated" {
		t.Errorf("after the second signal: %v, want an end by SIGTERM", err)
	}
}

// TestHangup checks that SIGHUP does not end an agent. The agent applies the log level, names the
// fields that need a restart, and reads the manifests again.
func TestHangup(t *testing.T) {
	h := newHome(t, machineText(1, 1, 2))
	p := h.start()
	p.await(t, 1, "PodResources API")
	hangup := func() {
		t.Helper()
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	hangup()
	p.await(t, 1, "read again")
	h.write("agent.yaml", "log: {level: debug}\nprofile: true\n")
	hangup()
	p.await(t, 1, "log level changed")
	p.await(t, 1, "the configuration has changed fields that the running agent does not apply: restart the agent")
	if text := p.log.text(); !strings.Contains(text, `"fields":"podResources.burst, podResources.callsPerSecond, profile"`) {
		t.Errorf("the log does not name the fields:\n%s", text)
	}
	h.write("agent.yaml", "log: {level: loud}\n")
	hangup()
	p.await(t, 1, "the configuration cannot be applied: nothing was changed")
	if err := p.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("after SIGHUP: %v", err)
	}
}

// TestConfigIsWhatIsPrinted checks that the output of --print-config can be read again and means
// the same.
func TestConfigIsWhatIsPrinted(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run([]string{"agent", "--print-config", "--pods", "a,b", "--strict"}, strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatal(errs.String())
	}
	c, err := agent.ReadConfig("printed", out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	want := agent.DefaultConfig()
	want.Pods, want.Strict = []string{"a", "b"}, true
	if fmt.Sprint(c) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

// run runs the program without a separate process.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return console.Execute(newRootCommand(), args, stdin, stdout, stderr)
}
