package parts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// These are the versions with which CRI-O builds: the released one requires a candidate of
// cri-client that its own cri-api does not fit.
const crioClient, crioAPI = "k8s.io/cri-client@v0.36.0", "k8s.io/cri-api=k8s.io/cri-api@v0.36.0-rc.0"

// findCRIO finds or makes what a machine with CRI-O has in addition, by its names in /in.
func (m *maker) findCRIO(ctx context.Context, o Options) (map[string]string, error) {
	dir, err := m.buildCRIO(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	input := map[string]string{}
	for _, e := range entries {
		input["crio/"+e.Name()] = filepath.Join(dir, e.Name())
	}
	for _, name := range []string{"crio.conf", "policy.json", "registries.conf"} {
		data, err := files.ReadFile("files/crio/" + name)
		if err != nil {
			return nil, err
		}
		input["crio/"+name] = filepath.Join(o.Work, name)
		if err := os.WriteFile(input["crio/"+name], data, 0o644); err != nil {
			return nil, err
		}
	}
	return input, nil
}

// buildCRIO builds CRI-O and its program for namespaces. conmon, the monitor of containers, is this
// machine's, with its libraries beside it.
func (m *maker) buildCRIO(ctx context.Context) (string, error) {
	return m.keep("crio-"+CRIO, func(dir string) error {
		source, err := m.source(ctx, "github.com/cri-o/cri-o@"+CRIO)
		if err != nil {
			return err
		}
		tree := filepath.Join(dir, "tree")
		if err := os.CopyFS(tree, os.DirFS(source)); err != nil {
			return err
		}
		env := append([]string{"CGO_ENABLED=1"}, target...)
		if _, err := m.run(ctx, tree, env, "go", "mod", "edit", "-require="+crioClient, "-replace="+crioAPI); err != nil {
			return err
		}
		_, err = m.run(ctx, tree, env, "go", build("-mod=mod", "-tags", "exclude_graphdriver_btrfs containers_image_openpgp containers_image_ostree_stub seccomp netgo osusergo",
			"-ldflags", "-s -w -extldflags -static", "-o", filepath.Join(dir, "crio"), "./cmd/crio")...)
		if err != nil {
			return err
		}
		sources, err := filepath.Glob(filepath.Join(tree, "pinns", "src", "*.c"))
		if err != nil {
			return err
		}
		_, err = m.run(ctx, tree, nil, "gcc", append([]string{"-std=c99", "-O2", "-static", "-s", "-o", filepath.Join(dir, "pinns")}, sources...)...)
		return errors.Join(err, m.copyMonitor(ctx, dir), os.RemoveAll(tree))
	})
}

// copyMonitor copies conmon and its libraries into one directory.
func (m *maker) copyMonitor(ctx context.Context, dir string) error {
	program, err := m.run(ctx, "", nil, "which", "conmon")
	if err != nil {
		return err
	}
	program = strings.TrimSpace(program)
	list, err := m.run(ctx, "", nil, "ldd", program)
	if err != nil {
		return err
	}
	for _, name := range append(strings.Fields(list), program) {
		if filepath.IsAbs(name) {
			if err := copyFile(filepath.Join(dir, filepath.Base(name)), name); err != nil {
				return err
			}
		}
	}
	return nil
}
