package manifests

import (
	"strings"
	"testing"
)

func TestCheckRegistry(t *testing.T) {
	for _, name := range []string{
		"localhost", "localhost:5000", "localhost/team", "registry.example", "registry.example:5000", "registry.example/a/b-c__d.e/0", "10.0.0.1:5000/a", "registry:5000/a", "[::1]:5000/a", "a-b.c-d.example",
		"r.example/" + strings.Repeat("a", longestRegistry-len("r.example/")),
	} {
		if err := CheckRegistry(name); err != nil {
			t.Error(err)
		}
		if err := CheckReference(name + "/paddock@" + digest); err != nil {
			t.Error(err)
		}
	}
	for name, want := range map[string]string{
		"https://registry.example/paddock": "in lower case, such as registry.example:5000/paddock: leave out https://",
		"registry.example/paddock/":        ": leave out the slash at the end",
		"registry.example/Paddock":         ": it has upper case letters",
		"Registry.example/paddock":         ": it has upper case letters",
		"":                                 `REGISTRY "": expected a registry`,
		"registry":                         "expected a registry",
		"team/paddock":                     "expected a registry",
		"registry.example//paddock":        "expected a registry",
		"registry.example/a b":             "expected a registry",
		"registry.example/paddock:v1":      "expected a registry",
		"registry.example/-paddock":        "expected a registry",
		"registry.example/pad---_dock":     "expected a registry",
		"registry.example:port/paddock":    "expected a registry",
		"registry.example/a\n":             "expected a registry",
		"-registry.example":                "expected a registry",
		"r.example/" + strings.Repeat("a", longestRegistry): "expected at most 237",
	} {
		if err := CheckRegistry(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
}

func TestCheckReference(t *testing.T) {
	for _, image := range []string{"", "registry.example/paddock:v1", "registry.example/paddock@sha256:0", "https://registry.example/paddock@" + digest, "registry.example@" + digest, "registry.example/paddock@" + strings.ToUpper(digest)} {
		if err := CheckReference(image); err == nil || !strings.Contains(err.Error(), "expected a registry, a name and a digest") {
			t.Errorf("%q: %v", image, err)
		}
	}
}
