package inputs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// TestClusterOfTheNextVersion checks that objects of the next version are read as those of the
// present one, and that the error for another version names the versions that are read.
func TestClusterOfTheNextVersion(t *testing.T) {
	c := newCluster(t)
	c.node("n1")
	c.pod("handed", "n1", "2", cpuset.Of(6, 7))
	file := c.write()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"v1alpha1", "v1beta1", "v3"} {
		text := strings.ReplaceAll(string(data), "paddock-project.github.io/v1alpha1", "paddock-project.github.io/"+version)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		nodes, err := inputs.Reader{Names: inputs.Flags}.Fleet(file)
		if version == "v3" {
			const want = "PaddockMachine of version v3: this program reads v1alpha1 and v1beta1: " +
				"take a newer program, or ask for paddockmachines.v1alpha1.paddock-project.github.io with kubectl get"
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("version v3: the error is %v, want %s", err, want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if g, _ := nodes.Kinds[0].State.Grant("uid-handed"); g == nil || g.CPUs().String() != "6-7" {
			t.Errorf("version %s: the pod has %v", version, g)
		}
	}
}
