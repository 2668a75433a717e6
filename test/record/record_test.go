package main

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const golden = "../../testdata/golden"

// TestGolden: the managers still give every answer that is recorded.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob(golden + "/*.jsonl.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var out bytes.Buffer
			c := command{check: true, out: bufio.NewWriter(&out)}
			err := errors.Join(c.files([]string{file}), c.out.Flush())
			t.Log(out.String())
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRecord: what is written can be read and checked, and a change is found.
func TestRecord(t *testing.T) {
	const bare = `{"name":"one","machine":"@smt2-8t-1n","kubeletConfig":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0"},` +
		`"pods":[{"metadata":{"uid":"a"},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"2","memory":"1Gi"},"requests":{"cpu":"2","memory":"1Gi"}}}]}}],` +
		`"events":[{"op":"admit","pod":"a"},{"op":"restart"},{"op":"reconcile"},{"op":"restart","configPatch":{"cpuManagerPolicy":"none"}},{"op":"removePod","pod":"a"}]}`
	const verdict = `{"name":"bad","machine":"@smt2-8t-1n","kubeletConfig":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0"},"file":"cpu_manager_state","content":"{}"}`
	for _, test := range []struct{ name, line, has, wrong string }{
		{"scenario", bare, `"updates":[{"id":"a/c","cpus":"1,5"}]`, `"updates":[{"id":"a/c","cpus":"2,6"}]`},
		{"refused restart", bare, `"op":"restart","startError":"start cpu manager error: could not restore state`, `"op":"restart","startError":"x`},
		{"verdict", verdict, `"accepted":false`, `"accepted":true`},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "scenarios.jsonl")
			recorded := call(t, command{runs: 2}, file, test.line)
			if !strings.Contains(recorded, test.has) {
				t.Fatalf("the record is %s, want one with %s", recorded, test.has)
			}
			if out := call(t, command{check: true}, file, recorded); !strings.HasSuffix(out, " 1 of 1 lines reproduced\n") {
				t.Errorf("its check: %s", out)
			}
			changed := strings.Replace(recorded, test.has, test.wrong, 1)
			if out := call(t, command{check: true}, file, changed); !strings.HasSuffix(out, " 0 of 1 lines reproduced\n") {
				t.Errorf("the check of a changed one: %s", out)
			}
		})
	}
}

// call runs the command on a file with the text and returns its output.
func call(t *testing.T, c command, file, text string) string {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c.machines, c.out = golden+"/machines", bufio.NewWriter(&out)
	if err := c.files([]string{file}); err != nil && !errors.Is(err, errDiffer) {
		t.Fatal(err)
	}
	if err := c.out.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
