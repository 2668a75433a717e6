package inputs

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/notice"
	"github.com/paddock-project/paddock/internal/node/quiet"
)

// TestAnnotationsAreKnown checks that no annotation of Paddock is suspect, and that each is
// proposed in place of a key that has one letter more.
func TestAnnotationsAreKnown(t *testing.T) {
	for _, key := range []string{
		podspec.MovesAnnotation, podspec.QuietAnnotation, podspec.PredictionAnnotation, request.SharedPoolAnnotation, request.SharedPoolCacheAnnotation,
		request.CacheAnnotationPrefix + "worker", handover.Annotation, notice.Annotation, quiet.AskFrequency + "/worker",
	} {
		if odd := podspec.Misspelt([]string{key}); len(odd) > 0 {
			t.Errorf("%s is suspect: %s", key, odd)
		}
		prefix, name, _ := strings.Cut(key, "/")
		wrong := prefix + "x/" + name
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{wrong: "x"}}}
		if _, odd := suspect(pod, nil); !slices.ContainsFunc(odd, func(text string) bool { return strings.HasSuffix(text, "; did you mean "+key+"?") }) {
			t.Errorf("%s: %q", wrong, odd)
		}
	}
}
