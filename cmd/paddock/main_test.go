package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var rewrite = flag.Bool("rewrite", false, "write what comes out into the scripts' golden files")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"paddock": main})
}

// TestScripts runs testdata/script, one file a behaviour. Beside testscript's own
// commands there are "exits CODE paddock …" and "await REGEXP paddock …", which repeats the command
// until its output matches. $MACHINES is the directory of the example
// machines, $LISTEN an address where nobody listens; [sysfs] holds where the live machine can be read. With -rewrite, what
// "cmp stdout FILE" compares with is written into the scripts.
func TestScripts(t *testing.T) {
	machines, err := filepath.Abs("../../examples/machines")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *rewrite,
		Setup: func(env *testscript.Env) error {
			env.Setenv("MACHINES", machines)
			env.Setenv("EXAMPLES", filepath.Dir(machines))
			free, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // It is closed in the next line.
			if err != nil {
				return err
			}
			env.Setenv("LISTEN", free.Addr().String())
			return free.Close()
		},
		Condition: func(condition string) (bool, error) {
			if condition != "sysfs" {
				return false, errors.New("unknown condition")
			}
			_, err := os.Stat("/sys/devices/system/cpu/cpu0/topology/core_id")
			return err == nil, nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits, "await": awaitOutput},
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

// awaitOutput is for what another process does.
func awaitOutput(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await REGEXP command…")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // The other process says nothing to this one.
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && want.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("no output of %q matches %q", args[1:], args[0])
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestRunReportsWriteErrors: half a file must not look like a whole one.
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

func TestExitError(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		err  error
		text string
	}{
		{&exitError{code: 2}, "exit code 2"},
		{&exitError{code: 2, err: cause}, "cause"},
	} {
		if c.err.Error() != c.text {
			t.Errorf("got %q, want %q", c.err, c.text)
		}
	}
	if !errors.Is(&exitError{code: 2, err: cause}, cause) {
		t.Error("the cause is not unwrapped")
	}
	if got := oneLine("a\n\n\tb \r\nc\n"); got != "a b c" {
		t.Errorf("got %q", got)
	}
}

func TestReadInputIsBounded(t *testing.T) {
	endless := io.LimitReader(zeros{}, maxFile+10)
	if data, err := readInput("-", endless); data != nil || err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Errorf("got %d bytes and %v", len(data), err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
