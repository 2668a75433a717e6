package manifests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/internal/codec/podspec"
)

// TestDirectoryThatCannotBeListed: if it could never be listed, its pods are unknown. Later its
// earlier pods are kept.
func TestDirectoryThatCannotBeListed(t *testing.T) {
	r := &root{path: "pods"}
	denied := glance{kind: directory, err: errors.New("open pods: permission denied")}
	for _, c := range []struct {
		glance glance
		want   string
	}{
		{denied, "!pods partial"},
		{glance{kind: directory, found: []found{{path: "pods/a.yaml", sum: [32]byte{1}, data: []byte(pod("a"))}}}, "a"},
		{denied, "a !pods+1"},
		{glance{kind: directory}, ""},
		{denied, "!pods"},
	} {
		r.absorb(c.glance, podspec.Gates{})
		if got := summary(".", collect([]*root{r}, nil)); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// TestTooManyPods: all files together have the same limit of pods as one file.
func TestTooManyPods(t *testing.T) {
	pods := make([]podspec.Source, podspec.MaxPods+2)
	for i := range pods {
		name := fmt.Sprint("p", i)
		pods[i].Pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	}
	var set Set
	err := (census{uids: map[string]podspec.Origin{}, names: map[string]podspec.Origin{}}).admit(&set, pods)
	if len(set.Pods) != podspec.MaxPods || err == nil || !strings.Contains(err.Error(), "more than 10000 pods") || !strings.HasSuffix(err.Error(), "1 more pods of this file are ignored too") {
		t.Errorf("%d pods, error %v", len(set.Pods), err)
	}
}

// TestErrorsOfReplicasAreFew: the same error of a thousand replicas is not repeated a thousand
// times.
func TestErrorsOfReplicasAreFew(t *testing.T) {
	var errs []error
	for i := range 1000 {
		errs = append(errs, fmt.Errorf("replica %d", i))
	}
	if got := few(errs).Error(); strings.Count(got, "\n") != 5 || !strings.HasSuffix(got, "and 995 more pods") {
		t.Errorf("got %q", got)
	}
}

// TestFollow: a watch begins again if a directory was replaced or the watch failed, and otherwise
// stays. A link and the directory to which it leads are one place.
func TestFollow(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	begun, stopped := 0, 0
	var failure error
	w := watch{begin: func([]place) (<-chan struct{}, func(), error) {
		begun++
		return nil, func() { stopped++ }, failure
	}}
	paths := []string{filepath.Join(dir, "pods"), filepath.Join(dir, "link")}
	for i, step := range []struct {
		do   func() error
		want int
	}{
		{func() error { return os.Symlink("pods", paths[1]) }, 1},
		{func() error { return os.Mkdir(paths[0], 0o700) }, 2},
		{func() error { return os.WriteFile(filepath.Join(paths[0], "a.yaml"), nil, 0o600) }, 2},
		{func() error {
			return errors.Join(os.Rename(paths[0], filepath.Join(dir, "old")), os.Mkdir(paths[0], 0o700))
		}, 3},
		{func() error { failure = errors.New("no watches left"); return os.RemoveAll(paths[0]) }, 4},
		{func() error { failure = nil; return nil }, 5},
		{func() error { return nil }, 5},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if w.follow(paths); begun != step.want || stopped != begun-1 {
			t.Errorf("step %d: begun %d times and stopped %d times, want %d", i, begun, stopped, step.want)
		}
	}
	if err := os.Mkdir(paths[0], 0o700); err != nil {
		t.Fatal(err)
	}
	places := placesOf(paths)
	if len(places) != 2 || places[0].dir != dir || places[1].dir != paths[0] || !places[1].every || len(places[0].names) != 2 {
		t.Errorf("places %+v", places)
	}
}
