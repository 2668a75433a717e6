package view

import (
	"fmt"
	"math"

	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
)

// FleetStranding is the typical request that strands the most CPUs.
type FleetStranding struct {
	CPUs     int     `json:"cpus"`
	Stranded float64 `json:"stranded"`
	// With Less CPUs, the request would strand only Left. Less is absent if no smaller request
	// strands at most half as much.
	Less int     `json:"less,omitempty"`
	Left float64 `json:"left,omitempty"`
}

// The typical requests that leave stranded CPUs over.
const (
	typicalAssumed = "requests for 1, 2, 4, 8, 16 and 32 CPUs"
	typicalRunning = "requests like those of the running pods"
	typicalAsked   = "requests like those of the pods to place"
)

// typicalOf returns which requests count as typical in an answer.
func typicalOf(r *capacity.Result, question string) string {
	switch {
	case r.Stranded.Assumed:
		return typicalAssumed
	case question == "now":
		return typicalRunning
	}
	return typicalAsked
}

func strandingOf(s *fleet.Stranding) *FleetStranding {
	if s == nil {
		return nil
	}
	return &FleetStranding{s.CPUs, rounded(s.Stranded), s.Less, rounded(s.Left)}
}

// StrandedText describes the free CPUs. Pods without CPUs of their own run on free CPUs, so placed
// and free CPUs together can exceed the existing ones. In this case, the text names the difference.
func (f *Fleet) StrandedText() string {
	text := strandedText(f.CPUs.Free, f.CPUs.Stranded, f.Typical, f.Stranding)
	if both := f.CPUs.Placed + float64(f.CPUs.Free) - f.CPUs.Allocatable; both > 0 && f.CPUs.Free > 0 {
		text += fmt.Sprintf(". Free are the CPUs that no pod has as its own: pods that share CPUs request %s of them", amount(both))
	}
	return text
}

// strandedText describes the free CPUs and, if a smaller request of the kind that strands most of
// them would strand fewer, how to win them back.
func strandedText(free int, stranded float64, typical string, s *FleetStranding) string {
	switch {
	case free == 0:
		return "No CPU is free to become exclusive."
	case stranded == 0:
		return fmt.Sprintf("%s free, none of them stranded", Count(free, "CPU"))
	}
	line := fmt.Sprintf("%s of %s free CPUs are stranded: %s leave them over", tenths(stranded), grouped(int64(free)), typical)
	if s != nil && s.Less > 0 {
		line += fmt.Sprintf(" on average. Requests for %s alone would strand the most, %s; requests for %d instead would strand %s",
			Count(s.CPUs, "CPU"), tenths(s.Stranded), s.Less, tenths(s.Left))
	}
	return line
}

// tenths formats a mean number of CPUs.
func tenths(x float64) string { return amount(math.Round(x*10) / 10) }
