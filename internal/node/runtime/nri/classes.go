package nri

import (
	"slices"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/resctrl"
)

// Classes configures how containers get to the groups of resctrl of their classes. A runtime that
// cannot put a container there fails to create it, so the reply only has what cannot fail:
//
//   - If the group exists, it has the closID and no schemata. A runtime must then put the container
//     there and write nothing else (config-linux.md of runtime-spec, "closID"), and runc does so since
//     1.1, crun since 1.9. paddock quiet removes no group whose pod the agent shows.
//   - If it does not, a runtime must get the schemata too. runc before 1.4 and crun before 1.22 ignore
//     these, and fail because the group is missing. NRI does not show which of them the runtime
//     starts, so the operator must (Schemata).
//   - Without either, the container begins in the default class, and paddock quiet moves it.
//
// Runtimes with an NRI before 0.11 ignore the reply, and paddock quiet moves the container there
// too. CRI-O has 0.11 since 1.36, and containerd since 2.3 and late releases of 2.2
// (containerd#12699).
type Classes struct {
	// Exists reports whether a group exists. If nil, the node has no resctrl, or no class is ever
	// in a reply.
	Exists func(group string) bool
	// Schemata is whether the OCI runtime carries out intelRdt.schemata.
	Schemata bool
}

// rdt returns the class of a container for the reply, or nil for the default class.
func (c Classes) rdt(m *machine.Machine, g *node.Grant, container string) *api.LinuxRdt {
	if c.Exists == nil || g == nil {
		return nil
	}
	at := slices.IndexFunc(g.Pod.Containers, func(of request.Container) bool { return of.Name == container })
	if at < 0 {
		return nil
	}
	group, rules := resctrl.GroupOf(g, at), m.Caches()
	if !resctrl.IsOurs(group) || rules.CodeAndData && !rules.DividesBandwidth() && !rules.AbsoluteBandwidth {
		return nil // runc before 1.2 takes a machine with CDP and without MB for one without resctrl.
	}
	if c.Exists(group) {
		return &api.LinuxRdt{ClosId: api.String(group)}
	}
	if !c.Schemata {
		return nil
	}
	class, _ := g.ClassOf(at)
	own := slices.DeleteFunc(resctrl.Own(class, rules), func(e resctrl.Entry) bool {
		return !slices.ContainsFunc(m.L3s(), func(u machine.Unit) bool { return u.ID == e.Cache }) // Its CPUs are offline.
	})
	if len(own) == 0 {
		return nil
	}
	return &api.LinuxRdt{ClosId: api.String(group), Schemata: api.RepeatedString(own.Lines())}
}
