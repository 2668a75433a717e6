package parts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrUnavailable is wrapped if the parts are not available on this machine.
var ErrUnavailable = errors.New("the virtual machine's parts cannot be had here")

// debian lists the commands and files that are needed, and the packages that contain them.
var debian = []struct{ file, packages string }{
	{"qemu-system-x86_64", "qemu-system-x86"},
	{shell, "busybox-static"},
	{client, "curl"},
	{"mke2fs", "e2fsprogs"},
	// The modules of newer kernel packages are compressed.
	{"xz", "xz-utils"},
	// gcc builds runc and the program loop.
	{"gcc", "gcc libc6-dev"},
	{"pkg-config", "pkg-config"},
	{"/usr/include/seccomp.h", "libseccomp-dev"},
}

// installPackages installs the packages of missing commands and files.
func (m *maker) installPackages(ctx context.Context, o Options) error {
	var missing []string
	for _, need := range debian {
		if !there(need.file) {
			missing = append(missing, strings.Fields(need.packages)...)
		}
	}
	if o.CRIO && !there("conmon") {
		missing = append(missing, "conmon")
	}
	if len(missing) == 0 {
		return nil
	}
	if err := m.updateLists(ctx); err != nil {
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

// updateLists updates the package lists of this machine.
func (m *maker) updateLists(ctx context.Context) error {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("%w: no apt-get", ErrUnavailable)
	}
	if os.Getuid() != 0 {
		return fmt.Errorf("%w: not root", ErrUnavailable)
	}
	if _, err := m.run(ctx, "", nil, "apt-get", "update", "-qq"); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}
