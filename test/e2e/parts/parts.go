package parts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// These are the versions of what is built with the libraries that it was released with. Those of
// Kubernetes, etcd and Helm are in the modules that require them: see buildPrograms.
const (
	Containerd = "v2.4.2"
	Runc       = "v1.4.3"
	CRIO       = "v1.36.1"
	CNI        = "v1.9.1"
)

// Parts has the paths of files on this machine.
type Parts struct {
	QEMU string
	// Kernels has the kernels by the series in Options.
	Kernels map[string]Kernel
	// Root is an ext4 image. Boot it as a snapshot.
	Root string
	// Input has the files that a machine finds in /in, by their names there.
	Input map[string]string
	// CRIO has the files that a machine with CRI-O finds in addition, if Options requests it.
	CRIO map[string]string
	// Containerds has, for each version that Options requests, the files that a machine with it
	// finds in addition.
	Containerds map[string]map[string]string
	// Cluster is set if Options requests a cluster.
	Cluster *Cluster
	// containerd is the program of the root disk.
	containerd string
}

// Options selects the parts.
type Options struct {
	// Source is the directory of the product's module.
	Source string
	// Work is a directory for files that belong only to this run.
	Work string
	// Kernels lists series such as Stable.
	Kernels []string
	// CRIO adds CRI-O. It needs conmon.
	CRIO bool
	// Containerds lists versions of containerd, such as v2.1.5, besides that of the root disk.
	Containerds []string
	// Kubelet adds a real kubelet.
	Kubelet bool
	// Cluster adds a whole cluster, with a real kubelet.
	Cluster bool
	// Helm and Before add what only a few pages of a cluster need, because building each takes a
	// minute: Helm, and the image of an earlier commit.
	Helm, Before bool
	// Say prints progress, one line at a time.
	Say func(format string, args ...any)
}

// WithCRIO returns the parts of a machine whose runtime is CRI-O.
func (p *Parts) WithCRIO() *Parts { return p.with(p.CRIO) }

// WithContainerd returns the parts of a machine with another version of containerd.
func (p *Parts) WithContainerd(version string) *Parts { return p.with(p.Containerds[version]) }

// ContainerdProgram returns the path of a version of containerd on this machine.
func (p *Parts) ContainerdProgram(version string) string {
	if version == Containerd {
		return p.containerd
	}
	return p.Containerds[version][inContainerd+"containerd"]
}

func (p *Parts) with(input map[string]string) *Parts {
	own := *p
	own.Input = maps.Clone(p.Input)
	maps.Copy(own.Input, input)
	return &own
}

// Find finds or makes everything that o requests.
func Find(ctx context.Context, o Options) (*Parts, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	m := &maker{cache: cache, repository: o.Source, say: o.Say}
	if err := m.installPackages(ctx, o); err != nil {
		return nil, err
	}
	kernels, err := m.findKernels(ctx, o.Kernels)
	if err != nil {
		return nil, err
	}
	containerd, err := m.buildContainerd(ctx, Containerd)
	if err != nil {
		return nil, err
	}
	runc, err := m.buildRunc(ctx)
	if err != nil {
		return nil, err
	}
	root, err := m.makeRoot(ctx, containerd, runc)
	if err != nil {
		return nil, err
	}
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	p := &Parts{QEMU: qemu, Kernels: kernels, Root: filepath.Join(root, imageName), containerd: filepath.Join(containerd, "containerd"), Containerds: map[string]map[string]string{}}
	if p.Input, err = m.buildInput(ctx, o); err != nil {
		return nil, err
	}
	if o.CRIO {
		if p.CRIO, err = m.findCRIO(ctx, o); err != nil {
			return nil, err
		}
	}
	for _, version := range o.Containerds {
		if p.Containerds[version], err = m.findContainerd(ctx, o, version); err != nil {
			return nil, err
		}
	}
	if o.Kubelet || o.Cluster {
		dir, err := m.buildPrograms(ctx, "kubelet", kubernetesModule, kubelet)
		if err != nil {
			return nil, err
		}
		p.Input["kubelet"] = filepath.Join(dir, "kubelet")
	}
	if o.Cluster {
		return p, m.findCluster(ctx, o, p)
	}
	return p, nil
}

// ControlPlane finds or makes only the programs of a control plane. It needs no package of the
// system. source is the directory of the product's module.
func ControlPlane(ctx context.Context, source string, say func(format string, args ...any)) (*Cluster, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	m := &maker{cache: cache, repository: source, say: say}
	return m.buildControlPlane(ctx)
}

type maker struct {
	cache string
	// repository is the directory of the product's module.
	repository string
	say        func(format string, args ...any)
}

func cacheDir() (string, error) {
	dir := os.Getenv("PADDOCK_E2E_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("set PADDOCK_E2E_CACHE: %w", err)
		}
		dir = filepath.Join(user, "paddock-e2e")
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// keep returns the directory of that name in the cache. If it does not exist, fill makes it. An
// incomplete directory never exists under that name.
func (m *maker) keep(name string, fill func(dir string) error) (string, error) {
	final := filepath.Join(m.cache, name)
	if _, err := os.Stat(final); err == nil {
		return final, nil
	}
	begin := time.Now()
	m.say("making %s", final)
	dir, err := os.MkdirTemp(m.cache, "tmp-")
	if err != nil {
		return "", err
	}
	if err := fill(dir); err != nil {
		return "", errors.Join(fmt.Errorf("%s: %w", name, err), os.RemoveAll(dir))
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Rename(dir, final)); err != nil {
		// Another process was faster, which is just as good.
		if _, there := os.Stat(final); there != nil {
			return "", err
		}
		return final, os.RemoveAll(dir)
	}
	m.say("made %s in %d s", name, int(time.Since(begin).Seconds()))
	return final, nil
}

// run runs a command in dir and returns its output. The command has a low priority, except in a CI
// run, which has limited time on a machine that may have other work.
func (m *maker) run(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	if _, err := exec.LookPath("nice"); err == nil && !inCI() {
		name, args = "nice", append([]string{"-n", "19", name}, args...)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, tail(stderr.String()))
	}
	return stdout.String(), nil
}

// tail returns the end of a long message, which usually has the reason.
func tail(s string) string {
	const most = 2000
	s = strings.TrimSpace(s)
	if len(s) > most {
		return "… " + s[len(s)-most:]
	}
	return s
}

// target is the environment for building binaries of the machines. static is the one for binaries
// without cgo, which need no libraries.
var (
	target = []string{"GOFLAGS=", "GOWORK=off", "GOOS=linux", "GOARCH=amd64"}
	static = append([]string{"CGO_ENABLED=0"}, target...)
)

// build returns arguments of go for binaries that do not depend on their directory. A build of
// Kubernetes takes minutes. One package at a time leaves most of a developer's machine free. A CI
// run has the machine to itself.
func build(args ...string) []string {
	if inCI() {
		return append([]string{"build", "-trimpath"}, args...)
	}
	return append([]string{"build", "-p", "1", "-trimpath"}, args...)
}

func inCI() bool { return os.Getenv("CI") == "true" }

// buildInput builds what may differ in every run. Go's own cache makes it fast.
func (m *maker) buildInput(ctx context.Context, o Options) (map[string]string, error) {
	files := map[string]string{}
	for _, b := range []struct{ name, dir, pkg string }{
		{"paddock", o.Source, "./cmd/paddock-agent"},
		{"paddock-quiet", o.Source, "./cmd/paddock-quiet"},
		{"guest", filepath.Join(o.Source, "test", "e2e"), "./guest"},
		{"pause", filepath.Join(o.Source, "test", "e2e"), "./pause"},
	} {
		files[b.name] = filepath.Join(o.Work, b.name)
		if _, err := m.run(ctx, b.dir, static, "go", build("-ldflags", "-s -w", "-o", files[b.name], b.pkg)...); err != nil {
			return nil, err
		}
	}
	files["image.tar"] = filepath.Join(o.Work, "image.tar")
	return files, m.buildImage(ctx, o, files["image.tar"])
}

// Lack reports to a CI run what is missing on this machine: see .ci/run.
func Lack(what string) error {
	name := os.Getenv("PADDOCK_LACKS")
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, what)
	return errors.Join(err, f.Close())
}
