package podresources

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds waits for events that must happen. It only ends tests that hang, so it is longer
// than a busy machine needs.
const patience = 5 * time.Minute

// built returns the directory of the binaries of the main module, which are built once.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "paddock-podresources-test-")
	if err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"build", "-o", filepath.Join(dir, "paddock"), "./cmd/paddock-agent"},
		{"test", "-c", "-o", filepath.Join(dir, "podres"), "./internal/node/podres"},
	} {
		command := exec.Command("go", args...)
		command.Dir = "../.."
		if out, err := command.CombinedOutput(); err != nil {
			return dir, fmt.Errorf("go %s: %w: %s", args[0], err, out)
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := built(); dir != "" {
		if err := os.RemoveAll(dir); err != nil {
			code = 1
		}
	}
	os.Exit(code)
}

// server is a process that serves the PodResources API.
type server struct {
	// socket is the socket of the PodResources API. address is the address of the agent's metrics.
	socket, address string
}

// agent starts the agent with a simulated runtime, on a recorded machine with 8 NUMA nodes, GPUs
// and NICs, and with the pods of testdata/pods. It waits until the pods are admitted.
func agent(t *testing.T, flags ...string) server {
	t.Helper()
	s := server{socket: filepath.Join(t.TempDir(), "s")}
	args := append([]string{
		"agent", "--machine", "../../examples/machines/gpu-server-8n.json", "--devices", "../../examples/devices/gpu-server-8n.yaml",
		"--kubelet-config", "testdata/kubelet.yaml", "--pods", "testdata/pods", "--state", filepath.Join(t.TempDir(), "state.json"),
		"--podresources-socket", s.socket, "--listen", "127.0.0.1:0", "--log-format", "json",
	}, flags...)
	log := started(t, "paddock", args...)
	for missing := 3; s.address == "" || missing > 0; {
		var line struct{ Msg, Address, Error string }
		text, open := next(t, log)
		if err := json.Unmarshal([]byte(text), &line); err != nil || !open {
			t.Fatalf("the agent ended, or its log has %q", text)
		}
		switch line.Msg {
		case "metrics and health":
			s.address = line.Address
		case "pod admitted":
			missing--
		case "pod rejected":
			t.Fatal(text)
		}
	}
	return s
}

// claims starts internal/node/podres with 250 pods of 4 containers and 500 ResourceClaims.
func claims(t *testing.T) server {
	t.Helper()
	s := server{socket: filepath.Join(t.TempDir(), "s")}
	log := started(t, "podres", "-test.run", "^TestServeClaims$", "-serve", s.socket)
	if text, _ := next(t, log); text != "serving" {
		t.Fatalf("the server reports %q", text)
	}
	return s
}

// next returns the next line of a log.
func next(t *testing.T, log <-chan string) (string, bool) {
	t.Helper()
	select {
	case text, open := <-log:
		return text, open
	case <-time.After(patience):
		t.Fatal("nothing is logged")
		return "", false
	}
}

// started starts a binary, which ends with the test, and returns the lines of its standard error.
func started(t *testing.T, name string, args ...string) <-chan string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), filepath.Join(dir, name), args...)
	out, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines, done := make(chan string, 1000), make(chan struct{})
	go func() {
		defer close(done)
		defer close(lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			select {
			case lines <- strings.TrimSpace(scanner.Text()):
			default: // No test waits for that many lines.
			}
		}
		_ = command.Wait() // It is killed at the end of the test.
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill() // It may have ended already.
		<-done
	})
	return lines
}
