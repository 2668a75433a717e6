package collect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/codec/podspec"
)

// TestCachesAreCollected checks that what a pod asks of the caches is collected, with and without a
// key, and gives the same request. An annotation that cannot be read stays one, without its text.
func TestCachesAreCollected(t *testing.T) {
	pod := &v1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "u", Annotations: map[string]string{
		"cache.paddock-project.github.io/main":        "l3=4ways,mb=20%",
		"paddock-project.github.io/shared-pool-cache": "l3=30%",
		"example.com/" + secret:                       secret,
	}}}
	pod.Spec.Containers = []v1.Container{{Name: "main"}}
	for _, key := range [][]byte{nil, testKey} {
		text, notes := filtered(t, Filter{Key: key}, pod)
		sources, _, err := podspec.Read("pod", []byte(text))
		if err != nil || len(sources) != 1 || len(notes) > 0 {
			t.Fatalf("%v, %v\n%s", err, notes, text)
		}
		got := sources[0].Pod.Annotations
		want := map[string]string{"cache.paddock-project.github.io/main": "l3=4ways,mb=20%", "paddock-project.github.io/shared-pool-cache": "l3=30%"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	pod.Annotations = map[string]string{"cache.paddock-project.github.io/main": "l3=" + secret}
	text, _ := filtered(t, Filter{}, pod)
	if strings.Contains(text, secret) || !strings.Contains(text, `"cache.paddock-project.github.io/main": "unreadable"`) {
		t.Errorf("collected\n%s", text)
	}
}
