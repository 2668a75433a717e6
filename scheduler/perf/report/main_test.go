package main

import (
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestReport runs testdata/report.txt, which has results of benchmarks with the resulting table or
// error.
func TestReport(t *testing.T) {
	datadriven.RunTest(t, "testdata/report.txt", func(t *testing.T, d *datadriven.TestData) string {
		m, err := read(strings.NewReader(d.Input))
		var out strings.Builder
		if err == nil {
			err = m.print(&out)
		}
		if err != nil {
			return err.Error() + "\n"
		}
		return out.String()
	})
}

// TestNames checks that the benchmarks have the names and units that the report reads.
func TestNames(t *testing.T) {
	source := ""
	for _, file := range []string{"../perf_test.go", "../filter_test.go", "../../plugin/requeue_test.go", "../testdata/throughput.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source += string(text)
	}
	for _, name := range []string{
		"BenchmarkThroughput", "name: With\n", "name: Without\n", "name: WithoutAgain\n", "5000Nodes",
		"BenchmarkCPU/", "BenchmarkFilterInside", "s-cpu", "hit-ns-median",
		"BenchmarkMemory", "MiB/100k-grants", "BenchmarkRequeue", "ms-p95",
	} {
		if !strings.Contains(source, name) {
			t.Errorf("no benchmark has %q: the report looks for it", name)
		}
	}
}
