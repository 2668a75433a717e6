package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/usage"
)

// Use describes how much of its CPUs a node uses, according to the measurements of its agent. The
// page uses it to shade the CPUs, and the report to list what is reserved and idle.
type Use struct {
	// At is the time of the last reading, and Seconds is the time since the one before. At is nil
	// until there are two readings.
	At      *time.Time `json:"at,omitempty"`
	Seconds float64    `json:"seconds"`
	// Age is the age of the last reading, in seconds.
	Age float64 `json:"age"`
	// CPUs maps the id of each CPU to the share of the last interval in which it was busy, from 0
	// to 1, whatever it ran.
	CPUs map[int]float64 `json:"cpus"`
	OwnersUse
}

// OwnersUse describes how much the owners of CPUs use of them.
type OwnersUse struct {
	// Owners are the containers with exclusive CPUs, and the pools whose rest containers share.
	Owners []CPUUse `json:"owners"`
	// Reserved is the sum of the CPUs of Owners that were measured, and Idle is the sum of their
	// idle CPUs.
	Reserved int `json:"reservedCPUs"`
	Idle     int `json:"idleCPUs"`
}

// CPUUse is how much of its CPUs one owner uses.
type CPUUse struct {
	Pod string `json:"pod"`
	UID string `json:"uid"`
	// Container is empty for the containers that share a pod's pool.
	Container string `json:"container,omitempty"`
	// CPUs is the number of CPUs that only this owner runs on.
	CPUs int `json:"cpus"`
	// Mean, Peak and Last are the numbers of CPUs that were used on average, in the busiest
	// interval, and in the newest interval. An interval is usually a minute.
	Mean float64 `json:"mean"`
	Peak float64 `json:"peak"`
	Last float64 `json:"last"`
	// Seconds is the length of the measurement, at most an hour. It is 0 if nothing is known yet.
	Seconds float64 `json:"seconds"`
	// Idle is the number of whole CPUs that the owner did not need in any interval.
	Idle int `json:"idleCPUs"`
}

// measuredEnough is how long an owner must have been measured before its idle CPUs are listed.
const measuredEnough = 5 * time.Minute

// UseOf returns the measurements of a meter on a node in a state, beginning with the owners with
// the most idle CPUs.
func UseOf(s *node.State, m *usage.Meter, now time.Time) *Use {
	u := &Use{CPUs: map[int]float64{}, OwnersUse: OwnersUse{Owners: []CPUUse{}}}
	if at, length := m.Newest(); length > 0 {
		u.At, u.Seconds, u.Age = &at, rounded(length.Seconds()), rounded(max(0, now.Sub(at).Seconds()))
	}
	for id, use := range m.CPUs() {
		u.CPUs[id] = rounded(use.Last)
	}
	for g := range s.AllGrants() {
		for _, o := range owners(g) {
			use := m.Of(o.keys...)
			o.Mean, o.Peak, o.Last, o.Seconds = rounded(use.Mean), rounded(use.Peak), rounded(use.Last), rounded(use.Over.Seconds())
			if use.Over >= measuredEnough {
				o.Idle = max(0, o.CPUs-int(math.Ceil(o.Peak)))
			}
			if use.Over > 0 {
				u.Reserved += o.CPUs
			}
			u.Idle += o.Idle
			u.Owners = append(u.Owners, o.CPUUse)
		}
	}
	slices.SortFunc(u.Owners, func(a, b CPUUse) int {
		return cmp.Or(cmp.Compare(b.Idle, a.Idle), cmp.Compare(b.CPUs, a.CPUs), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Container, b.Container))
	})
	return u
}

type owner struct {
	CPUUse

	keys []usage.Key
}

// owners returns the containers and pools that run alone on CPUs of a grant. CPUs of standard init
// containers belong to later containers, or are idle once the init containers have ended.
func owners(g *node.Grant) []owner {
	var list []owner
	shared := owner{CPUUse: CPUUse{Pod: g.Pod.ID(), UID: g.Pod.UID}}
	rest := g.Pool
	for i := range g.Containers {
		c := g.Pod.Containers[i]
		if c.Type == request.Init {
			continue
		}
		key := usage.Key{UID: g.Pod.UID, Container: c.Name}
		switch g.Isolation(i) {
		case node.ContainerIsolation:
			rest = rest.Difference(g.Containers[i].CPUs)
			list = append(list, owner{CPUUse{Pod: g.Pod.ID(), UID: g.Pod.UID, Container: c.Name, CPUs: g.Containers[i].CPUs.Len()}, []usage.Key{key}})
		case node.PodIsolation:
			shared.keys = append(shared.keys, key)
		case node.HostIsolation:
		}
	}
	if shared.CPUs = rest.Len(); shared.CPUs > 0 && len(shared.keys) > 0 {
		list = append(list, shared)
	}
	return list
}

// text formats what is reserved and idle for people, or "" if no container has been measured for
// long enough.
func (u *OwnersUse) text(style terminal.Style) string {
	if !slices.ContainsFunc(u.Owners, func(o CPUUse) bool { return o.Seconds >= measuredEnough.Seconds() }) {
		return ""
	}
	var out strings.Builder
	out.WriteString("\n" + style.Paragraph("", "  ", terminal.Strong.Of("Reserved and idle")))
	out.WriteString(style.Paragraph("", "  ", terminal.Plain.Of(fmt.Sprintf(
		"%d of %s that one container or one pod has were not needed in any minute of the last hour, or since the container was first measured.",
		u.Idle, Count(u.Reserved, "CPU")))))
	t := &terminal.Table{Columns: terminal.Columns("POD / CONTAINER", ">CPUS", ">USED ON AVERAGE", ">AT MOST", ">IDLE", ">MEASURED FOR")}
	rows := 0
	for _, o := range u.Owners {
		if o.Idle == 0 {
			continue
		}
		name := o.Pod + " " + o.Container
		if o.Container == "" {
			name = o.Pod + " (shared pool of the pod)"
		}
		t.Cells(terminal.Strong.Of(name), terminal.Plain.Of(fmt.Sprint(o.CPUs)), terminal.Plain.Of(tenths(o.Mean)), terminal.Plain.Of(tenths(o.Peak)),
			terminal.Warn.Of(fmt.Sprint(o.Idle)), terminal.Faint.Of(fmt.Sprintf("%.0f min", o.Seconds/60)))
		rows++
	}
	if rows > 0 {
		out.WriteString(t.Text(style))
	}
	return out.String()
}
