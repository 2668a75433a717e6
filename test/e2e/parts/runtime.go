package parts

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

// buildContainerd builds a version of containerd, its shim and ctr.
func (m *maker) buildContainerd(ctx context.Context, version string) (string, error) {
	module := "github.com/containerd/containerd"
	if !isContainerd1(version) {
		module += "/v2"
	}
	return m.keep("containerd-"+version, func(dir string) error {
		source, err := m.source(ctx, module+"@"+version)
		if err != nil {
			return err
		}
		// A module has no packages of its directory vendor, although some releases have a part of it.
		_, err = m.run(ctx, source, static, "go", build("-mod=readonly", "-tags", "no_btrfs no_zfs no_devmapper",
			"-ldflags", "-s -w -X "+module+"/version.Version="+strings.TrimPrefix(version, "v"), "-o", dir+"/",
			"./cmd/containerd", "./cmd/containerd-shim-runc-v2", "./cmd/ctr")...)
		return err
	})
}

// isContainerd1 reports whether a version of containerd is 1.x, which has a configuration of its
// own format.
func isContainerd1(version string) bool { return strings.HasPrefix(version, "v1.") }

// findContainerd finds or makes what a machine has in addition if its containerd is not that of the
// root disk, by its names in /in.
func (m *maker) findContainerd(ctx context.Context, o Options, version string) (map[string]string, error) {
	dir, err := m.buildContainerd(ctx, version)
	if err != nil {
		return nil, err
	}
	input := map[string]string{}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		input[inContainerd+name] = filepath.Join(dir, name)
	}
	config := "containerd.toml"
	if isContainerd1(version) {
		config = "containerd-1.toml"
	}
	data, err := files.ReadFile("files/" + config)
	if err != nil {
		return nil, err
	}
	input[inContainerd+"config.toml"] = filepath.Join(o.Work, config)
	return input, os.WriteFile(input[inContainerd+"config.toml"], data, 0o644)
}

// inContainerd begins the names of these files in /in: see wire.Containerd.
const inContainerd = "containerd/"

// buildRunc builds runc, which is partly C, as a static binary. runc starts about twenty times for
// a pod, which takes most of a pod's time. An emulator starts the static binary in half the time.
func (m *maker) buildRunc(ctx context.Context) (string, error) {
	return m.keep("runc-"+Runc, func(dir string) error {
		source, err := m.source(ctx, "github.com/opencontainers/runc@"+Runc)
		if err != nil {
			return err
		}
		_, err = m.run(ctx, source, append([]string{"CGO_ENABLED=1"}, target...), "go", build("-tags", "seccomp netgo osusergo",
			"-ldflags", "-s -w -extldflags -static -X main.version="+strings.TrimPrefix(Runc, "v"), "-o", dir+"/runc", ".")...)
		return err
	})
}

// buildC builds a static binary from a C program.
func (m *maker) buildC(ctx context.Context, work, name, source string) error {
	_, err := m.run(ctx, work, nil, "gcc", "-O2", "-static", "-pthread", "-s", "-o", filepath.Join(work, name), source)
	return err
}

// buildImage builds the programs of the image and writes the image. They are pause, which is its
// entry point, the program that counts what the kernel's scheduler does to it, and the clients of
// notices from the documentation.
func (m *maker) buildImage(ctx context.Context, o Options, name string) error {
	loop, err := files.ReadFile("files/loop.c")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.Work, "loop.c"), loop, 0o644); err != nil {
		return err
	}
	notices := filepath.Join(o.Source, "examples", "notice")
	_, err = m.run(ctx, filepath.Join(notices, "go"), static, "go", build("-ldflags", "-s -w", "-o", filepath.Join(o.Work, "notice-go"), ".")...)
	err = errors.Join(err, m.buildC(ctx, o.Work, "notice-c", filepath.Join(notices, "c", "notice.c")), m.buildC(ctx, o.Work, "loop", "loop.c"))
	if err != nil {
		return err
	}
	var programs []tarFile
	for _, program := range []string{"pause", "loop", "notice-go", "notice-c"} {
		data, err := os.ReadFile(filepath.Join(o.Work, program))
		if err != nil {
			return err
		}
		programs = append(programs, tarFile{name: program, data: data})
	}
	return writeImage(name, wire.Image, programs, "/pause")
}

// source returns the directory of a module. A build there uses the versions of dependencies with
// which the module was released.
func (m *maker) source(ctx context.Context, module string) (string, error) {
	out, err := m.run(ctx, m.cache, nil, "go", "mod", "download", "-json", module)
	if err != nil {
		return "", err
	}
	var found struct{ Dir string }
	err = json.Unmarshal([]byte(out), &found)
	return found.Dir, err
}

// cniPlugins give a pod an address: a pair of interfaces between the pod and its node, an address
// of a range, and the pod's own loopback.
var cniPlugins = []string{"ptp", "host-local", "loopback"}

// buildCNI builds the plugins of the pod network.
func (m *maker) buildCNI(ctx context.Context) (string, error) {
	return m.keep("cni-"+CNI, func(dir string) error {
		source, err := m.source(ctx, "github.com/containernetworking/plugins@"+CNI)
		if err != nil {
			return err
		}
		_, err = m.run(ctx, source, static, "go", build("-ldflags", "-s -w", "-o", dir+"/",
			"./plugins/main/ptp", "./plugins/ipam/host-local", "./plugins/main/loopback")...)
		return err
	})
}
