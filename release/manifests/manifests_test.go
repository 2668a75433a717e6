package manifests

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/release/archive"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// images are those of a release.
func images() []Image {
	var all []Image
	for _, name := range []string{"paddock", "paddock-scheduler", "paddock-quiet"} {
		all = append(all, Image{name, "registry.example/team/" + name, digest})
	}
	return all
}

// tree copies deploy/ of this repository, because Write writes into it.
func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"base", "scheduler", "quiet", "fleet", "chart"} {
		if err := os.CopyFS(filepath.Join(dir, "deploy", name), os.DirFS(filepath.Join("..", "..", "deploy", name))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestWrite checks that every image in the manifests is pinned, and that nothing else differs from
// what the kustomizations of the tree give.
func TestWrite(t *testing.T) {
	source, out, again := tree(t), t.TempDir(), t.TempDir()
	for _, dir := range []string{out, again} {
		if err := Write(source, dir, images()); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range kustomizations {
		text, err := os.ReadFile(filepath.Join(out, k.file))
		if err != nil {
			t.Fatal(err)
		}
		if same, err := os.ReadFile(filepath.Join(again, k.file)); err != nil || !bytes.Equal(same, text) {
			t.Errorf("%s is another one the second time: %v", k.file, err)
		}
		found := Images(text)
		if len(found) == 0 {
			t.Errorf("%s has no image", k.file)
		}
		back := string(text)
		for _, image := range found {
			if !strings.HasSuffix(image, "@"+digest) {
				t.Errorf("%s has the image %s", k.file, image)
			}
			name := image[strings.LastIndex(image, "/")+1 : strings.LastIndex(image, "@")]
			back = strings.ReplaceAll(back, image, "localhost/"+name+":dev")
		}
		plain, err := render(filepath.Join(source, "deploy"), k.dir, nil)
		if err != nil || back != string(plain) {
			t.Errorf("%s differs from deploy/%s in more than the images (%v)", k.file, k.dir, err)
		}
	}
	crds, err := os.ReadFile(filepath.Join(out, "crds.yaml"))
	if n := strings.Count(string(crds), "\nkind: CustomResourceDefinition\n"); err != nil || n != 2 {
		t.Errorf("%d CustomResourceDefinitions, %v", n, err)
	}
	if namespace, err := os.ReadFile(filepath.Join(out, "namespace.yaml")); err != nil || !strings.Contains(string(namespace), "pod-security.kubernetes.io/enforce: privileged") {
		t.Errorf("the namespace is %s, %v", namespace, err)
	}
	if err := Write(source, out, images()[:1]); err == nil || !strings.Contains(err.Error(), "deploy/scheduler has an image of the development tree") {
		t.Errorf("an image that is not pinned: %v", err)
	}
}

// TestChartVersion checks the versions of the chart of a release, of a candidate, and of the
// development tree, which sorts before every release.
func TestChartVersion(t *testing.T) {
	type chart struct {
		Name, Version, AppVersion string
		Annotations               map[string]string
	}
	read := func(text []byte) (c chart) {
		t.Helper()
		if err := yaml.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	source := tree(t)
	for version, prerelease := range map[string]string{"v0.3.0": "false", "v0.3.0-rc.1": "true"} {
		packed, err := Chart(source, []string{"deploy/chart/Chart.yaml", "deploy/chart/values.yaml"}, version, images(), time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		text, err := archive.Member(packed, "paddock/Chart.yaml")
		if err != nil {
			t.Fatal(err)
		}
		c := read(text)
		if c.Name != "paddock" || "v"+c.Version != version || c.AppVersion != version || c.Annotations["artifacthub.io/prerelease"] != prerelease {
			t.Errorf("%s: %+v", version, c)
		}
	}
	text, err := os.ReadFile(filepath.Join(source, "deploy", "chart", "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if c := read(text); semver.Compare("v"+c.Version, "v0.0.0") >= 0 || !semver.IsValid("v"+c.Version) || c.AppVersion != strings.TrimPrefix(tag, ":") || c.Annotations["artifacthub.io/prerelease"] != "true" {
		t.Errorf("the development tree: %+v", c)
	}
	if _, err := set([]byte("version: {a: 1}\n"), map[string]string{"version": "1"}); err == nil || !strings.Contains(err.Error(), "there is no field version with one value") {
		t.Errorf("a field of another form: %v", err)
	}
}

// TestChart checks the pinned images, and that the rest of the chart is that of the tree, with its
// comments.
func TestChart(t *testing.T) {
	source := tree(t)
	names := []string{"deploy/chart/Chart.yaml", "deploy/chart/templates/daemonset.yaml", "deploy/chart/values.yaml"}
	packed, err := Chart(source, names, "v0.3.0", images(), time.Unix(1_700_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	member := func(name string) []byte {
		t.Helper()
		data, err := archive.Member(packed, name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	type image struct{ Repository, Tag, Digest string }
	var values struct {
		Image            image
		Scheduler, Quiet struct{ Image image }
	}
	if err := yaml.Unmarshal(member("paddock/values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]image{"paddock": values.Image, "paddock-scheduler": values.Scheduler.Image, "paddock-quiet": values.Quiet.Image} {
		if want := (image{"registry.example/team/" + name, "v0.3.0", digest}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	before, err := os.ReadFile(filepath.Join(source, names[2]))
	if err != nil {
		t.Fatal(err)
	}
	one, other := strings.Split(string(before), "\n"), strings.Split(string(member("paddock/values.yaml")), "\n")
	if len(one) != len(other) {
		t.Fatalf("values.yaml has %d lines, before %d", len(other), len(one))
	}
	changed := 0
	for i := range one {
		if one[i] != other[i] {
			changed++
		}
	}
	if changed != 9 {
		t.Errorf("%d lines of values.yaml differ, want 9", changed)
	}
	if _, err := Chart(source, names, "v0.3.0", images()[:2], time.Unix(0, 0)); err == nil || !strings.Contains(err.Error(), "localhost/paddock-quiet: expected an image of the release") {
		t.Errorf("an image that is not pinned: %v", err)
	}
}

func TestImages(t *testing.T) {
	const text = "a:\n  - image: b/c@sha256:1\n  - name: x\n    image: \"a/b:1\"\n    image: b/c@sha256:1\n# the image: is pulled\n"
	if got, want := Images([]byte(text)), []string{"a/b:1", "b/c@sha256:1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
