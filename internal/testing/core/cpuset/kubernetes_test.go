package cpuset_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	k8s "k8s.io/utils/cpuset"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// ids draws ids of CPUs, among them neighbours, and ids on both sides of a word of the bit set.
func ids() *rapid.Generator[[]int] {
	return rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 7), rapid.IntRange(60, 68), rapid.IntRange(0, 300)), 0, 24)
}

func TestTextFormIsKubernetes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := cpuset.Of(ids().Draw(t, "ids")...).IDs()
		ours, theirs := cpuset.Of(ids...).String(), k8s.New(ids...).String()
		if ours != theirs {
			t.Fatalf("%v: we write %q, k8s.io/utils/cpuset %q", ids, ours, theirs)
		}
		if back, err := cpuset.Parse(theirs); err != nil || !slices.Equal(back.IDs(), ids) {
			t.Fatalf("%q reads as %q, %v", theirs, back, err)
		}
	})
}

// TestParseAgreesWithKubernetes checks that text that both parsers accept has the same meaning, and
// that Paddock rejects only signs and ids that are too large in addition to what Kubernetes
// rejects.
func TestParseAgreesWithKubernetes(t *testing.T) {
	element := rapid.Custom(func(t *rapid.T) string {
		n := strconv.Itoa(rapid.IntRange(0, 80).Draw(t, "n"))
		switch rapid.IntRange(0, 5).Draw(t, "form") {
		case 0:
			return n + "-" + strconv.Itoa(rapid.IntRange(0, 80).Draw(t, "to"))
		case 1:
			return rapid.StringOfN(rapid.SampledFrom([]rune("0123456789-+ ,x")), 0, 6, -1).Draw(t, "junk")
		}
		return n
	})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(element, 0, 6).Draw(t, "elements"), ",")
		if strings.Contains(text, "+") || slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' }),
			func(number string) bool { n, _ := strconv.Atoi(number); return n > cpuset.MaxID }) {
			return
		}
		ours, err := cpuset.Parse(text)
		theirs, theirErr := k8s.Parse(text)
		if (err == nil) != (theirErr == nil) {
			t.Fatalf("Parse(%q): ours %v, Kubernetes' %v", text, err, theirErr)
		}
		if err == nil && ours.String() != theirs.String() {
			t.Fatalf("Parse(%q): ours %q, Kubernetes' %q", text, ours, theirs)
		}
	})
}
