// Command upgrades upgrades between versions of Paddock and goes back, while pods come and go, and
// writes what happened into a table of RELEASES.md.
//
// Each pair of versions is played in three ways: the scheduler is upgraded on nodes of the older
// version, then on nodes of the newer one, each time with a whole control plane; and an agent is
// upgraded on one node whose pods run on. Each way goes back to the older version. A pod that is
// moved, or rejected by its node, fails the run.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/paddock-project/paddock/test/cluster/program"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "upgrades:", err)
		os.Exit(1)
	}
}

type options struct {
	versions          []version
	nodes, placements string
	source, page      string
	// program is the driver of the cluster.
	program, dir string
}

// version is a version of Paddock: what the table calls it, and the commit.
type version struct{ name, commit string }

func run(ctx context.Context, args []string) (err error) {
	var o options
	flags := flag.NewFlagSet("upgrades", flag.ContinueOnError)
	versions := flags.String("versions", "", "the versions, the oldest first, separated by commas: each is a name that git knows, or NAME=COMMIT with a name for the table")
	flags.StringVar(&o.nodes, "nodes", "30", "how many hollow nodes")
	flags.StringVar(&o.placements, "placements", "600", "how many pods are placed")
	flags.StringVar(&o.source, "source", "../..", "the directory of Paddock's module")
	flags.StringVar(&o.dir, "keep", "", "a directory in which the versions are kept with their programs, for the next run; default: none")
	flags.StringVar(&o.page, "page", "", "the page whose table is written; default: none")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.source, err = filepath.Abs(o.source); err != nil {
		return err
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "paddock-upgrades"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	}
	if o.versions, err = resolve(ctx, o.source, *versions); err != nil {
		return fmt.Errorf("-versions: %w", err)
	}
	o.program = filepath.Join(o.dir, "cluster")
	if err := program.Build(ctx, filepath.Join(o.source, "test", "cluster"), o.program, ".", "-ldflags=-w"); err != nil {
		return err
	}
	for _, v := range o.versions {
		if err := o.checkout(ctx, v); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
	}
	rows, err := o.pairs(ctx)
	table := format(rows)
	fmt.Print(table)
	if err == nil && o.page != "" {
		err = rewrite(o.page, table)
	}
	return err
}

// resolve returns the versions in a list.
func resolve(ctx context.Context, source, list string) (all []version, err error) {
	for item := range strings.SplitSeq(list, ",") {
		name, ref, named := strings.Cut(strings.TrimSpace(item), "=")
		if !named {
			ref = name
		}
		if name == "" || ref == "" {
			return nil, fmt.Errorf("%q: expected a commit, or NAME=COMMIT", item)
		}
		cmd := exec.CommandContext(ctx, "git", "rev-parse", "--verify", "--short=8", ref+"^{commit}")
		cmd.Dir = source
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s is no commit here, or this is a shallow clone: %w", ref, err)
		}
		all = append(all, version{name, strings.TrimSpace(string(out))})
	}
	if len(all) < 2 {
		return nil, fmt.Errorf("%q: expected two versions or more", list)
	}
	return all, nil
}

// tree returns the directory of a version.
func (o *options) tree(v version) string { return filepath.Join(o.dir, v.commit) }

// last is the program that is built last.
const last = "paddock-scheduler"

// checkout writes the files of a version, and builds its programs.
func (o *options) checkout(ctx context.Context, v version) error {
	say("%s: its programs are built", v.name)
	dir := o.tree(v)
	if _, err := os.Stat(filepath.Join(dir, "bin", last)); err == nil {
		return nil // An earlier run has kept it.
	}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		return err
	}
	archive := exec.CommandContext(ctx, "git", "archive", v.commit)
	archive.Dir, archive.Stderr = o.source, os.Stderr
	unpack := exec.CommandContext(ctx, "tar", "-x", "-C", dir)
	data, err := archive.Output()
	if err != nil {
		return fmt.Errorf("git archive: %w", err)
	}
	unpack.Stdin = bytes.NewReader(data)
	if out, err := unpack.CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, out)
	}
	for _, p := range []struct{ module, program, name string }{
		{".", "paddock", "./cmd/paddock"},
		{"test/cluster", "cluster", "."},
		{"scheduler", last, "./cmd/" + last},
	} {
		if err := program.Build(ctx, filepath.Join(dir, p.module), filepath.Join(dir, "bin", p.program), p.name, "-ldflags=-w"); err != nil {
			return err
		}
	}
	return nil
}

// row is a way of a pair.
type row struct {
	from, to, what                    string
	placements, across, moved, failed int
}

// pairs plays every pair of versions. It goes on behind what fails.
func (o *options) pairs(ctx context.Context) (rows []row, err error) {
	for i, from := range o.versions {
		for _, to := range o.versions[i+1:] {
			for _, way := range []func(context.Context, version, version) (row, error){o.schedulerFirst, o.agentsFirst, o.agent} {
				r, failed := way(ctx, from, to)
				r.from, r.to = from.name, to.name
				if failed != nil {
					err = errors.Join(err, fmt.Errorf("from %s to %s, %s: %w", r.from, r.to, r.what, failed))
				}
				rows = append(rows, r)
			}
		}
	}
	return rows, err
}

func (o *options) schedulerFirst(ctx context.Context, from, to version) (row, error) {
	return o.cluster(ctx, "the scheduler, before the agents", from, from, to)
}

func (o *options) agentsFirst(ctx context.Context, from, to version) (row, error) {
	return o.cluster(ctx, "the scheduler, after the agents", to, from, to)
}

// These match the figures of the driver and of TestUpgrade.
var (
	placed   = regexp.MustCompile(`(\d+) placements in`)
	rejected = regexp.MustCompile(`rejected by their node +(\d+) pods`)
	across   = regexp.MustCompile(`(\d+) pods ran across .*?(\d+)(?: of them were)? moved`)
	admitted = regexp.MustCompile(`(\d+) admissions, (\d+) rejections`)
)

// cluster runs a cluster with nodes of one version, and changes the scheduler from one version to
// the other and back.
func (o *options) cluster(ctx context.Context, what string, nodes, from, to version) (r row, err error) {
	say("from %s to %s: %s", from.name, to.name, what)
	r.what = what
	text, err := output(ctx, filepath.Join(o.source, "test", "cluster"), o.program, "-nodes", o.nodes, "-placements", o.placements, "-baseline", "0",
		"-nodes-source", o.tree(nodes), "-scheduler-source", o.tree(from), "-scheduler-then", o.tree(to))
	return r, errors.Join(err, r.read(text, placed, &r.placements), r.read(text, rejected, &r.failed), r.read(text, across, &r.across, &r.moved))
}

// agent upgrades one agent, and goes back.
func (o *options) agent(ctx context.Context, from, to version) (r row, err error) {
	say("from %s to %s: an agent", from.name, to.name)
	r.what = "an agent, while its pods run"
	text, err := output(ctx, o.source, "go", "test", "-count=1", "-v", "-run", "^TestUpgrade$", "./cmd/paddock",
		"-earlier", filepath.Join(o.tree(from), "bin", "paddock"), "-later", filepath.Join(o.tree(to), "bin", "paddock"))
	return r, errors.Join(err, r.read(text, admitted, &r.placements, &r.failed), r.read(text, across, &r.across, &r.moved))
}

// read sets figures to those of the text.
func (*row) read(text string, pattern *regexp.Regexp, figures ...*int) error {
	found := pattern.FindStringSubmatch(text)
	if found == nil {
		return fmt.Errorf("the output has no figures like %s", pattern)
	}
	for i, f := range figures {
		n, err := strconv.Atoi(found[i+1])
		if err != nil {
			return err
		}
		*f = n
	}
	return nil
}

// output runs a program, shows its output, and returns it.
func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = io.MultiWriter(os.Stdout, &out), os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // It ends what it has started.
	err := cmd.Run()
	return out.String(), err
}

func format(rows []row) string {
	var out strings.Builder
	fmt.Fprintln(&out, "| from | to, and back | what is changed | pods placed | ran across a change | moved | rejected |")
	fmt.Fprintln(&out, "| --- | --- | --- | --- | --- | --- | --- |")
	for _, r := range rows {
		fmt.Fprintf(&out, "| %s | %s | %s | %d | %d | %d | %d |\n", r.from, r.to, r.what, r.placements, r.across, r.moved, r.failed)
	}
	return out.String()
}

const begins, ends = "<!-- make upgrades -->\n\n", "\n<!-- end -->"

// rewrite replaces the table of a page.
func rewrite(page, table string) error {
	data, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	first, rest, found := strings.Cut(string(data), begins)
	_, last, found2 := strings.Cut(rest, ends)
	if !found || !found2 {
		return fmt.Errorf("%s has no table of make upgrades", page)
	}
	return os.WriteFile(page, []byte(first+begins+table+ends+last), 0o644)
}

func say(text string, args ...any) {
	fmt.Fprintf(os.Stderr, "=== "+text+"\n", args...)
}
