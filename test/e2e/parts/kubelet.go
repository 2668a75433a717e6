package parts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var stagingModule = regexp.MustCompile(`(?m)^\s*(k8s\.io/\S+) v0\.0\.0\s*$`)

// buildKubelet builds a kubelet in a module of its own: the product does not depend on Kubernetes.
// Kubernetes names the modules of its own repository as v0.0.0; they are published as staging.
func (m *maker) buildKubelet(ctx context.Context) (string, error) {
	return m.keep("kubelet-"+Kubelet, func(dir string) error {
		work, err := os.MkdirTemp(m.cache, "tmp-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work) //nolint:errcheck // what stays is named tmp- and in the way of nobody
		out, err := m.run(ctx, work, nil, "go", "mod", "download", "-json", "k8s.io/kubernetes@"+Kubelet)
		if err != nil {
			return err
		}
		goMod, err := os.ReadFile(moduleFile(out))
		if err != nil {
			return err
		}
		var text strings.Builder
		fmt.Fprintf(&text, "module e2e.invalid/kubelet\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes %s\n\n", Kubelet)
		for _, found := range stagingModule.FindAllStringSubmatch(string(goMod), -1) {
			fmt.Fprintf(&text, "replace %s => %s %s\n", found[1], found[1], staging)
		}
		if err := os.WriteFile(filepath.Join(work, "go.mod"), []byte(text.String()), 0o644); err != nil {
			return err
		}
		importer := "package main\n\nimport _ \"k8s.io/kubernetes/cmd/kubelet/app\"\n\nfunc main() {}\n"
		if err := os.WriteFile(filepath.Join(work, "main.go"), []byte(importer), 0o644); err != nil {
			return err
		}
		if _, err := m.run(ctx, work, static, "go", "mod", "tidy", "-e"); err != nil {
			return err
		}
		const version = "k8s.io/component-base/version"
		_, err = m.run(ctx, work, static, "go", build("-mod=mod", "-tags", "providerless",
			"-ldflags", "-s -w -X "+version+".gitVersion="+Kubelet+" -X "+version+".gitMajor=1 -X "+version+".gitMinor=36",
			"-o", filepath.Join(dir, "kubelet"), "k8s.io/kubernetes/cmd/kubelet")...)
		return err
	})
}

// moduleFile is the field GoMod of what go mod download -json prints.
func moduleFile(out string) string {
	_, rest, _ := strings.Cut(out, `"GoMod": "`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}
