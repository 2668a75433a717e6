package objects_test

import (
	"reflect"
	"testing"

	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/node"
)

// TestRulesDigest checks that each field of a behavior changes its digest, and that the digest of
// Paddock's own rules is that of an empty text. Agents and schedulers of other versions compare it.
func TestRulesDigest(t *testing.T) {
	digest := func(b node.Behavior) string {
		text, err := behavior.Digest(b)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	seen := map[string]string{digest(node.Behavior{}): "no field"}
	if seen[empty] == "" {
		t.Errorf("the digest of no field is %s", digest(node.Behavior{}))
	}
	var b node.Behavior
	var walk func(name string, v reflect.Value)
	walk = func(name string, v reflect.Value) {
		if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				walk(name+"."+v.Type().Field(i).Name, v.Field(i))
			}
			return
		}
		v.SetBool(true)
		if other, known := seen[digest(b)]; known {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[digest(b)] = name
		v.SetBool(false)
	}
	walk("Behavior", reflect.ValueOf(&b).Elem())
	if len(seen) < 10 {
		t.Errorf("%d digests", len(seen))
	}
}
