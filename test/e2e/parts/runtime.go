package parts

import (
	"context"
	"encoding/json"
	"strings"
)

// buildContainerd builds containerd, its shim and ctr.
func (m *maker) buildContainerd(ctx context.Context) (string, error) {
	const module = "github.com/containerd/containerd/v2"
	return m.keep("containerd-"+Containerd, func(dir string) error {
		source, err := m.source(ctx, module+"@"+Containerd)
		if err != nil {
			return err
		}
		_, err = m.run(ctx, source, static, "go", build("-tags", "no_btrfs no_zfs no_devmapper",
			"-ldflags", "-s -w -X "+module+"/version.Version="+strings.TrimPrefix(Containerd, "v"), "-o", dir+"/",
			"./cmd/containerd", "./cmd/containerd-shim-runc-v2", "./cmd/ctr")...)
		return err
	})
}

// buildRunc builds runc, a part of which is C, without a shared library: most of a pod's time is runc
// starting, some twenty times, and an emulator starts it in half the time then.
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

// source is the directory of a module. What is built there has the versions of dependencies that the
// module was released with.
func (m *maker) source(ctx context.Context, module string) (string, error) {
	out, err := m.run(ctx, m.cache, nil, "go", "mod", "download", "-json", module)
	if err != nil {
		return "", err
	}
	var found struct{ Dir string }
	err = json.Unmarshal([]byte(out), &found)
	return found.Dir, err
}
