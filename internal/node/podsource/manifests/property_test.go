package manifests

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// version is the expected state of a file, according to a simple twin: its last good pods, and
// whether it is broken now.
type version struct {
	pods   []string
	broken bool
	known  bool // whether it was ever good
}

// TestHistories writes, breaks, renames and deletes files at random and looks now and then. The
// result of the source must be that of the twin, which uses no files and no hashes.
func TestHistories(t *testing.T) {
	base, runs := t.TempDir(), 0
	name := rapid.SampledFrom([]string{"a.yaml", "b.yaml", "c.yaml"})
	rapid.Check(t, func(t *rapid.T) {
		runs++
		dir := filepath.Join(base, strconv.Itoa(runs))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		s := New([]string{dir}, Options{})
		w := watch{begin: func([]place) (<-chan struct{}, func(), error) { return nil, func() {}, nil }}
		now := map[string][]string{} // the pods in each file; nil: broken
		last := map[string]version{}
		do := func(t *rapid.T, a act) {
			if err := a(dir); err != nil {
				t.Fatal(err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"good": func(t *rapid.T) {
				file := name.Draw(t, "file")
				pods := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"p", "q", "r", "s"}), 0, 3, rapid.ID).Draw(t, "pods")
				content := "# pods\n"
				for _, p := range pods {
					content += pod(p)
				}
				do(t, write(file, content))
				now[file] = append([]string{}, pods...)
			},
			"broken": func(t *rapid.T) {
				file := name.Draw(t, "file")
				do(t, write(file, rapid.SampledFrom([]string{"", "kind: [", pod("p") + invalid, pod("p") + pod("p")}).Draw(t, "content")))
				now[file] = nil
			},
			"delete": func(t *rapid.T) {
				file := name.Draw(t, "file")
				do(t, remove(file))
				delete(now, file)
			},
			"look": func(t *rapid.T) {
				for i, g := range s.look(&w).glances {
					s.roots[i].absorb(g, s.options.Gates)
				}
				last = twin(last, now)
				if got, want := summary(dir, collect(s.roots, nil)), expected(last); got != want {
					t.Fatalf("got  %s\nwant %s", got, want)
				}
			},
		})
	})
}

func twin(last map[string]version, now map[string][]string) map[string]version {
	next := map[string]version{}
	for file, pods := range now {
		if pods == nil {
			next[file] = version{last[file].pods, true, last[file].known}
			continue
		}
		next[file] = version{pods, false, true}
	}
	return next
}

func expected(files map[string]version) string {
	var pods, problems []string
	partial := false
	for _, file := range slices.Sorted(maps.Keys(files)) {
		v := files[file]
		if v.broken {
			problems = append(problems, "!"+file+strings.TrimSuffix("+"+string(rune('0'+len(v.pods))), "+0"))
		}
		partial = partial || !v.known
		before := len(pods)
		for _, p := range v.pods {
			if !slices.Contains(pods, p) {
				pods = append(pods, p)
			}
		}
		if len(pods)-before < len(v.pods) {
			problems = append(problems, "!"+file)
		}
	}
	words := slices.Concat(pods, problems)
	if partial {
		words = append(words, "partial")
	}
	return strings.Join(words, " ")
}

// BenchmarkLook measures a rescan of 200 files that did not change.
func BenchmarkLook(b *testing.B) {
	dir := b.TempDir()
	for i := range 200 {
		name := filepath.Join(dir, "pod-"+string(rune('a'+i%26))+string(rune('a'+i/26))+".yaml")
		if err := os.WriteFile(name, []byte(pod("a")), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	s := New([]string{dir}, Options{})
	w := watch{begin: notify}
	defer w.end()
	for b.Loop() {
		s.look(&w).digest()
	}
}
