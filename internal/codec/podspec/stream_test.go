package podspec

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

const storedPod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "%[1]s", "namespace": "n", "uid": "uid-%[1]s", "resourceVersion": "1",
  "managedFields": [{"manager": "x"}], "annotations": {"large": "text", "paddock-project.github.io/moves": "cpus"}},
 "spec": {"nodeName": "n1", "volumes": [{"name": "v"}], "containers": [{"name": "c", "image": "i", "env": [{"name": "E"}],
  "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}]}, "status": {"phase": "Running", "conditions": [{"type": "Ready"}]}}`

func stored(name string) string { return fmt.Sprintf(storedPod, name) }

// A stream yields the same pods as a file with the same text, for lists of both forms, single
// objects and workloads, whatever the chunks in which it arrives.
func TestStream(t *testing.T) {
	list := `{"apiVersion": "v1", "items": [` + stored("a") + "," + stored("b") + `], "kind": "List", "metadata": {"resourceVersion": ""}}`
	typed := `{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [{"metadata": {"name": "c", "uid": "u", "resourceVersion": "2"}, "spec": {"containers": [{"name": "c"}]}}]}`
	workload := `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "c"}]}}}}`
	text := list + "\n" + typed + workload + "\n"
	for _, slim := range []bool{false, true} {
		file := reader{Options: Options{Slim: slim}}
		file.read("f.json", []byte(text))
		want, _, err := file.result()
		if err != nil || len(want) != 5 {
			t.Fatalf("%d pods, %v", len(want), err)
		}
		streamed := reader{Options: Options{Slim: slim}}
		streamed.stream("f.json", iotest.OneByteReader(strings.NewReader(text)))
		got, _, err := streamed.result()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("slim %t: %v\n%v, want\n%v", slim, err, got, want)
		}
		var each []Source
		one := reader{Options: Options{Slim: slim, Each: func(s Source) error { each = append(each, s); return nil }}}
		one.stream("f.json", strings.NewReader(text))
		if kept, _, err := one.result(); err != nil || len(kept) != 0 || !reflect.DeepEqual(each, want) {
			t.Errorf("slim %t: each took %v, %d are kept, %v", slim, each, len(kept), err)
		}
	}
}

// A fault in a stream leads to one error with the line, and with the item if it is in a list.
func TestStreamErrors(t *testing.T) {
	begin := "{\"kind\": \"List\", \"apiVersion\": \"v1\",\n\"items\": [\n"
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":     {"{\n\n]", "f.json: json: line 3: invalid character ']'"},
		"no object":   {"{}\n[1]", `f.json: json: line 2: "{" is wanted there, is [`},
		"cut":         {begin + stored("a"), "f.json: json: line 6: item 1: the JSON is cut off; collect it again"},
		"a bad item":  {begin + stored("a") + ",\n{\"x\": tru}]}", "f.json: json: line 7: item 2: invalid character '}'"},
		"no list":     {`{"items": {"a": 1}}`, `f.json: json: line 1: "[" is wanted there, is {`},
		"deep":        {begin + strings.Repeat("[", 20_000), "exceeded max depth"},
		"twice":       {begin + stored("a") + "," + stored("a") + "]}", "item 2: Pod n/a: the pod n/a is there already"},
		"a large one": {begin + `{"x": "` + strings.Repeat("x", maxObject+100_000), "an object there has more than 16 MiB"},
		"a field":     {begin + strings.ReplaceAll(stored("a"), `"cpu": "2"`, `"cpu": "1e999999999"`) + "]}", "item 1: Pod n/a"},
		"a wrong one": {begin + `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 7}}]}`, "item 1"},
	} {
		for _, slim := range []bool{false, true} {
			r := reader{Options: Options{Slim: slim, Each: func(Source) error { return nil }}}
			r.stream("f.json", strings.NewReader(c.text))
			if _, _, err := r.result(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v\nwant %s", name, err, c.want)
			}
		}
	}
}

// FuzzStream checks that a stream and a file with the same text yield the same pods or both an
// error, and that neither panics.
func FuzzStream(f *testing.F) {
	f.Add(stored("a"))
	f.Add(`{"kind": "List", "apiVersion": "v1", "items": [` + stored("a") + `]}`)
	f.Add(`{"items": [{}], "kind": "PodList"}`)
	f.Fuzz(func(t *testing.T, text string) {
		streamed := reader{Options: Options{Slim: true}}
		streamed.stream("f.json", strings.NewReader(text))
		got, _, err := streamed.result()
		if err != nil && got != nil {
			t.Errorf("pods and an error: %v", err)
		}
		file := reader{Options: Options{Slim: true}}
		file.read("f.json", []byte(text))
		if want, _, wantErr := file.result(); err == nil && wantErr == nil && len(got) != len(want) {
			t.Errorf("%d pods, of the file %d", len(got), len(want))
		}
	})
}
