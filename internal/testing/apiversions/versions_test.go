package apiversions_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/testing/apiversions"
)

var rewrite = flag.Bool("rewrite", false, "record the API with what was added")

const (
	present     = "../../../api/v1alpha1"
	definitions = "../../../deploy/base/crds"
)

// advice is what to do about a version that does not keep what was released.
const advice = `v1alpha1 is released and may only grow: new objects, constants, columns and optional fields. Do not rename, remove or
narrow a field: add an optional one beside it, write both, and deprecate the old one for two minors (RELEASES.md).`

// TestFrozen compares the Go API and the definitions with the recorded ones. -rewrite records what
// was added, for a release.
func TestFrozen(t *testing.T) {
	is, err := apiversions.Surface(present)
	if err != nil {
		t.Fatal(err)
	}
	const api = "testdata/v1alpha1.txt"
	was, err := apiversions.Parse(string(recorded(t, api, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if len(was) < 100 {
		t.Errorf("%d declarations are recorded: that cannot be all", len(was))
	}
	broken := apiversions.Broken(was, is)
	for _, b := range broken {
		t.Errorf("%s: %s", b, advice)
	}
	if len(broken) == 0 {
		recorded(t, api, []byte(apiversions.Format(is)))
	}
	for name, text := range crds(t) {
		file := filepath.Join("testdata", name)
		broken := apiversions.Narrowed(parsed(t, recorded(t, file, nil)), parsed(t, text))
		for _, b := range broken {
			t.Errorf("%s: %s: %s", name, b, advice)
		}
		if len(broken) == 0 {
			recorded(t, file, text)
		}
	}
}

// recorded returns a file of testdata. With -rewrite, it first writes the text, if there is one.
func recorded(t *testing.T, file string, text []byte) []byte {
	t.Helper()
	if *rewrite && text != nil {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// crds returns the definitions by the names of their files.
func crds(t *testing.T) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(definitions + "/*.yaml")
	if err != nil || len(names) != 2 {
		t.Fatalf("the definitions are %q, expected two: %v", names, err)
	}
	all := map[string][]byte{}
	for _, name := range names {
		if all[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func parsed(t *testing.T, text []byte) apiversions.CRD {
	t.Helper()
	crd, err := apiversions.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	return crd
}

// TestOneSchema checks that all versions of each definition have one schema, with the next version
// too.
func TestOneSchema(t *testing.T) {
	for name, text := range crds(t) {
		crd := parsed(t, text)
		for _, stored := range []string{"v1alpha1", "v1beta1"} {
			next, err := crd.Next("v1beta1", stored)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range append(apiversions.Differing(next), apiversions.Narrowed(crd, next)...) {
				t.Errorf("%s with %s stored: %s", name, stored, d)
			}
		}
		for _, d := range apiversions.Differing(crd) {
			t.Errorf("%s: %s: a field that one version has is a field of all", name, d)
		}
	}
}

// statuses generates the statuses of PaddockNodes. Times have whole seconds, as in JSON.
var statuses = rapid.MakeCustom[v1alpha1.PaddockNodeStatus](rapid.MakeConfig{Types: map[reflect.Type]*rapid.Generator[any]{
	reflect.TypeFor[metav1.Time](): rapid.Custom(func(t *rapid.T) any {
		return metav1.NewTime(time.Unix(rapid.Int64Range(1, 1<<32).Draw(t, "time"), 0))
	}),
	reflect.TypeFor[string](): rapid.StringMatching(`[ -~]{0,12}`).AsAny(),
}})

// TestRoundTrip writes random objects in one version, reads them in the other, writes them there,
// and reads them in the first one again: they are the same. Programs of neighboring releases so
// share objects, whichever version is stored.
func TestRoundTrip(t *testing.T) {
	definition := map[string]apiversions.CRD{}
	for name, text := range crds(t) {
		next, err := parsed(t, text).Next("v1beta1", "v1beta1")
		if err != nil {
			t.Fatal(err)
		}
		definition[strings.TrimSuffix(strings.TrimPrefix(name, v1alpha1.GroupName+"_"), ".yaml")] = next
	}
	rapid.Check(t, func(t *rapid.T) {
		meta := metav1.ObjectMeta{Name: "n7", ResourceVersion: "12"}
		n := v1alpha1.PaddockNode{ObjectMeta: meta, Status: statuses.Draw(t, "status")}
		n.Kind, n.APIVersion = "PaddockNode", v1alpha1.GroupVersion.String()
		returns(t, definition[v1alpha1.PaddockNodes], &n)
		m := v1alpha1.PaddockMachine{ObjectMeta: meta, Spec: rapid.Make[v1alpha1.PaddockMachineSpec]().Draw(t, "spec")}
		m.Kind, m.APIVersion = "PaddockMachine", v1alpha1.GroupVersion.String()
		returns(t, definition[v1alpha1.PaddockMachines], &m)
	})
}

// returns passes an object through the next version, and back.
func returns[Object any](t *rapid.T, crd apiversions.CRD, object *Object) {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	// What a program has read is nil where a generated value is empty.
	sent := through(t, crd, text, "v1alpha1", new(Object))
	sentBack := through(t, crd, sent, "v1beta1", new(Object))
	if bytes.Equal(sent, sentBack) {
		t.Fatalf("the object has the version that it had: %s", sent)
	}
	if got := through(t, crd, sentBack, "v1alpha1", new(Object)); !bytes.Equal(got, sent) {
		t.Errorf("it was\n%s\nand is\n%s", sent, got)
	}
}

// through reads an object in a version as a program does, and writes it again.
func through(t *rapid.T, crd apiversions.CRD, text []byte, version string, into any) []byte {
	t.Helper()
	var object map[string]any
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	if err := numbers.Decode(&object); err != nil {
		t.Fatal(err)
	}
	served, err := crd.Served(object, version)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(served)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	again, err := json.Marshal(into)
	if err != nil {
		t.Fatal(err)
	}
	return again
}
