package manifests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/paddock-project/paddock/internal/codec/podspec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pod returns the manifest of a pod.
func pod(name string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: '" + name + "'}\nspec: {containers: [{name: c}]}\n---\n"
}

// invalid is a manifest with correct syntax and an invalid request.
const invalid = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: c, resources: {requests: {cpu: 2}, limits: {cpu: 1}}}]}\n"

// summary returns a set in one line: the pods, then "!file" or "!file+kept" for each problem, then
// "partial".
func summary(dir string, s Set) string {
	var words []string
	for _, p := range s.Pods {
		words = append(words, p.Pod.Name)
	}
	for _, p := range s.Broken {
		name, err := filepath.Rel(dir, p.File)
		if err != nil {
			name = p.File
		}
		word := "!" + name
		if p.Kept > 0 {
			word += fmt.Sprintf("+%d", p.Kept)
		}
		words = append(words, word)
	}
	if s.Partial {
		words = append(words, "partial")
	}
	return strings.Join(words, " ")
}

// act changes something in a directory.
type act func(dir string) error

func write(name, content string) act {
	return func(dir string) error {
		return os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)
	}
}

func remove(name string) act {
	return func(dir string) error { return os.RemoveAll(filepath.Join(dir, name)) }
}

func mkdir(name string) act {
	return func(dir string) error { return os.MkdirAll(filepath.Join(dir, name), 0o700) }
}

func rename(from, to string) act {
	return func(dir string) error { return os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)) }
}

func link(target, name string) act {
	return func(dir string) error { return os.Symlink(target, filepath.Join(dir, name)) }
}

func all(acts ...act) act {
	return func(dir string) error {
		for _, a := range acts {
			if err := a(dir); err != nil {
				return err
			}
		}
		return nil
	}
}

// running is a source that runs on a directory.
type running struct {
	t    *testing.T
	dir  string
	sets chan Set
	// tell notifies the source of a change.
	tell chan struct{}
}

// play runs a source in a bubble, where an hour passes at once. Paths are relative to a new
// directory to which begin was applied.
func play(t *testing.T, paths []string, begin act, script func(r running)) {
	dir := t.TempDir()
	if err := begin(dir); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := running{t: t, dir: dir, sets: make(chan Set), tell: make(chan struct{}, 1)}
		var within []string
		for _, p := range paths {
			within = append(within, filepath.Join(dir, p))
		}
		s := New(within, Options{After: time.After, Gates: podspec.Gates{PodLevelResources: true}})
		s.notify = func([]place) (<-chan struct{}, func(), error) { return r.tell, func() {}, nil }
		ctx, cancel := context.WithCancelCause(t.Context())
		cause, ended := errors.New("enough"), make(chan error)
		defer func() {
			cancel(cause)
			if err := <-ended; !errors.Is(err, cause) {
				t.Errorf("Run ended with %v", err)
			}
		}()
		go func() {
			ended <- s.Run(ctx, func(set Set) {
				select {
				case r.sets <- set:
				case <-ctx.Done():
				}
			})
		}()
		script(r)
	})
}

func (r running) do(a act) {
	r.t.Helper()
	if err := a(r.dir); err != nil {
		r.t.Fatal(err)
	}
}

// next returns the next set. It fails if there is none within the given time.
func (r running) next(within time.Duration) Set {
	r.t.Helper()
	select {
	case s := <-r.sets:
		return s
	case <-time.After(within):
		r.t.Fatalf("no set within %s", within)
	}
	return Set{}
}

// quiet fails if a set is delivered within the time of some rescans.
func (r running) quiet() {
	r.t.Helper()
	select {
	case s := <-r.sets:
		r.t.Fatalf("delivered without need: %s", summary(r.dir, s))
	case <-time.After(5 * DefaultRescan):
	}
}

// soon is the shortest time, for sets that need no wait.
const soon = time.Nanosecond
