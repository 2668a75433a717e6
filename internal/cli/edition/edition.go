// Package edition adds to the edition of a program what the programs with all commands have in
// common: the kubelets that they predict, and the formats that they read and write.
package edition

import (
	"strconv"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/base/build"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/node/notice"
)

// Of returns the edition of a program. The order is always the same.
func Of(program string) build.Edition {
	e := build.EditionOf(program)
	for _, v := range behavior.Recorded() {
		e.Kubelets = append(e.Kubelets, v.String())
	}
	e.Formats = []build.Format{
		{Name: "PaddockMachine, PaddockNode", Version: v1alpha1.GroupVersion.String()},
		build.PodResources(),
		{Name: "state file", Version: strconv.Itoa(statefile.Version)},
		{Name: "annotation " + handover.Annotation, Version: strconv.Itoa(handover.Version)},
		{Name: "file " + notice.FileName, Version: notice.Version},
	}
	return e
}
