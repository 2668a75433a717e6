package nodemap_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/ui/nodemap"
)

// TestInterruptions checks that every form of a map shows how often a CPU is interrupted, and that
// a map without that is as before.
func TestInterruptions(t *testing.T) {
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{{Memory: 1 << 30, Cores: []machine.CoreDescription{
		{Threads: []int{0}}, {Threads: []int{1}}, {Threads: []int{2}}, {Threads: []int{3}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{StaticCPU: true})
	if err != nil {
		t.Fatal(err)
	}
	quiet := nodemap.Of("name", "policy", s, nil)
	loud := quiet.WithInterruptions(map[int]float64{1: 1000, 2: 0.25, 99: 5})
	forms := func(m nodemap.Map) map[string]string {
		var svg bytes.Buffer
		if err := m.SVG(&svg, true); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{"svg": svg.String(), "json": string(data), "term": m.Term(terminal.Style{Width: 100})}
	}
	with, without := forms(loud), forms(quiet)
	for form, wanted := range map[string][]string{
		"svg":  {", interrupted 1000 times a second", ", interrupted 0.2 times a second", `<rect class="noise"`},
		"json": {`"interruptionsPerSecond":1000`},
		"term": {"Interrupted, times a second: CPU 1 1000, CPU 2 0.2\n"},
	} {
		for _, want := range wanted {
			if !strings.Contains(with[form], want) || strings.Contains(without[form], want) {
				t.Errorf("%s: %q is not there, or always", form, want)
			}
		}
	}
	if strings.Count(with["svg"], `class="noise"`) != 2 {
		t.Errorf("%d bars", strings.Count(with["svg"], `class="noise"`))
	}
}
