package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/test/record"
)

// TestMain is the worker too: the program starts its own executable.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == record.WorkerFlag {
		main()
		return
	}
	os.Exit(m.Run())
}

const golden = "../../../testdata/golden"

// TestRecorded checks that the managers still give every recorded answer: those of 1.36.3, to which
// later patches are equal, and those of this version.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob(golden + "/*.jsonl.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	record.CheckFiles(t, golden+"/machines", files)
	record.CheckMinor(t, "1.36")
}

// TestRecord checks that what is written can be read and checked, and that a change is found.
func TestRecord(t *testing.T) {
	const bare = `{"name":"one","machine":"@smt2-8t-1n","kubeletConfig":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0"},` +
		`"pods":[{"metadata":{"uid":"a"},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"2","memory":"1Gi"},"requests":{"cpu":"2","memory":"1Gi"}}}]}}],` +
		`"events":[{"op":"admit","pod":"a"},{"op":"restart"},{"op":"reconcile"},{"op":"restart","configPatch":{"cpuManagerPolicy":"none"}},{"op":"removePod","pod":"a"}]}`
	const verdict = `{"name":"bad","machine":"@smt2-8t-1n","kubeletConfig":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0"},"file":"cpu_manager_state","content":"{}"}`
	for _, test := range []struct{ name, line, has, wrong string }{
		{"scenario", bare, `"updates":[{"cpus":"1,5","id":"a/c"}]`, `"updates":[{"cpus":"2,6","id":"a/c"}]`},
		{"failed restart", bare, `"startError":"start cpu manager error: could not restore state`, `"startError":"x`},
		{"verdict", verdict, `"accepted":false`, `"accepted":true`},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "scenarios.jsonl")
			recorded := run(t, file, test.line, "-runs", "2")
			if !strings.Contains(recorded, test.has) {
				t.Fatalf("the record is %s, expected one with %s", recorded, test.has)
			}
			if out := run(t, file, recorded, "-check"); !strings.HasSuffix(out, " 1 of 1 lines reproduced\n") {
				t.Errorf("its check: %s", out)
			}
			changed := strings.Replace(recorded, test.has, test.wrong, 1)
			if out := run(t, file, changed, "-check"); !strings.HasSuffix(out, " 0 of 1 lines reproduced\n") {
				t.Errorf("the check of a changed one: %s", out)
			}
		})
	}
}

// run runs the program on a file with the text and returns its output.
func run(t *testing.T, file, text string, args ...string) string {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := record.Run(append(args, "-machines", golden+"/machines", file), &out); err != nil && !record.Differ(err) {
		t.Fatal(err)
	}
	return out.String()
}

// TestLive checks that a kubelet of this minor can be observed.
func TestLive(t *testing.T) { record.CheckLive(t, minor{}) }
