package fleetcommand

import (
	"context"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/cluster/fleetwatch"
	"github.com/paddock-project/paddock/internal/ui/fleetpage"
)

const (
	// breath is the time between two fleets. Changes during that time become one.
	breath = time.Second
	// look is how often the last hour is counted again if nothing changes.
	look = time.Minute
	// typical is how often the typical requests are computed again.
	typical = 10 * time.Minute
	// idle is the pause before waiting pods are placed again, as a multiple of the time that the
	// last placement took.
	idle = 9
)

// LiveOptions are the options of a Live.
type LiveOptions struct {
	Title   string
	Scoring fleet.Scoring
	Clock   fleetpage.Clock
	// Read reads pods that a reader pasted, for these nodes.
	Read func(ctx context.Context, nodes *inputs.FleetNodes, manifests []byte) (pods []fleet.Pod, notes []string, err error)
}

// Live is a fleetpage.Source. It is safe for concurrent use.
type Live struct {
	options LiveOptions
	watch   *fleetwatch.Watch

	mu      sync.Mutex
	present fleetpage.Moment
	changed chan struct{}

	// Only Run uses the following fields.
	moment *clusterstate.Moment
	hour   map[fleetwatch.Row]int64
	judged *judgement
	rank   *fleet.Ranking
	ranked time.Time
	views  map[string]viewed
}

type viewed struct {
	node *clusterstate.Node
	view *fleet.View
}

// NewLive returns a source. Its fleet is empty until Run has read the cluster.
func NewLive(watch *fleetwatch.Watch, o LiveOptions) *Live {
	l := &Live{options: o, watch: watch, changed: make(chan struct{}), views: map[string]viewed{}}
	l.present.Fleet = &fleetpage.Fleet{Title: o.Title, Summary: "The cluster is being read.", Read: l.reader(&clusterstate.Moment{})}
	return l
}

// Present implements fleetpage.Source.
func (l *Live) Present() (fleetpage.Moment, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.present, l.changed
}

// Run follows the watch until ctx ends. The caller runs the watch.
func (l *Live) Run(ctx context.Context) {
	var placing sync.WaitGroup
	defer placing.Wait()
	done := make(chan *judgement, 1)
	var rest <-chan time.Time // fires when waiting pods may be placed again
	busy := false
	for {
		changed := l.watch.Changed()
		l.update()
		if m := l.moment; m != nil && !busy && rest == nil && (l.judged == nil || l.judged.moment != m) {
			busy = true
			placing.Go(func() { done <- l.judge(ctx, m) })
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case l.judged = <-done:
			busy, rest = false, l.options.Clock.After(max(breath, idle*l.judged.took))
			l.moment = nil // Make the fleet again with the judgement.
			continue
		case <-rest:
			rest = nil
			continue
		case <-l.options.Clock.After(look):
		}
		select {
		case <-ctx.Done():
			return
		case <-l.options.Clock.After(breath):
		}
	}
}

// update takes the present moment of the watch and signals a change.
func (l *Live) update() {
	present, _ := l.Present()
	if l.watch.Synced() {
		m, hour := l.watch.Moment()
		if m != l.moment || !maps.Equal(hour, l.hour) {
			l.moment, l.hour = m, hour
			present.Fleet = l.fleet(m)
		}
	}
	since, why := l.watch.Trouble()
	present.Since, present.Why = since, why
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.present; before.Fleet != present.Fleet || !before.Since.Equal(since) || before.Why != why {
		l.present = present
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// fleet returns the cluster as the page shows it.
func (l *Live) fleet(m *clusterstate.Moment) *fleetpage.Fleet {
	f := &fleetpage.Fleet{Title: l.options.Title, Zones: map[string]string{}, Read: l.reader(m)}
	if now := l.options.Clock.Now(); l.rank == nil || now.Sub(l.ranked) >= typical {
		l.rank, l.ranked = fleet.NewRanking(l.options.Scoring, l.watch.Shapes()), now
		clear(l.views)
	}
	views := make(map[string]viewed, len(m.Nodes))
	for _, n := range m.Nodes {
		v, known := l.views[n.Name]
		if !known || v.node != n {
			v = viewed{n, l.rank.View(fleet.Node{Name: n.Name, Kind: n.Group, State: n.State, Allocatable: n.Allocatable, Used: n.Used})}
		}
		views[n.Name] = v
		f.Views = append(f.Views, v.view)
		if zone := n.Object.Labels[v1.LabelTopologyZone]; zone != "" {
			f.Zones[n.Name] = zone
		}
	}
	l.views = views
	sum(f, m)
	beside(f, m, l.hour)
	if l.judged != nil {
		f.Answer.Scarcity, f.Answer.Causes, f.Rejected = l.judged.scarcity, l.judged.causes, l.judged.rejected
		f.Summary += l.judged.text()
		f.Notes = append(f.Notes, l.judged.notes...)
	}
	return f
}

// reader returns a function that reads pasted pods for the nodes of a moment.
func (l *Live) reader(m *clusterstate.Moment) func(context.Context, []byte) ([]fleet.Pod, []string, error) {
	nodes := sync.OnceValue(func() *inputs.FleetNodes { return inputs.ClusterNodes(m) })
	return func(ctx context.Context, manifests []byte) ([]fleet.Pod, []string, error) {
		return l.options.Read(ctx, nodes(), manifests)
	}
}
