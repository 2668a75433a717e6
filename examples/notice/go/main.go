// Notice follows the notice of this container. It prints the container's CPUs and NUMA nodes, and
// each change of them.
//
//	go run . [DIRECTORY]
//
// It needs Linux and the standard library. The pod requests the file with the annotation
// paddock-project.github.io/notice: "*".
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const version = "notice.paddock-project.github.io/v1"

// notice has the fields that this program uses. Other fields, including those of later versions,
// are ignored.
type notice struct {
	APIVersion string `json:"apiVersion"`
	Revision   uint64 `json:"revision"`
	CPUs       string `json:"cpus"`
	Mems       string `json:"mems"`
	SharedWith string `json:"sharedWith"`
	Pending    *struct {
		CPUs     string `json:"cpus"`
		Mems     string `json:"mems"`
		Deadline string `json:"deadline"`
	} `json:"pending"`
}

func main() {
	directory := "/run/paddock-notice"
	if len(os.Args) > 1 {
		directory = os.Args[1]
	}
	fmt.Fprintf(os.Stderr, "%s: %v: this container has no notice\n", directory, follow(directory))
	os.Exit(1)
}

// follow prints the notice and each change of it. It returns the error that ends it.
func follow(directory string) error {
	watch, err := syscall.InotifyInit1(syscall.IN_CLOEXEC)
	if err != nil {
		return err
	}
	// The watch starts before the first read, so that no change is missed.
	if _, err := syscall.InotifyAddWatch(watch, directory, syscall.IN_MOVED_TO|syscall.IN_ONLYDIR); err != nil {
		return err
	}
	events := make([]byte, 4096)
	for {
		line, err := read(directory)
		if err != nil {
			return err
		}
		fmt.Println(line)
		for { // Several events count as one change, because the file is always the newest.
			if _, err = syscall.Read(watch, events); !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		if err != nil {
			return err
		}
	}
}

// read returns the file as one line. The file is replaced by a rename, so it is never incomplete.
func read(directory string) (string, error) {
	data, err := os.ReadFile(filepath.Join(directory, "notice.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return "no notice yet", nil
	}
	if err != nil {
		return "", err
	}
	var n notice
	if err := json.Unmarshal(data, &n); err != nil {
		return "", err
	}
	if n.APIVersion != version {
		return "a notice of another version", nil
	}
	line := fmt.Sprintf("notice revision %d cpus %s mems %s sharedWith %s", n.Revision, n.CPUs, n.Mems, n.SharedWith)
	if p := n.Pending; p != nil {
		line += fmt.Sprintf(" pending cpus %s mems %s deadline %s", p.CPUs, p.Mems, p.Deadline)
	}
	return line, nil
}
