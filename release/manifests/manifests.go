// Package manifests makes what is applied to a cluster: manifests and a Helm chart that name the
// images of a release by their digests. A tag can be moved to another image, a digest cannot.
package manifests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// development is the registry in the manifests of the development tree, and tag the tag there.
const (
	development = "localhost/"
	tag         = ":dev"
)

// Image is an image of a release.
type Image struct {
	// Name is the last part of its name, such as paddock-scheduler.
	Name string
	// Repository is its name without a tag, such as registry.example/paddock-scheduler.
	Repository string
	// Digest is the digest of its index, such as sha256:0123….
	Digest string
}

// kustomizations are the directories below deploy, and the file that is made of each.
var kustomizations = []struct{ dir, file string }{
	{"base", "paddock.yaml"}, {"scheduler", "paddock-scheduler.yaml"}, {"quiet", "paddock-quiet.yaml"}, {"fleet", "paddock-fleet.yaml"},
}

// Write writes a manifest for each kustomization of a source tree to a directory, one with the
// CustomResourceDefinitions alone, and one with the namespace alone, which the chart needs first. It
// writes a temporary file into the tree.
func Write(source, dir string, images []Image) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, k := range kustomizations {
		text, err := render(filepath.Join(source, "deploy"), k.dir, images)
		if err != nil {
			return fmt.Errorf("deploy/%s: %w", k.dir, err)
		}
		if strings.Contains(string(text), tag+"\n") {
			return fmt.Errorf("deploy/%s has an image of the development tree: add it to the images of a release", k.dir)
		}
		if err := os.WriteFile(filepath.Join(dir, k.file), text, 0o644); err != nil {
			return err
		}
	}
	namespace, err := os.ReadFile(filepath.Join(source, "deploy", "base", "namespace.yaml"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "namespace.yaml"), namespace, 0o644)
	}
	if err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(source, "deploy", "base", "crds", "*.yaml"))
	if err != nil || len(names) == 0 {
		return errors.Join(errors.New("deploy/base/crds has no CustomResourceDefinitions"), err)
	}
	var all []string
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		all = append(all, strings.TrimPrefix(string(text), "---\n"))
	}
	return os.WriteFile(filepath.Join(dir, "crds.yaml"), []byte(strings.Join(all, "---\n")), 0o644)
}

// render builds a kustomization with the images of a release.
func render(deploy, dir string, images []Image) (text []byte, err error) {
	overlay, err := os.MkdirTemp(deploy, "release-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(overlay)) }()
	k := types.Kustomization{Resources: []string{"../" + dir}}
	for _, i := range images {
		k.Images = append(k.Images, types.Image{Name: development + i.Name, NewName: i.Repository, Digest: i.Digest})
	}
	text, err = yaml.Marshal(k)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), text, 0o644); err != nil {
		return nil, err
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), overlay)
	if err != nil {
		return nil, err
	}
	return made.AsYaml()
}

// Images returns the images that a manifest names, in order, each once.
func Images(manifest []byte) []string {
	var all []string
	for line := range strings.Lines(string(manifest)) {
		if _, image, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "- "), "image: "); ok && !strings.Contains(image, " ") {
			all = append(all, strings.Trim(image, `"`))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
