package fleetcommand

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/codec/podspec"
)

// A page answers everyone who reaches it, so pasted manifests have limits that files on the command
// line do not have.
const (
	// maxPasted is how many pods may be pasted. It is fifty times the number that the page places.
	maxPasted = 1000
	// maxPastedContainers is how many containers these pods may have in total.
	maxPastedContainers = 10_000
	// maxPastedValues is how many fields and list items the text may have. 1 MiB of manifests has
	// 30,000 to 50,000.
	maxPastedValues = 1 << 16
	// maxPastedErrors is how many errors an answer lists.
	maxPastedErrors = 20
)

// pasted reads pods that a reader pasted into a page.
func (c *fleetCommand) pasted(ctx context.Context, s console.Streams, nodes *inputs.FleetNodes, manifests []byte) ([]fleet.Pod, []string, error) {
	reader := s.Reader()
	reader.Stdin = untilDone{ctx, bytes.NewReader(manifests)}
	files := inputs.PodFiles{Paths: []string{"-"}, Most: maxPasted, MaxContainers: maxPastedContainers, MaxValues: maxPastedValues}
	pods, notes, err := c.fleetPods(reader, nodes, files)
	limit, all := (*podspec.LimitError)(nil), inputs.PodErrors(nil)
	switch {
	case err == nil:
		return pods, notes, ctx.Err()
	case errors.As(err, &all) && len(all) > maxPastedErrors:
		err = slices.Concat(all[:maxPastedErrors], inputs.PodErrors{fmt.Errorf("and %d errors more", len(all)-maxPastedErrors)})
	}
	text := strings.ReplaceAll("\n"+err.Error(), "\n-: ", "\n")[1:] // Pasted text has no file name.
	if errors.As(err, &limit) {
		text += fmt.Sprintf("; paste less, or save it in FILE and run: %s fleet --nodes %s --pods FILE, which places up to %d pods", c.program.Name, c.nodes[0], maxPods)
	}
	return nil, nil, errors.New(text)
}

// untilDone reads until ctx ends.
type untilDone struct {
	ctx  context.Context
	from io.Reader
}

func (u untilDone) Read(to []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.from.Read(to)
}
