package inputs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/kubelet/config"
)

const header = "apiVersion: " + config.APIVersion + "\nkind: " + config.Kind + "\n"

// TestKubeletConfigDirectory checks which files of a directory are read. Its entries are created in
// order: "x/" is a directory, "x -> y" a link, "x|" a pipe, and "x 7" a file with a
// KubeletConfiguration whose maxPods is 7.
func TestKubeletConfigDirectory(t *testing.T) {
	for _, c := range []struct {
		name    string
		entries []string
		pods    int64  // maxPods, if there is no error
		err     string // DIR is the directory
	}{
		{name: "a kubelet's directory", entries: []string{"config.yaml 7", "pods/", "pods/x.yaml 8", "device-plugins/", "device-plugins/kubelet.sock|"}, pods: 7},
		{name: "drop-ins in their order", entries: []string{"config.yaml 7", "config.yaml.d/", "config.yaml.d/20.conf 20", "config.yaml.d/10.conf 10", "config.yaml.d/30.yaml 30"}, pods: 20},
		{
			name:    "drop-ins in subdirectories, in the order of a walk",
			entries: []string{"config.yaml 7", "config.yaml.d/", "config.yaml.d/10.conf 10", "config.yaml.d/15/", "config.yaml.d/15/99.conf 15", "config.yaml.d/12.conf 12"}, pods: 15,
		},
		{name: "names, not numbers, are compared", entries: []string{"config.yaml 7", "a.d/", "a.d/9.conf 9", "a.d/10.conf 10"}, pods: 9},
		{name: "links, as in a ConfigMap", entries: []string{"..1/", "..1/config.yaml 7", "..data -> ..1", "config.yaml -> ..data/config.yaml"}, pods: 7},
		{name: "links of drop-ins", entries: []string{"config.yaml 7", "real/", "real/10.conf 10", "config.yaml.d -> real"}, pods: 10},
		{name: "systemd's drop-ins", entries: []string{"config.yaml 7", "kubelet.service.d/", "kubelet.service.d/10-kubeadm.conf 10"}, pods: 7},
		{name: "an empty directory of drop-ins", entries: []string{"config.yaml 7", "a.d/", "b.d/", "b.d/10.conf 10"}, pods: 10},
		{name: "no config.yaml", entries: []string{"kubelet.conf.d/", "kubelet.conf.d/00-k3s.conf 3"}, pods: 3},
		{name: "a pipe and a broken link", entries: []string{"config.yaml 7", "x.yaml|", "y.yaml -> nowhere"}, pods: 7},
		{
			name: "two directories of drop-ins", entries: []string{"config.yaml 7", "a.d/", "a.d/10.conf 10", "b.d/", "b.d/10.conf 10"},
			err: "--kubelet-config: DIR has several directories of drop-ins: a.d, b.d; keep only that of the kubelet's --config-dir, or name the answer of /configz",
		},
		{name: "an empty directory", err: "--kubelet-config: DIR has no configuration of a kubelet: expected config.yaml, drop-ins in config.yaml.d, or the answer of /configz (kubectl get --raw /api/v1/nodes/NODE/proxy/configz)"},
		{name: "a pipe as a drop-in", entries: []string{"config.yaml 7", "a.d/", "a.d/10.conf|"}, err: "--kubelet-config: DIR/a.d/10.conf is a pipe, which the kubelet cannot read as a drop-in: remove it"},
		{name: "a link to nothing as a drop-in", entries: []string{"config.yaml 7", "a.d/", "a.d/10.conf -> nowhere"}, err: "--kubelet-config: stat DIR/a.d/10.conf: no such file or directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, entry := range c.entries {
				create(t, dir, entry)
			}
			checkPods(t, dir, c.pods, c.err)
		})
	}
}

func create(t *testing.T, dir, entry string) {
	t.Helper()
	name, number, _ := strings.Cut(entry, " ")
	path := filepath.Join(dir, strings.TrimSuffix(name, "|"))
	err := os.WriteFile(path+"~", nil, 0o600) // A file that is ignored.
	switch {
	case err != nil:
	case strings.HasSuffix(name, "/"):
		err = os.Mkdir(path, 0o700)
	case strings.HasSuffix(name, "|"):
		err = syscall.Mkfifo(path, 0o600)
	case strings.HasPrefix(number, "-> "):
		err = os.Symlink(number[3:], path)
	default:
		err = os.WriteFile(path, []byte(header+"maxPods: "+number), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func checkPods(t *testing.T, name string, pods int64, wrong string) {
	t.Helper()
	c, err := inputs.Reader{Names: inputs.Flags}.KubeletConfig(name)
	if err != nil || wrong != "" {
		if wrong = strings.ReplaceAll(wrong, "DIR", name); err == nil || err.Error() != wrong {
			t.Errorf("%v\nwant %s", err, wrong)
		}
		return
	}
	found, err := inputs.Reader{}.Machine("../../../examples/machines/vm-4cpu.json")
	if err != nil {
		t.Fatal(err)
	}
	if a := c.Allocatable(found.Machine); a.Pods != pods {
		t.Errorf("maxPods %d, want %d", a.Pods, pods)
	}
}

// TestDropInDirectory checks that a directory of drop-ins can be named itself, with its
// subdirectories.
func TestDropInDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kubelet.conf.d")
	for _, entry := range []string{"", "00-k3s.conf 3", "10-own.conf 4", "sub.d/", "sub.d/99.conf 5"} {
		if entry == "" {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		create(t, dir, entry)
	}
	checkPods(t, dir, 5, "")
}

// TestKubeletConfigDirectoryIsBounded checks the limits of a directory.
func TestKubeletConfigDirectoryIsBounded(t *testing.T) {
	large := header + "#" + strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		names []string
		text  string
		err   string
	}{
		"drop-ins":      {numbered("a.d/%d.conf", 201), header, "--kubelet-config: DIR/a.d has more than 200 drop-ins: name the answer of /configz instead"},
		"entries":       {numbered("%d", 2001), "", "--kubelet-config: DIR has more than 2000 entries: name the KubeletConfiguration, or the answer of /configz"},
		"entries below": {numbered("a.d/%d", 2001), "", "--kubelet-config: DIR/a.d has more than 2000 entries: expected only the drop-ins of the kubelet there"},
		"a large file":  {[]string{"config.yaml"}, large, "--kubelet-config: DIR has no configuration of a kubelet: expected config.yaml, drop-ins in config.yaml.d, or the answer of /configz (kubectl get --raw /api/v1/nodes/NODE/proxy/configz)"},
		"a large drop-in": {
			[]string{"a.d/10.conf"},
			large,
			"--kubelet-config: DIR/a.d/10.conf is too large: it has more than 1 MiB, the most that is read",
		},
		"compressed": {[]string{"config.yaml"}, "\x1f\x8b", `--kubelet-config: DIR/config.yaml is compressed with gzip: unpack it first, or read it from "gunzip -c" through -`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "a.d"), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range c.names {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(c.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			checkPods(t, dir, 0, c.err)
		})
	}
}

func numbered(format string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(format, i)
	}
	return names
}
