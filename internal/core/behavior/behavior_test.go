package behavior_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/node"
)

// The table has a row for every field: some recorded kubelet has each fault and rule.
func TestEveryFieldHasARow(t *testing.T) {
	var missing func(at string, v reflect.Value) []string
	missing = func(at string, v reflect.Value) (names []string) {
		for i := range v.NumField() {
			name := at + v.Type().Field(i).Name
			switch f := v.Field(i); {
			case f.Kind() == reflect.Struct:
				names = append(names, missing(name+".", f)...)
			case !f.Bool():
				names = append(names, name)
			}
		}
		return names
	}
	times := map[string]int{}
	for _, v := range behavior.Recorded() {
		b, err := behavior.Of(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range missing("", reflect.ValueOf(b)) {
			times[name]++
		}
	}
	for name, n := range times {
		if n == len(behavior.Recorded()) {
			t.Errorf("the table has no row for %s", name)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		text string
		want behavior.Version
		err  string
	}{
		{"1.36.3", behavior.Version{Minor: 36, Patch: 3}, ""},
		{"v1.37", behavior.Version{Minor: 37, Patch: 2}, ""},
		{"1.12", behavior.Version{Minor: 12}, ""},
		{"2.1", behavior.Version{}, "no version of Kubernetes"},
		{"1", behavior.Version{}, "no version of Kubernetes"},
		{"1.x", behavior.Version{}, "not a number"},
		{"1.36.-1", behavior.Version{}, "not a number"},
	} {
		got, err := behavior.Parse(c.text)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || got != c.want {
			t.Errorf("%q: got %v and error %v, want %v and %q", c.text, got, err, c.want, c.err)
		}
	}
	if b, err := behavior.Of(behavior.Version{Minor: 37, Patch: 2}); err != nil || b.PinsNothing || !b.AdmitsAgain {
		t.Errorf("kubelet 1.37.2: got %+v and error %v", b, err)
	}
	if b, err := behavior.Of(behavior.Version{Minor: 20}); err == nil || b != (node.Behavior{}) {
		t.Errorf("kubelet 1.20: got %+v and no error", b)
	}
}
