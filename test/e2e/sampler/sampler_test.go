package sampler_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/paddock-project/paddock/test/e2e/sampler"
)

// TestScenarios runs the files in testdata on trees of files like those of the kernel and
// containerd. A is the container default/A/main. The lines are:
//
//	make A CPUS           runc creates the cgroup of A, with the CPUs of its parent: nothing runs in it
//	runs A PROGRAM…       the processes in it, by what they execute, ~ for a space; no program: none. ended,PROGRAM is a
//	                      process whose first thread has ended, below one in a cgroup below, ! an unreadable one
//	has A CPUS            it has its own cpuset.cpus
//	reads A CPUS CPUS     its CPUs are different in the next two reads
//	remove A              it ends
//	unidentified A        containerd has not written yet what A is; identified A: it has
//	sample OWN…           the sampling starts; these have exclusive CPUs
//	look                  a look; the answer has what was counted in all looks until now
//
// At the end are the successive CPUs of each container. After a change, run go test -rewrite, and
// read the diff.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			n := newNode(t)
			for line := range strings.Lines(d.Input) {
				n.line(strings.Fields(line))
			}
			n.end()
			return n.out.String()
		})
	})
}

// node is a node that consists of files.
type node struct {
	*testing.T
	dir     string
	sampler *sampler.Sampler
	looks   int
	// pid is the ID of the last process.
	pid int
	// reads has the results of the next reads of a file.
	reads map[string][]string
	out   strings.Builder
}

func newNode(t *testing.T) *node {
	n := &node{T: t, dir: t.TempDir(), pid: 100, reads: map[string][]string{}}
	n.file("kubepods/cgroup.procs", "")
	return n
}

func (n *node) file(name, text string) {
	n.Helper()
	name = filepath.Join(n.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		n.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		n.Fatal(err)
	}
}

func id(name string) string { return strings.Repeat("0", 64-len(name)) + name }

func cgroup(name string) string { return "kubepods/burstable/pod" + name + "/" + id(name) + "/" }

// line runs one line.
func (n *node) line(words []string) {
	n.Helper()
	switch words[0] {
	case "make":
		n.identify(words[1])
		for name, text := range map[string]string{"cpuset.cpus": "", "cpuset.cpus.effective": words[2], "cpuset.mems.effective": "0", "cpu.max": "max 100000", "cgroup.procs": "", "cgroup.events": "populated 0"} {
			n.file(cgroup(words[1])+name, text+"\n")
			n.file(filepath.Dir(filepath.Dir(cgroup(words[1])))+"/"+name, text+"\n")
		}
	case "runs":
		n.runs(words[1], words[2:])
	case "has":
		n.file(cgroup(words[1])+"cpuset.cpus", words[2]+"\n")
		n.file(cgroup(words[1])+"cpuset.cpus.effective", words[2]+"\n")
	case "reads":
		n.reads[filepath.Join(n.dir, cgroup(words[1]), "cpuset.cpus.effective")] = words[2:]
	case "remove":
		if err := os.RemoveAll(filepath.Join(n.dir, cgroup(words[1]))); err != nil {
			n.Fatal(err)
		}
	case "unidentified":
		n.file("bundles/"+id(words[1])+"/config.json", "")
	case "identified":
		n.identify(words[1])
	case "sample":
		n.begin(words[1:])
	case "look":
		n.looks++
		if err := n.sampler.Look(time.Duration(n.looks) * 10 * time.Millisecond); err != nil {
			fmt.Fprintln(&n.out, strings.ReplaceAll(err.Error(), n.dir, ""))
			return
		}
		seen := n.sampler.Seen()
		fmt.Fprintf(&n.out, "%d overlaps, %d cleared, %d in the making\n", seen.Overlaps, seen.Cleared, seen.Making)
	default:
		n.Fatalf("line %q is unknown", words)
	}
}

// identify writes what containerd describes to runc. A name that begins with "sandbox" is a
// sandbox.
func (n *node) identify(name string) {
	kind := "container"
	if strings.HasPrefix(name, "sandbox") {
		kind = "sandbox"
	}
	namespace := "default"
	if name == "agent" {
		namespace = "paddock"
	}
	n.file("bundles/"+id(name)+"/config.json", fmt.Sprintf(`{"annotations": {"io.kubernetes.cri.container-type": %q, "io.kubernetes.cri.sandbox-namespace": %q,
		"io.kubernetes.cri.sandbox-name": %q, "io.kubernetes.cri.container-name": "main"}}`, kind, namespace, name))
}

// runs creates processes, and lists them in the cgroup of a container.
func (n *node) runs(name string, programs []string) {
	n.Helper()
	var pids strings.Builder
	for _, program := range programs {
		if program == "below" {
			n.file(cgroup(name)+"cgroup.events", "populated 1\n")
			continue
		}
		n.pid++
		fmt.Fprintln(&pids, n.pid)
		tasks := "proc/" + strconv.Itoa(n.pid) + "/task/"
		for i, thread := range strings.Split(strings.TrimPrefix(program, "ended"), ",") {
			exe := tasks + strconv.Itoa(n.pid+1000*i) + "/exe"
			switch {
			case program == "!":
				n.file(exe, "no link")
				continue
			case i == 0 && strings.HasPrefix(program, "ended"):
				n.file(filepath.Dir(exe)+"/comm", "")
				continue
			}
			n.file(filepath.Dir(exe)+"/comm", "")
			if err := os.Symlink(strings.ReplaceAll(thread, "~", " "), filepath.Join(n.dir, exe)); err != nil {
				n.Fatal(err)
			}
		}
	}
	n.file(cgroup(name)+"cgroup.procs", pids.String())
}

func (n *node) begin(own []string) {
	n.Helper()
	for i := range own {
		own[i] = "default/" + own[i]
	}
	s, err := sampler.New(sampler.Node{
		Kubepods: filepath.Join(n.dir, "kubepods"), Proc: filepath.Join(n.dir, "proc"), Bundles: filepath.Join(n.dir, "bundles"),
		Open: func(name string) (sampler.File, error) {
			f, err := os.Open(name)
			return &file{f, n}, err
		},
	}, own)
	if err != nil {
		n.Fatal(err)
	}
	n.sampler = s
	n.Cleanup(func() {
		if err := s.Close(); err != nil {
			n.Error(err)
		}
	})
}

// end prints the successive CPUs of the containers.
func (n *node) end() {
	seen := n.sampler.Seen()
	for _, o := range seen.Examples {
		fmt.Fprintf(&n.out, "overlap after %s: %s %s, %s %s\n", o.At, o.A, o.CPUsA, o.B, o.CPUsB)
	}
	for _, c := range seen.Cgroups {
		if c.Name == "" {
			continue
		}
		fmt.Fprintf(&n.out, "%s:", c.Pod)
		for _, change := range c.Changes {
			fmt.Fprintf(&n.out, " %s", change.CPUs)
		}
		if c.Gone > 0 {
			fmt.Fprintf(&n.out, ", gone after %s", c.Gone)
		}
		fmt.Fprintln(&n.out)
	}
}

// file is a file for which the results of the next reads can be set.
type file struct {
	*os.File
	node *node
}

func (f *file) ReadAt(to []byte, offset int64) (int, error) {
	next := f.node.reads[f.Name()]
	if len(next) == 0 {
		return f.File.ReadAt(to, offset)
	}
	f.node.reads[f.Name()] = next[1:]
	return copy(to, next[0]+"\n"), io.EOF
}
