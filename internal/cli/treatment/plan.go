package treatment

import (
	"bytes"
	"path/filepath"
	"slices"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/node/replacement"
)

// Plan describes what a conversion or a repair would do.
type Plan struct {
	// Kubelet is the kubelet for which the files are.
	Kubelet kubeletstate.Kubelet
	// Fates describe what the kubelet does with each pod when it starts.
	Fates []Fate
	// Remarks describe what changes, what is lost and what a person must check.
	Remarks []doctor.Remark
	// Pods has the names of pods.
	Pods inputs.Roster
	// State is Paddock's state, if the files are for Paddock.
	State *node.State
	// Unprotected maps a manager to the reason why nothing would reveal a change of its file.
	Unprotected map[kubeletstate.Manager]string
	// Steps are what to do, in this order, if the start after a repair changes pods. The repair of
	// the files is one of them.
	Steps []string
	// Notes are about the files that were read, including the configuration.
	Notes []string
	// Files are the files to be written. There are none if there is nothing to repair.
	Files []*replacement.File
}

// Fate describes what a kubelet does with a pod.
type Fate struct{ Pod, Text string }

// toKubelet returns the files of a node to be written into dir. If dir is empty, they replace those
// that were read, and those that would not change are left out.
func toKubelet(files map[kubeletstate.Manager][]byte, dir string, read []Text) []*replacement.File {
	var out []*replacement.File
	for _, m := range managers {
		data, has := files[m]
		if !has {
			continue
		}
		f := &replacement.File{Path: filepath.Join(dir, m.FileName()), Data: data}
		if i := slices.IndexFunc(read, func(t Text) bool { return t.Manager == m }); dir == "" && i >= 0 {
			f.Path, f.Was = read[i].Name, read[i].Data
			if bytes.Equal(f.Data, f.Was) {
				continue
			}
		}
		out = append(out, f)
	}
	return out
}
