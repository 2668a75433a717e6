package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFigures checks that the figures of both kinds of runs are found, and that a run without them
// is an error.
func TestFigures(t *testing.T) {
	const cluster = `
paddock-scheduler: 602 placements in 25 s (24 a second), 20 withdrawn
  rejected by their node   3 pods (0.5 %), 4 answers; without those that came back: 3 (0.5 %)
  another version          2 changes of the scheduler; 481 pods ran across them, 7 of them were moved
`
	const agent = "    upgrade_test.go:67: 58 admissions, 1 rejections; 44 pods ran across the 2 changes, 22 of them with CPUs of their own, 0 moved; until every pod ran: [1s 1s]\n"
	var r row
	if err := errors.Join(r.read(cluster, placed, &r.placements), r.read(cluster, rejected, &r.failed), r.read(cluster, across, &r.across, &r.moved)); err != nil {
		t.Error(err)
	}
	if r != (row{placements: 602, failed: 3, across: 481, moved: 7}) {
		t.Errorf("a cluster: %+v", r)
	}
	r = row{}
	if err := errors.Join(r.read(agent, admitted, &r.placements, &r.failed), r.read(agent, across, &r.across, &r.moved)); err != nil {
		t.Error(err)
	}
	if r != (row{placements: 58, failed: 1, across: 44}) {
		t.Errorf("an agent: %+v", r)
	}
	if err := r.read("FAIL", placed, &r.placements); err == nil {
		t.Error("a run without figures is no error")
	}
}

// TestResolve checks that versions have the names that they are given, or else those of git.
func TestResolve(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"init", "--quiet"}, {"-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "--quiet", "--allow-empty", "--message", "one"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	all, err := resolve(t.Context(), dir, "before this=HEAD, HEAD")
	if err != nil || len(all) != 2 || all[0].name != "before this" || all[1].name != "HEAD" || len(all[0].commit) != 8 || all[1].commit != all[0].commit {
		t.Errorf("%q, %v", all, err)
	}
	for list, want := range map[string]string{
		"": "expected a commit, or NAME=COMMIT", "a=,HEAD": `"a=": expected a commit`, "HEAD": "expected two versions or more",
		"none,HEAD": "none is no commit here",
	} {
		if _, err := resolve(t.Context(), dir, list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", list, err, want)
		}
	}
}

// TestRewrite checks that the table of a page is replaced, and nothing else, and that RELEASES.md
// has a table.
func TestRewrite(t *testing.T) {
	page, err := os.ReadFile("../../../RELEASES.md")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		t.Fatal(err)
	}
	table := format([]row{{from: "a", to: "b", what: "an agent", placements: 1, across: 2, moved: 3, failed: 4}})
	for range 2 {
		if err := rewrite(file, table); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(page), begins)
	_, after, _ := strings.Cut(string(page), ends)
	if want := before + begins + table + ends + after; string(got) != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
	if err := os.WriteFile(file, []byte("no table"), 0o600); err != nil {
		t.Fatal(err)
	}
	if rewrite(file, table) == nil {
		t.Error("a page without a table is no error")
	}
}
