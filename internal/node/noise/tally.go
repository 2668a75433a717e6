package noise

import (
	"cmp"
	"sort"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// NumCounted is the number of the classes of Counted.
const NumCounted = 5

// Counts are counts by class, in the order of Counted.
type Counts [NumCounted]uint64

// Reading has the counts of CPUs at one moment.
type Reading struct {
	// At is the time since a moment that all readings have in common.
	At   time.Duration
	CPUs map[int]Counts
	// Known are the classes that can be read.
	Known [NumCounted]bool
}

// Owner is a container, by the names that its series has, and its exclusive CPUs.
type Owner struct {
	Pod, Container string
	CPUs           cpuset.Set
}

// Series has the counts of one container since it was first seen. The one without names has those
// of all containers that have no series of their own.
type Series struct {
	Pod, Container string
	Counts         Counts
}

// MostSeries is how many containers have a series of their own. With the classes, that is 500
// series at most.
const MostSeries = 100

type name struct{ pod, container string }

// Tally counts the interruptions of containers over readings. Its zero value is ready for use. It
// keeps a few hundred bytes for each container with exclusive CPUs, and 40 bytes for each of their
// CPUs.
type Tally struct {
	last   Reading
	owned  map[name]cpuset.Set
	series map[name]*Counts
	others Counts
	// rates are those of the newest interval, of this length.
	rates    map[int][NumCounted]float64
	interval time.Duration
}

// Add adds a reading, at which these containers had CPUs of their own. What happened on a CPU since
// the reading before is counted for a container that had the CPU then, too. Containers that are
// gone lose their series. The tally keeps the map of the reading.
func (t *Tally) Add(r Reading, owners []Owner) {
	owned := make(map[name]cpuset.Set, len(owners))
	for i := range owners {
		key := name{owners[i].Pod, owners[i].Container}
		owned[key] = owned[key].Union(owners[i].CPUs) // Two pods have the same name while one ends.
	}
	if t.series == nil {
		t.series = map[name]*Counts{}
	}
	for key := range t.series {
		if _, there := owned[key]; !there {
			delete(t.series, key)
		}
	}
	t.interval = r.At - t.last.At
	t.rates = map[int][NumCounted]float64{}
	for i := range owners {
		key := name{owners[i].Pod, owners[i].Container}
		to := t.of(key)
		for cpu := range owners[i].CPUs.Intersection(t.owned[key]).All() {
			t.count(cpu, &r, to)
		}
	}
	t.last, t.owned = r, owned
}

// of returns the counts of a container, or those of all others.
func (t *Tally) of(key name) *Counts {
	if own := t.series[key]; own != nil {
		return own
	}
	if len(t.series) >= MostSeries {
		return &t.others
	}
	t.series[key] = &Counts{}
	return t.series[key]
}

// count adds what a CPU counted since the last reading.
func (t *Tally) count(cpu int, r *Reading, to *Counts) {
	before, known := t.last.CPUs[cpu]
	after, still := r.CPUs[cpu]
	if !known || !still || t.interval <= 0 {
		return
	}
	var rates [NumCounted]float64
	for class := range to {
		if !r.Known[class] || !t.last.Known[class] {
			continue
		}
		n := since(before[class], after[class])
		to[class] += n
		rates[class] = float64(n) / t.interval.Seconds()
	}
	t.rates[cpu] = rates
}

// since returns by how much a sum of counters of 32 bits grew. If one of them ended or was reset,
// the sum falls, and what was counted meanwhile is not known.
func since(from, to uint64) uint64 {
	if to >= from {
		return to - from
	}
	if wrapped := to + 1<<32 - from; to+1<<32 >= from && wrapped < 1<<31 {
		return wrapped
	}
	return 0
}

// All returns the series in order of their names. The one of all others comes first, if there are
// others.
func (t *Tally) All() []Series {
	list := make([]Series, 0, len(t.series)+1)
	if t.others != (Counts{}) || len(t.owned) > len(t.series) {
		list = append(list, Series{Counts: t.others})
	}
	for key, counts := range t.series {
		list = append(list, Series{key.pod, key.container, *counts})
	}
	sort.Slice(list, func(i, k int) bool {
		return cmp.Or(cmp.Compare(list[i].Pod, list[k].Pod), cmp.Compare(list[i].Container, list[k].Container)) < 0
	})
	return list
}

// Known are the classes that the last reading had.
func (t *Tally) Known() [NumCounted]bool { return t.last.Known }

// Rates returns how often each CPU was interrupted in a second, by class, in the newest interval,
// and the length of that. The caller must not change the map.
func (t *Tally) Rates() (map[int][NumCounted]float64, time.Duration) { return t.rates, t.interval }
