package treatment

import (
	"path/filepath"
	"slices"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/node/replacement"
)

// Plan is what a conversion or a repair would do.
type Plan struct {
	// Kubelet is for whom the files are.
	Kubelet kubeletstate.Kubelet
	// Fates are what the kubelet does with each pod when it starts.
	Fates []Fate
	// Remarks are what changes, what is lost and what a person must check.
	Remarks []doctor.Remark
	// Pods have the names of pods.
	Pods inputs.Roster
	// State is Paddock's, if the files are for Paddock.
	State *node.State
	// Unprotected has for a manager why nothing would show a change of its file.
	Unprotected map[kubeletstate.Manager]string
	// Notes are about the files that were read.
	Notes []string
	// Files are to be written; none if there is nothing to repair.
	Files []*replacement.File
}

// Fate is what a kubelet does with a pod.
type Fate struct{ Pod, Text string }

// toKubelet are the files of a node to be written into dir or, without it, in place of those that
// were read.
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
		}
		out = append(out, f)
	}
	return out
}
