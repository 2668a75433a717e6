package plugin

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// TestIsolatedReasons checks that the sentence names isolated CPUs if only these become exclusive:
// the node can have others that are free. Of a pool that is in parts, it names the CPUs of both.
func TestIsolatedReasons(t *testing.T) {
	for _, c := range []struct{ option, pod, want string }{
		{"only", "pod big\napp worker cpu=4 memory=1Gi", "node(s): 4 isolated CPUs and 1Gi of memory do not fit on the fewest NUMA nodes"},
		{"only", "pod big cpu=12 memory=1Gi\napp worker cpu=4 memory=512Mi\napp helper", "node(s): 12 CPUs and 1Gi of memory do not fit on the fewest NUMA nodes"},
		{"only", "pod big shared-pool=isolated cpu=4 memory=1Gi\napp worker cpu=2 memory=512Mi\napp helper", "node(s): 4 isolated CPUs and 1Gi of memory do not fit on the fewest NUMA nodes"},
		{"prefer", "pod big\napp worker cpu=20 memory=1Gi", "node(s): 20 CPUs and 1Gi of memory do not fit on the fewest NUMA nodes"},
	} {
		n := scenario.New(nil)
		for _, line := range []string{
			"machine cores=16 memory=8Gi isolated=8-10", "config topology=restricted scope=pod cpu=static memory=Static reserved-cpus=0 options=isolated-cpus=" + c.option, c.pod,
		} {
			command, input, some := strings.Cut(line, "\n")
			words := strings.Fields(command)
			of := scenario.Command{Name: words[0], Args: words[1:]}
			if some {
				of.Input = strings.Split(input, "\n")
			}
			if answer := n.Run(of); strings.HasPrefix(answer, "error") {
				t.Fatalf("%s: %s", line, answer)
			}
		}
		pod, err := n.Request("big")
		if err != nil {
			t.Fatal(err)
		}
		view := fleet.Alone(n.State())
		answer := view.Ask(&fleet.Pod{Pod: pod})
		if got := (&reasons{}).of(&answer, &pod, n.State().Policy()); got != c.want {
			t.Errorf("isolated-cpus=%s, %s: %s, want %s", c.option, c.pod, got, c.want)
		}
	}
}
