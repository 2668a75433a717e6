package explain_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/testing/golden"
	"github.com/paddock-project/paddock/internal/testing/scenario"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// TestGolden runs the files in testdata, which are in the language of internal/testing/scenario
// with three additional commands.
//
//	priority POD N        what spare has to weigh
//	explain POD [-v]      the explanation, and after it whether every proposal admits the pod
//	report
//
// Answers are printed without their blank lines. After a change, run go test -rewrite and read the
// diff.
func TestGolden(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(t *testing.T, script golden.Script) {
		p := player{t: t, n: scenario.New(example), priorities: map[string]int32{}}
		script.Play(p.run)
	})
}

// example returns an example machine.
func example(name string) (*machine.Machine, error) {
	data, err := os.ReadFile("../../examples/machines/" + name + ".json")
	if err != nil {
		return nil, err
	}
	return readMachine(name, data)
}

type player struct {
	t          *testing.T
	n          *scenario.Node
	priorities map[string]int32
}

func (p *player) run(c scenario.Command) []string {
	var text string
	switch c.Name {
	case "priority":
		n, err := strconv.ParseInt(c.Args[1], 10, 32)
		if err != nil {
			p.t.Fatal(err)
		}
		p.priorities[c.Args[0]] = int32(n)
		return nil
	case "explain":
		text = p.explain(c.Args[0], len(c.Args) > 1)
	case "report":
		text = view.ReportOf("the machine", "as configured", p.state(), reported(p.t, p.state())).Text(terminal.Style{})
	default:
		text = p.n.Run(c)
	}
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// state returns the state of the node with the priorities of its pods.
func (p *player) state() *node.State {
	s := p.n.State()
	grants := make([]*node.Grant, len(s.Grants()))
	for i, old := range s.Grants() {
		changed := *old
		changed.Pod.Priority = p.priorities[old.Pod.Name]
		grants[i] = &changed
	}
	out, _, err := node.Adopt(s.Machine(), s.Policy(), s.Devices().Inventory(), grants) // CPUs may be offline.
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

func (p *player) explain(name string, verbose bool) string {
	s := p.state()
	pod, err := p.n.Request(name)
	if err != nil {
		p.t.Fatal(err)
	}
	plan := s.Plan(pod)
	if plan.Rejection == nil {
		return view.ExplanationOf(s, plan, nil).Text(terminal.Style{}, verbose)
	}
	remedies := searched(p.t, s, pod)
	for _, proposal := range remedies.Proposals {
		changed, asked, err := proposal.Apply(s, pod)
		if err != nil {
			p.t.Fatalf("%s: %v", proposal.Text, err)
		}
		if r := changed.Plan(asked).Rejection; r != nil {
			p.t.Errorf("%s: %s: it is refused: %v", name, proposal.Text, r)
		}
	}
	return view.ExplanationOf(s, plan, &remedies).Text(terminal.Style{}, verbose)
}
