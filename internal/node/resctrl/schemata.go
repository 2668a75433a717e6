package resctrl

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cache"
)

// The resources that are divided. With code and data prioritization (CDP), a cache has two.
const (
	l3        = "L3"
	l3Code    = "L3CODE"
	l3Data    = "L3DATA"
	bandwidth = "MB"
)

// Entry is the value of one cache in a file schemata: its ways, or a limit of the memory bandwidth.
type Entry struct {
	Resource string
	Cache    int
	Value    uint64
}

// hasWays reports whether the value is a set of ways.
func (e Entry) hasWays() bool { return e.Resource != bandwidth }

// ways returns the value as a set of ways.
func (e Entry) ways() cache.Ways { return cache.Ways(e.Value) } //nolint:gosec // Parse has checked it.

// Schemata is the content of a file schemata, without the resources that Paddock does not divide.
// The entries are in order of their resource and their cache.
type Schemata []Entry

// mostEntries is how many entries are read. A machine has at most some hundred caches.
const mostEntries = 4 << 12

// Parse reads the kernel's text, or that of String. The kernel pads names and values with spaces,
// and older versions pad masks with zeros (fs/resctrl/ctrlmondata.c, show_doms).
func Parse(text string) (Schemata, error) {
	var lines []string
	for _, word := range strings.Fields(text) {
		if len(lines) == 0 || strings.Contains(word, ":") {
			lines = append(lines, word)
		} else {
			lines[len(lines)-1] += word
		}
	}
	var all Schemata
	for _, line := range lines {
		resource, list, found := strings.Cut(line, ":")
		if !found {
			return nil, fmt.Errorf("%q: expected lines such as L3:0=7ff;1=7ff", line)
		}
		if !slices.Contains([]string{l3, l3Code, l3Data, bandwidth}, resource) {
			continue
		}
		for _, part := range strings.Split(strings.TrimSuffix(list, ";"), ";") {
			e, err := parseEntry(resource, part)
			if err != nil {
				return nil, err
			}
			if all = append(all, e); len(all) > mostEntries {
				return nil, fmt.Errorf("there are more than %d values", mostEntries)
			}
		}
	}
	slices.SortFunc(all, compare)
	for i := 1; i < len(all); i++ {
		if compare(all[i-1], all[i]) == 0 {
			return nil, fmt.Errorf("%s has two values for cache %d", all[i].Resource, all[i].Cache)
		}
	}
	return all, nil
}

func parseEntry(resource, text string) (Entry, error) {
	id, value, _ := strings.Cut(text, "=")
	base, size := 16, 32
	if resource == bandwidth {
		base, size = 10, 64
	}
	cache, err := strconv.ParseUint(id, 10, 31)
	n, err2 := strconv.ParseUint(value, base, size)
	if err != nil || err2 != nil {
		return Entry{}, fmt.Errorf("%q of %s: expected the id of a cache, =, and a number", text, resource)
	}
	return Entry{resource, int(cache), n}, nil
}

func compare(a, b Entry) int {
	return cmp.Or(strings.Compare(a.Resource, b.Resource), cmp.Compare(a.Cache, b.Cache))
}

// String returns the schemata in one line: "L3:0=7ff;1=7ff MB:0=100;1=100".
func (s Schemata) String() string { return strings.Join(s.Lines(), " ") }

// Lines returns the lines that the kernel accepts.
func (s Schemata) Lines() []string {
	var lines []string
	for i, e := range s {
		value := strconv.FormatUint(e.Value, 10)
		if e.hasWays() {
			value = strconv.FormatUint(e.Value, 16)
		}
		if i == 0 || s[i-1].Resource != e.Resource {
			lines = append(lines, e.Resource+":")
		} else {
			lines[len(lines)-1] += ";"
		}
		lines[len(lines)-1] += strconv.Itoa(e.Cache) + "=" + value
	}
	return lines
}

// Of returns the value that s has where e has one.
func (s Schemata) Of(e Entry) (value uint64, has bool) {
	i, has := slices.BinarySearchFunc(s, e, compare)
	if !has {
		return 0, false
	}
	return s[i].Value, true
}

// Equal reports whether both have the same values.
func (s Schemata) Equal(other Schemata) bool { return slices.Equal(s, other) }

// Common returns the ways that both have in a cache, as in a sentence: "ways 0-3 of L3 0". It is
// empty if there are none.
func (s Schemata) Common(other Schemata) string {
	var parts []string
	for _, e := range s {
		for _, o := range other {
			if both := e.ways() & o.ways(); e.hasWays() && o.hasWays() && e.Cache == o.Cache && both != 0 {
				if part := fmt.Sprintf("ways %s of L3 %d", both, e.Cache); !slices.Contains(parts, part) {
					parts = append(parts, part)
				}
			}
		}
	}
	return strings.Join(parts, ", ")
}
