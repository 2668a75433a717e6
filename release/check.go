package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/paddock-project/paddock/release/archive"
	"github.com/paddock-project/paddock/release/manifests"
	"github.com/paddock-project/paddock/release/repository"
	"github.com/paddock-project/paddock/release/seal"
	"github.com/paddock-project/paddock/release/vulnerabilities"
)

// checker checks a folder.
type checker struct {
	options
	folder *seal.Folder
	key    *ecdsa.PublicKey
	images map[string]string // their digests, by their names
	build  seal.Build
	stdout io.Writer
}

// check verifies a folder, uses it as others do, and builds it again. It stops at the first step that
// fails.
func check(ctx context.Context, o options, stdout io.Writer) error {
	if err := repository.CheckVersion(o.version); err != nil {
		return err
	}
	skipped, err := parseSkip(o.skip)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(cmp.Or(o.dir, filepath.Join(o.repository, "bin", "release", o.version)))
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, seal.SumsName)); err != nil {
		return fmt.Errorf("%s is not the folder of a release: make it with make release VERSION=%s: %w", dir, o.version, err)
	}
	c := &checker{options: o, stdout: stdout}
	if c.folder, err = seal.Open(dir); err != nil {
		return err
	}
	return c.all(ctx, skipped)
}

// skippable are the steps that can be left out, because they take minutes.
var skippable = []string{"cluster", "rebuild"}

func parseSkip(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	steps := strings.Split(text, ",")
	for i, s := range steps {
		s = strings.TrimSpace(s)
		steps[i] = s
		if !slices.Contains(skippable, s) {
			return nil, fmt.Errorf("step %q cannot be left out: expected %s", s, strings.Join(skippable, " or "))
		}
	}
	return steps, nil
}

// all runs the steps in order.
func (c *checker) all(ctx context.Context, skipped []string) error {
	for _, step := range []struct {
		name, short string
		run         func(context.Context) (string, error)
	}{
		{"checksums, signatures and provenance", "", c.verify},
		{"a changed byte is noticed", "", c.tamper},
		{"manifests and chart name the images", "", c.pinned},
		{"programs print the version", "", c.programs},
		{"every module has a license", "", c.licensed},
		{"vulnerabilities are recorded", "", c.vulnerable},
		{"go install from the folder", "", c.goInstall},
		{"predict's examples build outside", "", c.examples},
		{"the manifests run in a cluster", "cluster", c.cluster},
		{"the same bytes again", "rebuild", c.rebuild},
	} {
		begin := time.Now()
		if step.short != "" && slices.Contains(skipped, step.short) {
			if _, err := fmt.Fprintf(c.stdout, "%-38s left out\n", step.name); err != nil {
				return err
			}
			continue
		}
		text, err := step.run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if _, err := io.WriteString(c.stdout, line(step.name, time.Since(begin), text)); err != nil {
			return err
		}
	}
	return nil
}

// line describes a step that found nothing wrong. That no database of vulnerabilities was asked is
// nothing wrong, but no proof either.
func line(step string, took time.Duration, text string) string {
	verdict := "yes"
	if reason, ok := strings.CutPrefix(text, vulnerabilities.NotLookedUp); ok {
		verdict, text = strings.TrimRight(vulnerabilities.NotLookedUp, ": "), reason
	}
	return fmt.Sprintf("%-38s %s %7.1f s  %s\n", step, verdict, took.Seconds(), text)
}

// trusted returns the public key that the folder is verified with.
func (c *checker) trusted() (*ecdsa.PublicKey, error) {
	if c.publicKey == "" {
		return c.folder.PublicKey()
	}
	text, err := os.ReadFile(c.publicKey)
	if err != nil {
		return nil, err
	}
	return seal.ParsePublic(c.publicKey, text)
}

func (c *checker) verify(ctx context.Context) (string, error) {
	// First, because a file that lacks its end is not worth reading.
	err := c.folder.CheckSums()
	if err != nil {
		return "", err
	}
	if c.key, err = c.trusted(); err != nil {
		return "", err
	}
	// Before any other file is parsed.
	if err := c.folder.Trust(c.key); err != nil {
		return "", err
	}
	registry, err := c.findImages()
	if err != nil {
		return "", err
	}
	if c.build, err = c.folder.Verify(ctx, c.key, c.images); err != nil {
		return "", err
	}
	if c.build.Version != c.version || c.build.Registry != registry {
		return "", fmt.Errorf("the provenance is of %s for %s: expected %s for %s", c.build.Version, c.build.Registry, c.version, registry)
	}
	fingerprint, err := seal.Fingerprint(c.key)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%d files, %d images, commit %.12s, %s\n  signed with the key %s", len(c.folder.Names()), len(c.images), c.build.Commit, c.build.GoVersion, fingerprint)
	if c.publicKey == "" {
		text += ", which is in the folder and does not show who signed it"
	}
	return text, nil
}

// findImages reads the digests of the images, and their names in the manifests. It returns the
// registry.
func (c *checker) findImages() (string, error) {
	text, err := c.folder.Read("manifests/paddock.yaml")
	if err != nil {
		return "", err
	}
	named := manifests.Images(text)
	if len(named) != 1 {
		return "", fmt.Errorf("manifests/paddock.yaml names the images %q: expected one", named)
	}
	name, _, _ := strings.Cut(named[0], "@")
	registry := strings.TrimSuffix(name, "/paddock")
	c.images = map[string]string{}
	for _, image := range imageNames {
		digest, err := digestOf(filepath.Join(c.folder.Dir(), imageArchive(image, c.version)))
		if err != nil {
			return "", err
		}
		c.images[registry+"/"+image] = digest
	}
	return registry, nil
}

// tamper changes a byte in the middle of every file, and expects an error that names the file.
// Nothing is written.
func (c *checker) tamper(ctx context.Context) (string, error) {
	for _, name := range c.folder.Names() {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		data, err := c.folder.Read(name)
		if err != nil {
			return "", err
		}
		if len(data) == 0 {
			return "", fmt.Errorf("%s is empty: expected at least one byte", name)
		}
		data = bytes.Clone(data)
		data[len(data)/2] ^= 1
		if _, err = c.folder.With(name, data).Verify(ctx, c.key, c.images); err == nil {
			return "", fmt.Errorf("a byte of %s was changed, and the verification did not notice it", name)
		}
		if name != seal.SumsName && !strings.Contains(err.Error(), name) {
			return "", fmt.Errorf("a byte of %s was changed, and the error does not name it: %w", name, err)
		}
	}
	return fmt.Sprintf("in each of %d files", len(c.folder.Names())), nil
}

// pinned checks that manifests name only images of the folder, by their digests.
func (c *checker) pinned(context.Context) (string, error) {
	used := map[string]bool{}
	for _, name := range c.folder.Names() {
		if !strings.HasPrefix(name, "manifests/") {
			continue
		}
		text, err := c.folder.Read(name)
		if err != nil {
			return "", err
		}
		for _, reference := range manifests.Images(text) {
			if err := manifests.CheckReference(reference); err != nil {
				return "", fmt.Errorf("%s: %w", name, err)
			}
			image, digest, _ := strings.Cut(reference, "@")
			if c.images[image] != digest {
				return "", fmt.Errorf("%s names the image %s: expected one of the folder by its digest", name, reference)
			}
			used[image] = true
		}
	}
	if len(used) != len(c.images) {
		return "", fmt.Errorf("the manifests name %d of %d images", len(used), len(c.images))
	}
	chart, err := c.folder.Read(chartArchive(c.version))
	if err != nil {
		return "", err
	}
	values, err := archive.Member(chart, "paddock/values.yaml")
	if err != nil {
		return "", err
	}
	for image, digest := range c.images {
		if !bytes.Contains(values, []byte("repository: "+image+"\n")) || !bytes.Contains(values, []byte("digest: "+digest+"\n")) {
			return "", fmt.Errorf("the chart does not name %s@%s", image, digest)
		}
	}
	return "by digest", nil
}

// programs runs every program for this machine, and the kubectl plugin in its archive.
func (c *checker) programs(ctx context.Context) (text string, err error) {
	work, err := os.MkdirTemp("", "paddock-programs-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	platform := runtime.GOOS + "-" + runtime.GOARCH
	packed, err := c.folder.Read("krew/kubectl-paddock_" + c.version + "_" + strings.ReplaceAll(platform, "-", "_") + ".tar.gz")
	if err != nil {
		return "", err
	}
	plugin, err := archive.Member(packed, "kubectl-paddock")
	if err != nil {
		return "", err
	}
	ran := map[string][]byte{"kubectl-paddock": plugin}
	for _, name := range imageNames {
		if ran[name], err = c.folder.Read("bin/" + name + "-" + platform); err != nil {
			return "", err
		}
	}
	for name, program := range ran {
		file := filepath.Join(work, name)
		if err := os.WriteFile(file, program, 0o700); err != nil { //nolint:gosec // it is a program
			return "", err
		}
		printed, err := command(ctx, work, nil, file, "version")
		if err != nil {
			return "", err
		}
		for _, want := range []string{name + " " + c.version, "commit", c.build.Commit, c.build.GoVersion} {
			if !strings.Contains(printed, want) {
				return "", fmt.Errorf("%s version prints %q: expected %s", name, printed, want)
			}
		}
	}
	return fmt.Sprintf("%d programs for %s", len(ran), strings.ReplaceAll(platform, "-", "/")), nil
}

// cluster installs the manifests into a control plane and runs the scheduler of the image, with the
// tests of the commit. The control plane is compiled once, which takes minutes.
func (c *checker) cluster(ctx context.Context) (string, error) {
	r, err := repository.Open(ctx, c.repository)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(r.Dir(), "test", "cluster")
	_, err = command(ctx, dir, []string{"CGO_ENABLED=0", "GOFLAGS=-trimpath"}, "go", "test", "-count=1", "-timeout", "20m", "-vet=off", "-run", "^TestScheduler$", "./installed", "-release", c.folder.Dir())
	return "kubectl apply, 4 manifests; pods run", err
}

// rebuild builds the commit again in another directory and with an empty build cache, and compares
// every file.
func (c *checker) rebuild(ctx context.Context) (text string, err error) {
	if got := runtime.Version(); got != c.build.GoVersion {
		return "", fmt.Errorf("this is %s, and the release was built with %s: build it again with that version", got, c.build.GoVersion)
	}
	r, err := repository.Open(ctx, c.repository)
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp("", "paddock-again-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	source, err := r.Clone(ctx, c.build.Commit, filepath.Join(work, "somewhere", "else"))
	if err != nil {
		return "", err
	}
	o := c.options
	o.registry = c.build.Registry
	if o.recorded, err = c.folder.Read(vulnerabilitiesName); err != nil {
		return "", err
	}
	dir := filepath.Join(work, "folder")
	if _, err := build(ctx, source, o, dir, []string{"GOCACHE=" + filepath.Join(work, "build"), "TZ=Asia/Tokyo"}, c.stdout); err != nil {
		return "", err
	}
	again, err := seal.Open(dir)
	if err != nil {
		return "", err
	}
	return c.compare(again)
}

// compare compares every file but the signatures.
func (c *checker) compare(again *seal.Folder) (string, error) {
	var differ []string
	total := int64(0)
	names := slices.DeleteFunc(slices.Clone(c.folder.Names()), func(name string) bool { return strings.HasPrefix(name, "signatures/") })
	for _, name := range names {
		size, err := c.folder.Size(name)
		if err != nil {
			return "", err
		}
		total += size
		equal := "yes"
		if again.Sum(name) != c.folder.Sum(name) {
			equal = "NO"
			differ = append(differ, name)
		}
		if _, err := fmt.Fprintf(c.stdout, "  equal: %-4s %11d  %s\n", equal, size, name); err != nil {
			return "", err
		}
	}
	for _, name := range again.Names() {
		if !slices.Contains(names, name) {
			differ = append(differ, name)
		}
	}
	if len(differ) > 0 {
		return "", fmt.Errorf("other bytes when they are built again: %s", strings.Join(differ, ", "))
	}
	return fmt.Sprintf("%d files, %.1f MB", len(names), float64(total)/1e6), nil
}
