package podspec_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/request"
)

// TestCachesOfManyContainers checks that the first error is reported, whatever the number of
// annotations and wherever the container is.
func TestCachesOfManyContainers(t *testing.T) {
	pod := manyCaches(2000)
	if err := podspec.Caches(pod); err != nil {
		t.Error(err)
	}
	pod.Annotations[request.CacheAnnotationPrefix+"other"] = "l3=1way"
	pod.Annotations[request.CacheAnnotationPrefix+"container-1999"] = "l3=0ways"
	want := `annotation cache.paddock-project.github.io/container-1999 is "l3=0ways": expected l3=4ways or l3=30%, and mb=20%, each at most once and separated by commas`
	if err := podspec.Caches(pod); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// BenchmarkCaches must grow with the number of containers, and not with its square: 5,000 took 89
// ms when every annotation was compared with every container.
func BenchmarkCaches(b *testing.B) {
	for _, n := range []int{10, 1000, 5000} {
		pod := manyCaches(n)
		b.Run(fmt.Sprintf("%d containers", n), func(b *testing.B) {
			for b.Loop() {
				if err := podspec.Caches(pod); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func manyCaches(n int) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
	for i := range n {
		name := fmt.Sprintf("container-%d", i)
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name})
		pod.Annotations[request.CacheAnnotationPrefix+name] = "l3=4ways,mb=20%"
	}
	return pod
}
