package discover

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/malformed"
	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// cpuList has the CPUs of a machine as lscpu lists them (lscpu(1), util-linux).
type cpuList struct {
	file    string
	threads []thread // the online ones, ascending by id
	offline cpuset.Set
	notes   []string
}

// thread is one CPU. core is unique within a socket and a NUMA node. Numbers that lscpu does not
// know are unknown.
type thread struct{ id, node, socket, core, l3 int }

const unknown = -1

// row is one CPU of the table of "lscpu -e", by the names of the columns in lower case. Values are
// numbers, booleans or text, depending on the version.
type row map[string]json.RawMessage

// text returns a value as text. It returns "-" if there is none, as lscpu does in tables.
func (r row) text(column string) string {
	raw := r[column]
	var text string
	switch {
	case len(raw) == 0 || string(raw) == "null":
	case json.Unmarshal(raw, &text) != nil:
		text = string(raw)
	}
	return cmp.Or(strings.TrimSpace(text), "-")
}

// number returns a value that is a number, or unknown if there is none.
func (r row) number(column string) (int, error) {
	text := r.text(column)
	if text == "-" {
		return unknown, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return unknown, fmt.Errorf("its %q is %q, expected a number", column, text)
	}
	return max(n, unknown), nil
}

// isOnline reports whether a CPU is online. If the column is missing, the CPUs that have a core
// are: the kernel describes the topology of online CPUs only.
func (r row) isOnline(core int) (bool, error) {
	text := r.text("online")
	switch strings.ToLower(text) {
	case "true", "yes", "y", "1":
		return true, nil
	case "false", "no", "n", "0":
		return false, nil
	case "-":
		return core != unknown, nil
	}
	return false, fmt.Errorf(`its "online" is %q, expected yes or no: run lscpu with LC_ALL=C`, text)
}

// bareDash matches what many versions of util-linux write in place of a missing number. It is not
// JSON (util-linux#3430, util-linux#3758).
var bareDash = regexp.MustCompile(`(":\s*)-(\s*[,}\]])`)

// readTable reads the output of "lscpu -J -e".
func readTable(f File) (*cpuList, error) {
	data := f.Data
	if !json.Valid(data) {
		data = bareDash.ReplaceAll(data, []byte("${1}null${2}"))
	}
	var table struct {
		CPUs []row `json:"cpus"`
	}
	if err := json.Unmarshal(data, &table); err != nil {
		return nil, fmt.Errorf("%s: %w: expected the output of %s", f.Name, malformed.JSON(data, err), tableCommand)
	}
	rows := table.CPUs
	for i, r := range rows {
		rows[i] = make(row, len(r))
		for column, value := range r {
			rows[i][strings.ToLower(column)] = value
		}
	}
	l := &cpuList{file: f.Name}
	if err := l.add(rows); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return l, nil
}

// add adds the CPUs of a table and the notes about them.
func (l *cpuList) add(rows []row) error {
	if len(rows) == 0 {
		return errors.New("it lists no CPU: expected the output of " + tableCommand)
	}
	for _, column := range []string{"core", "socket"} {
		if _, ok := rows[0][column]; !ok {
			return fmt.Errorf("it has no column %s: run %s", strings.ToUpper(column), tableCommand)
		}
	}
	caches := cachesOf(rows[0])
	seen := map[int]bool{}
	var offline, unclear cpuset.Builder
	for i, r := range rows {
		t, online, err := r.thread()
		switch {
		case err != nil:
			return fmt.Errorf("entry %d: %w", i, err)
		case seen[t.id]:
			return fmt.Errorf("CPU %d is listed twice", t.id)
		case !online:
			offline.Add(t.id)
		default:
			var known bool
			if t.l3, known = caches.l3(r); !known {
				unclear.Add(t.id)
			}
			l.threads = append(l.threads, t)
		}
		seen[t.id] = true
	}
	l.offline = offline.Set()
	slices.SortFunc(l.threads, func(a, b thread) int { return a.id - b.id })
	if err := l.check(); err != nil {
		return err
	}
	if cpus := unclear.Set(); caches.column == "" {
		l.note("%s has no column CACHE: which CPUs share an L3 cache is not known, and a socket counts as one cache; run %s", l.file, tableCommand)
	} else if !cpus.IsEmpty() {
		l.note("%s does not have the L3 cache of CPUs %s: which CPUs share one is not known, and the socket counts in its place", l.file, cpus)
	}
	return nil
}

// thread returns the CPU of a row without its L3 cache, and whether it is online.
func (r row) thread() (t thread, online bool, err error) {
	for _, to := range []struct {
		column string
		number *int
	}{{"cpu", &t.id}, {"node", &t.node}, {"socket", &t.socket}, {"core", &t.core}} {
		if *to.number, err = r.number(to.column); err != nil {
			return t, false, err
		}
	}
	switch {
	case t.id == unknown:
		return t, false, errors.New(`it has no number in "cpu"`)
	case t.id > cpuset.MaxID:
		return t, false, fmt.Errorf("CPU %d is outside 0..%d", t.id, cpuset.MaxID)
	}
	if t.node != unknown {
		if err := checkNode(t.node); err != nil {
			return t, false, fmt.Errorf("CPU %d: %w", t.id, err)
		}
	}
	online, err = r.isOnline(t.core)
	return t, online, err
}

// check makes sure that every online CPU has a core, and that either all or none have a socket and
// a NUMA node.
func (l *cpuList) check() error {
	if len(l.threads) == 0 {
		return errors.New("it lists no CPU that is online")
	}
	for _, n := range []struct {
		what   string
		of     func(t thread) int
		needed bool
	}{
		{"core", func(t thread) int { return t.core }, true},
		{"socket", func(t thread) int { return t.socket }, false},
		{"NUMA node", func(t thread) int { return t.node }, false},
	} {
		lacks := slices.IndexFunc(l.threads, func(t thread) bool { return n.of(t) == unknown })
		has := slices.ContainsFunc(l.threads, func(t thread) bool { return n.of(t) != unknown })
		if lacks >= 0 && (has || n.needed) {
			return fmt.Errorf("CPU %d is online and has no %s: run %s again", l.threads[lacks].id, n.what, tableCommand)
		}
	}
	if l.threads[0].socket == unknown {
		l.note("%s has no sockets: the machine is taken as one", l.file)
	}
	return nil
}

func (l *cpuList) note(format string, args ...any) {
	l.notes = append(l.notes, fmt.Sprintf(format, args...))
}

// cacheColumn is the column with the ids of the caches of each CPU. Its name lists the caches, such
// as "l1d:l1i:l2:l3". It is "cache" if the kernel reports no caches.
type cacheColumn struct {
	column string
	names  []string
}

// cacheName matches the name of one cache.
var cacheName = regexp.MustCompile(`^l\d[a-z]?$`)

func cachesOf(r row) cacheColumn {
	for _, column := range slices.Sorted(maps.Keys(r)) {
		names := strings.Split(column, ":")
		if column == "cache" || !slices.ContainsFunc(names, func(n string) bool { return !cacheName.MatchString(n) }) {
			return cacheColumn{column, names}
		}
	}
	return cacheColumn{}
}

// l3 returns the id of the L3 cache of a CPU, or unknown if it has none. It reports whether the id
// is certain. It is uncertain if the CPU lacks a cache, because lscpu then leaves out the id but
// not its place, and if the kernel does not number caches, for which lscpu writes -1.
func (c cacheColumn) l3(r row) (id int, certain bool) {
	at := slices.Index(c.names, "l3")
	if at < 0 {
		return unknown, true
	}
	ids := strings.Split(r.text(c.column), ":")
	if len(ids) != len(c.names) {
		return unknown, false
	}
	id, err := strconv.Atoi(ids[at])
	if err != nil || id < 0 {
		return unknown, false
	}
	return id, true
}
