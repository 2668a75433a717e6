package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

const header = "apiVersion: " + APIVersion + "\nkind: " + Kind + "\n"

// TestScenarios runs the files in testdata. Commands:
//
//	resolve machine=NAME   resolves a KubeletConfiguration without its first two lines, and prints
//	                       its policy and warnings, or its problems
//	verdict machine=NAME   prints whether a kubelet and Paddock start with such a configuration
//	read                   reads a whole file and prints "ok" or the error
//	default machine=NAME   prints the policy without a configuration
//
// NAME is one of plans. After a change of behaviour: go test -rewrite, and read the diff.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.HasPrefix(path, "testdata/fuzz") {
			return
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "resolve":
				return runResolve(t, d)
			case "verdict":
				c, err := Read("kubelet.yaml", []byte(header+d.Input))
				if err != nil {
					return err.Error()
				}
				v, err := c.Verdict(plans[machineOf(t, d)].machine(t), cpuset.Set{})
				if err != nil {
					return err.Error()
				}
				return fmt.Sprintf("kubelet starts: %t, paddock starts: %t\n%+v\n", v.KubeletStarts, v.PaddockStarts, v.Problems)
			case "read":
				if _, err := Read("kubelet.yaml", []byte(d.Input)); err != nil {
					return err.Error()
				}
				return "ok"
			case "default":
				_, sentence := Default(plans[machineOf(t, d)].machine(t))
				return sentence
			}
			d.Fatalf(t, "no command %q", d.Cmd)
			return ""
		})
	})
}

func runResolve(t *testing.T, d *datadriven.TestData) string {
	m := plans[machineOf(t, d)].machine(t)
	c, err := Read("kubelet.yaml", []byte(header+d.Input))
	if err != nil {
		return err.Error()
	}
	p, err := c.Resolve(m)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	fmt.Fprintln(&b, Describe(p))
	for _, w := range c.Warnings(m) {
		fmt.Fprintln(&b, "warning:", w)
	}
	return b.String()
}

func machineOf(t *testing.T, d *datadriven.TestData) string {
	name := "pair"
	d.MaybeScanArgs(t, "machine", &name)
	if _, ok := plans[name]; !ok {
		d.Fatalf(t, "no machine %q", name)
	}
	return name
}
