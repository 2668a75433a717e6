package nri

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/converge"
)

// publishUnmanaged publishes, and logs once, that this node is not managed.
func (l *loop) publishUnmanaged() {
	first := l.Status().Unmanaged == nil
	l.publish()
	if first {
		l.config.Log.ErrorContext(l.flow, "Paddock does not manage this node", "error", l.Status().Unmanaged)
	}
}

// unmanaged is the reason why Paddock does not manage this node; nil: it does.
func (l *loop) unmanaged() error {
	if len(l.foreign) == 0 {
		return nil
	}
	names := make([]string, 0, len(l.foreign))
	var one foreigner
	for _, f := range l.foreign {
		name := f.pod + "/" + f.name
		if len(names) == 0 || name < slices.Min(names) {
			one = f
		}
		names = append(names, name)
	}
	slices.Sort(names)
	more := ""
	if len(names) > 1 {
		more = fmt.Sprintf(" (and %d others: %s)", len(names)-1, strings.Join(names[1:min(len(names), 5)], ", "))
	}
	return fmt.Errorf("container %s of pod %s%s has cpuset.cpus %q and cpuset.mems %q, which are not in Paddock's state: the kubelet's own managers or another NRI plugin manage this node, "+
		"and two managers would overwrite each other's settings. Set cpuManagerPolicy: none and memoryManagerPolicy: None in the kubelet's configuration, remove its "+
		"cpu_manager_state and memory_manager_state, restart the kubelet, and restart these pods. Paddock then manages this node. If an earlier Paddock left these CPUs, set nri.takeOver: true",
		one.name, one.pod, more, one.setting.CPUs, memsText(one.setting.Mems))
}

// publish shows readers the present status.
func (l *loop) publish() {
	unenforced := map[string]bool{}
	for _, uid := range l.adopting {
		unenforced[uid] = true
	}
	w := l.want()
	for _, c := range l.table.containers {
		if unenforced[c.pod] || !w.Owns(c.pod, c.name) {
			continue
		}
		if _, sizing := l.sizing[c.pod]; sizing && c.own {
			continue // It runs on CPUs of its pod, and on others of them soon.
		}
		want, has := w.Setting(c.pod, c.name), c.everything().CPUs
		if m := l.moves[c.pod]; m != nil && !has.IsEmpty() && m.from.CPUs().Union(m.to.CPUs()).Contains(has) {
			continue // It has both places.
		}
		if !has.Equal(want.CPUs) {
			unenforced[c.pod] = true
		}
	}
	vetoes := make(map[string]string, len(l.vetoes))
	for uid, v := range l.vetoes {
		vetoes[uid] = v.err.Error()
	}
	l.status.Store(&Status{Unmanaged: l.unmanaged(), Connected: l.synchronised, Unenforced: unenforced, Vetoes: vetoes, NoVeto: l.noVeto, Moving: l.moving(), Unverified: l.unverified()})
}

// reportStranded logs the containers for which there are no CPUs.
func (l *loop) reportStranded(stranded []converge.Observed) {
	for _, o := range stranded {
		l.config.Log.ErrorContext(l.flow, "the node shared pool is empty: a container keeps the CPUs that it has", "uid", o.Pod, "container", o.Container, "cpus", o.CPUs.String())
	}
}
