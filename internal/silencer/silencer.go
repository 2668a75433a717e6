package silencer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/kernelfiles"
	"github.com/paddock-project/paddock/internal/node/kernelsettings"
	"github.com/paddock-project/paddock/internal/node/podres"
	"github.com/paddock-project/paddock/internal/node/quiet"
	"github.com/paddock-project/paddock/internal/node/store"
)

// World is the environment of the process.
type World struct {
	// Disk has the state, and Files has the kernel's files.
	Disk  store.FS
	Files kernelsettings.FS
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	// Environment is os.Getenv.
	Environment func(string) string
	// Ban sends the quiet CPUs to irqbalance. It is kernelsettings.Ban.
	Ban func(dir string, cpus cpuset.Set) (found bool, err error)
}

// containers knows which container has which exclusive CPUs.
type containers interface {
	Containers(ctx context.Context, groups []kernelfiles.Cgroup) ([]quiet.Container, error)
	// classes returns the classes of the caches, or nil if they are not known.
	classes() *podres.Caches
	answered() []string
	problems() []quiet.Problem
}

// Silencer keeps the CPUs of a node quiet. Run, Round and Release must be called by one goroutine.
// Status can be called by any goroutine.
type Silencer struct {
	config Config
	world  World
	log    *slog.Logger
	follow containers
	store  *store.Store
	// saved is the content of the state file.
	saved    saved
	troubles quiet.Troubles
	machine  quiet.Machine
	bans     bans
	events   *events
	reported map[string]bool // problems that were logged
	counts   counts
	status   atomic.Pointer[Status]
	// checked records when all threads of a container were last seen in its group. taskErrors
	// records which threads could not be moved in this round.
	checked    map[member]time.Time
	taskErrors []quiet.Problem
	// moving is the container that needed the last move of a round.
	moving member
	// announced is set when the first class was made.
	announced bool

	monitoring sync.Mutex // guards usage
	usage      usage
}

// counts only grow.
type counts struct{ rounds, writes, failed, saves, moved uint64 }

// New opens the state, and takes over the changes of an earlier process.
func New(c Config, w World, log *slog.Logger) (*Silencer, error) {
	s := &Silencer{config: c, world: w, log: log, troubles: quiet.Troubles{}, reported: map[string]bool{}}
	if err := s.open(); err != nil {
		return nil, err
	}
	f, err := newFollower(&c, s.saved.Sources, w.Now)
	if err == nil {
		s.follow = f
		s.events, err = newEvents(&c, w)
	}
	if err != nil {
		return nil, errors.Join(err, s.store.Close())
	}
	s.status.Store(&Status{Waiting: "the first round has not ended"})
	return s, nil
}

// open opens the state. After a restart of the machine, the kernel has its own values again, and
// open discards the earlier records.
func (s *Silencer) open() error {
	s.world.Files.Balancer = s.config.Irqbalance.Environment
	boot, err := s.world.Files.BootID()
	if err != nil {
		return err
	}
	if s.store, s.saved, err = openState(s.world.Disk, s.config.State); err != nil {
		return err
	}
	if before := s.saved.Boot; before != boot {
		s.saved.Files = s.saved.Files.OfThisBoot(false)
		s.saved.Boot = boot
		if before != "" {
			s.log.Info("the machine was restarted: the kernel's files have the kernel's own values")
		}
	}
	return nil
}

// Run runs rounds until ctx ends. If onExit is release, it then restores everything.
func (s *Silencer) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		s.Round(ctx)
		select {
		case <-ctx.Done():
		case <-s.world.After(time.Duration(s.config.Interval)):
		}
	}
	if s.config.OnExit == ExitRelease {
		left, err := s.release()
		for _, text := range left {
			s.log.Warn("a file was not given back", "file", text)
		}
		if err != nil {
			return errors.Join(err, s.Close())
		}
	}
	return s.Close()
}

// Close closes the state and the connections. It changes no file of the kernel.
func (s *Silencer) Close() error {
	if f, is := s.follow.(*follower); is {
		f.Close()
	}
	return s.store.Close()
}

// Round looks at the node once, and makes the necessary changes.
func (s *Silencer) Round(ctx context.Context) {
	s.counts.rounds++
	groups, err := kernelfiles.FS{Root: s.world.Files.Root, Mount: s.world.Files.Mount}.Cgroups()
	if err != nil {
		s.wait(fmt.Errorf("the cgroups of containers: %w", err))
		return
	}
	list, err := s.follow.Containers(ctx, groups)
	if err == nil {
		err = s.look()
	}
	if err != nil {
		s.wait(err)
		return
	}
	wished, others := s.cacheWishes(groups)
	now, unread := s.world.Files.Look(s.scope(list, wished))
	maps.Copy(unread, others)
	situation := &quiet.Situation{
		Machine: s.machine, Containers: list, Caches: wished.wanted(), Policy: s.config.Quiet, Now: now, Unread: unread, Records: s.saved.Files, Troubles: s.troubles, At: s.world.Now(),
	}
	p := quiet.New(situation)
	s.taskErrors = nil
	if err = s.carryOut(p); err == nil {
		s.ban(p.Banned(situation))
		s.moveTasks(wished)
	}
	s.show(ctx, p, &seen{list, wished, now}, err)
}

// seen is the result of a look.
type seen struct {
	list    []quiet.Container
	classes *classes
	now     map[string]string
}

// look reads the machine. It reads the parts that never change only once.
func (s *Silencer) look() error {
	m, err := s.world.Files.Machine(&s.machine)
	if err == nil {
		s.machine = m
	}
	return err
}

// scope returns the files that a round reads. Without containers, these are only the files that the
// process has changed.
func (s *Silencer) scope(list []quiet.Container, wished *classes) *kernelsettings.Scope {
	p := &s.config.Quiet
	some := slices.ContainsFunc(list, func(c quiet.Container) bool { return !c.Assigned.IsEmpty() })
	scope := &kernelsettings.Scope{
		Interrupts: some && p.Interrupts != quiet.Off, Workqueues: some && p.Workqueues != quiet.Off, Queues: some && p.ReceiveQueues != quiet.Off,
		Also: slices.Sorted(maps.Keys(s.saved.Files)),
	}
	if wished != nil {
		scope.Classes, scope.Wished = true, slices.Sorted(maps.Keys(wished.caches.Groups))
	}
	for i := range list {
		c := &list[i]
		asks := quiet.Asks(c.Annotations)
		if p.CStates == quiet.Exclusive || asks && p.CStates == quiet.Asked {
			scope.CPUs = scope.CPUs.Union(c.Assigned.Union(c.Runs))
		}
		if c.Cgroup != "" && (p.Partition == quiet.Exclusive || asks && p.Partition == quiet.Asked) {
			scope.Groups = append(scope.Groups, c.Cgroup)
		}
		if !asks || p.Frequency == quiet.Off {
			continue
		}
		for name, cpus := range s.machine.Frequencies {
			if cpus.Intersects(c.Assigned) && !slices.Contains(scope.Frequencies, name) {
				scope.Frequencies = append(scope.Frequencies, name)
			}
		}
	}
	return scope
}

// carryOut saves the records of a plan, writes, and saves the result. It writes nothing that is not
// saved.
func (s *Silencer) carryOut(p *quiet.Plan) error {
	if err := s.save(p.Records); err != nil {
		return fmt.Errorf("nothing is changed: %w", err)
	}
	results := map[string]quiet.Result{}
	stopped := false
	for i := range p.Writes {
		w := &p.Writes[i]
		class := quiet.KindOf(w.File).IsClass()
		if class && stopped {
			continue // What follows needs what failed. The next round plans it again.
		}
		r := s.world.Files.Write(w)
		if stopped = stopped || class && r.Err != nil; !class || w.Last || r.Err != nil {
			results[w.File] = r
		}
		s.counts.writes++
		if r.Err != nil && !r.Gone {
			s.counts.failed++
		}
		s.log.Debug("wrote", "file", w.File, "value", w.Value, "error", r.Err)
	}
	records, troubles := p.After(results)
	s.troubles, p.Troubles = troubles, troubles
	p.Records = records
	return s.save(records)
}

// save saves records, and the sources that have shown containers, if they differ from the file.
func (s *Silencer) save(records quiet.Records) error {
	next := s.saved
	next.Files, next.Sources = records, s.saved.Sources
	if s.follow != nil {
		next.Sources = s.follow.answered()
	}
	if maps.Equal(records, s.saved.Files) && slices.Equal(next.Sources, s.saved.Sources) {
		return nil
	}
	data, err := next.encode()
	if err == nil {
		err = s.store.Write(data)
	}
	if err != nil {
		return stateError(s.config.State, err)
	}
	s.counts.saves++
	s.saved = next
	s.saved.Files = maps.Clone(records)
	return nil
}

// wait records why a round could not look.
func (s *Silencer) wait(err error) {
	last := *s.status.Load()
	if last.Waiting != err.Error() {
		s.log.Warn("waiting", "error", err)
	}
	last.Waiting, last.Problems = err.Error(), s.follow.problems()
	s.status.Store(&last)
}

// release restores the earlier content of every file, and returns the files for which that failed.
func (s *Silencer) release() (left []string, err error) {
	if err := s.look(); err != nil {
		return nil, err
	}
	// The kernel takes CPUs of partitions out of other files until the partitions have ended. The
	// second round therefore restores what the first one could not.
	var now map[string]string
	var unread map[string]error
	for range 3 {
		now, unread = s.world.Files.Look(&kernelsettings.Scope{Also: slices.Sorted(maps.Keys(s.saved.Files))})
		p := quiet.Release(&quiet.Situation{Machine: s.machine, Policy: s.config.Quiet, Now: now, Unread: unread, Records: s.saved.Files, At: s.world.Now()})
		if err := s.carryOut(p); err != nil {
			return nil, err
		}
		if len(s.saved.Files) == 0 {
			break
		}
		if err := s.look(); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.saved.Files)) {
		why := s.troubles[name].Error
		if cause := unread[name]; cause != nil {
			why = cause.Error()
		}
		left = append(left, fmt.Sprintf("%s: %s is wanted: %s", name, s.saved.Files[name].Before, why))
	}
	s.bans.at = time.Time{}
	s.ban(cpuset.Set{})
	return left, nil
}

// Release restores every file to its content before the first start, while no process runs. It
// returns the number of restored files, and the files for which that failed.
func Release(c Config, w World, log *slog.Logger) (back int, left []string, err error) {
	s := &Silencer{config: c, world: w, log: log, troubles: quiet.Troubles{}, reported: map[string]bool{}}
	if err := s.open(); err != nil {
		return 0, nil, err
	}
	back = len(s.saved.Files)
	left, err = s.release()
	return back - len(left), left, errors.Join(err, s.store.Close())
}
