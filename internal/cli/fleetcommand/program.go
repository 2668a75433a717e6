package fleetcommand

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// Program describes the program to which the command belongs.
type Program struct {
	// Name is the name by which a user calls the program.
	Name string
	// Check returns an error if the constraints of a pod, which Rules judge, are invalid.
	Check func(pod *v1.Pod) error
	// Rules returns rules that judge a pod by the pods on all nodes. The fleet begins with the
	// given places, and namespaces maps the names of Namespaces to their labels. If Rules is nil,
	// topology spread and pod affinity do not count, and a note has the number of pods that have
	// them.
	Rules func(ctx context.Context, places []inputs.Place, namespaces map[string]map[string]string) (fleet.Rules, error)
	// Pictures draws answers. If nil, the program has no pictures: their fonts are only in programs
	// for people at their desks.
	Pictures *Pictures
}

// Pictures draws a fleet, the comparison of settings, and numbers of nodes. Package slide has them.
type Pictures struct {
	Fleet  func(title string, answer *view.Fleet, views []*fleet.View) Picture
	Trials func(title string, trials []view.Trial) Picture
	Sizes  func(title string, answers []view.Fleet) Picture
}

// Picture is what Pictures draws.
type Picture interface {
	SVG(out io.Writer) error
	PNG(out io.Writer) error
}

// forms returns the forms of an answer, with those of pictures if the program has them.
func (p Program) forms(others ...string) []string {
	if p.Pictures == nil {
		return others
	}
	return append(others, "svg", "png")
}

// drawing returns a sentence of the help about pictures.
func (p Program) drawing() string {
	if p.Pictures == nil {
		return "-o html is a page."
	}
	return "-o svg and -o png draw a picture for a presentation, with a tile for each group of equal nodes. -o html is a page."
}

// named adapts text about paddock fleet to the program.
func (p Program) named(text string) string {
	return strings.ReplaceAll(text, "paddock fleet", p.Name+" fleet")
}

// constraints describes which constraints of pods count.
func (p Program) constraints() string {
	if p.Rules == nil {
		return `Node selectors, required node
affinity and taints count. Topology spread and pod affinity do not: a note shows how many pods have them.
"paddock-scheduler fleet" is the same command, and there they count.`
	}
	return `Node selectors, required node
affinity and taints count. So do topology spread (DoNotSchedule) and required pod affinity and anti-affinity,
as in kube-scheduler, also those of the pods on the nodes. Preferences do not count. If a pod has to wait for
another pod, fleet tries it again after it has placed others.`
}

// unseen returns a note about the constraints of pods in a file that do not count.
func (c *fleetCommand) unseen(name string, d inputs.Depending) []string {
	switch {
	case c.program.Rules == nil && d.Any > 0:
		return []string{fmt.Sprintf("%s: topology spread constraints and pod affinity of %s do not count here; paddock-scheduler fleet counts them", name, view.Count(d.Any, "pod"))}
	case c.program.Rules != nil && d.Preferred > 0:
		return []string{fmt.Sprintf("%s: preferred topology spread (ScheduleAnyway) and preferred pod affinity of %s do not count", name, view.Count(d.Preferred, "pod"))}
	}
	return nil
}

// obey adds rules to the question. They apply only if a pod depends on other pods.
func (c *fleetCommand) obey(ctx context.Context, q *fleetQuestion) {
	if c.program.Rules == nil {
		return
	}
	depends := slices.ContainsFunc(q.items, func(i capacity.Item) bool {
		pod, ok := i.Pod.Origin.(*v1.Pod)
		return ok && inputs.DependenceOf(pod).Required
	})
	q.options.Rules = func(nodes []fleet.Node) (fleet.Rules, error) {
		places := q.nodes.Places(nodes)
		if !depends && !slices.ContainsFunc(places, inputs.Place.KeepsAway) {
			return nil, nil
		}
		return c.program.Rules(ctx, places, q.nodes.Namespaces)
	}
}
