package notice_test

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/node/notice"
	"github.com/paddock-project/paddock/internal/node/store"
)

// client is a running program of examples/notice that follows a directory.
type client struct {
	*exec.Cmd
	lines chan string
}

// build compiles an example and returns the program.
func build(t *testing.T, at string, compiler ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "notice")
	command := exec.CommandContext(t.Context(), compiler[0], append(compiler[1:], "-o", program, ".")...)
	if compiler[0] != "go" {
		command.Args[len(command.Args)-1] = "notice.c"
	}
	command.Dir = at
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command.Args, err, out)
	}
	return program
}

func run(t *testing.T, program, directory string) *client {
	t.Helper()
	c := &client{exec.CommandContext(t.Context(), program, directory), make(chan string, 100)}
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c
}

func (c *client) want(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-c.lines:
		if got != want {
			t.Errorf("it prints %q, want %q", got, want)
		}
	case <-time.After(5 * time.Minute):
		t.Fatalf("it does not print %q", want)
	}
}

// The example programs report each change of a real directory, and ignore fields that they do not
// know.
func TestClients(t *testing.T) {
	for name, c := range map[string][]string{
		"go": {"go", "build"},
		"c":  {"cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(c[0]); err != nil {
				if os.Getenv("CI") != "" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			follows(t, build(t, "../../../examples/notice/"+name, c...))
		})
	}
}

func follows(t *testing.T, program string) {
	t.Helper()
	files := store.NewShown(t.TempDir(), notice.FileName, notice.MaxSize)
	w := notice.New(notice.Config{Files: files, After: time.After, Log: slog.New(slog.DiscardHandler)})
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	defer func() {
		end()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	}()
	asks := notice.Container{Namespace: "default", Pod: `quote"d`, UID: "u", Name: "c", Annotations: map[string]string{notice.Annotation: "c"}}
	dir := w.Open(t.Context(), asks, on("2-5", 0))
	c := run(t, program, dir)
	c.want(t, "notice revision 1 cpus 2-5 mems 0 sharedWith none")
	w.Pending("u", "c", notice.Change{CPUs: on("8-11").CPUs, Mems: mask.Of(1), Deadline: time.Date(2027, 1, 31, 18, 0, 0, 0, time.FixedZone("", 3600))})
	c.want(t, "notice revision 2 cpus 2-5 mems 0 sharedWith none pending cpus 8-11 mems 1 deadline 2027-01-31T17:00:00Z")
	w.Changed("u", "c", on("8-11", 1))
	c.want(t, "notice revision 3 cpus 8-11 mems 1 sharedWith none")
	more := `{"later": {"cpus": "1", "list": [{"cpus": "2"}, "cpus"], "brace}": "}\"", "cpus": "7"}, "kind": "cpus", "cpus" : "4-5",
		"apiVersion": "notice.paddock-project.github.io/v1", "mems": "0", "revision": 9, "sharedWith": "pod", "pending": null}`
	if err := files.Write("u", "c", []byte(more)); err != nil {
		t.Fatal(err)
	}
	c.want(t, "notice revision 9 cpus 4-5 mems 0 sharedWith pod")
	if err := files.Write("u", "c", []byte(`{"apiVersion": "notice.paddock-project.github.io/v10"}`)); err != nil {
		t.Fatal(err)
	}
	c.want(t, "a notice of another version")
	missing := exec.CommandContext(t.Context(), program, filepath.Join(dir, "missing"))
	if out, err := missing.CombinedOutput(); err == nil {
		t.Errorf("a directory that is missing is no error: %s", out)
	}
}
