package predict_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutside builds a program of another module that imports predict, as an autoscaler does, and
// checks that its modules have nothing of what the main module requires.
func TestOutside(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	const own = "github.com/paddock-project/paddock/"
	dir, mod := t.TempDir(), "module example.com/autoscaler\n\ngo 1.26.0\n\n"
	for _, module := range []string{"predict", "api", "internal/core"} {
		mod += "require " + own + module + " v0.0.0\n\nreplace " + own + module + " => " + filepath.Join(root, module) + "\n\n"
	}
	program := `package main

import (
	"fmt"

	"github.com/paddock-project/paddock/predict"
)

func main() {
	m, err := predict.Facts{Sockets: 2, CoresPerSocket: 4, Memory: 8 << 30}.Machine()
	fmt.Println(m.CPUs(), err)
}
`
	for name, text := range map[string]string{"go.mod": mod, "main.go": program} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(arguments ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), "go", arguments...)
		command.Dir, command.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "CGO_ENABLED=0")
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(arguments, " "), err, out)
		}
		return string(out)
	}
	if out := run("run", "."); !strings.HasSuffix(out, "0-7 <nil>\n") {
		t.Errorf("the program prints %q", out)
	}
	linked := run("list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	for name := range strings.FieldsSeq(linked) {
		if !strings.HasPrefix(name, own) && name != "example.com/autoscaler" {
			t.Errorf("the program links %s", name)
		}
	}
	modules := run("list", "-m", "all")
	for _, heavy := range []string{"k8s.io/client-go", "k8s.io/api", "github.com/containerd/nri", "github.com/containerd/ttrpc", "github.com/spf13/cobra", "github.com/prometheus/client_golang"} {
		for line := range strings.Lines(modules) {
			if strings.HasPrefix(line, heavy+" ") {
				t.Errorf("the program requires %s", strings.TrimSpace(line))
			}
		}
	}
}
