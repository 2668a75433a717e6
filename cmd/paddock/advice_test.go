package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/tools/txtar"

	"github.com/paddock-project/paddock/internal/cli/stateview"
)

// kubelets are kubelets with different files: the version for --kubelet, the target for --to, and
// the name of the configuration in the script state-chain.txtar.
var kubelets = []struct{ version, target, config string }{
	{"1.21", "kubelet-1.35", "off.yaml"},
	{"1.36", "kubelet-1.36-gate-off", "off.yaml"},
	{"1.36", "kubelet-1.36", "kubelet.yaml"},
	{"1.37", "kubelet-1.37-gate-off", "off.yaml"},
	{"1.37", "kubelet-1.37", "kubelet.yaml"},
}

// TestAdviceIsACommand runs the commands that state verify recommends, as a person would. It does
// so for files of each kubelet, intact and damaged, under every other kubelet, until verify
// recommends nothing.
func TestAdviceIsACommand(t *testing.T) {
	script, err := txtar.ParseFile("testdata/script/state-chain.txtar")
	if err != nil {
		t.Fatal(err)
	}
	damages := []struct {
		name   string
		damage func(string) string
	}{
		{"whole", func(s string) string { return s }},
		{"leaked and changed", func(s string) string { return strings.ReplaceAll(s, `"0,3`, `"0`) }},
		{"not protected", func(s string) string { return strings.ReplaceAll(s, "hecksum\":", "hecksum\":1") }},
	}
	for i, wrote := range kubelets {
		for j, starts := range kubelets {
			d := damages[(i+j)%len(damages)]
			t.Run(fmt.Sprintf("%s of %s under %s", d.name, wrote.target, starts.target), func(t *testing.T) {
				dir := t.TempDir()
				for _, f := range script.Files {
					if filepath.Dir(f.Name) != "." {
						continue
					}
					if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				c := advised{t, filepath.Join(dir, starts.config), dir}
				c.damage(c.cpu(), func(string) string { return string(readFile(t, filepath.Join(dir, "wide"))) })
				c.do(0, "state", "convert", "--to", wrote.target, c.cpu(), c.memory())
				c.damage(c.cpu(), d.damage)
				c.follow(starts.version)
			})
		}
	}
}

// advised is a node in a directory.
type advised struct {
	t           *testing.T
	config, dir string
}

func (c advised) cpu() string    { return filepath.Join(c.dir, "cpu_manager_state") }
func (c advised) memory() string { return filepath.Join(c.dir, "memory_manager_state") }

func (c advised) damage(name string, damage func(string) string) {
	if err := os.WriteFile(name, []byte(damage(string(readFile(c.t, name)))), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// do runs a command and returns its output. want is the expected exit code, or -1 for any.
func (c advised) do(want int, args ...string) string {
	c.t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(args, strings.NewReader(""), &stdout, &stderr); want >= 0 && code != want {
		c.t.Fatalf("%q: exit code %d: %s%s", args, code, &stdout, &stderr)
	}
	return stdout.String()
}

// follow runs verify and then what it recommends, until it recommends nothing.
func (c advised) follow(version string) {
	var seen []string
	for range 4 {
		var answer struct{ Items stateview.Verified }
		text := c.do(-1, "state", "verify", "-o", "json", "--kubelet", version, "--machine", filepath.Join(c.dir, "machine.json"),
			"--kubelet-config", c.config, c.cpu(), c.memory())
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			c.t.Fatal(err)
		}
		found := answer.Items
		commands, err := commandsOf(found)
		if err != nil {
			c.t.Fatal(err)
		}
		if len(commands) == 0 {
			if i := slices.IndexFunc(found, func(d stateview.VerifiedFile) bool { return d.Answer != "starts" }); i >= 0 {
				c.t.Errorf("after %q: %+v", seen, found[i])
			}
			return
		}
		seen = append(seen, commands[0])
		c.runAdvised(commands[0])
	}
	c.t.Errorf("the advice does not end: %q", seen)
}

func (c advised) runAdvised(command string) {
	args := append(strings.FieldsFunc(command, unicode.IsSpace), "--machine", filepath.Join(c.dir, "machine.json"))
	if strings.HasPrefix(command, "state repair") {
		args = append(args, "--yes", "--kubelet-config", c.config, "--pods", filepath.Join(c.dir, "pods.yaml"))
	}
	c.do(0, append(args, c.cpu(), c.memory())...)
}

// commandsOf returns the commands of the findings. Those of repair come first, because convert
// accepts no damaged file.
func commandsOf(found stateview.Verified) ([]string, error) {
	var commands []string
	for _, d := range found {
		for _, f := range d.Findings {
			switch {
			case f.Command == "" && strings.Contains(f.Do, `run "paddock`):
				return nil, errors.New(f.Do + ": its command is not a field")
			case strings.HasPrefix(f.Command, "state repair"):
				commands = append([]string{f.Command}, commands...)
			case f.Command != "":
				commands = append(commands, f.Command)
			}
		}
	}
	return commands, nil
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
