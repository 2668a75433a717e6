package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/fleetcommand"
)

// TestFleet runs the scenarios in testdata. The command "file NAME" writes a file. The command
// "cluster" writes cluster.json (see writeCluster). The command "fleet" runs paddock-scheduler
// fleet with its arguments in the directory of the files. examples/ is the directory of the
// examples.
func TestFleet(t *testing.T) {
	examples, err := filepath.Abs("../../../examples")
	if err != nil {
		t.Fatal(err)
	}
	scenarios, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("COLUMNS", "100")
	datadriven.Walk(t, scenarios, func(t *testing.T, path string) {
		t.Chdir(t.TempDir())
		if err := os.Symlink(examples, "examples"); err != nil {
			t.Fatal(err)
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "file":
				if err := os.WriteFile(d.CmdArgs[0].Key, []byte(d.Input), 0o666); err != nil {
					t.Fatal(err)
				}
				return ""
			case "cluster":
				writeCluster(t, d)
				return ""
			case "fleet":
				return execute(offline(), strings.Fields(d.Input))
			}
			t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
			return ""
		})
	})
}

// execute returns what a program prints, and its exit code if that is not 0.
func execute(root *cobra.Command, args []string) string {
	var out, notes bytes.Buffer
	code := console.Execute(root, append([]string{"fleet"}, args...), strings.NewReader(""), &out, &notes)
	text := notes.String() + out.String()
	if code != 0 {
		text += fmt.Sprintf("exit code %d\n", code)
	}
	return text
}

// TestAsPaddockFleet checks that the output for pods without constraints is that of paddock fleet,
// in every format.
func TestAsPaddockFleet(t *testing.T) {
	t.Chdir("../../..")
	t.Setenv("COLUMNS", "100")
	const nodes, pods, shapes = "--nodes examples/fleet/nodes.yaml", " --pods examples/pods", " --pods examples/fleet/openb-2023-pods.csv --columns examples/fleet/openb-columns.yaml --whole-cpus --fill 900 --seed 4"
	for _, args := range []string{
		nodes + pods, nodes + pods + " --placements", nodes + pods + " --placements -o json", nodes + pods + " -o yaml", nodes + pods + " -o csv", nodes + pods + " -o html",
		nodes + shapes, nodes + pods + " --scoring most-allocated", "size " + nodes + pods, "try " + nodes + pods,
	} {
		plain := &cobra.Command{Use: "paddock-scheduler", SilenceErrors: true, SilenceUsage: true}
		plain.AddCommand(fleetcommand.New(fleetcommand.Program{Name: "paddock-scheduler"}))
		if d := cmp.Diff(execute(plain, strings.Fields(args)), execute(offline(), strings.Fields(args))); d != "" {
			t.Errorf("%s: %s", args, d)
		}
	}
}

// TestDocs checks that the output of this program equals what docs/size-a-fleet.md quotes.
func TestDocs(t *testing.T) {
	t.Chdir("../../..")
	t.Setenv("COLUMNS", "120")
	page, err := os.ReadFile("docs/size-a-fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("(?s)```text\n\\$ paddock-scheduler fleet ([^\n]*)\n(.*?)…?\n```").FindAllStringSubmatch(string(page), -1)
	if len(quoted) == 0 {
		t.Error("the page quotes nothing")
	}
	for _, q := range quoted {
		if out := execute(offline(), strings.Fields(q[1])); !strings.HasPrefix(out, q[2]) {
			t.Errorf("fleet %s: the page quotes\n%s\nthe output is\n%s", q[1], q[2], out)
		}
	}
}
