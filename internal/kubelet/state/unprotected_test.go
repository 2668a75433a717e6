package state_test

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// TestUnprotected checks that content counts as protected only if a valid checksum covers it.
func TestUnprotected(t *testing.T) {
	c := &kubeletstate.CPU{
		Policy: "static", Default: "0", Entries: map[string]map[string]string{"a": {"c": "1-2"}},
	}
	pooled := *c
	pooled.Pools = map[string]cpuset.Set{"a": cpuset.Of(1, 2)}
	text := func(c *kubeletstate.CPU, v kubeletstate.Version) string {
		data, err := kubeletstate.EncodeCPU(c, v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, c := range map[string]struct {
		text, want string
		version    kubeletstate.Version
	}{
		"V2":                        {text(c, 2), "", 2},
		"V3":                        {text(&pooled, 3), "", 3},
		"V4":                        {text(&pooled, 4), "", 4},
		"V2 without":                {strings.Replace(text(c, 2), `"checksum"`, `"chucksum"`, 1), "it has no checksum", 2},
		"V3 without":                {strings.Replace(text(&pooled, 3), `"checksum"`, `"chucksum"`, 1), "it has no checksum", 3},
		"V3 changed":                {strings.Replace(text(&pooled, 3), `"c":"1-2"`, `"c":"1-3"`, 1), "its checksum is ", 3},
		"V4, older part changed":    {strings.Replace(text(&pooled, 4), `"c":"1-2"`, `"c":"1-3"`, 1), "", 4},
		"V4, data changed":          {strings.Replace(text(&pooled, 4), `\"c\":\"1-2\"`, `\"c\":\"1-3\"`, 1), "its dataChecksum is ", 4},
		"V4, data under other name": {strings.Replace(text(&pooled, 4), `"data"`, `"dat"`, 1), "its dataChecksum is ", 4},
	} {
		f, err := kubeletstate.Recognise([]byte(c.text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := f.Unprotected(); f.Version != c.version || (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, %q; want %s, %q", name, f.Version, got, c.version, c.want)
		}
	}
}
