package fleetcommand

import (
	"time"

	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/cluster/fleetwatch"
	"github.com/paddock-project/paddock/internal/ui/fleetpage"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// beside adds what the page of a cluster shows beside its nodes: the rejections by nodes, the nodes
// that are left out, and notes. hour has the rejections of the last hour, as far as they are known.
func beside(f *fleetpage.Fleet, m *clusterstate.Moment, hour map[fleetwatch.Row]int64) {
	f.Counted = rejectionsOf(m.Rejections, m.Decisions, false)
	for _, r := range f.Counted.Rejections {
		f.Counters = append(f.Counters, fleetpage.Counter{RejectedClass: r, LastHour: hour[fleetwatch.Row{Group: r.Kind, Class: r.Class, Cause: r.Cause}]})
	}
	for _, r := range m.Last {
		when := ""
		if !r.Time.IsZero() {
			when = r.Time.UTC().Format(time.RFC3339)
		}
		f.Lately = append(f.Lately, fleetpage.Lately{Time: when, Node: r.Node, Pod: r.Pod, Class: r.Class, Cause: r.Cause, Message: r.Message})
	}
	for _, p := range m.Problems {
		f.LeftOut = append(f.LeftOut, fleetpage.Note{Node: p.Node, Text: p.Text})
	}
	if len(m.Strange) > 0 {
		f.LeftOut = append(f.LeftOut, fleetpage.Note{Text: view.Count(len(m.Strange), "node") + " without a PaddockNode"})
	}
	for _, p := range m.Notes {
		f.Notes = append(f.Notes, fleetpage.Note{Node: p.Node, Text: p.Text})
	}
}

// sum adds the kinds of nodes and the summary.
func sum(f *fleetpage.Fleet, m *clusterstate.Moment) {
	at := map[string]int{}
	a := &f.Answer
	for _, n := range m.Nodes {
		i, known := at[n.Group]
		if !known {
			i = len(a.Kinds)
			at[n.Group] = i
			a.Kinds = append(a.Kinds, view.FleetKind{Kind: n.Group, Policy: n.Policy})
		}
		k := &a.Kinds[i]
		k.Nodes++
		k.Pods.Placed += n.Used.Pods
		k.CPUs.Allocatable += float64(n.Allocatable.Milli) / 1000
		k.CPUs.Placed += float64(n.Used.Milli) / 1000
	}
	for _, k := range a.Kinds {
		a.Nodes += k.Nodes
		a.Pods.Placed += k.Pods.Placed
		a.CPUs.Allocatable += k.CPUs.Allocatable
		a.CPUs.Placed += k.CPUs.Placed
	}
	f.Summary = a.Now()
}
