package quiet

import (
	"maps"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// Record is what is saved about a file that is changed. All values are in the form of Kind.Value.
type Record struct {
	// Before is what the file would contain without Paddock.
	Before string `json:"before"`
	// Wrote is what the file contained after it was written last.
	Wrote string `json:"wrote"`
	// Next is what was written then. If Pending is set, it is what is about to be written.
	Next    string `json:"next,omitempty"`
	Pending bool   `json:"pending,omitempty"`
	// Since is when the file was changed first, in RFC 3339.
	Since string `json:"since"`
}

// Records has the record of each file that is changed.
type Records map[string]Record

// ours reports whether the content of a file is the base or was written by Paddock. partitions are
// the CPUs of isolated partitions.
func (r Record) ours(kind Kind, now string, partitions cpuset.Set) bool {
	if now == r.Before || now == r.Wrote {
		return true
	}
	// The kernel makes a partition invalid when its CPUs are no longer its own.
	if kind == Partition && strings.HasSuffix(now, " invalid") {
		return true
	}
	if kind == Workqueues {
		// The kernel takes the CPUs of partitions out when these begin, and puts them in again when
		// they end.
		before, has := setOf(r.Before), setOf(now)
		may := partitions.Union(before.Difference(setOf(r.Wrote)))
		if r.Pending {
			may = may.Union(before.Difference(setOf(r.Next)))
		}
		return before.Contains(has) && may.Contains(before.Difference(has))
	}
	if !r.Pending {
		return false
	}
	if now == r.Next {
		return true
	}
	// Between two values the list of a parent is their union, and an interrupt controller may use
	// fewer CPUs than were written.
	return kind.isSet() && setOf(r.Before).Union(setOf(r.Wrote)).Union(setOf(r.Next)).Contains(setOf(now)) &&
		(kind == ExclusiveCPUs || now != "" && setOf(r.Next).Contains(setOf(now)))
}

// bases returns what each file would contain without Paddock, and the records of the files that are
// still there. What another program wrote is the base from now on. A file that cannot be read has
// no base, and keeps its record.
func bases(now map[string]string, unread map[string]error, old Records, partitions cpuset.Set) (base map[string]string, records Records) {
	base, records = maps.Clone(now), Records{}
	for name, record := range old {
		found, there := now[name]
		if !there {
			if unread[name] != nil {
				records[name] = record
			}
			continue
		}
		kind := KindOf(name)
		switch {
		case kind == CacheClass && found == "":
			continue // There is no group to give back.
		case kind.IsClass():
			record = record.classBase(kind, found)
		case !record.ours(kind, found, partitions):
			record.Before = found
		}
		base[name], records[name] = record.Before, record
	}
	return base, records
}

// OfThisBoot returns the records that are still valid after the machine was restarted: the kernel
// has its own values again.
func (r Records) OfThisBoot(same bool) Records {
	kept := Records{}
	for name, record := range r {
		if same || KindOf(name).Survives() {
			kept[name] = record
		}
	}
	return kept
}
