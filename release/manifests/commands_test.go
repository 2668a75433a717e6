package manifests

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	yamlv3 "go.yaml.in/yaml/v3"
)

// object is what commands name of an object in a manifest.
type object struct {
	Kind     string
	Metadata struct {
		Name, Namespace string
		Labels          map[string]string
	}
	Spec struct {
		Template struct {
			Metadata struct{ Labels map[string]string }
		}
	}
}

// installed returns the objects of all manifests of a release, and the files.
func installed(t *testing.T) (all []object, files []string) {
	t.Helper()
	dir := t.TempDir()
	if err := Write(tree(t), dir, images()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		files = append(files, e.Name())
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for d := yamlv3.NewDecoder(bytes.NewReader(text)); ; {
			var o object
			if err := d.Decode(&o); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", e.Name(), err)
			}
			all = append(all, o)
		}
	}
	return all, files
}

var (
	file   = regexp.MustCompile(`[ =]manifests/([A-Za-z0-9.-]+)`)
	named  = regexp.MustCompile(`\b(daemonset|deployment|configmap|crd)[ /]([a-z][a-z0-9.-]*)`)
	labels = regexp.MustCompile(`\b(daemonset|pods?) -l ([A-Za-z0-9./=,-]+)`)
)

// selects is whether a selector of the form a=b,c selects labels.
func selects(selector string, of map[string]string) bool {
	for requirement := range strings.SplitSeq(selector, ",") {
		key, want, equal := strings.Cut(requirement, "=")
		if got, ok := of[key]; !ok || equal && got != want {
			return false
		}
	}
	return true
}

// TestCommands checks that a release has the manifests, the objects and the labels that the kubectl
// commands of the documentation name.
func TestCommands(t *testing.T) {
	all, files := installed(t)
	kinds := map[string]string{"daemonset": "DaemonSet", "deployment": "Deployment", "configmap": "ConfigMap", "crd": "CustomResourceDefinition"}
	has := func(kind, name, command string) bool {
		return slices.ContainsFunc(all, func(o object) bool {
			of := o.Metadata
			return o.Kind == kinds[kind] && of.Name == name && (of.Namespace == "" || strings.Contains(command+" ", " -n "+of.Namespace+" "))
		})
	}
	checked := map[string]bool{}
	for _, line := range commands(t) {
		for _, m := range file.FindAllStringSubmatch(line, -1) {
			checked[m[0]] = true
			if !slices.Contains(files, m[1]) {
				t.Errorf("%s\na release has the manifests %q", line, files)
			}
		}
		for _, m := range named.FindAllStringSubmatch(line, -1) {
			checked[m[0]] = true
			if !has(m[1], m[2], line) {
				t.Errorf("%s\nno manifest has the %s %s in this namespace", line, m[1], m[2])
			}
		}
		for _, m := range labels.FindAllStringSubmatch(line, -1) {
			checked[m[0]] = true
			var found []string
			for _, o := range all {
				of := o.Spec.Template.Metadata.Labels
				if m[1] == "daemonset" {
					of = o.Metadata.Labels
				}
				if o.Kind == "DaemonSet" && selects(m[2], of) {
					found = append(found, o.Metadata.Name)
				}
			}
			want := []string{"paddock", "paddock-observe"}
			if strings.Contains(m[2], "/group") { // The agents that decide.
				want = want[:1]
			}
			if !slices.Equal(found, want) {
				t.Errorf("%s\nthe labels are those of %q, want %q", line, found, want)
			}
		}
	}
	if len(checked) < 20 {
		t.Errorf("the commands name %d things, want at least 20: %v", len(checked), checked)
	}
}

// commands returns the lines of the documentation with a kubectl command.
func commands(t *testing.T) (lines []string) {
	t.Helper()
	root := filepath.Join("..", "..")
	for _, pattern := range []string{"README.md", "docs/*.md", "deploy/README.md", "deploy/scheduler/README.md"} {
		pages, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(pages) == 0 {
			t.Fatalf("%s: %q, %v", pattern, pages, err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if _, after, ok := strings.Cut(line, "kubectl "); ok {
					command, _, _ := strings.Cut(after, " #")
					lines = append(lines, "kubectl "+strings.TrimSpace(command))
				}
			}
		}
	}
	return lines
}
