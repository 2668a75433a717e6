package podspec

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

const podA = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"

func podNamed(name string) string { return strings.Replace(podA, "name: a", "name: "+name, 1) }

// files writes files into a new directory and returns the directory.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func names(sources []Source) string {
	out := make([]string, len(sources))
	for i, s := range sources {
		out[i] = s.Pod.Name
	}
	return strings.Join(out, " ")
}

func TestReadFilesTakesFilesDirectoriesAndStdin(t *testing.T) {
	dir := files(t, map[string]string{
		"2.yml": podNamed("b"), "1.yaml": podNamed("a"), "3.JSON": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"c"}}`,
		"readme.txt": "not a pod", ".hidden.yaml": "not a pod", "sub.yaml/4.yaml": podNamed("d"),
	})
	got, _, err := ReadFiles([]string{filepath.Join(dir, "sub.yaml", "4.yaml"), "-", dir}, strings.NewReader(podNamed("stdin")))
	if err != nil {
		t.Fatal(err)
	}
	if want := "d stdin a b c"; names(got) != want {
		t.Errorf("read %q, want %q", names(got), want)
	}
	if want := "-: document 1 (line 1): Pod default/stdin"; got[1].Origin.String() != want {
		t.Errorf("origin %q, want %q", got[1].Origin, want)
	}
}

func TestReadFilesSaysWhatIsWrong(t *testing.T) {
	dir := files(t, map[string]string{"a.yaml": podA, "b.yaml": podA, "bad.yaml": "kind: [", "worse.yaml": "x: {"})
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		name  string
		paths []string
		stdin io.Reader
		want  []string
	}{
		{"missing", []string{at("none.yaml")}, nil, []string{"none.yaml", "no such file"}},
		{"the same pod in two files", []string{at("a.yaml"), at("b.yaml")}, nil, []string{"b.yaml: document 1", "already", "a.yaml"}},
		{"stdin twice", []string{"-", "-"}, strings.NewReader(podA), []string{"standard input"}},
		{"no stdin", []string{"-"}, nil, []string{"standard input"}},
		{"stdin fails", []string{"-"}, iotest.ErrReader(errors.New("torn")), []string{"-: torn"}},
		{"every file is looked at", []string{dir}, nil, []string{"bad.yaml: yaml", "worse.yaml: yaml"}},
		{"too large", []string{"-"}, io.LimitReader(zeros{}, MaxFileSize+1), []string{"64 MiB"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sources, notes, err := ReadFiles(c.paths, c.stdin)
			if err == nil || sources != nil || notes != nil {
				t.Fatalf("no error, or a value with it: %v %v %v", sources, notes, err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestReadTellsSoManyErrorsAndNoMore(t *testing.T) {
	_, _, err := Read("f", []byte(strings.Repeat("---\nkind: Pod\n", 100)))
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if last := lines[len(lines)-1]; len(lines) != maxErrors+1 || last != "and 80 errors more" {
		t.Errorf("%d lines, the last is %q", len(lines), last)
	}
}

// The limit on pods applies to all files together.
func TestReadFilesCountsPodsOverAllFiles(t *testing.T) {
	web := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: NAME}\nspec: {replicas: 6000, selector: {}, template: {}}\n"
	dir := files(t, map[string]string{"a.yaml": strings.Replace(web, "NAME", "a", 1), "b.yaml": strings.Replace(web, "NAME", "b", 1)})
	if _, _, err := ReadFiles([]string{dir}, nil); err == nil || !strings.Contains(err.Error(), "Deployment default/b: it asks for 6000 pods") {
		t.Errorf("12000 pods: %v", err)
	}
	if got, _, err := ReadFiles([]string{filepath.Join(dir, "a.yaml")}, nil); err != nil || len(got) != 6000 {
		t.Errorf("6000 pods: %d, %v", len(got), err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(podA))
	f.Add([]byte("{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: r}, spec: {groups: [{replicas: 2, template: {newer: 1, spec: {containers: [{name: c, resources: {limit: {}}}]}}}]}}\n"))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u","resourceVersion":"7"},"spec":{"newer":1},"status":{"newer":[]}}`))
	f.Add([]byte("--- {apiVersion: apps/v1, kind: Deployment, metadata: {name: w}, spec: {replicas: 2, selector: {}, template: {}}}\n...\n"))
	f.Add([]byte(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"a"},` +
		`"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1e9","memory":1e3}}}]}}]}`))
	f.Add([]byte("apiVersion: v1\nkind: PodList\nitems: [&a {metadata: {name: b}}, *a]\n"))
	gates := Gates{PodLevelResources: true, PodLevelManagers: true}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range []string{"f.yaml", "f.json"} {
			sources, notes, err := Read(name, data)
			if err != nil && (sources != nil || notes != nil) {
				t.Fatalf("%v, and yet %v %v", err, sources, notes)
			}
			for _, s := range sources[:min(len(sources), 3)] {
				if s.Pod.UID == "" || s.Pod.Name == "" || s.Pod.Namespace == "" {
					t.Fatalf("a pod without an identity: %v", s)
				}
				pod := Default(s.Pod, gates)
				_ = Validate(pod, gates).ToAggregate()
				if r, err := Request(pod, gates); err != nil && r.UID != "" {
					t.Fatalf("%v, and yet %s", err, r)
				}
			}
		}
	})
}
