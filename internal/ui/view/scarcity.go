package view

import (
	"fmt"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// FleetScarcity describes what is missing for the rejected pods after all pods were placed.
type FleetScarcity struct {
	// Pods counts the rejected pods. Alone counts, by resource, the pods for which one resource
	// alone is missing on some place; a pod with several such resources counts for the one that is
	// missing on the most places. NotAlone counts the pods for which no resource alone is missing
	// anywhere, and NotKnown those that were not examined.
	Pods     int64           `json:"pods"`
	Alone    []FleetScarcest `json:"alone,omitempty"`
	NotAlone int64           `json:"notAlone,omitempty"`
	NotKnown int64           `json:"notKnown,omitempty"`
	// Shapes has the shapes with the most pods. All pods that differ only in their names have one
	// shape. MoreShapes and MorePods count the other shapes and their pods.
	Shapes     []FleetScarce `json:"shapes"`
	MoreShapes int           `json:"moreShapes,omitempty"`
	MorePods   int64         `json:"morePods,omitempty"`
}

// FleetScarcest is the number of pods for which one resource alone is missing.
type FleetScarcest struct {
	Resource string `json:"resource"`
	Pods     int64  `json:"pods"`
}

// FleetScarce describes what is missing for one shape of pods. A place is a NUMA node, or the node
// as a whole where the policy lets a pod be split over NUMA nodes. NUMANodes and Nodes count the
// places.
type FleetScarce struct {
	Pods    int64  `json:"pods"`
	Example string `json:"example"`
	// Empty is set for pods that a number of nodes leaves out. The places are then those of one
	// empty node of each kind.
	Empty bool `json:"empty,omitempty"`
	// Container is the container of the pod that finds no place, under scope container.
	Container string `json:"container,omitempty"`
	// Wanted lists what the pod or the container asks for on a place: CPUs, bytes, and devices.
	Wanted    []explain.Amount `json:"wanted"`
	NUMANodes int              `json:"numaNodes"`
	Nodes     int              `json:"nodes"`
	// Unknown counts nodes without an account, and NotAllowed those on which the pods may not run.
	// Ruled counts those that a rule of the scheduler bars, and Limited those that have as many
	// pods of the workload as its limit allows.
	Unknown    int `json:"unknown,omitempty"`
	Ruled      int `json:"ruled,omitempty"`
	Limited    int `json:"limited,omitempty"`
	NotAllowed int `json:"notAllowed,omitempty"`
	// Nothing counts the places on which nothing is missing. Several counts the places on which an
	// amount is missing together with others or with a reason in Bars. Barred counts the places on
	// which such a reason keeps the pods off without a missing amount. The remaining places are the
	// sum of Alone in Missing.
	Nothing int         `json:"nothing"`
	Several int         `json:"several"`
	Barred  int         `json:"barred"`
	Missing []FleetLack `json:"missing,omitempty"`
	Bars    []FleetBar  `json:"bars,omitempty"`
	// Reserved lists the reservations for the system that keep the pods off places, however empty.
	Reserved []FleetReserved `json:"reserved,omitempty"`
	// Smaller lists smaller requests with which the fleet takes more of the pods, the largest
	// first. The pods were placed on the fleet as it is at the end.
	Smaller []FleetSmaller `json:"smaller,omitempty"`
}

// FleetLack counts the places on which a resource is missing, alone or with others. Least and Most
// are the missing amounts on the places where it is missing alone.
type FleetLack struct {
	Resource   string `json:"resource"`
	Alone      int    `json:"alone"`
	WithOthers int    `json:"withOthers"`
	Least      int64  `json:"least,omitempty"`
	Most       int64  `json:"most,omitempty"`
}

// FleetBar counts the places that the pods cannot use for a reason other than an amount: memory
// that belongs to another group of NUMA nodes (memoryGroup), devices that were chosen near other
// NUMA nodes (chosenDevices), CPUs that are not a whole number of cores (partialCores), or what
// init containers leave, or an empty pool (pod). Alone counts the places on which no amount is
// missing, and WithAmounts the others.
type FleetBar struct {
	Reason      explain.Bar `json:"reason"`
	Alone       int         `json:"alone"`
	WithAmounts int         `json:"withAmounts"`
}

// FleetReserved counts the places that would have the wanted amount without the reservation for the
// system. Reserved is the largest reservation on such a place.
type FleetReserved struct {
	Resource string `json:"resource"`
	Wanted   int64  `json:"wanted"`
	Reserved int64  `json:"reserved"`
	Places   int    `json:"places"`
}

// FleetSmaller is a smaller request, with the number of additional pods that are placed with it.
type FleetSmaller struct {
	explain.Change
	Pods int64 `json:"pods"`
	// AtLeast is set if more pods may be placed: the count ended at its limit.
	AtLeast bool `json:"atLeast,omitempty"`
}

// scarcityOf returns the document. It returns nil if no pod is rejected.
func scarcityOf(s *capacity.Scarcity) *FleetScarcity {
	if len(s.Shapes) == 0 {
		return nil
	}
	out := &FleetScarcity{Pods: s.Pods, NotAlone: s.NotAlone, NotKnown: s.NotKnown, MoreShapes: s.More, MorePods: s.MorePods}
	for _, a := range s.Alone {
		out.Alone = append(out.Alone, FleetScarcest(a))
	}
	for i := range s.Shapes {
		of := &s.Shapes[i]
		shape := FleetScarce{
			Pods: of.Pods, Example: of.Example.ID(), Empty: of.Empty, Container: of.Container, Wanted: of.Wanted, NUMANodes: of.NUMANodes, Nodes: of.Nodes,
			Unknown: of.Unknown, Ruled: of.Ruled, Limited: of.Limited, NotAllowed: of.NotAllowed, Nothing: of.Nothing, Several: of.Several, Barred: of.Barred,
		}
		if shape.Wanted == nil {
			shape.Wanted = []explain.Amount{}
		}
		for _, l := range of.Missing {
			shape.Missing = append(shape.Missing, FleetLack{l.Resource, l.Alone, l.WithOthers, l.Least, l.Most})
		}
		for _, b := range of.Bars {
			shape.Bars = append(shape.Bars, FleetBar(b))
		}
		for _, r := range of.Reserved {
			shape.Reserved = append(shape.Reserved, FleetReserved{r.Resource, r.Value, r.Most, r.Places})
		}
		for _, x := range of.Smaller {
			shape.Smaller = append(shape.Smaller, FleetSmaller(x))
		}
		out.Shapes = append(out.Shapes, shape)
	}
	return out
}

// ShapesFirst is how many shapes a reader is shown at first. A reader changes one request at a
// time.
const ShapesFirst = 5

// text formats the scarcity for people, with the summary first.
func (s *FleetScarcity) text(style terminal.Style) string {
	var out strings.Builder
	out.WriteString(style.Paragraph("", "  ", terminal.Strong.Of(s.Summary())))
	for i := range s.Shapes[:min(len(s.Shapes), ShapesFirst)] {
		out.WriteString(s.Shapes[i].text(style))
	}
	if more := s.More(ShapesFirst); more != "" {
		fmt.Fprintf(&out, "%s\n", style.Paint(terminal.Faint, "and "+more))
	}
	return out.String()
}

// More counts the shapes after the first ones, and their pods: "3 more shapes with 12 pods". It
// returns "" if there are none.
func (s *FleetScarcity) More(first int) string {
	shapes, pods := s.MoreShapes, s.MorePods
	for i := first; i < len(s.Shapes); i++ {
		shapes, pods = shapes+1, pods+s.Shapes[i].Pods
	}
	if shapes == 0 {
		return ""
	}
	return fmt.Sprintf("%s more %s with %s", Number(shapes), Plural(shapes, "shape"), podCount(pods))
}

// Summary describes in a sentence for how many pods one resource alone is missing.
func (s *FleetScarcity) Summary() string {
	if s.Pods == 1 && len(s.Alone) == 1 {
		return "The rejected pod lacks only " + noun(s.Alone[0].Resource) + " somewhere."
	}
	switch {
	case s.Pods == 1:
		return "More of one resource alone would not be enough for the rejected pod anywhere."
	case s.NotAlone == s.Pods:
		return fmt.Sprintf("More of one resource alone would not be enough for any of the %s rejected pods.", grouped(s.Pods))
	case s.NotAlone+s.NotKnown == 0 && len(s.Alone) == 1:
		if s.Pods == 2 {
			return fmt.Sprintf("Both rejected pods lack only %s somewhere.", noun(s.Alone[0].Resource))
		}
		return fmt.Sprintf("All %s rejected pods lack only %s somewhere.", grouped(s.Pods), noun(s.Alone[0].Resource))
	}
	var texts []string
	for i, a := range s.Alone {
		text := fmt.Sprintf("%s only %s", grouped(a.Pods), noun(a.Resource))
		if i == 0 {
			lack := "lack"
			if a.Pods == 1 {
				lack = "lacks"
			}
			text = fmt.Sprintf("%s %s only %s somewhere", grouped(a.Pods), lack, noun(a.Resource))
		}
		texts = append(texts, text)
	}
	if s.NotAlone > 0 {
		texts = append(texts, fmt.Sprintf("for %s, more of one resource alone would not be enough anywhere", grouped(s.NotAlone)))
	}
	if s.NotKnown > 0 {
		texts = append(texts, grouped(s.NotKnown)+" were not looked at")
	}
	return fmt.Sprintf("Of %s rejected pods, %s.", grouped(s.Pods), strings.Join(texts, "; "))
}

// noun names a resource in a sentence about what is missing.
func noun(resource string) string {
	switch {
	case resource == request.CPU:
		return "CPUs"
	case resource == request.L3:
		return "ways of L3"
	case resource == request.Bandwidth:
		return "memory bandwidth"
	case resource == "pods":
		return "a place in the number of pods"
	}
	return resource
}

// is returns the verb after noun.
func is(resource string) string {
	if resource == request.CPU || resource == request.L3 {
		return "are"
	}
	return "is"
}

// missingWord formats a missing amount. For a part of the caches, it is a number of CPUs.
func missingWord(a explain.Amount) string {
	if request.IsCache(a.Resource) {
		return noun(a.Resource) + " for " + Count(int(a.Value), "CPU")
	}
	if request.IsMemory(a.Resource) {
		return roundedUp(a.Resource, a.Value) + " of " + a.Resource
	}
	return wantedWord(a)
}

// roundedUp rounds a missing amount so that people can lower a request by it and compare it with
// the request: to whole MiB and, from 10Gi of ordinary memory on, to tenths of 1 GiB.
func roundedUp(resource string, n int64) string {
	const mebi, gibi = 1 << 20, 1 << 30
	if n = (n + mebi - 1) / mebi * mebi; n >= 10*gibi && resource == request.Memory {
		return decimal(float64((n/mebi*10+1023)/1024)/10) + "Gi"
	}
	return request.Bytes(n)
}

// wantedWord formats a requested amount.
func wantedWord(a explain.Amount) string {
	if a.Resource == "pods" {
		return podCount(a.Value)
	}
	return request.Words(a.Resource, a.Value)
}

func missingWords(amounts []explain.Amount) string { return wordsOf(amounts, missingWord) }
func wantedWords(amounts []explain.Amount) string  { return wordsOf(amounts, wantedWord) }

func wordsOf(amounts []explain.Amount, word func(explain.Amount) string) string {
	words := make([]string, len(amounts))
	for i, a := range amounts {
		words[i] = word(a)
	}
	return and(words)
}

// and joins words as a sentence does: "a, b and c".
func and(words []string) string {
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " and " + words[n]
	}
	return strings.Join(words, "")
}

// places formats the number of places: "1,920 NUMA nodes".
func (s *FleetScarce) places() string {
	var texts []string
	if s.NUMANodes > 0 {
		texts = append(texts, Number(s.NUMANodes)+" "+Plural(s.NUMANodes, "NUMA node"))
	}
	if s.Nodes > 0 {
		texts = append(texts, Nodes(s.Nodes))
	}
	if s.Empty {
		texts = append(texts[:len(texts)-1], texts[len(texts)-1]+" without pods")
	}
	return and(texts)
}

// all formats the number of places if a sentence applies to all of them: "all 1,920 NUMA nodes".
func (s *FleetScarce) all() string {
	places, total := s.places(), s.NUMANodes+s.Nodes
	switch {
	case s.NotAllowed+s.Ruled+s.Limited+s.Unknown > 0:
		return "the other " + strings.TrimPrefix(places, "1 ")
	case total == 1:
		return "the " + strings.TrimPrefix(places, "1 ")
	case total == 2 && s.NUMANodes != 1:
		return "both " + strings.TrimPrefix(places, "2 ")
	}
	return "all " + places
}

func (s *FleetScarce) text(style terminal.Style) string {
	var b strings.Builder
	b.WriteString(style.Paragraph("", "  ", terminal.Bad.Of(s.Count()+":"), terminal.Strong.Of(s.Asks()), terminal.Plain.Of("("+s.Which()+")")))
	for _, line := range s.Account() {
		b.WriteString(style.Paragraph("  ", "    ", terminal.Plain.Of(line)))
	}
	for _, x := range s.Smaller {
		b.WriteString(style.Paragraph("  ", "    ", terminal.Good.Of(x.Text(s))))
	}
	return b.String()
}

// Count formats the number of pods of the shape: "1 pod".
func (s *FleetScarce) Count() string { return podCount(s.Pods) }

// Which names the pod, or an example if there are several: "such as team-a/train-0".
func (s *FleetScarce) Which() string { return which(s.Pods, s.Example) }

// which names the only pod, or an example if there are several.
func which(pods int64, example string) string {
	if pods == 1 {
		return example
	}
	return "such as " + example
}

// Asks describes the request of a pod of the shape, and where it must fit: "64 CPUs and 256Gi of
// memory on one NUMA node".
func (s *FleetScarce) Asks() string {
	text := wantedWords(s.Wanted)
	if text == "" {
		text = "nothing of their own"
	}
	if s.Container != "" {
		text += " in container " + s.Container
	}
	if s.NUMANodes > 0 {
		text += " on one NUMA node"
	}
	return text
}
