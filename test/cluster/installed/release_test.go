package installed

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// release is the folder of a release. With it, the tests install its manifests in place of the
// kustomizations, and run the scheduler of its image.
var release = flag.String("release", "", "the folder of a release, as make release makes it, to install in place of deploy/")

// applyRelease applies the manifests of a release, and checks that every image is named by digest.
func (c *cluster) applyRelease() {
	c.Helper()
	for _, file := range []string{"crds.yaml", scheduler + ".yaml", "paddock-quiet.yaml", "paddock-fleet.yaml"} {
		c.kubectl("apply", "-f", filepath.Join(*release, "manifests", file))
	}
	images := c.kubectl("-n", "paddock", "get", "daemonsets,deployments", "-o", `jsonpath={range .items[*]}{.spec.template.spec.containers[0].image}{"\n"}{end}`)
	if n := strings.Count(images, "@sha256:"); n != 5 {
		c.Errorf("%d images by digest, want 5:\n%s", n, images)
	}
}

// pull writes the scheduler of the image that its Deployment names, by digest, as a node would have
// it from a registry with the image of the release.
func (c *cluster) pull() {
	c.Helper()
	deployment, err := c.client.AppsV1().Deployments("paddock").Get(c.Context(), scheduler, metav1.GetOptions{})
	c.must(err)
	image := deployment.Spec.Template.Spec.Containers[0].Image
	_, digest, ok := strings.Cut(image, "@")
	if !ok {
		c.Fatalf("the Deployment has the image %s: expected a digest", image)
	}
	archives, err := filepath.Glob(filepath.Join(*release, "images", scheduler+"-v*.tar"))
	if err != nil || len(archives) != 1 {
		c.Fatalf("%d images of %s in the release: %v", len(archives), scheduler, err)
	}
	blobs, err := readBlobs(archives[0])
	c.must(err)
	program, err := blobs.program(digest, scheduler)
	c.must(err)
	c.scheduler = filepath.Join(c.dir, scheduler)
	c.must(os.WriteFile(c.scheduler, program, 0o700))
}

// blobs are the contents of an OCI archive by their digests.
type blobs map[string][]byte

func readBlobs(name string) (blobs, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all := blobs{}
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if digest, ok := strings.CutPrefix(header.Name, "blobs/sha256/"); ok {
			if all["sha256:"+digest], err = io.ReadAll(r); err != nil {
				return nil, err
			}
		}
	}
}

// program returns the file of an image for this machine.
func (b blobs) program(digest, name string) ([]byte, error) {
	var index struct {
		Manifests []struct {
			Digest   string
			Platform struct{ OS, Architecture string }
		}
	}
	if err := json.Unmarshal(b[digest], &index); err != nil {
		return nil, fmt.Errorf("the archive has no index %s: %w", digest, err)
	}
	for _, m := range index.Manifests {
		if m.Platform.OS != "linux" || m.Platform.Architecture != runtime.GOARCH {
			continue
		}
		var image struct{ Layers []struct{ Digest string } }
		if err := json.Unmarshal(b[m.Digest], &image); err != nil || len(image.Layers) != 1 {
			return nil, fmt.Errorf("the image %s has %d layers, expected 1 (error %v)", m.Digest, len(image.Layers), err)
		}
		plain, err := gzip.NewReader(bytes.NewReader(b[image.Layers[0].Digest]))
		if err != nil {
			return nil, err
		}
		layer := tar.NewReader(plain)
		header, err := layer.Next()
		if err != nil || header.Name != name {
			return nil, fmt.Errorf("the layer begins with %v, expected %s (error %v)", header, name, err)
		}
		return io.ReadAll(layer)
	}
	return nil, fmt.Errorf("the index %s has no image for linux/%s", digest, runtime.GOARCH)
}
