package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// The kubelet does not start with a damaged dra_manager_state. With a damaged
// kubelet_internal_checkpoint it starts without knowing which devices running pods have, so it
// gives these devices to other pods. That is worse, and the kubelet reports it only in one line of
// its log. So a damaged checkpoint counts as a loss. This also applies if the file has no pods,
// because nothing protects that content either.

// firstWithClaims is the oldest release whose dra_manager_state is known here. ResourceClaims are
// stable since that release.
const firstWithClaims = 34

// verifyDevices checks a file about devices by itself.
func (d *Diagnosis) verifyDevices(data []byte, k kubeletstate.Kubelet) {
	f, err := kubeletstate.RecogniseDevices(data)
	if err == nil && f.Manager != d.Manager {
		err = fmt.Errorf("a file of the %s", f.Manager)
	}
	if d.Manager == kubeletstate.DRAManager && k.Minor < firstWithClaims {
		d.doubt("R-ST-90", fmt.Sprintf("the format of dra_manager_state is known from 1.%d on; this kubelet is %s", firstWithClaims, k), plain("if another kubelet starts, ask about that version; else drain the node of pods with ResourceClaims"))
	}
	const (
		corrupted = "checkpoint is corrupted"
		goesOn    = "Continue after failing to read checkpoint file. Device allocation info may NOT be up-to-date"
	)
	switch {
	case err != nil && d.Manager == kubeletstate.DRAManager:
		d.fault("R-ST-91", "failed to get checkpoint dra_manager_state: "+err.Error(), fmt.Sprintf("the file is %v", err),
			plain("restore it from a copy if there is one, else "+drain))
		return
	case err != nil:
		d.loss("R-ST-93", goesOn, fmt.Sprintf("the file is %v: the kubelet starts without it and gives the devices of running pods to others", err),
			plain("restore it from a copy if there is one, else delete the pods with devices before the kubelet starts"))
		return
	}
	d.Devices = f
	switch {
	case f.Checksum.Valid():
	case d.Manager == kubeletstate.DRAManager:
		d.fault("R-ST-91", "failed to get checkpoint dra_manager_state: "+corrupted,
			fmt.Sprintf("its checksum is %s: it was changed after it was written", f.Checksum), d.repair())
	default:
		d.loss("R-ST-93", goesOn, fmt.Sprintf("its checksum is %s: it was changed after it was written. The kubelet starts without it "+
			"and gives the devices of running pods to others", f.Checksum), d.repair())
	}
}

// Compare adds findings to the diagnoses of the files of one node that only a comparison of several
// files, or of a file and the pods, can show: entries of pods that are gone, devices that two pods
// have, pods that one file has and others have not, and devices on other NUMA nodes than the CPUs
// of their pod.
func Compare(all []*Diagnosis, s Setup, pods Pods) {
	n := comparison{setup: s, pods: pods, cpus: map[string]cpuset.Set{}}
	for _, d := range all {
		if d.Read == nil {
			continue
		}
		if l := d.Read; l.CPU != nil && l.CPU.Policy == "static" || l.Memory != nil && l.Memory.Policy == "Static" {
			n.known = append(n.known, (&State{CPU: l.CPU, Memory: l.Memory}).Pods()...)
			n.static = true
		}
		if d.Read.CPU == nil {
			continue
		}
		lists, err := readLists(d.Read.CPU)
		if err != nil {
			continue // verifyCPU reports it.
		}
		for _, a := range lists.all() {
			n.cpus[a.uid] = n.cpus[a.uid].Union(a.cpus)
			if a.container != "" {
				n.cpus[a.uid+"/"+a.container] = a.cpus
			}
		}
	}
	for _, d := range all {
		if d.Devices != nil {
			n.devices(d)
		} else if d.Read != nil && pods.Alive != nil {
			n.gone(d, (&State{CPU: d.Read.CPU, Memory: d.Read.Memory}).Pods(), "what it has is free again after the kubelet's first reconciliation", "R-ST-57",
				plain("nothing, or "+d.repair().text))
		}
	}
}

// comparison has the combined content of the files of a node.
type comparison struct {
	setup Setup
	pods  Pods
	// known are the pods in the CPU and memory files with a static policy. static is set if there
	// is such a file.
	known  []string
	static bool
	// cpus has the CPUs of each pod, keyed by UID, and of each container, keyed by "uid/name".
	cpus map[string]cpuset.Set
}

// gone adds a note if any of the pods no longer exist.
func (n *comparison) gone(d *Diagnosis, uids []string, what, rule string, do advice) {
	var gone []string
	for _, uid := range uids {
		if n.pods.Alive != nil && !n.pods.Alive(uid) {
			gone = append(gone, uid)
		}
	}
	switch len(gone) {
	case 0:
	case 1:
		d.note(rule, fmt.Sprintf("pod %s is gone; %s", gone[0], what), do)
	default:
		d.note(rule, fmt.Sprintf("pods %s are gone; for each, %s", strings.Join(gone, ", "), what), do)
	}
}

// devices compares a file about devices with the others.
func (n *comparison) devices(d *Diagnosis) {
	if d.Manager == kubeletstate.DRAManager {
		n.gone(d, d.Devices.Pods(), "the kubelet makes the driver unprepare its claims within a minute after its start", "R-ST-94",
			plain("nothing: deleting the entry would leave the devices prepared"))
	} else {
		n.gone(d, d.Devices.Pods(), "the kubelet drops its devices with the next allocation, and until then the file keeps them", "R-ST-94",
			plain("nothing, or "+d.repair().text))
	}
	if n.pods.Alive == nil && n.static {
		var strangers []string
		for _, uid := range d.Devices.Pods() {
			if !slices.Contains(n.known, uid) {
				strangers = append(strangers, uid)
			}
		}
		if len(strangers) > 0 {
			d.note("R-ST-94", fmt.Sprintf("pods with devices that are not in the CPU and memory files: %s. A pod that is not Guaranteed is right like this; "+
				"any other is gone, or its CPUs are lost", strings.Join(strangers, ", ")), plain("name the pods of the node with --pods, which shows those that are gone"))
		}
	}
	for _, device := range sharedDevices(d.Devices, n.pods) {
		d.note("R-ST-95", device, plain("name the pods of the node with --pods: if one is gone, nothing; else delete one of them, so that it is created again"))
	}
	n.apart(d)
}

// sharedDevices names the devices that several pods have at once. Devices of ResourceClaims can be
// shared, but devices of plugins cannot.
func sharedDevices(f *kubeletstate.DeviceFile, pods Pods) []string {
	owners := map[string][]string{} // the pods of each device, in the order of the file
	for _, e := range f.Entries {
		for id := range e.NUMANodes() {
			device := fmt.Sprintf("device %s of %s", id, e.ResourceName)
			if !slices.Contains(owners[device], e.PodUID) && (pods.Alive == nil || pods.Alive(e.PodUID)) {
				owners[device] = append(owners[device], e.PodUID)
			}
		}
	}
	var shared []string
	for _, device := range slices.Sorted(maps.Keys(owners)) {
		if uids := owners[device]; len(uids) > 1 {
			shared = append(shared, fmt.Sprintf("%s is assigned to pods %s", device, strings.Join(uids, " and ")))
		}
	}
	return shared
}

// apart reports devices that are near none of the NUMA nodes of their container's CPUs, or of the
// pod's CPUs if the container has no exclusive ones.
func (n *comparison) apart(d *Diagnosis) {
	if n.setup.Machine == nil {
		return
	}
	for _, e := range d.Devices.Entries {
		cpus, has := n.cpus[e.PodUID+"/"+e.ContainerName]
		if !has {
			cpus = n.cpus[e.PodUID]
		}
		on := n.setup.Machine.NodesOf(cpus)
		if on.IsEmpty() {
			continue
		}
		devices := e.NUMANodes()
		for _, id := range slices.Sorted(maps.Keys(devices)) {
			if nodes := devices[id]; len(nodes) > 0 && !slices.ContainsFunc(nodes, on.Has) {
				d.note("R-ST-96", fmt.Sprintf("container %s of pod %s: device %s of %s is on NUMA node %s, its CPUs %s are on NUMA node %s",
					e.ContainerName, e.PodUID, id, e.ResourceName, numbers(devices[id]), cpus, numbers(on.Nodes())),
					plain("nothing, if the pod may be slow; else delete it, so that it is placed again under a topology policy that aligns it"))
			}
		}
	}
}

// RepairDevices converts a file about devices that the kubelet cannot read into one that it can. In
// a file of the Device Manager it also drops the entries of pods that are gone, as the kubelet does
// at its next allocation. The result is nil if there is nothing to do. Entries of dra_manager_state
// are kept, because the kubelet needs them to let the driver unprepare what it prepared. The error
// wraps ErrUnmendable if the content cannot be read. It also wraps ErrUnmendable if the content was
// changed and has no pods, or has one device for two pods: then nothing shows which pods have
// devices.
func RepairDevices(m kubeletstate.Manager, data []byte, pods Pods) ([]byte, []Remark, error) {
	f, err := kubeletstate.RecogniseDevices(data)
	if err == nil && f.Manager != m {
		err = fmt.Errorf("it is a file of the %s", f.Manager)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w; there is nothing to repair it from: drain the node and delete it", ErrUnmendable, err)
	}
	var c conversion
	if !f.Checksum.Valid() {
		if len(f.Pods()) == 0 {
			return nil, nil, fmt.Errorf("%w: its checksum is %s, and it has no pods: it was changed, and nothing shows whether it had any; drain the node and delete it",
				ErrUnmendable, f.Checksum)
		}
		if shared := sharedDevices(f, pods); len(shared) > 0 {
			return nil, nil, fmt.Errorf("%w: its checksum is %s, and %s: find out which of them has it, delete the others, and name those that are there with --pods",
				ErrUnmendable, f.Checksum, strings.Join(shared, ", "))
		}
		for _, uid := range f.Pods() {
			c.remarks = append(c.remarks, Remark{UID: uid, Check: true, What: fmt.Sprintf("the content of %s is not protected (its checksum is %s): "+
				"before the kubelet starts, compare the devices that paddock state show prints for it with those that its containers have", m.FileName(), f.Checksum)})
		}
	}
	for _, e := range f.Entries {
		for _, id := range slices.Sorted(maps.Keys(e.NUMANodes())) {
			if !f.Checksum.Valid() && !slices.Contains(f.Registered[e.ResourceName], id) {
				c.remarks = append(c.remarks, Remark{UID: e.PodUID, Check: true, What: fmt.Sprintf("device %s of %s, which container %s has in %s, "+
					"is not among the healthy ones that were registered: it is unhealthy, or its name was changed", id, e.ResourceName, e.ContainerName, m.FileName())})
			}
		}
	}
	gone := func(e kubeletstate.DeviceEntry) bool { return pods.Alive != nil && !pods.Alive(e.PodUID) }
	for _, e := range f.Entries {
		if gone(e) {
			ids := slices.Sorted(maps.Keys(e.NUMANodes()))
			c.lose(e.PodUID, "is not there any more: devices %s of %s, which its container %s had, are free again", strings.Join(ids, ", "), e.ResourceName, e.ContainerName)
		}
	}
	if f.Checksum.Valid() && len(c.remarks) == 0 {
		return nil, nil, nil
	}
	f.Entries = slices.DeleteFunc(f.Entries, gone)
	now, err := f.Encode()
	return now, c.remarks, err
}
