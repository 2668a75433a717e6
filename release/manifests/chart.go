package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	yamlv3 "go.yaml.in/yaml/v3"
	"golang.org/x/mod/semver"

	"github.com/paddock-project/paddock/release/archive"
)

// Chart returns the archive of the chart of a source tree, as helm package makes it. files are its
// committed files, relative to the tree. The chart has the version without its "v", as Helm
// requires, appVersion with it, and the images by their digests. The times of all files are at.
func Chart(source string, files []string, version string, images []Image, at time.Time) ([]byte, error) {
	const below = "deploy/chart/"
	packed := make([]archive.File, len(files))
	for i, name := range files {
		data, err := os.ReadFile(filepath.Join(source, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		relative := strings.TrimPrefix(name, below)
		switch relative {
		case "Chart.yaml":
			data, err = set(data, map[string]string{
				"version": strings.TrimPrefix(version, "v"), "appVersion": version,
				"annotations/artifacthub.io~1prerelease": strconv.Quote(strconv.FormatBool(semver.Prerelease(version) != "")),
			})
		case "values.yaml":
			data, err = pin(data, version, images)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		packed[i] = archive.File{Name: "paddock/" + relative, Data: data}
	}
	return archive.Pack(packed, at)
}

// pin sets the images in values.yaml: every object with a repository, a tag and a digest.
func pin(text []byte, version string, images []Image) ([]byte, error) {
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	pinned := map[string]bool{}
	var walk func(n *yamlv3.Node) error
	walk = func(n *yamlv3.Node) error {
		if repository := valueOf(n, "repository"); repository != nil && strings.HasPrefix(repository.Value, development) {
			of := imageOf(images, strings.TrimPrefix(repository.Value, development))
			digest, tag := valueOf(n, "digest"), valueOf(n, "tag")
			if of == nil || digest == nil || tag == nil {
				return fmt.Errorf("line %d: the image %s: expected an image of the release, with a tag and a digest", n.Line, repository.Value)
			}
			pinned[of.Name] = true
			for node, value := range map[*yamlv3.Node]string{repository: of.Repository, tag: version, digest: of.Digest} {
				if err := replace(lines, node, value); err != nil {
					return err
				}
			}
		}
		for _, c := range n.Content {
			if err := walk(c); err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk(&document); err != nil {
		return nil, err
	}
	for _, i := range images {
		if !pinned[i.Name] {
			return nil, fmt.Errorf("there is no image %s%s: expected every image of the release", development, i.Name)
		}
	}
	return []byte(strings.Join(lines, "\n")), nil
}

func imageOf(images []Image, name string) *Image {
	for i := range images {
		if images[i].Name == name {
			return &images[i]
		}
	}
	return nil
}

// set sets fields of a document. Their names are paths, as in a JSON pointer: "~1" is a slash in a key.
func set(text []byte, values map[string]string) ([]byte, error) {
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	for name, value := range values {
		node := document.Content[0]
		for key := range strings.SplitSeq(name, "/") {
			node = child(node, strings.ReplaceAll(key, "~1", "/"))
		}
		if node == nil || node.Kind != yamlv3.ScalarNode {
			return nil, fmt.Errorf("there is no field %s with one value", name)
		}
		if err := replace(lines, node, value); err != nil {
			return nil, err
		}
	}
	return []byte(strings.Join(lines, "\n")), nil
}

// valueOf returns the value of a key, if it is a scalar.
func valueOf(n *yamlv3.Node, key string) *yamlv3.Node {
	if value := child(n, key); value != nil && value.Kind == yamlv3.ScalarNode {
		return value
	}
	return nil
}

// child returns the value of a key, or nil.
func child(n *yamlv3.Node, key string) *yamlv3.Node {
	if n == nil || n.Kind != yamlv3.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// replace writes a value in place of a scalar, which reaches to the end of its line. Everything else
// stays, comments too.
func replace(lines []string, node *yamlv3.Node, value string) error {
	line := &lines[node.Line-1]
	if node.LineComment != "" {
		return fmt.Errorf("line %d: expected no comment after a value that the release sets", node.Line)
	}
	*line = (*line)[:node.Column-1] + value
	return nil
}
