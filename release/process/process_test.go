package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOutput(t *testing.T) {
	out, stderr, err := Output(t.Context(), "/", []string{"WORD=one"}, "sh", "-c", "echo $WORD; pwd; echo two >&2")
	if string(out) != "one\n/\n" || string(stderr) != "two\n" || err != nil {
		t.Errorf("%q, %q, %v", out, stderr, err)
	}
	if _, _, err := Output(t.Context(), "/", nil, "sh", "-c", "exit 3"); err == nil || err.Error() != "exit status 3" {
		t.Errorf("%v", err)
	}
}

// TestNoTerminal checks that a program is in a session of its own, which has no terminal on which it
// could wait for an answer.
func TestNoTerminal(t *testing.T) {
	out, _, err := Output(t.Context(), "/", nil, "sh", "-c", "set -- $(cat /proc/$$/stat); echo process $1 group $5 session $6; echo process $1 group $1 session $1")
	one, other, _ := strings.Cut(string(out), "\n")
	if err != nil || one == "" || one+"\n" != other {
		t.Errorf("%q, want %q (%v)", one, other, err)
	}
}

// interrupted starts a script that makes the file "started", interrupts it, and returns the error and
// how long the end took.
func interrupted(t *testing.T, grace time.Duration, dir, script string) (time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := output(ctx, grace, dir, nil, "sh", "-c", script)
		ended <- err
	}()
	for begin := time.Now(); !exists(dir, "started"); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 30*time.Second {
			t.Fatal("the program did not start within 30 s")
		}
	}
	begin := time.Now()
	cancel()
	err := <-ended
	return time.Since(begin), err
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// TestInterrupt checks that a program can clean up after an interrupt.
func TestInterrupt(t *testing.T) {
	dir := t.TempDir()
	took, err := interrupted(t, time.Hour, dir, `trap 'rm started; exit 1' INT; touch started; while :; do sleep 0.01; done`)
	if !errors.Is(err, context.Canceled) || err.Error() != context.Canceled.Error() {
		t.Errorf("%v", err)
	}
	if exists(dir, "started") {
		t.Errorf("the program did not remove its file in %s", took)
	}
}

// TestStubborn checks that a program that ignores interrupts is killed with what it started.
func TestStubborn(t *testing.T) {
	dir := t.TempDir()
	_, err := interrupted(t, 100*time.Millisecond, dir, `trap '' INT; (while :; do echo >>alive; touch started; sleep 0.01; done) & wait`)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, "alive"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	time.Sleep(200 * time.Millisecond)
	if after := size(); after != before {
		t.Errorf("what the program started goes on: %d lines, then %d", before, after)
	}
}
