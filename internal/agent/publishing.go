package agent

import (
	"fmt"
	"time"

	"github.com/paddock-project/paddock/internal/node/publication"
)

// publishes adds the publisher of the node's objects.
func (o *Observing) publishes() error {
	if o.config.NodeName == "" {
		return fmt.Errorf("%w: nodeName: expected the name of this Kubernetes node: the agent publishes what its kubelet has", ErrConfig)
	}
	var err error
	o.publisher, err = o.world.publisher(o.config, o.view, o, o.log)
	return err
}

// view returns the content of the published objects. While the kubelet cannot be read, it is the
// last known content.
func (o *Observing) view() publication.View {
	s := o.session.Load()
	if s == nil {
		return publication.View{}
	}
	v := s.view()
	if v.Observed != nil {
		v.Observed.Limits = o.limits()
	}
	if why := o.problem.Load(); why != nil && v.Observed != nil {
		v.Observed.Doubts = append(v.Observed.Doubts, "what the kubelet does is not known: "+*why)
	}
	return v
}

// Published implements publication.Observer. The metrics are those of the present session.
func (o *Observing) Published(took time.Duration, err error) {
	if s := o.session.Load(); s != nil {
		s.published.Published(took, err)
	}
}

// changed makes the publisher look again, if there is one.
func (o *Observing) changed() {
	if o.publisher != nil {
		o.publisher.Changed()
	}
}

// view returns the content of the published objects.
func (s *session) view() publication.View {
	last := s.shown.Load()
	if last == nil {
		return publication.View{}
	}
	o := &publication.Observed{Version: s.version.String(), Waiting: last.certainty.Pods}
	for _, d := range last.certainty.Doubts {
		o.Doubts = append(o.Doubts, d.String())
	}
	for _, p := range last.taken {
		o.TakenHugePages = append(o.TakenHugePages, textOf(p))
	}
	return publication.View{State: last.snapshot.State, Observed: o}
}
