// Command report reads the output of the scheduler benchmarks and prints the measurements beside
// their targets. `make scheduler-perf` runs it.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
)

func main() {
	m, err := read(os.Stdin)
	if err == nil {
		err = m.print(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// metrics has the results of benchmarks, by name without the number of CPUs, and by unit.
type metrics map[string]map[string]float64

// read parses the result lines of a benchmark: a name, a number of iterations, then values with
// units.
func read(from io.Reader) (metrics, error) {
	m := metrics{}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20) // The results of scheduler_perf have dozens of units.
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		if _, err := strconv.Atoi(fields[1]); err != nil {
			continue
		}
		name := fields[0]
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			name = name[:i]
		}
		m[name] = map[string]float64{}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %q is not a number: the line is not the result of a benchmark", name, fields[i])
			}
			m[name][fields[i+1]] = value
		}
	}
	return m, lines.Err()
}

// row is a line of the table. If below is set, less is better. A limit of zero means that there is
// no target.
type row struct {
	what         string
	value, limit float64
	format       string
	below        bool
}

const (
	throughput = "SchedulingThroughput/Average"
	run        = "BenchmarkThroughput/%s/5000Nodes"
	cpuTime    = "s-cpu"
)

func (m metrics) print(to io.Writer) error {
	var missing []string
	get := func(name, unit string) float64 {
		value, ok := m[name][unit]
		if !ok {
			missing = append(missing, name+" "+unit)
		}
		return value
	}
	each := func(unit string) (with, without float64) {
		before, after := get(fmt.Sprintf(run, "Without"), unit), get(fmt.Sprintf(run, "WithoutAgain"), unit)
		return get(fmt.Sprintf(run, "With"), unit), (before + after) / 2
	}
	with, without := each(throughput)
	cpuWith, cpuWithout := get("BenchmarkCPU/With", cpuTime), (get("BenchmarkCPU/Without", cpuTime)+get("BenchmarkCPU/WithoutAgain", cpuTime))/2
	const filter, scan, requeue = "BenchmarkFilterInside", "BenchmarkFilter/miss", "BenchmarkRequeue"
	rows := []row{
		{"pods a second with Paddock", with, 0, "%.0f", false},
		{"pods a second without", without, 0, "%.0f", false},
		{"with as a part of without", 100 * with / without, 90, "%.0f %%", false},
		{"CPU time with as a part of without", 100 * cpuWith / cpuWithout, 0, "%.0f %%", false},
		{"Filter, known answer: median", get(filter, "hit-ns-median"), 200, "%.0f ns", true},
		{"Filter, known answer: p99", get(filter, "hit-ns-p99"), 0, "%.0f ns", true},
		{"Filter, new plans", get(filter, "misses"), 0, "%.0f", false},
		{"Filter, new plan: median", get(filter, "miss-ns-median") / 1e3, 0, "%.1f µs", true},
		{"Filter, new plan: p99", get(filter, "miss-ns-p99") / 1e3, 0, "%.0f µs", true},
		{"Filter, new plan on each of 5,000 nodes: median", get(scan, "ns-median") / 1e3, 10, "%.1f µs", true},
		{"Filter, new plan on each of 5,000 nodes: p99", get(scan, "ns-p99") / 1e3, 30, "%.0f µs", true},
		{"reading the clock, in each of them", get(filter, "clock-ns"), 0, "%.0f ns", true},
		{"known answers", get(filter, "%hits"), 0, "%.2f %%", false},
		{"memory of 100,000 grants", get("BenchmarkMemory", "MiB/100k-grants"), 400, "%.0f MiB", true},
		{"release to bound, median", get(requeue, "ms-median"), 0, "%.0f ms", true},
		{"release to bound, p95", get(requeue, "ms-p95"), 2000, "%.0f ms", true},
		{"failed attempts a release", get(requeue, "failed-attempts/release"), 0, "%.2f", true},
	}
	if len(missing) > 0 {
		return fmt.Errorf("a benchmark did not report %s: its output has the reason", strings.Join(missing, ", "))
	}
	text := "\tmeasured\ttarget\n"
	for _, r := range rows {
		text += fmt.Sprintf("%s\t%s\t%s\n", r.what, fmt.Sprintf(r.format, r.value), r.target())
	}
	table := tabwriter.NewWriter(to, 0, 0, 3, ' ', 0)
	if _, err := io.WriteString(table, text); err != nil {
		return err
	}
	return table.Flush()
}

func (r row) target() string {
	if r.limit == 0 {
		return ""
	}
	text, met := "at least ", r.value >= r.limit
	if r.below {
		text, met = "below ", r.value < r.limit
	}
	text += fmt.Sprintf(strings.Replace(r.format, "%.1f", "%.0f", 1), r.limit)
	if met {
		return text + ", met"
	}
	return text + ", NOT MET"
}
