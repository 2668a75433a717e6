package podspec_test

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/podspec"
)

func TestMisspelt(t *testing.T) {
	for key, want := range map[string]string{
		"paddock-project.github.io/moves":                      "",
		"paddock-project.github.io/notice":                     "",
		"cache.paddock-project.github.io/worker":               "",
		"cpu-frequency.paddock-project.github.io":              "",
		"cpu-frequency.paddock-project.github.io/worker":       "",
		"paddock-project.github.io/move":                       "has no effect; did you mean paddock-project.github.io/moves?",
		"paddock-project.github.io/shared_pool":                "did you mean paddock-project.github.io/shared-pool?",
		"paddock-project.github.io/SharedPool":                 "did you mean paddock-project.github.io/shared-pool?",
		"paddock-project.github.io/leave-alone":                "has no effect: Paddock does not know it",
		"paddock.io/moves":                                     "did you mean paddock-project.github.io/moves?",
		"paddock/shared-pool":                                  "did you mean paddock-project.github.io/shared-pool?",
		"padock-project.github.io/moves":                       "did you mean paddock-project.github.io/moves?",
		"paddok-project.github.io/moves":                       "did you mean paddock-project.github.io/moves?",
		"cache.paddock.io/worker":                              "did you mean cache.paddock-project.github.io/worker?",
		"caches.paddock-project.github.io/worker":              "did you mean cache.paddock-project.github.io/worker?",
		"cpu-freqency.paddock-project.github.io/worker":        "did you mean cpu-frequency.paddock-project.github.io/worker?",
		"paddock-project.github.io/" + strings.Repeat("x", 63): "Paddock does not know it",
		"paddock.example.com/color":                            "",
		"example.com/moves":                                    "",
		"moves":                                                "",
		"":                                                     "",
		"paddock":                                              "",
	} {
		got := podspec.Misspelt([]string{key})
		if len(got) > 1 || (len(got) == 0) != (want == "") || want != "" && !strings.Contains(got[0], want) {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	var many []string
	for _, letter := range strings.Split("abcdefghij", "") {
		many = append(many, "paddock-project.github.io/"+strings.Repeat(letter, 20))
	}
	if got := podspec.Misspelt(many); len(got) != 5 {
		t.Errorf("%d sentences, want 5", len(got))
	}
}
