package build

import (
	"runtime/debug"
	"strings"
	"testing"
)

// TestVersion checks which of the two versions applies, and that a program without one has a word
// that cannot be taken for a version.
func TestVersion(t *testing.T) {
	tagged := &debug.BuildInfo{Main: debug.Module{Path: mainModule, Version: "v0.1.0"}}
	tree := &debug.BuildInfo{Main: debug.Module{Path: mainModule, Version: "(devel)"}}
	nested := &debug.BuildInfo{Main: debug.Module{Path: mainModule + "/scheduler", Version: "v0.0.0-20261128101112-0123456789ab"}}
	for _, c := range []struct {
		set  string
		info *debug.BuildInfo
		ok   bool
		want string
	}{
		{"", tagged, true, "v0.1.0"},
		{"v0.2.0", tagged, true, "v0.2.0"},
		{"v0.2.0", tree, true, "v0.2.0"},
		{"v0.2.0", nil, false, "v0.2.0"},
		{"", tree, true, "devel"},
		{"", nested, true, "devel"},
		{"v0.1.0", nested, true, "v0.1.0"},
		{"", &debug.BuildInfo{}, true, "devel"},
		{"", nil, false, "devel"},
	} {
		if got := versionOf(c.set, c.info, c.ok); got != c.want {
			t.Errorf("versionOf(%q, %v, %t) = %q, want %q", c.set, c.info, c.ok, got, c.want)
		}
	}
}

// TestUserAgent checks the form that Kubernetes' own programs use, because audit policies and
// metrics of API servers split it at the slash.
func TestUserAgent(t *testing.T) {
	got := UserAgent("paddock-agent")
	if want := "paddock-agent/" + Version() + " (" + Platform() + ")"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if name, rest, _ := strings.Cut(got, "/"); name != "paddock-agent" || rest == "" {
		t.Errorf("%q does not begin with the program", got)
	}
}
