package parts

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	kubernetes = "k8s.io/kubernetes"
	etcd       = "go.etcd.io/etcd/server/v3"
	helm       = "helm.sh/helm/v4"
)

// controlPlane lists the programs of Kubernetes that run on this machine.
var controlPlane = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}

// buildKubelet builds the kubelet.
func (m *maker) buildKubelet(ctx context.Context) (string, error) {
	return m.buildKubernetes(ctx, "kubelet-"+Kubernetes, "kubelet")
}

// buildEtcd builds etcd.
func (m *maker) buildEtcd(ctx context.Context) (string, error) {
	return m.buildAlone(ctx, "etcd", etcd, Etcd, etcd+"/etcdmain", etcd)
}

// buildHelm builds Helm, which installs the chart.
func (m *maker) buildHelm(ctx context.Context) (string, error) {
	return m.buildAlone(ctx, "helm", helm, Helm, helm+"/pkg/cmd", helm+"/cmd/helm")
}

// buildAlone builds a program whose module cannot be built in place. It builds it in a module that
// requires it.
func (m *maker) buildAlone(ctx context.Context, program, module, version, imports, pkg string) (string, error) {
	return m.keep(program+"-"+version, func(dir string) error {
		goMod := fmt.Sprintf("module e2e.invalid/%s\n\ngo 1.26.0\n\nrequire %s %s\n", program, module, version)
		return m.inModule(ctx, goMod, []string{imports}, func(work string) error {
			_, err := m.run(ctx, work, static, "go", build("-mod=mod", "-ldflags", "-s -w", "-o", filepath.Join(dir, program), pkg)...)
			return err
		})
	})
}

var stagingModule = regexp.MustCompile(`(?m)^\s*(k8s\.io/\S+) v0\.0\.0\s*$`)

// buildKubernetes builds programs of Kubernetes in a separate module, because the product does not
// depend on Kubernetes. Kubernetes requires the modules of its own repository as v0.0.0. They are
// published with the version staging.
func (m *maker) buildKubernetes(ctx context.Context, name string, programs ...string) (string, error) {
	return m.keep(name, func(dir string) error {
		out, err := m.run(ctx, m.cache, nil, "go", "mod", "download", "-json", kubernetes+"@"+Kubernetes)
		if err != nil {
			return err
		}
		published, err := os.ReadFile(moduleFile(out))
		if err != nil {
			return err
		}
		var goMod strings.Builder
		fmt.Fprintf(&goMod, "module e2e.invalid/kubernetes\n\ngo 1.26.0\n\nrequire %s %s\n\n", kubernetes, Kubernetes)
		for _, found := range stagingModule.FindAllStringSubmatch(string(published), -1) {
			fmt.Fprintf(&goMod, "replace %s => %s %s\n", found[1], found[1], staging)
		}
		// The module imports all of them, whichever are built, so that the builds share packages in
		// Go's cache.
		imports := []string{"k8s.io/kubectl/pkg/cmd"}
		for _, program := range []string{"kubelet", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
			imports = append(imports, path.Join(kubernetes, "cmd", program, "app"))
		}
		const version = "k8s.io/component-base/version"
		linker := "-s -w -X " + version + ".gitVersion=" + Kubernetes + " -X " + version + ".gitMajor=1 -X " + version + ".gitMinor=36"
		return m.inModule(ctx, goMod.String(), imports, func(work string) error {
			for _, program := range programs {
				m.say("building %s", program)
				args := build("-mod=mod", "-tags", "providerless", "-ldflags", linker, "-o", filepath.Join(dir, program), path.Join(kubernetes, "cmd", program))
				if _, err := m.run(ctx, work, static, "go", args...); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// inModule runs do in a directory with a module that has this go.mod and imports these packages.
func (m *maker) inModule(ctx context.Context, goMod string, imports []string, do func(work string) error) error {
	work, err := os.MkdirTemp(m.cache, "tmp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // what stays is named tmp- and harms nothing
	if err := os.WriteFile(filepath.Join(work, "go.mod"), []byte(goMod), 0o644); err != nil {
		return err
	}
	importer := "package main\n\nimport (\n\t_ \"" + strings.Join(imports, "\"\n\t_ \"") + "\"\n)\n\nfunc main() {}\n"
	if err := os.WriteFile(filepath.Join(work, "main.go"), []byte(importer), 0o644); err != nil {
		return err
	}
	if _, err := m.run(ctx, work, static, "go", "mod", "tidy", "-e"); err != nil {
		return err
	}
	return do(work)
}

// moduleFile returns the field GoMod from the output of go mod download -json.
func moduleFile(out string) string {
	_, rest, _ := strings.Cut(out, `"GoMod": "`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}
