package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/testing/clustertest"
	"github.com/paddock-project/paddock/internal/testing/largepods"
)

// figures makes TestFigures compare its measurements with the targets. `make figures` sets it.
var figures = flag.Bool("figures", false, "measure paddock fleet on whole fleets, beside the targets; without it on a hundredth, and nothing is judged")

// figure is one run of a command with its targets. The target of time is CPU time. On an otherwise
// idle machine the command takes no longer than that, and other processes do not affect it much.
type figure struct {
	name, what string
	args       string
	stdin      func(t *testing.T, w io.Writer)
	cpu        time.Duration
	mib        int64 // 0 means no target
	nodes      int   // the number of nodes that the answer must cover
	pods       int64
	// gap is how far each number of nodes may be above its lower bound, as a part of it. 0 means no
	// target.
	gap float64
}

// busy is the divisor of the tolerance: CPU time may exceed its target by 1/busy, which is how much
// it grows on a machine whose caches other processes use.
const busy = 4

const shapesOf = " --whole-cpus --columns ../../examples/fleet/openb-columns.yaml --pods "

var allFigures = []figure{
	{name: "fill", what: "1,523 openb nodes, filled until no shape fits", args: "--nodes openb.yaml --fill 0" + shapesOf + "openb.csv", cpu: 10 * time.Second, mib: 1024, nodes: 1523},
	{name: "place", what: "10,000 nodes of four kinds, 200,000 openb pods", args: "--nodes large.yaml" + shapesOf + "large.csv", cpu: time.Minute, nodes: 10_000, pods: 200_000},
	{name: "cluster", what: "a cluster's objects: 10,000 nodes, 100,000 pods on them, 100,000 more", args: "--nodes -", stdin: writeCluster, cpu: time.Minute, nodes: 10_000, pods: 100_000},
	{name: "fit-openb", what: "nodes in NPS4 for openb pods, beside the lower bound", args: "size --nodes nps4.yaml" + shapesOf + "openb.csv", cpu: time.Minute, gap: 0.01},
	{name: "fit-openb-kinds", what: "nodes of three kinds for openb pods, beside their lower bounds", args: "size --nodes choose.yaml" + shapesOf + "openb.csv", cpu: 2 * time.Minute, gap: 0.01},
	{name: "fit-large-1", what: "nodes for 5,000 large pods, policy restricted", args: "size --nodes large-1/nodes.yaml --pods large-1/pods.csv", cpu: 10 * time.Second, gap: 0.01},
	{name: "fit-large-2", what: "nodes for 5,000 large pods, 4 NUMA nodes", args: "size --nodes large-2/nodes.yaml --pods large-2/pods.csv", cpu: 10 * time.Second, gap: 0.01},
	{name: "fit-large-3", what: "nodes for 5,000 large pods, 2 NUMA nodes", args: "size --nodes large-3/nodes.yaml --pods large-3/pods.csv", cpu: 10 * time.Second, gap: 0.01},
	{name: "size", what: "how many nodes of four kinds, and which mix, for 8,152 openb pods", args: "size --nodes large.yaml" + shapesOf + "openb.csv", cpu: time.Minute},
}

// TestFigures runs the command on large fleets, and prints its measurements beside the targets.
func TestFigures(t *testing.T) {
	dir := t.TempDir()
	writeFigureFiles(t, dir)
	for _, f := range allFigures {
		t.Run(f.name, func(t *testing.T) {
			time, mib := f.run(t, dir)
			limit, what := "no target", f.what
			if f.mib > 0 {
				limit = fmt.Sprintf("target %d MiB", f.mib)
			}
			if !*figures {
				what = "a hundredth of " + what
			}
			_, _ = fmt.Fprintf(t.Output(), "%s: %s\n    %.1f s of CPU time, target %.0f s; %d MiB, %s\n", f.name, what, time.Seconds(), f.cpu.Seconds(), mib, limit)
			if *figures && (time > f.cpu+f.cpu/busy || f.mib > 0 && mib > f.mib) {
				t.Error("the target is missed")
			}
		})
	}
}

// run runs the command and returns its CPU time and its peak memory.
func (f *figure) run(t *testing.T, dir string) (cpu time.Duration, mib int64) {
	t.Helper()
	binary := "paddock" // TestMain has put it into PATH.
	if named := os.Getenv("PADDOCK"); named != "" {
		binary = named
	}
	cmd := exec.Command(binary, figureFields("fleet "+f.args+" -o json", dir)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if f.stdin != nil {
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer in.Close()
			f.stdin(t, in)
		}()
	}
	err := cmd.Run()                                                                                    // It has read everything when it ends.
	if exit := (*exec.ExitError)(nil); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 2) { // 2: some pods have no node.
		t.Fatalf("%v\n%s", err, errs.String())
	}
	if f.nodes > 0 {
		var answer struct {
			Nodes int
			Pods  struct{ Asked int64 }
		}
		if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		if *figures && (answer.Nodes != f.nodes || f.pods > 0 && answer.Pods.Asked != f.pods) {
			t.Fatalf("the answer is about %d nodes and %d pods, want %d and %d", answer.Nodes, answer.Pods.Asked, f.nodes, f.pods)
		}
	}
	if f.gap > 0 {
		f.checkGap(t, out.Bytes())
	}
	used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatal("this system does not report what a process used")
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), used.Maxrss >> 10
}

// checkGap prints how far each number of nodes is above its lower bound. With few pods, a gap of
// one node is no failure.
func (f *figure) checkGap(t *testing.T, answer []byte) {
	t.Helper()
	var sizes struct {
		Items []struct {
			Question          string
			Nodes, LowerBound int
			Optimal           bool
		}
	}
	if err := json.Unmarshal(answer, &sizes); err != nil {
		t.Fatal(err)
	}
	for _, s := range sizes.Items {
		if s.Question != "size" {
			continue
		}
		gap := float64(s.Nodes)/float64(s.LowerBound) - 1
		_, _ = fmt.Fprintf(t.Output(), "%s: %d nodes, at least %d: %.2f %%, target %.0f %%\n", f.name, s.Nodes, s.LowerBound, gap*100, f.gap*100)
		if s.LowerBound == 0 || gap > f.gap && s.Nodes > s.LowerBound+1 || s.Optimal != (s.Nodes == s.LowerBound) {
			t.Error("the target is missed")
		}
	}
}

// figureFields returns the arguments, with the paths of the files in dir.
func figureFields(args, dir string) []string {
	fields := strings.Fields(args)
	for i, name := range fields {
		if ext := filepath.Ext(name); (ext == ".yaml" || ext == ".csv") && !strings.HasPrefix(name, "..") {
			fields[i] = filepath.Join(dir, name)
		}
	}
	return fields
}

// part returns n with the flag -figures, and otherwise a hundredth of it.
func part(n int64) int64 {
	if *figures {
		return n
	}
	return (n + 99) / 100
}

// writeFigureFiles writes the nodes of the trace with their machines, its shapes, and a fleet of
// 10,000 nodes with so many pods of the same shapes that there are 200,000. The trace has no NUMA
// nodes, so nodes with 32 or more CPUs get two.
func writeFigureFiles(t *testing.T, dir string) {
	t.Helper()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	nodes := "nodes:\n"
	for i, row := range csvRows(t, "../../internal/cluster/fleet/testdata/openb-2023-nodes.csv") {
		cpus, memory, count := whole(t, row["cpu_milli"])/1000, whole(t, row["memory_mib"])<<20, whole(t, row["count"])
		name := fmt.Sprintf("k%02d", i)
		write(name+".json", machineOf(cpus, memory))
		nodes += fmt.Sprintf("- {name: %[1]s, count: %[2]d, machine: %[1]s.json}\n", name, part(count))
	}
	write("openb.yaml", nodes)
	nodes = "nodes:\n"
	for i, file := range []string{"machines/epyc-2s-nps4.json", "fleet/epyc-2s-nps1.json", "machines/xeon-2s.json", "machines/xeon-2s-snc2.json"} {
		path, err := filepath.Abs("../../examples/" + file)
		if err != nil {
			t.Fatal(err)
		}
		nodes += fmt.Sprintf("- {name: kind%d, count: %d, machine: %s, price: %d}\n", i, part(2500), path, []int{10, 9, 4, 4}[i])
	}
	write("large.yaml", nodes)
	writeSizes(t, dir, write)
	shapes := csvRows(t, "../../examples/fleet/openb-2023-pods.csv")
	var all, made int64
	for _, row := range shapes {
		all += whole(t, row["count"])
	}
	const header = "cpu_milli,memory_mib,count\n"
	small, large := header, header
	for i, row := range shapes {
		count := whole(t, row["count"])
		many := count * 200_000 / all
		if made += many; i == len(shapes)-1 {
			many += 200_000 - made // Add what rounding left over.
		}
		small += fmt.Sprintf("%s,%s,%d\n", row["cpu_milli"], row["memory_mib"], part(count))
		large += fmt.Sprintf("%s,%s,%d\n", row["cpu_milli"], row["memory_mib"], part(many))
	}
	write("openb.csv", small)
	write("large.csv", large)
}

// writeSizes writes what the figures of the lower bound need: the examples of docs/size-a-fleet.md,
// and fleets of large pods.
func writeSizes(t *testing.T, dir string, write func(name, text string)) {
	t.Helper()
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nps4.yaml", "choose.yaml"} {
		text, err := os.ReadFile(filepath.Join(examples, "fleet", name))
		if err != nil {
			t.Fatal(err)
		}
		here := strings.NewReplacer(" ../", " "+examples+"/", "machine: epyc", "machine: "+examples+"/fleet/epyc")
		write(name, here.Replace(string(text)))
	}
	for seed := range uint64(3) {
		large := filepath.Join(dir, fmt.Sprint("large-", seed+1))
		if err := os.Mkdir(large, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := largepods.New(seed+1, int(part(5000))).Write(large); err != nil {
			t.Fatal(err)
		}
	}
}

// csvRows returns the rows of a file as maps by the names in its header.
func csvRows(t *testing.T, name string) (out []map[string]string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, fields := range rows[1:] {
		row := map[string]string{}
		for i, column := range rows[0] {
			row[column] = fields[i]
		}
		out = append(out, row)
	}
	return out
}

func whole(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// machineOf returns a machine with cores of two threads. It has one NUMA node, or two with 32 or
// more CPUs.
func machineOf(cpus, memory int64) string {
	parts := []int64{cpus / 2}
	if cpus >= 32 {
		parts = []int64{(cpus/2 + 1) / 2, cpus / 4}
	}
	var numa []string
	next := int64(0)
	for id, cores := range parts {
		var list []string
		for range cores {
			list = append(list, fmt.Sprintf(`{"core_id": %d, "thread_ids": [%d, %d], "socket_id": %d, "uncore_caches": [{"id": %d}]}`, next/2, next, next+1, id, next/8))
			next += 2
		}
		numa = append(numa, fmt.Sprintf(`{"node_id": %d, "memory": %d, "cores": [%s]}`, id, memory/int64(len(parts)), strings.Join(list, ",")))
	}
	return fmt.Sprintf(`{"num_cores": %d, "num_sockets": %d, "topology": [%s]}`, cpus, len(parts), strings.Join(numa, ","))
}

// writeCluster writes the output of kubectl get for 10,000 nodes with 128 CPUs and 10 pods each,
// and for 100,000 pods that wait. A pod has 5 KiB, as in real clusters.
func writeCluster(t *testing.T, w io.Writer) {
	out := bufio.NewWriter(w)
	k := clustertest.New(t, 64)
	separator := `{"kind":"List","apiVersion":"v1","items":[`
	item := func(v any) {
		data, err := json.Marshal(v)
		if err != nil {
			panic(err) // Every object can be encoded.
		}
		_, _ = out.WriteString(separator) // A command that ended early has reported its own error.
		_, _ = out.Write(data)
		separator = ",\n"
	}
	var environment []v1.EnvVar
	for i := range 50 {
		environment = append(environment, v1.EnvVar{Name: fmt.Sprint("VARIABLE_", i), Value: strings.Repeat("value ", 10)})
	}
	item(k.Object)
	for i := range part(10_000) {
		name := fmt.Sprintf("node-%05d", i)
		o, p := k.Node(name)
		item(o)
		item(p)
		for n := range 20 {
			at := name
			if n%2 == 1 {
				at = ""
			}
			pod := clustertest.Pod(fmt.Sprintf("pod-%d-%d", i, n), at, []string{"4", "4", "500m", "8"}[n%4])
			pod.Spec.Containers[0].Env = environment
			item(pod)
		}
	}
	_, _ = out.WriteString("]}")
	_ = out.Flush()
}
