package control

import (
	"github.com/paddock-project/paddock/internal/core/converge"
)

// Sight is a look at the cgroup of one container. The reader of the cgroup fills in Setting, Absent
// and Err.
type Sight struct {
	ID, Path string
	Setting  converge.Setting
	// Absent is true if there is no cgroup. Err is the reason why the cgroup cannot be read. If
	// nil, it was read or is absent.
	Absent  bool
	Err     error
	touched int
}

// look reads the cgroups of the containers whose settings they can prove.
func (s *step) look() {
	if sights := s.sights(); len(sights) > 0 {
		s.job("look", Read{Sights: sights})
	}
}

// sights returns the containers whose cgroups look reads. While a reply that changes a container
// may still be applied, the cgroup proves something only if the setting before is certain.
func (s *step) sights() []Sight {
	var sights []Sight
	for _, c := range s.containers.all() {
		if c.path == "" || c.creating() || c.flying() || c.waits(s.now) && !c.certain() {
			continue
		}
		sights = append(sights, Sight{ID: c.id, Path: c.path, touched: c.touched})
	}
	return sights
}

// Glance is an event: a reply is about to be made. The answer is the list of containers whose
// settings are not certain. The edge reads their cgroups before the reply, which then need not
// assume everything that they may have.
type Glance struct{ Connection uint64 }

func (e Glance) on(s *step) {
	var open []Sight
	if s.asked(e.Connection) {
		for _, c := range s.containers.all() {
			if c.phase.known() == converge.Unknown && c.path != "" {
				open = append(open, Sight{ID: c.id, Path: c.path, touched: c.touched})
			}
		}
	}
	s.answer(open)
}

// Saw is an event, and the outcome of Read: cgroups were read. If Of is nil, they were read for a
// reply, which is made next.
type Saw struct {
	Of     *Read
	Sights []Sight
}

func (e Saw) on(s *step) {
	switch {
	case e.Of == nil:
		s.saw(e.Sights)
	case e.Of.of != nil:
		s.glanced(*e.Of.of, e.Sights)
	default:
		s.saw(e.Sights)
		s.push()
	}
}

// saw notes the settings of the containers that did not change since the look began.
func (s *step) saw(sights []Sight) {
	for _, at := range sights {
		c := s.containers.get(at.ID)
		if c == nil || c.touched != at.touched {
			continue
		}
		switch {
		case at.Err == nil && !at.Absent:
			s.sees(c, at.Setting, !c.waits(s.now))
		case at.Absent && c.life != ended && (c.life == begun || s.now.Sub(c.since) >= creation):
			s.containers.edit(s, at.ID).life = ended
		case !at.Absent && c.life == ended:
			s.containers.edit(s, at.ID).life = begun
		}
	}
}

// sees notes what a cgroup shows; see container.see. What an unseen container owns is known once
// its setting is known. sees writes nothing if nothing changes.
func (s *step) sees(c *container, file converge.Setting, late bool) {
	if c.life == begun && c.phase == settled && c.has.Equal(file) {
		return
	}
	c = s.containers.edit(s, c.id)
	before := c.phase
	c.life = begun
	if c.see(file, late); before == unseen {
		c.own = s.want().Owns(c.pod, c.name)
	}
}
