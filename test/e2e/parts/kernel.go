package parts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// These are the series of kernels that machines name.
const (
	// Stable is the kernel of most machines. Kernels before 6.2 handle a task's own affinity
	// differently. On kernels before 6.18, a write to cpuset.mems can block all other changes of
	// cgroups until the pages have moved.
	Stable = "6.1"
	// Moves is the first kernel on which Paddock moves the memory of running containers by default.
	Moves = "6.18"
)

// suites are the Debian suites that have the kernels.
var suites = map[string]string{Stable: "bookworm", Moves: "trixie-backports"}

// Kernel has the files that a machine boots.
type Kernel struct {
	// Release is what uname -r prints.
	Release          string
	Image, Initramfs string
}

// findKernels finds the kernels of these series.
func (m *maker) findKernels(ctx context.Context, series []string) (map[string]Kernel, error) {
	found := map[string]Kernel{}
	for _, s := range series {
		k, err := m.findKernel(ctx, s)
		if err != nil {
			return nil, err
		}
		initramfs, err := m.makeInitramfs(ctx, k)
		if err != nil {
			return nil, err
		}
		found[s] = Kernel{Release: k.release, Image: k.image, Initramfs: initramfs}
	}
	return found, nil
}

// kernel is an unpacked kernel package. modules is the directory of its modules. builtin has the
// names of the modules that are built into the image.
type kernel struct{ image, modules, release, builtin string }

// findKernel returns the newest cached kernel of a series, and downloads one if there is none. The
// tests do not test the kernel, so an older one that is already cached is sufficient.
func (m *maker) findKernel(ctx context.Context, series string) (kernel, error) {
	const prefix = "kernel-"
	kept, err := filepath.Glob(filepath.Join(m.cache, prefix+series+".*"))
	if err != nil {
		return kernel{}, err
	}
	for i := range kept {
		kept[i] = strings.TrimPrefix(filepath.Base(kept[i]), prefix)
	}
	if release := newest(kept, series); release != "" {
		return openKernel(filepath.Join(m.cache, prefix+release))
	}
	suite, known := suites[series]
	if !known {
		return kernel{}, fmt.Errorf("kernel %s: no suite of Debian is known to have it: add it to suites", series)
	}
	a, err := m.openApt(ctx, suite)
	if err != nil {
		return kernel{}, fmt.Errorf("kernel %s: %w", series, err)
	}
	defer a.close()
	out, err := a.run(ctx, "", "apt-cache", "pkgnames", "linux-image-")
	if err != nil {
		return kernel{}, fmt.Errorf("kernel %s: %w", series, err)
	}
	release := newest(cloudReleases(out), series)
	if release == "" {
		return kernel{}, fmt.Errorf("kernel %s: %w: %s has %s", series, ErrUnavailable, suite, strings.Join(cloudReleases(out), " "))
	}
	if !strings.HasPrefix(release, series+".") {
		m.say("%s has no kernel %s: taking %s", suite, series, release)
	}
	dir, err := m.keep(prefix+release, func(dir string) error { return a.unpack(ctx, dir, "linux-image-"+release) })
	if err != nil {
		return kernel{}, err
	}
	return openKernel(dir)
}

var cloudImage = regexp.MustCompile(`(?m)^linux-image-(\d\S*-cloud-amd64)$`)

// cloudReleases returns the releases of the kernels for virtual machines in packages, which has one
// package per line.
func cloudReleases(packages string) (releases []string) {
	for _, found := range cloudImage.FindAllStringSubmatch(packages, -1) {
		releases = append(releases, found[1])
	}
	slices.Sort(releases)
	return releases
}

var number = regexp.MustCompile(`\d+`)

// newest returns the newest release of a series such as 6.18. If the series has none, it returns
// the newest release of the next series, or an empty string if there is none.
func newest(releases []string, series string) string {
	numbers := func(text string) (all []int) {
		for _, digits := range number.FindAllString(text, -1) {
			n, err := strconv.Atoi(digits)
			if err != nil {
				return nil
			}
			all = append(all, n)
		}
		return all
	}
	of := func(release string) []int { return numbers(release)[:2] }
	best, wanted := "", numbers(series)
	for _, release := range releases {
		if len(numbers(release)) < 2 || slices.Compare(of(release), wanted) < 0 {
			continue
		}
		if best == "" || cmp.Or(-slices.Compare(of(release), of(best)), slices.Compare(numbers(release), numbers(best))) > 0 {
			best = release
		}
	}
	return best
}

func openKernel(dir string) (kernel, error) {
	images, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil || len(images) == 0 {
		return kernel{}, fmt.Errorf("%s has no boot/vmlinuz: remove the directory: %w", dir, errors.Join(err, ErrUnavailable))
	}
	release := strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-")
	k := kernel{image: images[0], release: release}
	// Newer Debian releases have their modules below usr.
	for _, lib := range []string{"lib", "usr/lib"} {
		modules := filepath.Join(dir, lib, "modules", release)
		if builtin, err := os.ReadFile(filepath.Join(modules, "modules.builtin")); err == nil {
			k.modules, k.builtin = filepath.Join(modules, "kernel"), string(builtin)
			return k, nil
		}
	}
	return kernel{}, fmt.Errorf("%s has no modules of %s: remove the directory: %w", dir, release, ErrUnavailable)
}

// apt reads packages of a suite. It has its own lists, so it does not change this machine's apt.
type apt struct {
	m       *maker
	dir     string
	options []string
}

// openApt reads the lists of a suite from the mirror that this machine's apt uses.
func (m *maker) openApt(ctx context.Context, suite string) (*apt, error) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, fmt.Errorf("%w: no apt-get", ErrUnavailable)
	}
	mirrors, err := m.run(ctx, "", nil, "apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	mirror := debianMirror.FindString(mirrors)
	if mirror == "" {
		return nil, fmt.Errorf("%w: apt has no mirror of Debian", ErrUnavailable)
	}
	dir, err := os.MkdirTemp(m.cache, "tmp-")
	if err != nil {
		return nil, err
	}
	a := &apt{m: m, dir: dir, options: []string{
		"-o", "Dir::Etc::sourcelist=" + filepath.Join(dir, "sources.list"), "-o", "Dir::Etc::sourceparts=" + filepath.Join(dir, "none"),
		"-o", "Dir::State::lists=" + filepath.Join(dir, "lists"), "-o", "Dir::Cache=" + filepath.Join(dir, "cache"),
		"-o", "Acquire::Languages=none", "-o", "APT::Sandbox::User=root",
	}}
	source := fmt.Sprintf("deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n", mirror, suite)
	err = errors.Join(os.WriteFile(filepath.Join(dir, "sources.list"), []byte(source), 0o644),
		os.MkdirAll(filepath.Join(dir, "lists", "partial"), 0o755), os.MkdirAll(filepath.Join(dir, "cache", "archives", "partial"), 0o755))
	if err == nil {
		_, err = a.run(ctx, "", "apt-get", "update", "-qq")
	}
	if err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

var debianMirror = regexp.MustCompile(`(?m)^\S+/debian/?$`)

func (a *apt) close() { _ = os.RemoveAll(a.dir) } // A remaining directory is named tmp- and harmless.

func (a *apt) run(ctx context.Context, dir, command string, args ...string) (string, error) {
	out, err := a.m.run(ctx, dir, nil, command, slices.Concat(a.options, args)...)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return out, nil
}

// unpack downloads a package and unpacks it into dir.
func (a *apt) unpack(ctx context.Context, dir, name string) error {
	if _, err := a.run(ctx, dir, "apt-get", "download", "-qq", name); err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(packages) != 1 {
		return fmt.Errorf("expected one package in %s, have %v: %w", dir, packages, errors.Join(err, ErrUnavailable))
	}
	if _, err := a.m.run(ctx, dir, nil, "dpkg-deb", "-x", packages[0], dir); err != nil {
		return err
	}
	return os.Remove(packages[0])
}
