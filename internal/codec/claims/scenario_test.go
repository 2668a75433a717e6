package claims_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/codec/allocation"
	"github.com/paddock-project/paddock/internal/codec/claims"
)

// TestScenarios runs the files of testdata. "objects" adds manifests. "pods" resolves pods on the
// node that its argument names, or on the only node of the slices if it has no argument.
// "no-allocator" applies to the rest of the file: claims are resolved as in a program without an
// Allocator.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		objects, resolvers := &claims.Objects{Allocator: allocation.New}, map[string]*claims.Resolver{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "no-allocator" {
				objects.Allocator = nil
				clear(resolvers)
				return ""
			}
			if d.Cmd == "objects" {
				clear(resolvers)
				return strings.Join(addAll(objects, d.Input), "")
			}
			node := objects.NodeName()
			d.MaybeScanArgs(t, "node", &node)
			if resolvers[node] == nil {
				resolvers[node] = objects.On(node)
			}
			var out strings.Builder
			for _, document := range strings.Split(d.Input, "\n---\n") {
				pod := &v1.Pod{}
				if err := yaml.UnmarshalStrict([]byte(document), pod); err != nil {
					d.Fatalf(t, "%v", err)
				}
				describe(&out, pod, resolvers[node].Pod(t.Context(), pod))
			}
			return out.String()
		})
	})
}

// addAll adds documents and returns the errors.
func addAll(objects *claims.Objects, input string) []string {
	var errs []string
	for _, document := range strings.Split(input, "\n---\n") {
		data, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			return []string{err.Error()}
		}
		var kind struct{ Kind, APIVersion string }
		if err = json.Unmarshal(data, &kind); err == nil {
			err = objects.Add(kind.Kind, kind.APIVersion, data)
		}
		if err != nil {
			errs = append(errs, "error: "+err.Error()+"\n")
		}
	}
	return errs
}

func describe(out *strings.Builder, pod *v1.Pod, resolved claims.Resolved) {
	fmt.Fprintf(out, "%s\n", pod.Name)
	for _, name := range slices.Sorted(maps.Keys(resolved.Containers)) {
		for _, device := range resolved.Containers[name] {
			fmt.Fprintf(out, "  %s: %s\n", name, device)
		}
	}
	for _, stock := range resolved.Stock {
		fmt.Fprintf(out, "  stock: %s", stock.Of)
		for _, place := range stock.Places {
			fmt.Fprintf(out, " %d@%s", place.Devices, place.Nodes)
		}
		fmt.Fprintln(out)
	}
	for _, note := range resolved.Notes {
		fmt.Fprintf(out, "  note: %s\n", note)
	}
}
