package treatment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"slices"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/base/malformed"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// savedFormat is the first member of a saved state of a kubelet.
const savedFormat = "paddock-kubelet-state"

// savedHead is the first line of a saved state of a kubelet. The other lines are a state file of
// Paddock with the pods. The head has what a state of Paddock cannot have: which kubelet decides,
// and what it has lost.
type savedHead struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Kubelet string `json:"kubelet"`
	// Shared is the node shared pool, and Memory is the accounting of memory.
	Shared string                     `json:"sharedCPUs"`
	Memory []v1alpha1.AccountedMemory `json:"memory,omitempty"`
	// Unsure are the doubts about pods with CPUs, memory or devices of their own, and Devices those
	// about pods that ask for a resource.
	Unsure  []view.Doubt          `json:"unsure,omitempty"`
	Devices map[string]view.Doubt `json:"devices,omitempty"`
	// Faults are why the kubelet does not start again on its files, and Repair is the command that
	// shows a repair; see Shown.
	Faults []Fault `json:"faults,omitempty"`
	Repair string  `json:"repair,omitempty"`
	// Checksum is the CRC-32 (IEEE) of the other lines.
	Checksum uint32 `json:"checksum"`
}

// Save returns a file with the state of a kubelet: its pods, its version, and what is neither free
// nor assigned. s is a state that was made from that of found, which is nil if the state is not
// from a kubelet's files. waiting are the names of the pods about which the kubelet has not
// decided. It returns an error if Saved cannot read the file.
func Save(s *node.State, version behavior.Version, found *Shown, waiting []string) ([]byte, error) {
	state, err := statefile.Encode(s)
	if err != nil {
		return nil, err
	}
	head := savedHead{Format: savedFormat, Version: 1, Kubelet: version.String(), Shared: s.SharedCPUs().String(), Checksum: crc32.ChecksumIEEE(state)}
	head.Memory = objects.AccountedMemory(s)
	for _, r := range s.Residue() {
		if !r.Twice.IsEmpty() {
			return nil, fmt.Errorf("the kubelet has given CPUs %s to two pods, and no file has such a state", r.Twice)
		}
	}
	found.doubtsOf(&head)
	if len(waiting) > 0 {
		head.Unsure = append(head.Unsure, view.Doubt{
			Reason: fmt.Sprintf("when the state was saved, the kubelet had not decided about %d pods that were bound to the node, such as %s", len(waiting), waiting[0]),
			Give:   "plan on the files of the kubelet again when these pods have started or failed",
		})
	}
	first, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	return slices.Concat(first, []byte("\n"), state), nil
}

// doubtsOf adds the doubts about a state to its file.
func (s *Shown) doubtsOf(head *savedHead) {
	if s == nil {
		return
	}
	head.Unsure = append(head.Unsure, s.doubts...)
	head.Faults, head.Repair = s.Faults, s.Repair
	if s.devices != nil {
		head.Devices = maps.Clone(s.devices.counts)
	}
}

// OfSaved reports whether a path is a state of a kubelet that was saved. It does not read a pipe.
func OfSaved(r inputs.Reader, path string) (bool, error) {
	info, err := os.Stat(path)
	if path == "" || path == "-" || err != nil || !info.Mode().IsRegular() {
		return false, nil //nolint:nilerr // Whoever reads the file reports the error.
	}
	data, err := r.File(path)
	return err == nil && bytes.HasPrefix(data, []byte(`{"format":"`+savedFormat+`"`)), err
}

// Saved reads a state of a kubelet that was saved, on a node. It returns the version of the
// kubelet.
func Saved(r inputs.Reader, path string, n *inputs.Node) (*Shown, error) {
	head, state, err := readSaved(r, path)
	if err != nil {
		return nil, err
	}
	version, err := behavior.Named("kubelet-" + head.Kubelet)
	if err != nil {
		return nil, fmt.Errorf("%s: kubelet: %w", path, err)
	}
	as, err := behavior.Of(version)
	if err != nil {
		return nil, fmt.Errorf("%s: kubelet: %w", path, err)
	}
	file, err := statefile.Decode(path, state)
	if err != nil {
		return nil, err
	}
	restored, err := node.Restore(n.Found.Machine, n.Policy.Policy, file.Grants)
	if err != nil {
		return nil, fmt.Errorf("%s is not valid on this machine with this configuration: %w", path, err)
	}
	shared, err := cpuset.Parse(head.Shared)
	if err != nil {
		return nil, fmt.Errorf("%s: sharedCPUs: %w", path, err)
	}
	accounting, err := objects.ReadAccountedMemory(restored.Memory().Capacity(), head.Memory)
	if err != nil {
		return nil, fmt.Errorf("%s: memory: %w", path, err)
	}
	out := &Shown{Faults: head.Faults, Repair: head.Repair, devices: &devices{inventory: n.Devices, counts: head.Devices, saved: true}}
	if changed := file.Changes(n.Found.Machine, file.Policy); len(changed) > 0 {
		out.doubts = append(out.doubts, foreign(path, changed[0]))
	}
	out.doubts = append(out.doubts, head.Unsure...)
	out.State, err = restored.Resume(file.Generation).As(as).Found(shared, accounting).WithDevices(n.Devices)
	return out, err
}

// SavedVersion returns the version of the kubelet of a state that was saved.
func SavedVersion(r inputs.Reader, path string) (behavior.Version, error) {
	head, _, err := readSaved(r, path)
	if err != nil {
		return behavior.Version{}, err
	}
	return behavior.Named("kubelet-" + head.Kubelet)
}

// readSaved returns the head and the other lines.
func readSaved(r inputs.Reader, path string) (head savedHead, state []byte, err error) {
	data, err := r.File(path)
	if err != nil {
		return head, nil, err
	}
	first, state, _ := bytes.Cut(data, []byte("\n"))
	err = malformed.JSON(first, json.Unmarshal(first, &head))
	switch {
	case err != nil:
	case head.Format != savedFormat || head.Version != 1:
		err = fmt.Errorf("its form is %s %d: this version of Paddock reads %s 1", head.Format, head.Version, savedFormat)
	case head.Checksum != crc32.ChecksumIEEE(state):
		err = errors.New("its checksum is wrong: save it again")
	}
	if err != nil {
		return head, nil, fmt.Errorf("%s: %w", path, err)
	}
	return head, state, nil
}
