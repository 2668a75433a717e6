package parts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// program is a Go program of another project.
type program struct {
	// name is the name of its file. In a list of several programs, it is the last element of pkg.
	name string
	// pkg is the import path of its package main.
	pkg string
}

// String returns the name of the program.
func (p program) String() string { return p.name }

// These are modules of this repository that require other projects' programs. They use the same
// versions of libraries as the modules under test, so that Go's cache has most of the packages.
const (
	kubernetesModule = "test/programs"
	helmModule       = "test/chart"
)

const kubernetes = "k8s.io/kubernetes"

var (
	kubelet = program{"kubelet", kubernetes + "/cmd/kubelet"}
	etcd    = program{"etcd", "go.etcd.io/etcd/server/v3"}
	helm    = program{"helm", "helm.sh/helm/v4/cmd/helm"}
)

// RecordedKubelet finds or makes the kubelet whose answers test/record has for a minor, for example
// "1.34". source is the directory of the product's module.
func RecordedKubelet(ctx context.Context, source, minor string, say func(format string, args ...any)) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	m := &maker{cache: cache, repository: source, say: say}
	dir, err := m.buildPrograms(ctx, "kubelet", filepath.Join("test", "record", "kubelet-"+minor), kubelet)
	return filepath.Join(dir, kubelet.name), err
}

// controlPlane lists the programs of Kubernetes that run on this machine.
var controlPlane = []program{
	{"kube-apiserver", kubernetes + "/cmd/kube-apiserver"},
	{"kube-controller-manager", kubernetes + "/cmd/kube-controller-manager"},
	{"kube-scheduler", kubernetes + "/cmd/kube-scheduler"},
	{"kubectl", kubernetes + "/cmd/kubectl"},
}

// buildPrograms builds programs in a module of this repository and returns their directory in the
// cache. The name of that directory has a digest of the module's requirements.
func (m *maker) buildPrograms(ctx context.Context, name, module string, list ...program) (string, error) {
	module = filepath.Join(m.repository, module)
	goMod, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return "", err
	}
	goSum, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return "", err
	}
	linker := "-s -w" + versionFlags(goMod)
	digest := sha256.Sum256(append(goMod, goSum...))
	return m.keep(name+"-"+hex.EncodeToString(digest[:])[:12], func(dir string) error {
		args := build("-ldflags", linker, "-o", filepath.Join(dir, list[0].name), list[0].pkg)
		if len(list) > 1 { // Linking takes one core. So one program is linked while others are compiled.
			args = build("-ldflags", linker, "-o", dir+"/")
			for _, p := range list {
				args = append(args, p.pkg)
			}
		}
		m.say("building %s", list)
		_, err := m.run(ctx, module, static, "go", args...)
		return err
	})
}

var requiredKubernetes = regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(kubernetes) + ` v(\d+)\.(\d+)\.(\S+)`)

// versionFlags returns flags of the linker with which a program of Kubernetes reports the version
// that a module requires. They are empty if the module does not require Kubernetes.
func versionFlags(goMod []byte) string {
	found := requiredKubernetes.FindSubmatch(goMod)
	if found == nil {
		return ""
	}
	const variable = " -X k8s.io/component-base/version.git"
	major, minor, patch := found[1], found[2], found[3]
	return fmt.Sprintf("%sVersion=v%s.%s.%s%sMajor=%s%sMinor=%s", variable, major, minor, patch, variable, major, variable, minor)
}
