package manifests

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestNotify tests the events of a real file system. There is no rescan in this test.
func TestNotify(t *testing.T) {
	for _, c := range []struct {
		name  string
		paths []string
		begin act
		then  []step
	}{
		{"write", []string{"."}, all(), []step{{"", write("a.yaml", pod("a")), "a"}, {"", write("a.yaml", pod("b")), "b"}, {"", remove("a.yaml"), ""}}},
		{"rename over", []string{"."}, write("a.yaml", pod("a")), []step{{"", all(write(".new", pod("b")), rename(".new", "a.yaml")), "b"}}},
		{"ConfigMap", []string{"."}, all(mkdir("..1"), write("..1/a.yaml", pod("a")), link("..1", "..data"), link("..data/a.yaml", "a.yaml")), []step{
			{"", all(mkdir("..2"), write("..2/a.yaml", pod("b")), link("..2", "..tmp"), rename("..tmp", "..data"), remove("..1")), "b"},
			{"", all(mkdir("..3"), write("..3/a.yaml", pod("c")), link("..3", "..tmp"), rename("..tmp", "..data"), remove("..2")), "c"},
		}},
		{"a file of a ConfigMap", []string{"a.yaml"}, all(mkdir("..1"), write("..1/a.yaml", pod("a")), link("..1", "..data"), link("..data/a.yaml", "a.yaml")), []step{
			{"", all(mkdir("..2"), write("..2/a.yaml", pod("b")), link("..2", "..tmp"), rename("..tmp", "..data")), "b"},
		}},
		{"directory comes, goes and comes", []string{"pods"}, all(), []step{
			{"", mkdir("pods"), ""},
			{"", write("pods/a.yaml", pod("a")), "a"},
			{"", remove("pods/a.yaml"), ""},
			{"", write("pods/b.yaml", pod("b")), "b"},
			{"", rename("pods", "old"), "b !pods+1"},
			{"", mkdir("pods"), ""},
			{"", write("pods/c.yaml", pod("c")), "c"},
		}},
		{"directory is another one at once", []string{"pods"}, all(mkdir("pods"), mkdir("new"), write("pods/a.yaml", pod("a"))), []step{
			{"", all(rename("pods", "old"), rename("new", "pods")), ""}, {"", write("pods/b.yaml", pod("b")), "b"},
		}},
		{"link to a directory", []string{"pods"}, all(mkdir("1"), mkdir("2"), link("1", "pods")), []step{
			{"", write("1/a.yaml", pod("a")), "a"}, {"", all(link("2", "tmp"), rename("tmp", "pods")), ""}, {"", write("2/b.yaml", pod("b")), "b"},
		}},
		{"named file", []string{"a.yaml"}, write("a.yaml", pod("a")), []step{
			{"", all(write("x", pod("b")), rename("x", "a.yaml")), "b"}, {"", remove("a.yaml"), "!a.yaml"}, {"", write("a.yaml", pod("c")), "c"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { onEvents(t, c.paths, c.begin, c.then) })
	}
}

func onEvents(t *testing.T, paths []string, begin act, then []step) {
	dir := t.TempDir()
	if err := begin(dir); err != nil {
		t.Fatal(err)
	}
	var within []string
	for _, p := range paths {
		within = append(within, filepath.Join(dir, p))
	}
	s := New(within, Options{After: func(d time.Duration) <-chan time.Time {
		if d == DefaultRescan {
			return nil
		}
		return time.After(d / 20)
	}})
	sets := make(chan Set, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Run(ctx, func(set Set) { sets <- set })
	}()
	defer func() {
		cancel()
		<-ended
	}()
	<-sets
	for i, step := range then {
		if err := step.do(dir); err != nil {
			t.Fatal(err)
		}
		late := time.After(5 * time.Minute)
		for got := same; got != step.want; {
			select {
			case set := <-sets: // intermediate states may be seen, too
				got = summary(dir, set)
			case <-late:
				t.Fatalf("step %d: last seen %q, want %q", i, got, step.want)
			}
		}
	}
}

// TestUnwatched: without events the rescan finds everything, and a note reports this.
func TestUnwatched(t *testing.T) {
	s := New([]string{t.TempDir()}, Options{After: time.After})
	s.notify = func([]place) (<-chan struct{}, func(), error) {
		return nil, func() {}, errors.New("too many open files")
	}
	var w watch
	w.begin = s.notify
	set := collect(s.roots, s.look(&w).unwatched)
	if len(set.Notes) != 1 || !strings.Contains(set.Notes[0], "too many open files") {
		t.Errorf("notes %q", set.Notes)
	}
}

func TestConcerned(t *testing.T) {
	places := []place{{dir: "/etc", names: []string{"a.yaml"}}, {dir: "/pods", every: true}}
	for path, want := range map[string]bool{
		"/etc/a.yaml": true, "/etc/passwd": false, "/etc/..data": true, "/etc": true,
		"/pods": true, "/pods/x": true, "/pods/x/y": false, "/other": false, "": false,
	} {
		if got := concerned(places, path); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}
