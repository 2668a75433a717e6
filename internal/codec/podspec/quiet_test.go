package podspec_test

import (
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/podspec"
)

func TestQuiet(t *testing.T) {
	if until, err := podspec.Quiet("2027-01-31T18:00:00+01:00"); err != nil || until.Unix() != 1801414800 {
		t.Error(until, err)
	}
	if until, err := podspec.Quiet(""); err != nil || !until.IsZero() {
		t.Error(until, err)
	}
	for _, text := range []string{"tomorrow", "18:00", "1801414800", strings.Repeat("x", 1<<20)} {
		if until, err := podspec.Quiet(text); err == nil || !until.IsZero() || len(err.Error()) > 300 || !strings.Contains(err.Error(), "expected a time such as") {
			t.Errorf("%.20q: %v, %v", text, until, err)
		}
	}
}
