package shapes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestRead reads each text as a file and prints its shapes and then the rows that are left out.
func TestRead(t *testing.T) {
	datadriven.Walk(t, "testdata/read", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			o := Options{Columns: map[string]string{}}
			for _, a := range d.CmdArgs {
				switch a.Key {
				case "whole":
					o.WholeCPUs = true
				case "gpu":
					o.GPU = a.Vals[0]
				default:
					o.Columns[a.Key] = a.Vals[0]
				}
			}
			return text(Read("shapes.csv", strings.NewReader(d.Input), o))
		})
	})
}

func text(all []Shape, bad []*RowError, err error) string {
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, s := range all {
		r := s.Pod.Spec.Containers[0].Resources
		fmt.Fprintf(&b, "%d of %s:", s.Count, s.Pod.Name)
		for _, name := range []string{"cpu", "memory", "nvidia.com/gpu", "example.com/gpu"} {
			for resource, q := range r.Requests {
				if string(resource) == name {
					fmt.Fprintf(&b, " %s=%s", name, q.String())
				}
			}
		}
		if s.MaxPerNode > 0 {
			fmt.Fprintf(&b, " at most %d on a node", s.MaxPerNode)
		}
		b.WriteByte('\n')
	}
	for _, e := range bad {
		fmt.Fprintf(&b, "left out: %s\n", e)
	}
	return b.String()
}

// FuzzRead checks that Read returns either shapes or an error, never panics, and never returns a
// shape with negative requests.
func FuzzRead(f *testing.F) {
	f.Add("cpu,memory,count\n4,16Gi,3\n", true)
	f.Add("cpu,count,max_per_node\n4,3,1\n4,3,\n4,3,0\n", true)
	f.Add("cpu_milli,memory_gib,gpu,name\n1500,1.5,1,a\n\n#x\n", false)
	f.Fuzz(func(t *testing.T, file string, whole bool) {
		all, _, err := Read("f", strings.NewReader(file), Options{WholeCPUs: whole})
		if err != nil && all != nil {
			t.Error("shapes and an error")
		}
		for _, s := range all {
			for name, q := range s.Pod.Spec.Containers[0].Resources.Limits {
				if q.Sign() <= 0 || s.Count < 0 || s.MaxPerNode < 0 {
					t.Errorf("%d of %s %s", s.Count, name, q.String())
				}
			}
		}
	})
}
