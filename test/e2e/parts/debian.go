package parts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// ErrUnavailable is wrapped where this machine cannot have the parts.
var ErrUnavailable = errors.New("the virtual machine's parts cannot be had here")

// kernelPackage depends on the package of the kernel itself.
const kernelPackage = "linux-image-cloud-amd64"

// debian are the commands and files that are needed, and the packages that have them.
var debian = []struct{ file, packages string }{
	{"qemu-system-x86_64", "qemu-system-x86"},
	{shell, "busybox-static"},
	{"mke2fs", "e2fsprogs"},
	// For runc.
	{"gcc", "gcc libc6-dev"},
	{"pkg-config", "pkg-config"},
	{"/usr/include/seccomp.h", "libseccomp-dev"},
}

// installPackages makes sure of the commands.
func (m *maker) installPackages(ctx context.Context) error {
	var missing []string
	for _, need := range debian {
		if !there(need.file) {
			missing = append(missing, strings.Fields(need.packages)...)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := m.apt(ctx); err != nil {
		return fmt.Errorf("%w: install %s", err, strings.Join(missing, " "))
	}
	m.say("installing %s", strings.Join(missing, " "))
	args := append([]string{"install", "-qq", "-y", "--no-install-recommends"}, missing...)
	if _, err := m.run(ctx, "", []string{"DEBIAN_FRONTEND=noninteractive"}, "apt-get", args...); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

func there(name string) bool {
	if filepath.IsAbs(name) {
		_, err := os.Stat(name)
		return err == nil
	}
	_, err := exec.LookPath(name)
	return err == nil
}

// apt reads the package lists, once.
func (m *maker) apt(ctx context.Context) error {
	if m.listed {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("%w: no apt-get", ErrUnavailable)
	}
	if os.Getuid() != 0 {
		return fmt.Errorf("%w: not root", ErrUnavailable)
	}
	if _, err := m.run(ctx, "", nil, "apt-get", "update", "-qq"); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	m.listed = true
	return nil
}

// kernel is an unpacked kernel package. Modules is where its modules are, builtin names those that
// the image has.
type kernel struct{ image, modules, release, builtin string }

// findKernel takes the newest kernel that is kept, and downloads one if there is none. A kernel
// is not what is tested: an older one that is here already is good enough.
func (m *maker) findKernel(ctx context.Context) (kernel, error) {
	kept, err := filepath.Glob(filepath.Join(m.cache, "kernel-*"))
	if err != nil {
		return kernel{}, err
	}
	if len(kept) == 0 {
		dir, err := m.downloadKernel(ctx)
		if err != nil {
			return kernel{}, err
		}
		kept = []string{dir}
	}
	return openKernel(kept[len(kept)-1])
}

func openKernel(dir string) (kernel, error) {
	images, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil || len(images) == 0 {
		return kernel{}, fmt.Errorf("%s has no boot/vmlinuz: remove the directory: %w", dir, errors.Join(err, ErrUnavailable))
	}
	release := strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-")
	k := kernel{image: images[0], release: release}
	// A newer Debian has its modules below usr.
	for _, lib := range []string{"lib", "usr/lib"} {
		modules := filepath.Join(dir, lib, "modules", release)
		if builtin, err := os.ReadFile(filepath.Join(modules, "modules.builtin")); err == nil {
			k.modules, k.builtin = filepath.Join(modules, "kernel"), string(builtin)
			return k, nil
		}
	}
	return kernel{}, fmt.Errorf("%s has no modules of %s: remove the directory: %w", dir, release, ErrUnavailable)
}

var kernelDependency = regexp.MustCompile(`Depends: (linux-image-[0-9]\S*-cloud-amd64)`)

func (m *maker) downloadKernel(ctx context.Context) (string, error) {
	if err := m.apt(ctx); err != nil {
		return "", fmt.Errorf("kernel: %w", err)
	}
	out, err := m.run(ctx, "", nil, "apt-cache", "depends", kernelPackage)
	if err != nil {
		return "", fmt.Errorf("kernel: %w: %w", ErrUnavailable, err)
	}
	found := kernelDependency.FindStringSubmatch(out)
	if found == nil {
		return "", fmt.Errorf("kernel: %w: apt-cache knows no kernel that %s depends on", ErrUnavailable, kernelPackage)
	}
	name := strings.TrimPrefix(found[1], "linux-image-")
	return m.keep("kernel-"+name, func(dir string) error {
		if _, err := m.run(ctx, dir, nil, "apt-get", "download", "-qq", found[1]); err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		packages, err := filepath.Glob(filepath.Join(dir, "*.deb"))
		if err != nil || len(packages) != 1 {
			return fmt.Errorf("want one package in %s, have %v: %w", dir, packages, errors.Join(err, ErrUnavailable))
		}
		if _, err := m.run(ctx, dir, nil, "dpkg-deb", "-x", packages[0], dir); err != nil {
			return err
		}
		return os.Remove(packages[0])
	})
}
