package quiet

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// Situation is everything that a plan depends on.
type Situation struct {
	Machine    Machine
	Containers []Container
	// Caches are the classes of the caches; see Want.
	Caches *Caches
	Policy Policy
	// Now has the content of each file that may be written, in the form of Kind.Value. A file that
	// is not in it does not exist.
	Now map[string]string
	// Unread has the files that exist and cannot be read, and the directories that cannot be
	// listed, with the reason. The files keep their records and are not written.
	Unread map[string]error
	// Records are those of the last plan, as they were saved.
	Records Records
	// Troubles are those of the last plan.
	Troubles Troubles
	// At is the present time.
	At time.Time
}

// Write is a text that is to be written to a file.
type Write struct {
	File string
	// Value is in the form of Kind.Value. Text is what is written.
	Value, Text string
	// Last is whether the file must then contain what is wanted. A list of exclusive CPUs may get a
	// value in between.
	Last bool

	rank, depth int
}

// Plan is what one round does.
type Plan struct {
	// Wanted is what each file must contain.
	Wanted map[string]Wanted
	// Records are to be saved before the first write.
	Records  Records
	Troubles Troubles
	Writes   []Write
	Problems []Problem

	base map[string]string
	now  map[string]string
	at   time.Time
	most int
	same func(kind Kind, now, wanted string) bool
	// classes are the files of resctrl that are to be written.
	classes []string
}

// New returns the plan for a situation.
func New(s *Situation) *Plan {
	base, records := bases(s.Now, s.Unread, s.Records, s.Machine.Partitions)
	p := &Plan{Records: records, Troubles: Troubles{}, base: base, now: s.Now, at: s.At, most: s.Policy.MostFights, same: s.Machine.same}
	caches := s.Caches
	if s.Unread[DefaultClassFile] != nil {
		caches = nil // It is not known what groups must have, so that all stay as they are.
	}
	p.Wanted, p.Problems = Want(&s.Machine, s.Containers, caches, &s.Policy, base)
	for _, name := range slices.Sorted(maps.Keys(s.Unread)) {
		p.Problems = append(p.Problems, Problem{File: name, Text: unreadText(name) + s.Unread[name].Error()})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Now)) {
		if !KindOf(name).IsClass() || s.Unread[DefaultClassFile] == nil {
			p.file(name, s.Troubles[name])
		}
	}
	p.steps(s)
	slices.SortStableFunc(p.Writes, func(a, b Write) int { return cmp.Or(a.rank-b.rank, a.depth-b.depth) })
	return p
}

// unreadText is in front of the reason why a file or a directory cannot be read.
func unreadText(name string) string {
	if KindOf(name) != "" {
		return "a file cannot be read, and is left as it is: "
	}
	if path.Base(name) == schemataBase {
		return "the group " + GroupOf(name) + " of resctrl is not Paddock's and cannot be read, so it is not known which ways of the caches it shares: "
	}
	return "a directory cannot be listed, and the files in it that were not changed before are left as they are: "
}

// Release returns the plan that gives every file its base again.
func Release(s *Situation) *Plan {
	again := *s
	again.Containers, again.Caches, again.Troubles = nil, nil, nil
	return New(&again)
}

// same reports whether a file has what is wanted. The kernel takes the CPUs of isolated partitions
// out of the list of workqueues (kernel/workqueue.c, workqueue_unbound_exclude_cpumask), and out of
// those of RPS the CPUs that are offline or isolated (net/core/net-sysfs.c, store_rps_map).
func (m *Machine) same(kind Kind, now, wanted string) bool {
	if now == wanted {
		return true
	}
	has, wants := setOf(now), setOf(wanted)
	switch kind {
	case Workqueues:
		return !has.IsEmpty() && has.Equal(wants.Difference(m.Partitions))
	case Queue, NewQueues:
		return wants.Contains(has) && !wants.Difference(has).Difference(m.Partitions).Intersects(m.Online)
	case Interrupt, NewInterrupts, ExclusiveCPUs, Partition, Latency, Governor, MinFrequency, MaxFrequency, Balancer, DefaultClass, CacheClass:
	}
	return false
}

// file plans what is done about one file.
func (p *Plan) file(name string, t Trouble) {
	kind, now, wanted := KindOf(name), p.now[name], p.Wanted[name].Value
	record, changed := p.Records[name]
	written := changed && !record.Pending && now == record.Wrote && wanted == record.Next
	settled := now == wanted || p.same(kind, now, wanted)
	switch {
	case changed && wanted == record.Before:
		settled = now == wanted || written && settled // What is given back is written once more, whole.
	case written && kind == Interrupt:
		settled = true // Its controller uses fewer CPUs.
	}
	if settled {
		switch {
		case !changed:
		case now == record.Before:
			delete(p.Records, name)
		case record.Pending:
			record.Wrote, record.Pending = now, false
			p.Records[name] = record
		case now != record.Wrote:
			record.Wrote, record.Next = now, now
			p.Records[name] = record
		}
		if t.Times > 0 && p.at.Sub(t.Since) < retryAfter {
			p.Troubles[name] = t // It may come back soon.
		}
		return
	}
	foreign := changed && !record.Pending && now != record.Wrote
	t = t.seen(wanted, now, foreign, p.at)
	if t.rests(p.at, p.most) {
		p.Troubles[name] = t
		return
	}
	if t.Times > 0 || t.Error != "" {
		p.Troubles[name] = t
	}
	if !changed {
		record = Record{Before: p.base[name], Since: p.at.UTC().Format(time.RFC3339)}
	}
	record.Wrote, record.Next, record.Pending = now, wanted, true
	p.Records[name] = record
	p.write(name, kind, now, wanted)
}

// write adds the writes of a file, with their place in the order of the package comment.
func (p *Plan) write(name string, kind Kind, now, wanted string) {
	depth := strings.Count(path.Dir(name), "/")
	add := func(value string, rank, depth int, last bool) {
		p.Writes = append(p.Writes, Write{File: name, Value: value, Text: kind.Text(value), Last: last, rank: rank, depth: depth})
	}
	switch {
	case kind.IsClass():
		p.classes = append(p.classes, name) // See steps.
	case kind == Partition && wanted == "isolated":
		add(wanted, 5, 0, true)
	case kind == Partition:
		add(wanted, 2, -depth, true)
	case kind == ExclusiveCPUs:
		has, wants := setOf(now), setOf(wanted)
		_, leaf := p.Wanted[path.Join(path.Dir(name), partitionBase)]
		switch {
		case has.Contains(wants) || leaf:
			add(wanted, 4, -depth, true)
		case wants.Contains(has):
			add(wanted, 3, depth, true)
		default:
			add(has.Union(wants).String(), 3, depth, false)
			add(wanted, 4, -depth, true)
		}
	case kind == Balancer && setOf(wanted).Contains(setOf(now)), kind != Balancer && kind.isSet() && !setOf(wanted).Contains(setOf(now)):
		add(wanted, 1, 0, true)
	case kind.isSet() || wanted == p.base[name]:
		add(wanted, 6, p.late(kind, now, wanted), true)
	default:
		add(wanted, 1, p.late(kind, now, wanted), true)
	}
}

// late puts the limits of a frequency in their order: the kernel rejects a lowest frequency above
// the highest one, so what grows is written from above, and what shrinks from below.
func (p *Plan) late(kind Kind, now, wanted string) int {
	grows := len(wanted) > len(now) || len(wanted) == len(now) && wanted > now
	if kind == MinFrequency && grows || kind == MaxFrequency && !grows {
		return 1
	}
	return 0
}

// Result is what became of a write.
type Result struct {
	// Now is what the file contains afterwards, in the form of Kind.Value.
	Now string
	// Text is what the file contains afterwards, as it was read.
	Text string
	// Err is the error of the kernel, or nil.
	Err error
	// Gone is whether the file no longer exists, and Managed whether no program may write it.
	Gone, Managed bool
}

// After returns the records and the troubles after the writes. results has an entry for each file
// that was written, of its last write.
func (p *Plan) After(results map[string]Result) (Records, Troubles) {
	records, troubles := maps.Clone(p.Records), maps.Clone(p.Troubles)
	for name, result := range results {
		record, kind, wanted := records[name], KindOf(name), p.Wanted[name].Value
		switch {
		case result.Gone:
			delete(records, name)
			delete(troubles, name)
		case result.Err != nil:
			troubles[name] = troubles[name].failed(wanted, result.Now, result.Err.Error(), result.Managed, p.at)
			record.Wrote, record.Next, record.Pending = result.Now, "", false
			if records[name] = record; result.Now == record.Before {
				delete(records, name)
			}
		case !p.same(kind, result.Now, wanted) && !kind.accepts(result.Now, wanted):
			troubles[name] = troubles[name].failed(wanted, result.Now, "it then contains "+quoted(result.Text), false, p.at)
			record.Wrote, record.Next, record.Pending = result.Now, "", false
			if records[name] = record; result.Now == record.Before {
				delete(records, name)
			}
		case result.Now == record.Before, kind == Workqueues && wanted == record.Before:
			delete(records, name)
		default:
			if t, had := troubles[name]; had && t.Error != "" {
				delete(troubles, name)
			}
			record.Wrote, record.Next, record.Pending = result.Now, wanted, false
			records[name] = record
		}
	}
	return records, troubles
}

// accepts reports whether the kernel may have this value after another one was written: an
// interrupt controller may use fewer CPUs.
func (k Kind) accepts(now, wrote string) bool {
	return k == Interrupt && now != "" && setOf(wrote).Contains(setOf(now))
}

func quoted(text string) string {
	if text == "" {
		return "nothing"
	}
	return `"` + text + `"`
}

// Banned returns the CPUs that irqbalance must keep free of interrupts. It is empty if no container
// wants that: irqbalance then uses its own list.
func (p *Plan) Banned(s *Situation) cpuset.Set {
	wanted, _ := Want(&s.Machine, s.Containers, nil, &s.Policy, map[string]string{BalancerFile: p.base[BalancerFile]})
	if ban := wanted[BalancerFile]; len(ban.For) > 0 {
		return setOf(ban.Value)
	}
	return cpuset.Set{}
}
