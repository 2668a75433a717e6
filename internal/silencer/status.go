package silencer

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/quiet"
)

// Status is the present state of paddock quiet on a node.
type Status struct {
	// Waiting is the reason why the last round changed nothing. It is empty if the round did
	// everything that it should.
	Waiting string `json:"waiting,omitempty"`
	// At is the end of the last round that did everything that it should.
	At time.Time `json:"at"`
	// QuietCPUs are the CPUs of the containers for which files were changed.
	QuietCPUs string `json:"quietCPUs"`
	// Containers are the containers with exclusive CPUs.
	Containers []Container `json:"containers"`
	// Files are the changed files, and those that should be changed.
	Files []File `json:"files"`
	// Problems are wishes and settings that are not carried out.
	Problems []quiet.Problem `json:"problems"`
	// Classes are the classes of the caches.
	Classes []Class `json:"classes"`
	// Reported are settings of the whole node, which the process does not change.
	Reported map[string]string `json:"reported"`
	// Irqbalance describes which CPUs irqbalance bans.
	Irqbalance string `json:"irqbalance"`
	// Counts count since the start of the process.
	Counts Counts `json:"counts"`
}

// Container is a container with exclusive CPUs.
type Container struct {
	// Container has the namespace, the pod and the name.
	Container string `json:"container"`
	// CPUs are its exclusive CPUs, and those to which it is about to move.
	CPUs string `json:"cpus"`
	// RunsOn are the CPUs in its cgroup. It is empty while there is no cgroup.
	RunsOn string `json:"runsOn,omitempty"`
	// Cgroup is the path of its cgroup.
	Cgroup string `json:"cgroup,omitempty"`
}

// File is a file of the kernel. Lists of CPUs are in the form 2-5,8, also where the kernel has a
// mask.
type File struct {
	// File is the name of the file, from the root of the node.
	File string `json:"file"`
	// Sets describes the setting that the file controls.
	Sets string `json:"sets"`
	// Before is what the file would contain without Paddock.
	Before string `json:"before"`
	// Wanted is what the file must contain, and Now what it contains.
	Wanted string `json:"wanted"`
	Now    string `json:"now"`
	// For are the containers for which the file is changed.
	For []string `json:"for"`
	// Since is the time of the first change.
	Since string `json:"since,omitempty"`
	// ChangedBack is how often another program changed the file back. Error is the reason why the
	// kernel rejects the value. If the file is left alone for a while, Until is the time of the
	// next write.
	ChangedBack int       `json:"changedBack,omitempty"`
	Error       string    `json:"error,omitempty"`
	Until       time.Time `json:"until,omitzero"`
}

// Counts are counters of the process.
type Counts struct {
	// Rounds counts the looks at the node. Writes counts the writes to files, and Failed those that
	// the kernel rejected. Saves counts the writes of the state.
	Rounds uint64 `json:"rounds"`
	Writes uint64 `json:"writes"`
	Failed uint64 `json:"failed"`
	Saves  uint64 `json:"saves"`
	// Moved counts threads that were moved to a class of the caches.
	Moved uint64 `json:"moved"`
}

// Status returns the status. The caller must not change it.
func (s *Silencer) Status() *Status { return s.status.Load() }

// show publishes the status after a round, and logs what is new in it.
func (s *Silencer) show(ctx context.Context, p *quiet.Plan, of *seen, err error) {
	list, now := of.list, of.now
	next := &Status{
		At: s.world.Now(), Containers: []Container{}, Files: []File{}, Problems: []quiet.Problem{}, Classes: of.classes.status(), Reported: s.world.Files.Reported(),
		Irqbalance: s.bans.text(), Counts: Counts{s.counts.rounds, s.counts.writes, s.counts.failed, s.counts.saves, s.counts.moved},
	}
	if err != nil {
		next.Waiting, next.At = err.Error(), s.status.Load().At
	}
	var all cpuset.Set
	for i := range list {
		if c := &list[i]; !c.Assigned.IsEmpty() {
			all = all.Union(c.Assigned)
			next.Containers = append(next.Containers, Container{c.ID(), c.Assigned.String(), c.Runs.String(), c.Cgroup})
		}
	}
	next.QuietCPUs = all.String()
	names := maps.Clone(p.Records)
	for name := range p.Troubles {
		names[name] = p.Records[name]
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		next.Files = append(next.Files, s.file(p, name, now[name]))
	}
	next.Problems = slices.Concat(next.Problems, p.Problems, s.taskErrors, s.follow.problems())
	if len(next.Classes) > 0 && !s.announced {
		s.announced = true
		s.log.Warn("containers have classes of the caches: what paddock quiet does with resctrl is untried on hardware", "classes", len(next.Classes))
	}
	s.announce(ctx, next, p.Troubles, list)
	s.status.Store(next)
}

func (s *Silencer) file(p *quiet.Plan, name, now string) File {
	record, changed := p.Records[name]
	trouble := p.Troubles[name]
	f := File{
		File: name, Sets: string(quiet.KindOf(name)), Before: record.Before, Wanted: p.Wanted[name].Value, Now: now, For: p.Wanted[name].For,
		Since: record.Since, ChangedBack: trouble.Times, Error: trouble.Error, Until: trouble.Until,
	}
	if changed {
		f.Now = record.Wrote
	} else {
		f.Before = now
	}
	if trouble.Times > 0 || trouble.Error != "" {
		f.Now = trouble.Found
	}
	if f.For == nil {
		f.For = []string{}
	}
	return f
}

func (b *bans) text() string {
	switch {
	case b.at.IsZero():
		return "not asked yet"
	case b.err != nil:
		return b.err.Error()
	case !b.found:
		return "it does not run, or has no socket"
	case b.sent.IsEmpty():
		return "no CPU is banned"
	}
	return "CPUs " + b.sent.String() + " are banned"
}

// announce logs each problem once, until it has ended, and sends an event about the problems of
// pods. All events of a round share askTime, because no CPU becomes quiet in the meantime. The next
// round sends the rest.
func (s *Silencer) announce(ctx context.Context, next *Status, troubles quiet.Troubles, list []quiet.Container) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	present := map[string]bool{}
	once := func(key string, report func()) {
		if present[key] = true; !s.reported[key] {
			report()
		}
	}
	for i := range next.Problems {
		problem := &next.Problems[i]
		once(problem.Text, func() {
			at := slices.IndexFunc(list, func(c quiet.Container) bool { return c.ID() == problem.Container })
			asked := s.events != nil && problem.Container != "" && at >= 0 && quiet.Asks(list[at].Annotations)
			if asked && ctx.Err() != nil {
				delete(present, problem.Text)
				return
			}
			s.log.Warn(problem.Text)
			if !asked {
				return
			}
			if err := s.events.send(ctx, &list[at], problem); err != nil {
				s.log.Warn("an event was not sent", "error", err)
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(troubles)) {
		t := troubles[name]
		switch {
		case t.Managed:
			once(name+" managed", func() {
				s.log.Info("the kernel manages an interrupt: its CPUs are chosen at boot, by isolcpus=managed_irq", "file", name, "error", t.Error)
			})
		case t.Error != "":
			once(name+t.Error, func() {
				s.log.Warn("the kernel rejects a value", "file", name, "wanted", t.Wanted, "found", t.Found, "error", t.Error)
			})
		case !t.Until.IsZero():
			once(name+" fought", func() {
				s.log.Warn("another program keeps changing a file back: it is left alone", "file", name, "wanted", t.Wanted, "found", t.Found, "times", t.Times, "until", t.Until)
			})
		}
	}
	if next.Waiting != "" {
		once(next.Waiting, func() { s.log.Error("a round has failed", "error", next.Waiting) })
	}
	s.reported = present
}
