package authorizer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/paddock-project/paddock/internal/base/authorizer"
)

var (
	errForbidden = fmt.Errorf("node n7: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n7", errors.New("no right")))
	errRefused   = errors.New("connection refused")
)

// TestJudge plays answers, one second apart: "." is allowed, "x" is no answer and "f" is forbidden.
// The result has "s" where the API server is starting, and "F" where a permission is missing.
func TestJudge(t *testing.T) {
	n := int(authorizer.Grace / time.Second)
	longest := int(authorizer.Longest / time.Second)
	f, s := func(n int) string { return strings.Repeat("f", n) }, func(n int) string { return strings.Repeat("s", n) }
	for name, c := range map[string]struct{ answers, want string }{
		"after a restart":       {"..xx" + f(n-1) + "..", "..xx" + s(n-1) + ".."},
		"at the first request":  {f(n-1) + ".", s(n-1) + "."},
		"for ever":              {"." + f(n+3), "." + s(n) + "FFF"},
		"and then it is there":  {f(n+2) + ".f", s(n) + "FF.s"},
		"alternates":            {strings.Repeat("f.", longest), strings.Repeat("s.", longest)},
		"restarts twice":        {"xx" + f(n-1) + "x" + f(n-1) + ".", "xx" + s(n-1) + "x" + s(n-1) + "."},
		"keeps restarting":      {strings.Repeat("xf", longest), strings.Repeat("xs", longest/2) + strings.Repeat("xF", longest-longest/2)},
		"away for a long time":  {strings.Repeat("x", longest) + "ff.", strings.Repeat("x", longest) + "ss."},
		"of a few, for minutes": {"." + f(n) + "." + f(n) + ".", "." + s(n) + "." + s(n) + "."},
	} {
		var w authorizer.Watch
		var got strings.Builder
		for i, a := range c.answers {
			err := map[rune]error{'x': errRefused, 'f': errForbidden}[a]
			judged := w.Judge(err, time.Unix(1000+int64(i), 0))
			switch {
			case authorizer.IsStarting(judged):
				got.WriteByte('s')
				if !errors.Is(judged, errForbidden) || strings.Contains(judged.Error(), "forbidden") {
					t.Errorf("%s: the error is %v", name, judged)
				}
			case judged == nil:
				got.WriteByte('.')
			case apierrors.IsForbidden(judged):
				got.WriteByte('F')
			default:
				got.WriteByte('x')
			}
		}
		if got.String() != c.want {
			t.Errorf("%s: %s, want %s", name, got.String(), c.want)
		}
	}
}

func TestUnready(t *testing.T) {
	for code, starting := range map[int]bool{0: false, 200: false, 403: false, 404: false, 500: true, 503: true} {
		if err := authorizer.Unready(errForbidden, code); authorizer.IsStarting(err) != starting || !errors.Is(err, errForbidden) || starting && !strings.Contains(err.Error(), fmt.Sprint("/readyz with ", code)) {
			t.Errorf("/readyz answers %d: %v", code, err)
		}
		if err := authorizer.Unready(errRefused, code); !errors.Is(err, errRefused) || authorizer.IsStarting(err) {
			t.Errorf("/readyz answers %d: %v", code, err)
		}
	}
}

func TestAnnounce(t *testing.T) {
	var w authorizer.Watch
	for i, want := range []bool{true, false, false, true, false} {
		if got := w.Announce(time.Unix(1000, 0).Add(time.Duration(i) * authorizer.Longest * 2 / 5)); got != want {
			t.Errorf("%d: %v, want %v", i, got, want)
		}
	}
}
