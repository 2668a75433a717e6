package nodemap

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
)

// mostInterrupted is how many CPUs are listed in a terminal.
const mostInterrupted = 8

// WithInterruptions returns the map with the number of interruptions per second of CPUs, by CPU id.
func (m Map) WithInterruptions(perSecond map[int]float64) Map {
	m.CPUs = slices.Clone(m.CPUs)
	for id, n := range perSecond {
		if at, known := m.byID[id]; known {
			m.CPUs[at].Interruptions = n
		}
	}
	return m
}

// interruptionsText formats a number of interruptions per second.
func interruptionsText(perSecond float64) string {
	digits := 0
	if perSecond < 10 {
		digits = 1
	}
	return strconv.FormatFloat(perSecond, 'f', digits, 64)
}

// loudness returns the share of a cell's height that shows how often its CPU is interrupted. The
// whole height means 10,000 times a second, and each quarter less means a tenth of that. The page
// draws the same.
func loudness(perSecond float64) float64 {
	return min(1, max(0, math.Log10(max(1, perSecond))/4))
}

// interruptionLines lists the CPUs with the most interruptions, for a terminal.
func (m Map) interruptionLines(style terminal.Style) string {
	var loud []CPU
	for _, c := range m.CPUs {
		if c.Interruptions > 0 {
			loud = append(loud, c)
		}
	}
	if len(loud) == 0 {
		return ""
	}
	sort.Slice(loud, func(i, k int) bool {
		return cmp.Or(cmp.Compare(loud[k].Interruptions, loud[i].Interruptions), loud[i].ID-loud[k].ID) < 0
	})
	var parts []string
	for _, c := range loud[:min(len(loud), mostInterrupted)] {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("CPU %d %s", c.ID, c.Tag))+" "+interruptionsText(c.Interruptions))
	}
	if more := len(loud) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more CPUs", more))
	}
	return style.Paragraph("", "  ", terminal.Strong.Of("Interrupted, times a second:"), terminal.Plain.Of(strings.Join(parts, ", ")))
}
