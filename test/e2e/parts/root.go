package parts

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	initramfsName = "initramfs.gz"
	imageName     = "root.img"
	// The file is sparse. Much of it stays free, because the kubelet removes images from a disk
	// that is nearly full.
	imageSize = "4G"
)

//go:embed files
var files embed.FS

// modules are loaded in this order.
var modules = []string{
	"drivers/virtio/virtio_ring", "drivers/virtio/virtio", "drivers/virtio/virtio_pci_legacy_dev",
	"drivers/virtio/virtio_pci_modern_dev", "drivers/virtio/virtio_pci", "drivers/block/virtio_blk",
	"drivers/char/virtio_console", "fs/overlayfs/overlay", "net/core/failover",
	"drivers/net/net_failover", "drivers/net/virtio_net",
	// The network of pods needs it.
	"drivers/net/veth",
}

// shell is this machine's busybox. It is statically linked.
const shell = "/bin/busybox"

// client is this machine's curl, which nodes usually have. The script of paddock collect asks the
// kubelet with it.
const client = "/usr/bin/curl"

// makeRoot makes the image of the root file system. The name of the image depends on everything
// that determines its content.
func (m *maker) makeRoot(ctx context.Context, containerd, runc string) (string, error) {
	sum := sha256.New()
	sum.Write(fmt.Appendln(nil, Containerd, imageSize))
	if err := sumFiles(sum, []string{"init.sh", "containerd.toml"}, shell, client, filepath.Join(runc, "runc")); err != nil {
		return "", err
	}
	return m.keep("root-"+hex.EncodeToString(sum.Sum(nil))[:12], func(dir string) error {
		tree := filepath.Join(dir, "tree")
		if err := m.makeTree(ctx, tree, containerd, runc); err != nil {
			return err
		}
		image := filepath.Join(dir, imageName)
		// It needs no journal, because nothing of it survives a run.
		if _, err := m.run(ctx, dir, nil, "mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", tree, image, imageSize); err != nil {
			return err
		}
		return os.RemoveAll(tree)
	})
}

// sumFiles adds files of this package and of this machine to a hash.
func sumFiles(sum io.Writer, own []string, others ...string) error {
	for _, name := range own {
		data, err := files.ReadFile("files/" + name)
		if err != nil {
			return err
		}
		if _, err := sum.Write(data); err != nil {
			return err
		}
	}
	for _, name := range others {
		data, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if _, err := sum.Write(data); err != nil {
			return err
		}
	}
	return nil
}

func (m *maker) makeTree(ctx context.Context, tree, containerd, runc string) error {
	for _, dir := range []string{
		"bin", "sbin", "usr/bin", "usr/sbin", "etc/containerd", "proc", "sys", "dev", "tmp", "run",
		"var/lib", "var/log/pods", "root", "in", "opt/cni/bin", "etc/cni/net.d",
	} {
		if err := os.MkdirAll(filepath.Join(tree, dir), 0o755); err != nil {
			return err
		}
	}
	for name, from := range map[string]string{
		shell: shell, "usr/sbin/runc": filepath.Join(runc, "runc"), "usr/bin/containerd": filepath.Join(containerd, "containerd"),
		"usr/bin/containerd-shim-runc-v2": filepath.Join(containerd, "containerd-shim-runc-v2"), "usr/bin/ctr": filepath.Join(containerd, "ctr"),
	} {
		if err := copyFile(filepath.Join(tree, name), from); err != nil {
			return err
		}
	}
	if err := errors.Join(m.linkApplets(ctx, tree), m.copyDynamic(ctx, tree, client)); err != nil {
		return err
	}
	texts := map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n", "etc/os-release": "ID=e2e\n",
		"etc/hosts": "127.0.0.1 localhost\n10.0.2.15 e2enode\n", "etc/machine-id": strings.Repeat("0123456789abcdef", 2) + "\n",
		"etc/resolv.conf": "",
	}
	for from, to := range map[string]string{"init.sh": "init", "containerd.toml": "etc/containerd/config.toml"} {
		data, err := files.ReadFile("files/" + from)
		if err != nil {
			return err
		}
		texts[to] = string(data)
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(tree, name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	return os.Symlink("/run", filepath.Join(tree, "var/run"))
}

func (m *maker) linkApplets(ctx context.Context, tree string) error {
	applets, err := m.applets(ctx)
	if err != nil {
		return err
	}
	for _, applet := range applets {
		if err := os.Symlink(shell, filepath.Join(tree, "bin", applet)); err != nil {
			return err
		}
	}
	return nil
}

// copyDynamic copies a program of this machine with its shared libraries.
func (m *maker) copyDynamic(ctx context.Context, tree, program string) error {
	list, err := m.run(ctx, "", nil, "ldd", program)
	if err != nil {
		return err
	}
	names := []string{program}
	for _, word := range strings.Fields(list) {
		if filepath.IsAbs(word) {
			names = append(names, word)
		}
	}
	for _, name := range names {
		if err := copyFile(filepath.Join(tree, name), name); err != nil {
			return err
		}
	}
	return nil
}

// applets returns the commands of busybox, without its own name.
func (m *maker) applets(ctx context.Context) ([]string, error) {
	list, err := m.run(ctx, "", nil, shell, "--list")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(strings.Fields(list), func(applet string) bool { return applet == filepath.Base(shell) }), nil
}

func copyFile(to, from string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), in.Close())
}

// makeInitramfs makes the initramfs of a kernel and returns its path.
func (m *maker) makeInitramfs(ctx context.Context, k kernel) (string, error) {
	sum := sha256.New()
	sum.Write(fmt.Appendln(nil, k.release, modules))
	if err := sumFiles(sum, []string{"initramfs-init.sh"}, shell); err != nil {
		return "", err
	}
	dir, err := m.keep("initramfs-"+hex.EncodeToString(sum.Sum(nil))[:12], func(dir string) error {
		return m.packInitramfs(ctx, k, filepath.Join(dir, initramfsName))
	})
	return filepath.Join(dir, initramfsName), err
}

func (m *maker) packInitramfs(ctx context.Context, k kernel, name string) error {
	var archive cpio
	for _, dir := range []string{"bin", "lib", "proc", "sys", "dev", "disk"} {
		archive.dir(dir)
	}
	busybox, err := os.ReadFile(shell)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	archive.file("bin/busybox", busybox)
	var order strings.Builder
	for _, module := range modules {
		if strings.Contains(k.builtin, "kernel/"+module+".ko\n") {
			continue
		}
		data, err := m.readModule(ctx, filepath.Join(k.modules, module+".ko"))
		if err != nil {
			return err
		}
		base := filepath.Base(module) + ".ko"
		archive.file("lib/"+base, data)
		fmt.Fprintln(&order, base)
	}
	archive.file("lib/order", []byte(order.String()))
	script, err := files.ReadFile("files/initramfs-init.sh")
	if err != nil {
		return err
	}
	archive.file("init", script)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(archive.end()); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(name, packed.Bytes(), 0o644)
}

// readModule reads a kernel module. Newer packages compress them.
func (m *maker) readModule(ctx context.Context, name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err == nil {
		return data, nil
	}
	if _, packed := os.Stat(name + ".xz"); packed != nil {
		return nil, err
	}
	out, err := m.run(ctx, "", nil, "xz", "-dc", name+".xz")
	return []byte(out), err
}

// cpio is an archive in the format "newc", which the kernel unpacks.
type cpio struct {
	bytes.Buffer
	inode int
}

func (c *cpio) dir(name string) { c.entry(name, 0o040755, nil) }

func (c *cpio) file(name string, data []byte) { c.entry(name, 0o100755, data) }

func (c *cpio) end() []byte {
	c.entry("TRAILER!!!", 0, nil)
	return c.Bytes()
}

func (c *cpio) entry(name string, mode int, data []byte) {
	c.inode++
	c.Write(fmt.Appendf(nil, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", c.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0))
	c.WriteString(name)
	c.WriteByte(0)
	c.pad()
	c.Write(data)
	c.pad()
}

func (c *cpio) pad() {
	for c.Len()%4 != 0 {
		c.WriteByte(0)
	}
}
