package parts

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

// Before is the commit of the image that clusters are upgraded from and rolled back to: the last
// release. The tests build it from the repository's history.
const Before = "fe0672268ae590c86bc45fc46826f90d9fc6598c"

// Cluster has the programs of a cluster that run on this machine. Those of a node are in the input
// of its machine.
type Cluster struct {
	// ControlPlane is the directory of kube-apiserver, kube-controller-manager, kube-scheduler and
	// kubectl.
	ControlPlane string
	Etcd         string
	// Helm is empty if Options does not request it.
	Helm string
	// SSH replaces ssh: it runs a command on the node.
	SSH string
	// Before is a kustomization of the commit Before, with its image. It is empty if Options does not
	// request it.
	Before string
}

// findCluster finds or makes what a cluster needs in addition to a machine with a kubelet.
func (m *maker) findCluster(ctx context.Context, o Options, p *Parts) error {
	control, err := m.buildControlPlane(ctx)
	if err != nil {
		return err
	}
	p.Cluster = control
	p.Cluster.SSH = filepath.Join(o.Work, "ssh")
	if o.Helm {
		dir, err := m.buildPrograms(ctx, "helm", helmModule, helm)
		if err != nil {
			return err
		}
		p.Cluster.Helm = filepath.Join(dir, helm.name)
	}
	p.Input["devices"] = filepath.Join(o.Work, "devices")
	for pkg, name := range map[string]string{"./cluster/ssh": p.Cluster.SSH, "./devices": p.Input["devices"]} {
		e2e := filepath.Join(o.Source, "test", "e2e")
		if _, err := m.run(ctx, e2e, static, "go", build("-ldflags", "-s -w", "-o", name, pkg)...); err != nil {
			return err
		}
	}
	plugins, err := m.buildCNI(ctx)
	if err != nil {
		return err
	}
	for _, plugin := range cniPlugins {
		p.Input["cni/"+plugin] = filepath.Join(plugins, plugin)
	}
	return m.writeImages(ctx, o, p)
}

// buildControlPlane builds the control plane and etcd.
func (m *maker) buildControlPlane(ctx context.Context) (*Cluster, error) {
	programs, err := m.buildPrograms(ctx, "control-plane", kubernetesModule, controlPlane...)
	if err != nil {
		return nil, err
	}
	etcdDir, err := m.buildPrograms(ctx, "etcd", kubernetesModule, etcd)
	return &Cluster{ControlPlane: programs, Etcd: filepath.Join(etcdDir, etcd.name)}, err
}

// writeImages writes the images that a node imports. A page builds the image under test, as users
// do.
func (m *maker) writeImages(ctx context.Context, o Options, p *Parts) error {
	const busybox, before = "busybox.tar", "paddock-before.tar"
	p.Input[busybox] = filepath.Join(o.Work, busybox)
	if err := m.writeBusybox(ctx, p.Input[busybox]); err != nil || !o.Before {
		return err
	}
	p.Input[before] = filepath.Join(o.Work, before)
	return m.makeBefore(ctx, o, p)
}

// makeBefore makes the image and the manifests of the commit Before. A clone without that commit,
// e.g. a shallow one, uses the commit under test instead: the upgrade is to an image of the same
// program.
func (m *maker) makeBefore(ctx context.Context, o Options, p *Parts) error {
	commit := Before
	if _, err := m.run(ctx, o.Source, nil, "git", "cat-file", "-e", commit+"^{commit}"); err != nil {
		head, err := m.run(ctx, o.Source, nil, "git", "rev-parse", "HEAD")
		if err != nil {
			return fmt.Errorf("the image before needs a git repository: %w", err)
		}
		commit = strings.TrimSpace(head)
		m.say("the repository does not have %s: the image before is of %s, the commit under test", Before[:12], commit[:12])
	}
	dir, err := m.keep("paddock-"+commit[:12], func(dir string) error {
		work, err := os.MkdirTemp(m.cache, "tmp-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work) //nolint:errcheck // what stays is named tmp- and harms nothing
		if err := m.checkout(ctx, o.Source, commit, work, "."); err != nil {
			return err
		}
		_, err = m.run(ctx, work, static, "go", build("-ldflags", "-s -w", "-o", filepath.Join(dir, "paddock"), "./cmd/paddock")...)
		return err
	})
	if err != nil {
		return err
	}
	p.Cluster.Before = filepath.Join(o.Work, "before")
	image, tag, _ := strings.Cut(wire.PaddockBefore, ":")
	kustomization := fmt.Sprintf("resources: [deploy/base]\nimages: [{name: %s, newTag: %s}]\n", image, tag)
	return errors.Join(
		os.Mkdir(p.Cluster.Before, 0o755), m.checkout(ctx, o.Source, commit, p.Cluster.Before, "deploy/base"),
		os.WriteFile(filepath.Join(p.Cluster.Before, "kustomization.yaml"), []byte(kustomization), 0o644),
		writeProgram(p.Input["paddock-before.tar"], wire.PaddockBefore, "paddock", filepath.Join(dir, "paddock")),
	)
}

// checkout writes a directory of a commit below dir.
func (m *maker) checkout(ctx context.Context, source, commit, dir, path string) error {
	archive, err := m.run(ctx, source, nil, "git", "archive", "--format=tar", commit, path)
	if err != nil {
		return err
	}
	return unpack(dir, archive)
}

// unpack unpacks the directories and files of an archive.
func unpack(dir, archive string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for r := tar.NewReader(strings.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(strings.TrimSuffix(h.Name, "/"), 0o755)
		case tar.TypeReg:
			var data bytes.Buffer
			if _, err = data.ReadFrom(r); err == nil {
				err = root.WriteFile(h.Name, data.Bytes(), 0o644)
			}
		}
		if err != nil {
			return err
		}
	}
}
