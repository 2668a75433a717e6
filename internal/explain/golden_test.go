package explain_test

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/scenario"
	"github.com/paddock-project/paddock/internal/view"
)

var rewrite = flag.Bool("rewrite", false, "write the answers into the files; read the diff afterwards")

// TestGolden plays the files in testdata: the language of internal/scenario and three commands more.
//
//	priority POD N        what spare has to weigh
//	explain POD [-v]      the explanation, and after it whether every proposal admits the pod
//	report
//
// Answers are without their blank lines. After a change: go test -rewrite, and read the diff.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			blocks, err := scenario.Parse(file, string(text))
			if err != nil {
				t.Fatal(err)
			}
			g := golden{t: t, n: scenario.New(example), priorities: map[string]int32{}}
			parts := make([]string, len(blocks))
			for i, b := range blocks {
				if b.Command.Name != "" {
					b.Answer = g.run(b.Command)
				}
				parts[i] = b.String()
			}
			got := strings.Join(parts, "\n")
			switch {
			case got == string(text):
			case *rewrite:
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("the answers are others:\n%s", got)
			}
		})
	}
}

// example reads an example machine.
func example(name string) (*machine.Machine, error) {
	data, err := os.ReadFile("../../examples/machines/" + name + ".json")
	if err != nil {
		return nil, err
	}
	return readMachine(name, data)
}

type golden struct {
	t          *testing.T
	n          *scenario.Node
	priorities map[string]int32
}

func (g *golden) run(c scenario.Command) []string {
	var text string
	switch c.Name {
	case "priority":
		n, err := strconv.ParseInt(c.Args[1], 10, 32)
		if err != nil {
			g.t.Fatal(err)
		}
		g.priorities[c.Args[0]] = int32(n)
		return nil
	case "explain":
		text = g.explain(c.Args[0], len(c.Args) > 1)
	case "report":
		text = view.Report{Machine: "the machine", Policy: "as configured", Usage: reported(g.t, g.state())}.Text(view.Style{})
	default:
		text = g.n.Run(c)
	}
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// state is the node with the priorities.
func (g *golden) state() *node.State {
	s := g.n.State()
	grants := make([]*node.Grant, len(s.Grants()))
	for i, old := range s.Grants() {
		changed := *old
		changed.Pod.Priority = g.priorities[old.Pod.Name]
		grants[i] = &changed
	}
	out, _, err := node.Adopt(s.Machine(), s.Policy(), s.Devices().Inventory(), grants) // CPUs may be offline.
	if err != nil {
		g.t.Fatal(err)
	}
	return out
}

func (g *golden) explain(name string, verbose bool) string {
	s := g.state()
	pod, err := g.n.Request(name)
	if err != nil {
		g.t.Fatal(err)
	}
	plan := s.Plan(pod)
	if plan.Refusal == nil {
		return view.ExplanationOf(s, plan, nil).Text(view.Style{}, verbose)
	}
	remedies := searched(g.t, s, pod)
	for _, p := range remedies.Proposals {
		changed, asked, err := p.Apply(s, pod)
		if err != nil {
			g.t.Fatalf("%s: %v", p.Text, err)
		}
		if r := changed.Plan(asked).Refusal; r != nil {
			g.t.Errorf("%s: %s: it is refused: %v", name, p.Text, r)
		}
	}
	return view.ExplanationOf(s, plan, &remedies).Text(view.Style{}, verbose)
}
