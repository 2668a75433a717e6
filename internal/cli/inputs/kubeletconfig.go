package inputs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/base/bounded"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
)

// Limits of a directory with a kubelet's configuration. A KubeletConfiguration and the answer of
// /configz are a few KiB, and a kubelet's own directory has about 20 entries.
const (
	maxConfig  = 1 << 20
	maxEntries = 2000
	maxDropIns = 200
)

// KubeletConfig reads the configuration of a kubelet: a KubeletConfiguration, the answer of the
// kubelet's /configz, or a directory with one of these and with drop-ins, as kubeletcfg.ReadFolder
// chooses.
func (r Reader) KubeletConfig(name string) (*kubeletcfg.Config, error) {
	config, err := r.kubeletConfig(name)
	if err != nil {
		return nil, err
	}
	return config.For(r.Minor).Running(r.Gates), nil
}

func (r Reader) kubeletConfig(name string) (*kubeletcfg.Config, error) {
	if name != "-" && isDir(name) {
		folder, err := readFolder(name)
		if err != nil {
			return nil, of(r.Names.Policy, err)
		}
		config, err := kubeletcfg.ReadFolder(folder)
		if errors.Is(err, kubeletcfg.ErrSyntax) {
			return nil, err // It is about a file, and names it.
		}
		return config, of(r.Names.Policy, err)
	}
	data, err := r.named(r.Names.Policy, name)
	if err != nil {
		return nil, err
	}
	return kubeletcfg.Read(name, data)
}

// isDir reports whether a path is a directory, or a link to one.
func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// readFolder reads the files of a directory that may be a kubelet's configuration, and its
// drop-ins. It does not open pipes, sockets and large files, which are no configuration.
func readFolder(dir string) (kubeletcfg.Folder, error) {
	folder := kubeletcfg.Folder{Name: dir}
	names, err := list(dir)
	if err != nil {
		return folder, err
	}
	// A directory of drop-ins alone can be named too: k3s has no other file.
	own := isDropInDir(filepath.Base(filepath.Clean(dir)))
	dropIns := []string{}
	if own {
		dropIns = append(dropIns, dir)
	}
	size := 0
	for _, name := range names {
		path, ext := filepath.Join(dir, name), filepath.Ext(name)
		info, err := os.Stat(path)
		switch {
		case err != nil: // For example a link to a file that was not collected.
			continue
		case info.IsDir():
			if !own && isDropInDir(name) {
				dropIns = append(dropIns, path)
			}
			continue
		case !info.Mode().IsRegular() || info.Size() > maxConfig || own && ext == kubeletcfg.DropInExt,
			!slices.Contains([]string{".yaml", ".yml", ".json", kubeletcfg.DropInExt}, ext) && !strings.Contains(name, "configz"):
			continue
		}
		data, err := readSmall(path)
		if err != nil {
			return folder, err
		}
		if size += len(data); size > MaxFile {
			return folder, fmt.Errorf("%s has too many files: name the KubeletConfiguration, or the answer of /configz", dir)
		}
		folder.Files = append(folder.Files, kubeletcfg.File{Name: path, Data: data})
	}
	return folder, addDropIns(&folder, dropIns)
}

// isDropInDir reports whether a directory has a name like config.yaml.d, kubelet.conf.d or
// config.json.d. The drop-ins of systemd, in kubelet.service.d, also end with .conf, but are other
// files.
func isDropInDir(name string) bool {
	return filepath.Ext(name) == ".d" && !strings.HasSuffix(name, ".service.d")
}

// list returns the names in a directory in lexical order.
func list(dir string) ([]string, error) {
	opened, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	names, err := opened.Readdirnames(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(names) > maxEntries {
		return nil, fmt.Errorf("%s has more than %d entries: name the KubeletConfiguration, or the answer of /configz", dir, maxEntries)
	}
	slices.Sort(names)
	return names, nil
}

// addDropIns reads the drop-ins of the only one of the directories that has any.
func addDropIns(folder *kubeletcfg.Folder, dirs []string) error {
	for _, dir := range dirs {
		files, err := readDropIns(dir)
		switch {
		case err != nil:
			return err
		case len(files) == 0:
			continue
		case folder.DropInDir != "":
			return fmt.Errorf("%s has several directories of drop-ins: %s, %s; keep only that of the kubelet's --config-dir, or name the answer of /configz",
				folder.Name, filepath.Base(folder.DropInDir), filepath.Base(dir))
		}
		folder.DropIns, folder.DropInDir = files, dir
	}
	return nil
}

// readDropIns reads the drop-ins of a directory in the order in which the kubelet merges them: that
// of filepath.WalkDir, which also visits subdirectories, each in its place among the files.
func readDropIns(dir string) ([]kubeletcfg.File, error) {
	var files []kubeletcfg.File
	entries := 0
	// With a slash at its end, WalkDir follows a link to a directory.
	err := filepath.WalkDir(dir+string(filepath.Separator), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entries++; entries > maxEntries {
			return fmt.Errorf("%s has more than %d entries: expected only the drop-ins of the kubelet there", dir, maxEntries)
		}
		if entry.IsDir() || filepath.Ext(path) != kubeletcfg.DropInExt {
			return nil
		}
		if len(files) == maxDropIns {
			return fmt.Errorf("%s has more than %d drop-ins: name the answer of /configz instead", dir, maxDropIns)
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is a %s, which the kubelet cannot read as a drop-in: remove it", path, kindOf(info.Mode()))
		}
		data, err := readSmall(path)
		files = append(files, kubeletcfg.File{Name: path, Data: data})
		return err
	})
	return files, err
}

// kindOf names what is not a regular file.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeNamedPipe != 0:
		return "pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// readSmall reads a file of at most maxConfig bytes.
func readSmall(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := bounded.Read(path, file, maxConfig)
	if err == nil {
		err = bounded.Unpacked(path, data)
	}
	return data, err
}
