package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/paddock-project/paddock/internal/testing/golden"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"paddock": main})
}

// TestScripts runs testdata/script, which has one file for each behaviour. It adds these to
// testscript's own commands: "exits CODE paddock …"; and "await [-not] REGEXP paddock …", which
// repeats the command until its output matches, whatever its exit code is. With -not, it repeats
// the command until it exits with 0 and its output does not match. "listens LOG" waits until an
// agent has logged its address to the file LOG, and sets $LISTEN to it. "kubelet DIR" serves the
// files of a directory as a kubelet, and sets $KUBELET to its address. Agents in scripts listen on
// port 0, because another process can take a port that was free a moment ago. $MACHINES is the
// directory of the example machines, $EXAMPLES that of the examples, and $NIGHTS that of the
// recorded nodes. [sysfs] is true if the live machine can be read. With
// -rewrite, the files that "cmp stdout FILE" compares with are updated in the scripts.
func TestScripts(t *testing.T) {
	golden.Scripts(t)
	machines, err := filepath.Abs("../../examples/machines")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: golden.Rewriting(),
		Setup: func(env *testscript.Env) error {
			env.Setenv("MACHINES", machines)
			env.Setenv("EXAMPLES", filepath.Dir(machines))
			env.Setenv("NIGHTS", filepath.Join(filepath.Dir(machines), "nights"))
			return nil
		},
		Condition: func(condition string) (bool, error) {
			if condition != "sysfs" {
				return false, errors.New("unknown condition")
			}
			_, err := os.Stat("/sys/devices/system/cpu/cpu0/topology/core_id")
			return err == nil, nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits, "await": awaitOutput, "listens": awaitAddress, "kubelet": serveKubelet, "unhex": unhex},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE command…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// unhex writes a file with the bytes of hexadecimal digits, because files of a script are texts.
func unhex(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: unhex FILE DIGITS")
	}
	data, err := hex.DecodeString(args[1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), data, 0o600))
}

// awaitOutput waits for the effects of another process.
func awaitOutput(ts *testscript.TestScript, neg bool, args []string) {
	not := len(args) > 0 && args[0] == "-not"
	if not {
		args = args[1:]
	}
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await [-not] REGEXP command…")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // The other process does not signal this one.
		err := ts.Exec(args[1], args[2:]...)
		matches := want.MatchString(ts.ReadFile("stdout"))
		if not && !matches && err == nil || !not && matches {
			return
		}
	}
	ts.Fatalf("no output of %q matches %q", args[1:], args[0])
}

// logged matches an agent's address in its log, as text and as JSON.
var logged = regexp.MustCompile(`msg="metrics and health" address=(\S+)|"msg":"metrics and health","address":"([^"]+)"`)

// serveKubelet answers as a kubelet with the files of a directory, until the script ends, and sets
// $KUBELET to its address.
func serveKubelet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: kubelet DIR")
	}
	server := httptest.NewServer(http.FileServer(http.Dir(ts.MkAbs(args[0]))))
	ts.Defer(server.Close)
	ts.Setenv("KUBELET", server.URL)
}

// awaitAddress waits for the address of an agent whose log is a file.
func awaitAddress(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: listens LOG")
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // The agent reports the address only in its log.
		log, err := os.ReadFile(ts.MkAbs(args[0]))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			ts.Fatalf("%v", err)
		}
		if found := logged.FindSubmatch(log); found != nil {
			ts.Setenv("LISTEN", string(found[1])+string(found[2]))
			return
		}
	}
	ts.Fatalf("%s has no address of an agent", args[0])
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestRunReportsWriteErrors checks that a partial file does not look like a complete one.
func TestRunReportsWriteErrors(t *testing.T) {
	for _, output := range []string{"tree", "table", "json"} {
		var stderr bytes.Buffer
		args := []string{"topology", "--machine", "../../examples/machines/vm-4cpu.json", "-o", output}
		if code := run(args, strings.NewReader(""), fullDisk{}, &stderr); code != 1 {
			t.Errorf("%s: exit code %d, want 1", output, code)
		}
		if got, want := stderr.String(), "paddock: no space left on device\n"; got != want {
			t.Errorf("%s: got %q, want %q", output, got, want)
		}
	}
}
