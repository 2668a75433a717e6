package devicefile

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// TestScenarios runs the files in testdata. Commands:
//
//	read                    prints the devices of a file, or its error
//	inventory machine=NAME  does the same for an example machine
//
// After a change of behaviour: go test -rewrite, and read the diff.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.HasPrefix(path, "testdata/fuzz") {
			return
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			resources, err := Read("devices.yaml", []byte(d.Input))
			switch d.Cmd {
			case "read":
			case "inventory":
				var name string
				d.ScanArgs(t, "machine", &name)
				_, err = Inventory(exampleMachine(t, name), "devices.yaml", []byte(d.Input))
			default:
				d.Fatalf(t, "no command %q", d.Cmd)
			}
			if err != nil {
				return err.Error()
			}
			return show(resources)
		})
	})
}

func show(resources map[string][]device.Device) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		fmt.Fprintf(&b, "%s:", name)
		for _, d := range resources[name] {
			fmt.Fprintf(&b, " %s", d.ID)
			if !d.Nodes.IsEmpty() {
				fmt.Fprintf(&b, "%s", d.Nodes)
			}
			if !d.Healthy {
				b.WriteString(" (unhealthy)")
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func exampleMachine(t *testing.T, name string) *machine.Machine {
	t.Helper()
	found, err := discover.Read(name, readExample(t, "machines", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return found.Machine
}

func readExample(tb testing.TB, dir, file string) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("../../../examples", dir, file))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// TestExamples checks that each example of devices fits the machine that its README names.
func TestExamples(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| `([^`]+\\.yaml)` \\| `([^`]+)\\.json` \\|").FindAllStringSubmatch(string(readExample(t, "devices", "README.md")), -1)
	for _, row := range rows {
		if _, err := Inventory(exampleMachine(t, row[2]), row[1], readExample(t, "devices", row[1])); err != nil {
			t.Error(err)
		}
	}
	files, err := filepath.Glob("../../../examples/devices/*.yaml")
	if err != nil || len(files) != len(rows) {
		t.Errorf("examples/devices has %d files, its README %d: %v", len(files), len(rows), err)
	}
}

// TestMachinesAreListed checks that the README of the example machines names each of them.
func TestMachinesAreListed(t *testing.T) {
	readme := string(readExample(t, "machines", "README.md"))
	files, err := filepath.Glob("../../../examples/machines/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.Contains(readme, "\n| `"+filepath.Base(file)+"` |") {
			t.Errorf("%s has no row in the README beside it", file)
		}
	}
	if rows := strings.Count(readme, ".json` |"); rows != len(files) {
		t.Errorf("the README has %d rows for %d machines", rows, len(files))
	}
}

func TestTooMany(t *testing.T) {
	for _, entries := range []string{
		"{prefix: a, count: 100001}",
		"{prefix: a, count: 9223372036854775807}",
		"{prefix: a, perNode: 50001, numaNodes: 0-1}",
		"{prefix: a, perNode: 9223372036854775807, numaNodes: 0-63}",
		"{prefix: a, count: 60000}, {prefix: b, count: 40001}",
		"{prefix: a, count: 100000}, {id: b}",
	} {
		got, err := Read("d", []byte("resources: {a.b/c: ["+entries+"]}"))
		if err == nil || !strings.Contains(err.Error(), "more than 100000 devices") {
			t.Errorf("%s: %d devices, %v", entries, len(got["a.b/c"]), err)
		}
	}
	if got, err := Read("d", []byte("resources: {a.b/c: [{prefix: a, count: 100000}]}")); err != nil || len(got["a.b/c"]) != MaxDevices {
		t.Errorf("%d devices, %v", len(got["a.b/c"]), err)
	}
}

// FuzzRead checks that Read returns either an error or a value, and that a value written out entry
// by entry is read back unchanged.
func FuzzRead(f *testing.F) {
	for _, file := range []string{"gpu-server-8n.yaml", "gb200-34-nodes.yaml", "mixed.yaml"} {
		f.Add(readExample(f, "devices", file))
	}
	f.Add([]byte(`{"resources":{"a/b":[{"prefix":"x","count":-1}]}}`))
	f.Add([]byte("resources: {a/b: [{id: 1, numaNodes: [64, 0-1]}]}\n---\n{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Read("f", data)
		if (got == nil) == (err == nil) {
			t.Fatalf("got %v and %v, want one of them", got, err)
		}
		if err != nil {
			if !errors.Is(err, ErrSyntax) {
				t.Fatal(err)
			}
			return
		}
		again, err := Read("again", []byte(long(got)))
		if err != nil || !reflect.DeepEqual(got, again) {
			t.Fatalf("%v: read again %v, want %v", err, again, got)
		}
	})
}

// long writes every device as a separate entry.
func long(resources map[string][]device.Device) string {
	var b strings.Builder
	b.WriteString(`{"resources":{`)
	for i, name := range slices.Sorted(maps.Keys(resources)) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s:[", quote(name))
		for k, d := range resources[name] {
			if k > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"id":%s,"healthy":%t,"numaNodes":%s}`, quote(d.ID), d.Healthy, quote(d.Nodes.String()))
		}
		b.WriteByte(']')
	}
	b.WriteString("}}")
	return b.String()
}
