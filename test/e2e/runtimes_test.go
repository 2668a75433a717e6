package e2e

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paddock-project/paddock/test/e2e/parts"
	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// column is a container runtime in the table of TestRuntimes. containerd is its version of
// containerd. If empty, the runtime is CRI-O.
type column struct {
	title, containerd string
}

// columns are the runtimes, from the oldest to the newest: the last release of each series that can
// be had, and 2.2.2, which leaves processes of rejected pods behind.
var columns = []*column{
	{title: "containerd 1.7.31", containerd: "v1.7.31"},
	{title: "2.0.14", containerd: "v2.0.14"},
	{title: "2.1.9", containerd: "v2.1.9"},
	{title: "2.2.2", containerd: "v2.2.2"},
	{title: "2.2.9", containerd: "v2.2.9"},
	{title: "2.3.7", containerd: "v2.3.7"},
	{title: strings.TrimPrefix(parts.Containerd, "v"), containerd: parts.Containerd},
	{title: "CRI-O " + strings.TrimPrefix(parts.CRIO, "v")},
}

// containerds returns the versions of containerd that are built besides that of the root disk.
func containerds() []string {
	var versions []string
	for _, c := range columns {
		if *runtimes && c.containerd != "" && c.containerd != parts.Containerd {
			versions = append(versions, c.containerd)
		}
	}
	return versions
}

// row is a line of the table. cell returns its text for a machine.
type row struct {
	title string
	cell  func(*testing.T, *machine) string
}

// rows are what depends on the runtime.
var rows = []row{
	{"version of NRI", nriVersion},
	{"a pool with exclusive slices, init containers and a sidecar; a rejected pod", playedAs("2numa/10-pod-scope")},
	{"a rejected pod leaves no process behind", leavesNothing},
	{"containers leave CPUs that become exclusive, and get them back", playedAs("2numa-load/30-neighbours")},
	{"restart of the agent, the runtime, a container, a sandbox; kill -9 of agent and runtime", playedAs("2numa-load/10-restarts")},
	{"quota by isolation level; an ephemeral container; a change of the quota", playedAs("2numa/75-quota")},
	{"huge pages on the NUMA nodes of their pod", playedAs("2numa/60-huge-pages")},
	{"CPUs that go offline and come back", playedAs("2numa/70-hotplug")},
	{"what another process writes to a cgroup is found and repaired", playedAs("2numa-load/40-verify")},
	{"pods come and go, and nothing is left", playedAs("2numa-load/20-churn")},
	{"containers in creation while the agent connects again", survives(createdDuringAReconnect)},
	{"kill -9 of the agent while containers are in creation", survives(killedDuringAnAdmission)},
	{"kill -9 of the runtime while containers are in creation", survives(runtimeKilledDuringAnAdmission)},
	{"a resize in place can be rejected in advance", vetoes},
	{"CPUs of a pod that ended are used by others after", freed},
}

// TestRuntimes writes what each runtime does into docs/runtimes.md, as a table. A runtime that does
// something else than containerd of the root disk does in the same scenario gets "no", and the log
// has the first difference. Cells that are not played keep their text: see the flags -run and -rows.
func TestRuntimes(t *testing.T) {
	if !*runtimes {
		t.Skip("all container runtimes are tried with -runtimes: make runtimes")
	}
	played, err := regexp.Compile(*onlyRows)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(runtimesPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(page), tableBegin)
	old, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table, between %q and %q", runtimesPage, tableBegin, tableEnd)
	}
	cells := readTable(old)
	var mu sync.Mutex
	t.Run("columns", func(t *testing.T) {
		for _, c := range columns {
			t.Run(strings.ReplaceAll(c.title, " ", "-"), func(t *testing.T) {
				m := open(t, "runtimes-"+strings.ReplaceAll(c.title, " ", "-"), "2numa")
				m.containerd = c.containerd
				if c.containerd == "" {
					m.runtime = crio
				}
				for _, r := range rows {
					if !played.MatchString(r.title) {
						continue
					}
					begin := time.Now()
					cell := r.cell(t, m)
					mu.Lock()
					cells[place{r.title, c.title}] = cell
					mu.Unlock()
					fmt.Fprintf(os.Stderr, "e2e: %s: %s: %s (%.0f s)\n", c.title, r.title, cell, time.Since(begin).Seconds())
				}
			})
		}
	})
	table := writeTable(cells)
	fmt.Print(table)
	if t.Failed() {
		return
	}
	if err := os.WriteFile(runtimesPage, []byte(before+tableBegin+table+tableEnd+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runtimesPage has the table of TestRuntimes between two lines.
const (
	runtimesPage = "../../docs/runtimes.md"
	tableBegin   = "<!-- make runtimes -->\n\n"
	tableEnd     = "\n<!-- end -->\n"
)

// place is a cell of the table, by the titles of its row and its column.
type place struct{ row, column string }

// readTable reads the cells of a table as writeTable writes it.
func readTable(text string) map[place]string {
	cells := map[place]string{}
	var titles []string
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		if titles == nil {
			titles = fields
			continue
		}
		for i, field := range fields[1:min(len(fields), len(titles))] {
			cells[place{fields[0], titles[i+1]}] = field
		}
	}
	return cells
}

// writeTable returns the table as Markdown. A cell that was never played is empty.
func writeTable(cells map[place]string) string {
	var out bytes.Buffer
	line := func(first string, cell func(*column) string) {
		fmt.Fprintf(&out, "| %s |", first)
		for _, c := range columns {
			fmt.Fprintf(&out, " %s |", cell(c))
		}
		out.WriteString("\n")
	}
	line("", func(c *column) string { return c.title })
	line("---", func(*column) string { return "---" })
	for _, r := range rows {
		line(r.title, func(c *column) string { return cells[place{r.title, c.title}] })
	}
	return out.String()
}

// playedAs is "yes" if the runtime plays a scenario with the answers that it has.
func playedAs(name string) func(*testing.T, *machine) string {
	return func(t *testing.T, m *machine) string {
		t.Helper()
		answer := "yes"
		m.run(t, filepath.Base(name), func(t *testing.T, n *node) {
			if differs, _ := m.playFile(t, n, filepath.Join("testdata", "scenarios", name+".txt")); differs != "" {
				t.Logf("%s:%s", name, differs)
				n.saveLogs(t)
				answer = "no"
			}
		})
		return answer
	}
}

// survives is "yes" if a test passes. No runtime may fail it.
func survives(test func(*testing.T, *node)) func(*testing.T, *machine) string {
	return func(t *testing.T, m *machine) string {
		t.Helper()
		if !m.run(t, "creation", test) {
			return "no"
		}
		return "yes"
	}
}

// leavesNothing is "yes" if the cgroup of a rejected pod can be removed: the runtime has ended the
// pod's sandbox.
func leavesNothing(t *testing.T, m *machine) string {
	t.Helper()
	answer := "yes"
	m.run(t, "leaves-nothing", func(t *testing.T, n *node) {
		n.must(t, "agent topology=restricted scope=pod")
		lines := n.answer(t.Context(), command("run large cpu=6 memory=64Mi", "app large cpu=6 memory=64Mi"))
		if !strings.HasPrefix(lines[0], "rejected") {
			fail(t, "it is admitted: %q", lines)
		}
		n.left = nil
		n.must(t, "remove large")
		if n.left != nil {
			t.Logf("%q", n.left)
			answer = "no"
		}
	})
	return answer
}

// nriVersion returns the version of NRI in the runtime's program.
func nriVersion(t *testing.T, m *machine) string {
	t.Helper()
	p, err := world.parts()
	if err != nil {
		fail(t, "%v", err)
	}
	program := p.CRIO["crio/crio"]
	if m.containerd != "" {
		program = p.ContainerdProgram(m.containerd)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		fail(t, "%v", err)
	}
	for _, d := range info.Deps {
		if d.Path == "github.com/containerd/nri" {
			return strings.TrimPrefix(d.Version, "v")
		}
	}
	fail(t, "%s has no NRI", program)
	return ""
}

// vetoes is "yes" if the runtime asks the agent before a pod is resized in place.
func vetoes(t *testing.T, m *machine) string {
	t.Helper()
	answer := "no"
	m.run(t, "vetoes", func(t *testing.T, n *node) {
		n.must(t, "agent topology=restricted scope=pod")
		n.must(t, "run own cpu=2 memory=64Mi", "app own cpu=2 memory=64Mi")
		_, err := vm.Do[wire.Nothing](t.Context(), n.vm, wire.OpUpdate, wire.Update{UID: "own-uid", Quota: 300_000, Period: 100_000, Shares: 3072})
		t.Logf("UpdatePodSandboxResources: %v", err) // Old releases do not have it.
		text, err := n.metrics(t.Context())
		if err != nil {
			fail(t, "%v", err)
		}
		if askedToResize.MatchString(text) {
			answer = "yes"
		}
	})
	return answer
}

// askedToResize matches the agent's metrics if it was asked about a resize.
var askedToResize = regexp.MustCompile(`(?m)^paddock_runtime_hook_duration_seconds_count\{hook="UpdatePodSandbox"\} [1-9]`)

// freed returns how long it takes until a container that shares CPUs gets those of a pod that ended,
// if nothing else happens on the node: the longest of three times, on emulated CPUs.
func freed(t *testing.T, m *machine) string {
	t.Helper()
	var longest time.Duration
	m.run(t, "freed", func(t *testing.T, n *node) {
		n.must(t, "agent topology=restricted scope=pod")
		n.must(t, "run best", "app a")
		for range 3 {
			n.must(t, "run own cpu=2 memory=64Mi", "app own cpu=2 memory=64Mi")
			n.must(t, "settle")
			n.must(t, "remove own")
			begin := time.Now()
			for has := ""; has != "0-7"; {
				o, err := n.observe(t.Context())
				if err != nil {
					fail(t, "%v", err)
				}
				for _, c := range containersOf(o, "best-uid") {
					has = c.AllowedCPUs
				}
				if time.Since(begin) > patience {
					fail(t, "the container runs on %s after %v", has, patience)
				}
			}
			longest = max(longest, time.Since(begin))
		}
	})
	// Rounded up, so that two runs give the same table.
	for _, limit := range []int{5, 30} {
		if longest <= time.Duration(limit)*time.Second {
			return fmt.Sprintf("within %d s", limit)
		}
	}
	fail(t, "a container waited %v for free CPUs", longest)
	return ""
}
