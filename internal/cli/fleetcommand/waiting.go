package fleetcommand

import (
	"context"
	"fmt"
	"time"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/ui/fleetpage"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// judgement describes where the pods without a node would go.
type judgement struct {
	moment   *clusterstate.Moment
	took     time.Duration
	waiting  int
	placed   int64
	scarcity *view.FleetScarcity
	causes   []view.FleetCause
	rejected []fleetpage.Rejected
	notes    []fleetpage.Note
}

// judge places the waiting pods on a copy of the cluster.
func (l *Live) judge(ctx context.Context, m *clusterstate.Moment) *judgement {
	begin := l.options.Clock.Now()
	j := &judgement{moment: m, waiting: len(m.Waiting)}
	if err := j.place(ctx, capacity.Options{Scoring: l.options.Scoring, Placements: true}); err != nil {
		j.notes = append(j.notes, fleetpage.Note{Text: fmt.Sprintf("%s without a node: %v", view.Count(j.waiting, "pod"), err)})
	}
	j.took = l.options.Clock.Now().Sub(begin)
	return j
}

func (j *judgement) place(ctx context.Context, o capacity.Options) error {
	if j.waiting == 0 || len(j.moment.Nodes) == 0 {
		return nil
	}
	nodes := inputs.ClusterNodes(j.moment)
	pods, err := nodes.Waiting()
	if err != nil {
		return err
	}
	items := make([]capacity.Item, len(pods))
	for i, p := range pods {
		items[i] = capacity.Item{Name: p.ID(), Pod: p, Count: 1}
	}
	r, err := capacity.Fit(ctx, nodes.Kinds, items, o)
	if err != nil {
		return err
	}
	answer := view.FleetOf("fit", o.Scoring.String(), r, nodes.Policies)
	if err := answer.Explain(ctx, r); err != nil {
		return err
	}
	j.placed, j.scarcity, j.causes = r.Placed, answer.Scarcity, answer.Causes
	for _, p := range r.Placements {
		if p.Node == "" {
			j.rejected = append(j.rejected, fleetpage.Rejected{Pod: p.Pod, Reason: p.Reason})
		}
	}
	return nil
}

// text returns the judgement as the end of a summary.
func (j *judgement) text() string {
	switch {
	case j.waiting == 0:
		return ""
	case len(j.rejected) == 0:
		return fmt.Sprintf("; %s without a node", view.Count(j.waiting, "pod"))
	}
	return fmt.Sprintf("; %s without a node, %d of them rejected by every node", view.Count(j.waiting, "pod"), len(j.rejected))
}
