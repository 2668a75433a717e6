package licenses

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPrograms checks that every module that is linked into a program of a release has a license
// that is known and allowed.
func TestPrograms(t *testing.T) {
	for _, p := range []Program{
		{"paddock", "../../..", "./cmd/paddock", []string{"linux/amd64", "darwin/arm64"}},
		{"paddock-agent", "../../..", "./cmd/paddock-agent", []string{"linux/amd64"}},
		{"paddock-quiet", "../../..", "./cmd/paddock-quiet", []string{"linux/amd64"}},
		{"paddock-scheduler", "../../../scheduler", "./cmd/paddock-scheduler", []string{"linux/amd64"}},
	} {
		all, err := Of(t.Context(), p, nil)
		if err != nil {
			t.Error(err)
		}
		if len(all) < 10 {
			t.Errorf("%s links %d modules", p.Name, len(all))
		}
		text := string(Text(p.Name, "v0.1.0", "own", "go1.26.8", all))
		for _, want := range []string{"google.golang.org/grpc", "stdlib", "THE SOFTWARE IS PROVIDED \"AS IS\"", "Copyright 2009 The Go Authors"} {
			if !strings.Contains(text, want) {
				t.Errorf("the licenses of %s do not have %q", p.Name, want)
			}
		}
	}
}

// TestOwnLicense checks that the license of this repository is the one that its images and bills of
// materials name.
func TestOwnLicense(t *testing.T) {
	text, err := os.ReadFile("../../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	m := Module{files: map[string]string{"LICENSE": string(text)}}
	if err := m.identify(); err != nil || m.Expression() != "Apache-2.0" {
		t.Errorf("%q, %v", m.Expression(), err)
	}
}

// TestAllowedIsDocumented checks that the policy in docs/release.md has each license that is allowed.
func TestAllowedIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/release.md")
	if err != nil {
		t.Fatal(err)
	}
	_, policy, _ := strings.Cut(string(page), "\n## Licenses\n")
	policy, _, _ = strings.Cut(policy, "\n## ")
	documented := map[string]bool{}
	for line := range strings.Lines(policy) {
		if names, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | yes: "); ok {
			for name := range strings.SplitSeq(names, ", ") {
				documented[name] = true
			}
		}
	}
	for _, name := range allowed {
		if !documented[name] {
			t.Errorf("docs/release.md does not have %s", name)
		}
	}
	if len(documented) != len(allowed) {
		t.Errorf("docs/release.md has %d licenses that may be linked, and the list %d", len(documented), len(allowed))
	}
}

const gpl = `This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as
published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.

This program is distributed in the hope that it will be useful, but WITHOUT ANY WARRANTY; without even the implied warranty of
MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE. See the GNU General Public License for more details.

You should have received a copy of the GNU General Public License along with this program. If not, see <https://www.gnu.org/licenses/>.
`

// TestIdentify checks licenses that are not known, not allowed or not there.
func TestIdentify(t *testing.T) {
	mit, err := os.ReadFile(filepath.Join("testdata", "mit.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		files map[string]string
		want  string
	}{
		{map[string]string{"LICENSE": string(mit)}, ""},
		{map[string]string{"LICENSE.md": string(mit), "third_party/LICENSE": "You may use this on Sundays."}, "third_party/LICENSE is not a license that is known"},
		{map[string]string{"COPYING": gpl}, "COPYING is under GPL-3.0-or-later: not in the list"},
		{map[string]string{"NOTICE": "This is by A."}, "it has no file with a license"},
		{nil, "it has no file with a license"},
	} {
		m := Module{Path: "example.org/m", files: c.files}
		err := m.identify()
		if c.want == "" && (err != nil || len(m.IDs) != 1 || m.IDs[0] != "MIT") {
			t.Errorf("%v: %v, %q", c.files, err, m.IDs)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %s", c.files, err, c.want)
		}
	}
}
