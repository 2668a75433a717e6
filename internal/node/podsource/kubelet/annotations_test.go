package kubelet

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/podspec"
)

// TestCacheAnnotations reads annotations about caches, however their names are written. Other
// annotations are not kept, and a value that is too long to be read is cut.
func TestCacheAnnotations(t *testing.T) {
	long := strings.Repeat("x", 1<<18)
	for _, c := range []struct {
		text string
		want map[string]string
	}{
		{`{"cache.paddock-project.github.io/one":"l3=1way","other":"x"}`, map[string]string{"cache.paddock-project.github.io/one": "l3=1way"}},
		{`{"cache.paddock-project.github.io\/one":"l3=1way"}`, map[string]string{"cache.paddock-project.github.io/one": "l3=1way"}},
		{`{"\u0063ache.paddock-project.github.io/one":"\u006c3=1way"}`, map[string]string{"cache.paddock-project.github.io/one": "l3=1way"}},
		{`{"paddock-project.github.io\u002fshared-pool-cache":"mb=10%"}`, map[string]string{"paddock-project.github.io/shared-pool-cache": "mb=10%"}},
		{`{"Cache.paddock-project.github.io/one":"l3=1way"}`, nil},
		{`{"cache.paddock-project.github.io/one":null}`, map[string]string{"cache.paddock-project.github.io/one": ""}},
		{`{"cache.paddock-project.github.io/one":"` + long + `"}`, map[string]string{"cache.paddock-project.github.io/one": long[:podspec.CacheText+1]}},
		{`{"other":"\u003cb\u003e"}`, nil},
		{`null`, nil},
	} {
		var a annotations
		if err := json.Unmarshal([]byte(c.text), &a); err != nil || !maps.Equal(a.caches, c.want) {
			t.Errorf("%.100s: got %v, %v, want %v", c.text, a.caches, err, c.want)
		}
	}
	for _, text := range []string{
		`{"cache.paddock-project.github.io/one":1}`,
		`{"cache.paddock-project.github.io/one":"l3=1way","cache.paddock-project.github.io/one":"l3=2ways"}`,
		`{"kubernetes.io/config.source":"api","kubernetes.io/config.source":"file"}`,
	} {
		var a annotations
		if err := json.Unmarshal([]byte(text), &a); err == nil {
			t.Errorf("%s is read as %v", text, a)
		}
	}
}

// TestAnnotationsOfOtherNames checks that names that differ in case are others: users may set them,
// and kubernetes.io/config.source says that a pod is a static one.
func TestAnnotationsOfOtherNames(t *testing.T) {
	var a annotations
	text := `{"kubernetes.io/config.source":"api","kubernetes.io/config.Source":"file","paddock-project.github.io/Moves":"anywhere","paddock-project.github.io/Grant":"x"}`
	if err := json.Unmarshal([]byte(text), &a); err != nil || a.Source != "api" || a.Moves != nil || a.Grant != "" {
		t.Errorf("got %+v, %v", a, err)
	}
}

func BenchmarkCacheAnnotations(b *testing.B) {
	all := map[string]string{}
	for i := range 3000 { // 256 KiB, the most of a pod
		all[fmt.Sprintf("cache.paddock-project.github.io/container-%d", i)] = "l3=10ways,mb=100%"
	}
	data, err := json.Marshal(all)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var a annotations
		if err := json.Unmarshal(data, &a); err != nil {
			b.Fatal(err)
		}
	}
}
