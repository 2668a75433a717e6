package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// Setup is what a kubelet starts with, apart from its files.
type Setup struct {
	Kubelet kubeletstate.Kubelet
	// Machine and Policy are nil if they are not known.
	Machine *machine.Machine
	Policy  *node.Policy
	// Name returns the name of a pod by its UID, or the UID. It is nil if no names are known.
	Name func(uid string) string
}

// Verify reports whether the kubelet would start on a file of the manager.
func Verify(m kubeletstate.Manager, data []byte, s Setup) *Diagnosis {
	d := &Diagnosis{Manager: m, kubelet: s.Kubelet}
	if m.HasDevices() {
		d.verifyDevices(data, s.Kubelet)
		return d
	}
	f, unread := kubeletstate.Recognise(data)
	if unread == nil {
		d.File = f
	}
	read, failed := s.Kubelet.Load(m, data)
	if last := len(failed) - 1; read == nil {
		rule, what, do := d.cause(s.Kubelet, unread)
		if last > 0 && d.File != nil { // The kubelet reports only its last attempt, which is often not the cause.
			var tried []string
			for _, a := range failed[:last] {
				tried = append(tried, a.Version.String())
			}
			what += fmt.Sprintf("; the kubelet tries the formats %s and %s, and its log has only the error about the last", strings.Join(tried, ", "), failed[last].Version)
		}
		d.fault(rule, d.restoring(failed[last].Err.Error()), what, do)
		return d
	}
	d.Read = read
	d.migrated(s.Kubelet)
	if m == kubeletstate.CPUManager {
		d.verifyCPU(read.CPU, s)
	} else {
		d.verifyMemory(read.Memory, s)
	}
	// Notes come last; otherwise the order is kept.
	slices.SortStableFunc(d.Findings, func(a, b Finding) int { return cmp.Compare(min(b.Level, Doubt), min(a.Level, Doubt)) })
	return d
}

// restoring returns the kubelet's message for an error while reading (R-ST-36).
func (d *Diagnosis) restoring(err string) string {
	manager := "CPU manager"
	if d.Manager == kubeletstate.MemoryManager {
		manager = "memory manager"
	}
	return fmt.Sprintf("could not restore state from checkpoint: %s, please drain this node and delete the %s checkpoint file %q before restarting Kubelet",
		err, manager, "/var/lib/kubelet/"+d.Manager.FileName())
}

// cause returns the actual reason why a file cannot be read.
func (d *Diagnosis) cause(k kubeletstate.Kubelet, unread error) (rule, what string, do advice) {
	f := d.File
	switch {
	case f == nil:
		return "R-ST-3", fmt.Sprintf("the file is %v", unread), plain("restore it from a copy if there is one, else " + drain)
	case f.Manager != d.Manager:
		return "R-ST-1", fmt.Sprintf("it is a file of the %s under the name of the %s", f.Manager, d.Manager), plain("put each file back under its own name")
	case f.Valid() && f.Version > k.Writes(d.Manager):
		do = d.convert()
		do.text += ", or " + drain
		if k.Minor >= 36 && !k.CountsPools() && f.Version == d.Manager.PoolsSince() {
			do = do.after("turn the gate PodLevelResourceManagers on again, or ")
		}
		writers := "1.35, or 1.36 without the gate PodLevelResourceManagers,"
		if f.Version > d.Manager.PoolsSince() {
			writers = "1.37"
		} else if f.Version == d.Manager.PoolsSince() {
			writers = "1.36 with the gate PodLevelResourceManagers"
		}
		return "R-ST-38", fmt.Sprintf("it is of version %s, which %s writes; this kubelet (%s) reads up to %s",
			f.Version, writers, k, k.Writes(d.Manager)), do
	case f.Version == d.Manager.PoolsSince() && f.Checksum.Stated == 0:
		return "R-ST-25", fmt.Sprintf("it has no checksum, and version %s asks for one", f.Version), d.repair()
	case f.Data != nil && !f.Data.Valid():
		return "R-37-6", fmt.Sprintf("its dataChecksum is %s: it was changed after it was written", *f.Data), d.repair()
	case f.Checksum.Unchecked:
		return "R-ST-25", fmt.Sprintf("it has no checksum, and this kubelet (%s) asks for one", k), d.repair()
	}
	return "R-ST-20", fmt.Sprintf("its checksum is %s: it was changed after it was written", f.Checksum), d.repair()
}

// Target returns the name that state convert uses for the kubelet.
func Target(k kubeletstate.Kubelet) string {
	switch {
	case k.Minor < 36:
		return "kubelet-1.35"
	case k.Minor > 36 && k.PodLevelManagers:
		return "kubelet-1.37"
	case k.Minor > 36:
		return "kubelet-1.37-gate-off"
	case k.PodLevelManagers:
		return "kubelet-1.36"
	}
	return "kubelet-1.36-gate-off"
}

// migrated reports the consequences of reading an older or newer version.
func (d *Diagnosis) migrated(k kubeletstate.Kubelet) {
	f := d.File
	if f == nil || f.Manager != d.Manager {
		return
	}
	for _, u := range f.Unknown {
		d.note("R-ST-3", fmt.Sprintf("field %s is of no known version; the kubelet passes over it and loses it with its next write", u.Path), plain("nothing, unless you know the field"))
	}
	older := f.Data != nil && d.Read.Version <= d.Manager.PoolsSince() && hasPools(f)
	switch {
	case older && k.CountsPools():
		do := d.convert()
		do.text += " to keep the pools"
		d.note("R-37-5", fmt.Sprintf("%s was written by 1.37; this kubelet reads the part for older ones, which has no pools of pods", f.Version), do)
	case older:
		d.note("R-37-5", fmt.Sprintf("%s was written by 1.37; this kubelet reads the part for older ones, which has no pools of pods", f.Version),
			plain("nothing: this kubelet has no pools, and containers keep their CPUs and memory"))
	}
	if f.Checksum.Stated == 0 && f.Data == nil {
		d.note("R-ST-25", "it has no checksum, so nothing shows whether it was damaged", plain("nothing: the kubelet's next write has one again"))
	}
}
