package fakekernel

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// writeSchemata is fs/resctrl/ctrlmondata.c, rdtgroup_schemata_write: nothing changes unless every
// line is valid.
func (r *resctrl) writeSchemata(g *classGroup, text string) error {
	staged := map[string]map[int]uint64{}
	for _, line := range strings.Split(text, "\n") {
		name, list, found := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		switch {
		case !found:
			return r.fail(syscall.EINVAL, "Missing ':'")
		case list == "":
			return r.fail(syscall.EINVAL, "Missing '%s' value", name)
		}
		at := slices.IndexFunc(r.resources, func(s *resource) bool { return s.name == name })
		if at < 0 {
			return r.fail(syscall.EINVAL, "Unknown or unsupported resource name '%s'", name)
		}
		if staged[name] == nil {
			staged[name] = map[int]uint64{}
		}
		if err := r.parseLine(g, r.resources[at], list, staged[name]); err != nil {
			return err
		}
	}
	for name, values := range staged {
		maps.Copy(g.values[name], values)
	}
	return nil
}

// parseLine is ctrlmondata.c, parse_line. An id that no online cache has is EINVAL without a text.
func (r *resctrl) parseLine(g *classGroup, s *resource, list string, staged map[int]uint64) error {
	for _, entry := range strings.Split(strings.TrimSuffix(list, ";"), ";") {
		text, value, found := strings.Cut(entry, "=")
		id, err := strconv.Atoi(text)
		if !found || err != nil {
			return r.fail(syscall.EINVAL, "Missing '=' or non-numeric domain")
		}
		if _, online := g.values[s.name][id]; !online {
			return syscall.EINVAL
		}
		if _, twice := staged[id]; twice {
			return r.fail(syscall.EINVAL, "Duplicate domain %d", id)
		}
		if staged[id], err = r.parseValue(g, s, id, strings.TrimSpace(value)); err != nil {
			return err
		}
	}
	return nil
}

func (r *resctrl) parseValue(g *classGroup, s *resource, id int, text string) (uint64, error) {
	if !s.ways {
		return r.parseBandwidth(s, text)
	}
	value, err := strconv.ParseUint(text, 16, 64)
	switch run := lowestRun(value); {
	case err != nil: // cbm_validate, here and below
		return 0, r.fail(syscall.EINVAL, "Non-hex character in the mask %s", text)
	case s.least > 0 && value == 0 || value > s.all:
		return 0, r.fail(syscall.EINVAL, "Mask out of range")
	case !s.sparse && run != value:
		return 0, r.fail(syscall.EINVAL, "The mask %x has non-consecutive 1-bits", value)
	case bits.OnesCount64(run) < s.least:
		return 0, r.fail(syscall.EINVAL, "Need at least %d bits in the mask", s.least)
	}
	for _, other := range r.groups { // parse_cbm, with rdtgroup_cbm_overlaps
		for _, peer := range r.peers(s) {
			switch {
			case other == g || other.values[peer][id]&value == 0:
			case other.exclusive:
				return 0, r.fail(syscall.EINVAL, "Overlaps with exclusive group")
			case g.exclusive:
				return 0, r.fail(syscall.EINVAL, "Overlaps with other group")
			}
		}
	}
	return value, nil
}

// parseBandwidth is ctrlmondata.c, bw_validate: a limit is rounded up to the next step.
func (r *resctrl) parseBandwidth(s *resource, text string) (uint64, error) {
	value, err := strconv.ParseUint(text, 10, 32)
	switch {
	case err != nil:
		return 0, r.fail(syscall.EINVAL, "Invalid MB value %s", text)
	case value < s.min || value > s.max:
		return 0, r.fail(syscall.EINVAL, "MB value %d out of range [%d,%d]", value, s.min, s.max)
	}
	return (value + s.step - 1) / s.step * s.step, nil
}

// text is ctrlmondata.c, rdtgroup_schemata_show and show_doms: names are padded to the same width.
func (r *resctrl) text(g *classGroup) string {
	width := 0
	for _, s := range r.resources {
		width = max(width, len(s.name))
	}
	var lines []string
	for _, s := range r.resources {
		var list []string
		for _, id := range slices.Sorted(maps.Keys(g.values[s.name])) {
			format := map[bool]string{true: "%d=%x", false: "%d=%4d"}[s.ways]
			list = append(list, fmt.Sprintf(format, id, g.values[s.name][id]))
		}
		lines = append(lines, fmt.Sprintf("%*s:%s", width, s.name, strings.Join(list, ";")))
	}
	return strings.Join(lines, "\n")
}
