package converge

import (
	"fmt"

	"github.com/paddock-project/paddock/internal/core/quota"
)

// Difference is a running container that does not have the setting that it should have.
type Difference struct {
	Observed
	// Want is the setting that the container should have. An empty set and quota.Keep are not
	// compared.
	Want Setting
	// Stranded is set if the container should run on the node shared pool while that is empty.
	// Stranger is set if its pod has no grant, or if it is not in its pod's grant.
	Stranded, Stranger bool
}

// Lines returns a description of the difference, with one line each for CPUs, memory nodes and
// quota.
func (d Difference) Lines() (lines []string) {
	if d.Stranded {
		return []string{fmt.Sprintf("it should run on the node shared pool, which is empty; it runs on %q", d.CPUs)}
	}
	if d.Want.CPUs.IsEmpty() {
		d.Want.Quota = quota.Keep
	}
	switch {
	case d.Want.CPUs.IsEmpty() || d.Want.CPUs.Equal(d.CPUs):
	case d.Stranger:
		lines = append(lines, fmt.Sprintf("it has no assignment, and runs on %q; expected the node shared pool %q", d.CPUs, d.Want.CPUs))
	default:
		lines = append(lines, fmt.Sprintf("cpuset.cpus is %q, expected %q", d.CPUs, d.Want.CPUs))
	}
	if !d.Want.Mems.IsEmpty() && d.Want.Mems != d.Mems {
		lines = append(lines, fmt.Sprintf("cpuset.mems is %s, expected %s", d.Mems, d.Want.Mems))
	}
	if d.Want.Quota != quota.Keep && d.Want.Quota != d.Quota {
		lines = append(lines, "it has "+QuotaLine(d.Quota, d.Want.Quota))
	}
	return lines
}

// QuotaLine returns the description of a difference between two quotas, to follow "it has ".
func QuotaLine(has, want quota.Quota) string {
	text := func(q quota.Quota) string {
		return fmt.Sprintf("a CFS quota of %d µs in %d", q, int64(quota.Period))
	}
	switch {
	case want == quota.None:
		return text(has) + ", expected none: it throttles exclusive CPUs"
	case has == quota.None:
		return "no CFS quota, expected " + text(want)
	}
	return fmt.Sprintf("%s, expected %d", text(has), want)
}

// Verify compares the observed containers with what they should run on. It takes the observed
// settings as they are. Unlike Compare, it includes containers of pods without a grant and those
// that their pod got after its admission.
func (w *Wanted) Verify(observed []Observed) []Difference {
	var differences []Difference
	for _, o := range observed {
		want := w.Setting(o.Pod, o.Container)
		d := Difference{Observed: o, Want: want, Stranded: want.CPUs.IsEmpty() && w.State().Policy().StaticCPU, Stranger: true}
		if g, known := w.State().Grant(o.Pod); known {
			_, i := g.Pod.Container(o.Container)
			d.Stranger = i < 0
		}
		if len(d.Lines()) > 0 {
			differences = append(differences, d)
		}
	}
	return differences
}
