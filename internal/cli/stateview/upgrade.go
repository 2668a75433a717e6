package stateview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// Upgrade is what the start of another kubelet does to a node.
type Upgrade struct {
	Node string `json:"node"`
	// To is the kubelet that starts, such as "1.37.2". Present is the kubelet that runs, or empty
	// if it is not known.
	To      string `json:"to"`
	Present string `json:"present,omitempty"`
	// Answer is "starts", "starts without it" (a file about devices), "does not start", or "it is
	// not known".
	Answer string `json:"answer"`
	// Changed, Unsure and Kept count pods. All are 0 if the kubelet does not start.
	Changed int `json:"changed"`
	Unsure  int `json:"unsure"`
	Kept    int `json:"kept"`
	// Configuration has the fields because of which the kubelet does not start.
	Configuration []UpgradeProblem `json:"configuration"`
	Files         Verified         `json:"files"`
	Pods          []UpgradePod     `json:"pods"`
	// NextStart are the reasons why the start after this one fails.
	NextStart []UpgradeReason `json:"nextStart"`
	Notes     []string        `json:"notes"`
	// Certainty is unsure if it is for one of the pods, or if the files do not show enough.
	Certainty view.Certainty `json:"certainty"`

	to           behavior.Version
	otherMachine bool
	// skips is set if there are minors between the present kubelet and the one that starts.
	skips bool
}

// UpgradeProblem is a field of the configuration that the kubelet does not accept.
type UpgradeProblem struct {
	Field string `json:"field"`
	Why   string `json:"why"`
	Do    string `json:"do"`
	// Log is the message that the kubelet logs.
	Log string `json:"log,omitempty"`
}

// UpgradePod is what the start does to a pod.
type UpgradePod struct {
	// Pod is "namespace/name".
	Pod string `json:"pod"`
	UID string `json:"uid"`
	// Outcome is "keeps", "moves", "gets its own", "counted twice", "rejected", "stops the kubelet"
	// or "unsure".
	Outcome string `json:"outcome"`
	// Now is what the pod has, and Then what it has after the start. They are absent if that is
	// nothing, and Then also if it is not known.
	Now  *UpgradePlace `json:"now,omitempty"`
	Then *UpgradePlace `json:"then,omitempty"`
	// LostCPUs are CPUs of the pod that no pod gets after the start.
	LostCPUs string          `json:"lostCPUs,omitempty"`
	Why      []UpgradeReason `json:"why"`
	// Do is what to do before the start.
	Do string `json:"do,omitempty"`
	// Certainty is unsure for the outcome "unsure".
	Certainty view.Certainty `json:"certainty"`
	// AlsoNow is true if a restart of the present kubelet has the same outcome.
	AlsoNow bool `json:"alsoAtRestartOfPresent"`
}

// UpgradePlace is what a pod has.
type UpgradePlace struct {
	CPUs        string  `json:"cpus,omitempty"`
	NUMANodes   []int   `json:"cpuNUMANodes"`
	Memory      []Block `json:"memory"`
	MemoryNodes []int   `json:"memoryNUMANodes"`
}

// UpgradeReason is a reason. ID is the number of the kubelet's fault in docs/rules/quirks.md, or
// empty.
type UpgradeReason struct {
	ID   string `json:"id,omitempty"`
	Text string `json:"text"`
}

// UpgradeOf returns the answer as a document.
func UpgradeOf(u *treatment.Upgraded) *Upgrade {
	out := &Upgrade{
		Node: u.Node, To: u.To.String(), Answer: u.Answer.String(),
		Configuration: []UpgradeProblem{}, Files: VerifiedOf(u.Files), Pods: []UpgradePod{}, NextStart: reasonsOf(u.NextStart), Notes: []string{}, to: u.To, otherMachine: u.OtherMachine,
	}
	if u.As != (behavior.Version{}) {
		out.Present = u.As.String()
		out.skips = max(u.As.Minor, u.To.Minor) > min(u.As.Minor, u.To.Minor)+1
	}
	for _, p := range u.Problems {
		out.Configuration = append(out.Configuration, UpgradeProblem{p.Field, p.Why, p.Fix, p.Kubelet})
	}
	for _, why := range u.Start.Unsure {
		out.Notes = append(out.Notes, "unsure: "+why.String())
	}
	out.Notes = append(out.Notes, u.Notes...)
	out.Changed, out.Unsure = u.Changes()
	out.Kept = len(u.Pods) - out.Changed - out.Unsure
	doubts := slices.Clone(u.Start.Unsure)
	for _, f := range u.Files {
		for _, x := range f.Diagnosis.Findings {
			if d := (view.Doubt{Reason: x.What, Give: x.Do}); x.Level == doctor.Doubt && !slices.Contains(doubts, d) {
				doubts = append(doubts, d)
			}
		}
	}
	for i := range u.Pods {
		p := podOf(&u.Pods[i], u.Machine)
		out.Pods, doubts = append(out.Pods, p), append(doubts, p.Certainty.Doubts...)
	}
	out.Certainty = *view.CertaintyOf(doubts, nil)
	return out
}

func podOf(p *treatment.PodStart, m *machine.Machine) UpgradePod {
	out := UpgradePod{
		Pod: p.Pod, UID: p.UID, Outcome: string(p.Outcome), Now: placeOf(p.Now, m), Then: placeOf(p.Then, m),
		Why: []UpgradeReason{}, Do: p.Do, AlsoNow: p.SameNow,
	}
	var doubts []view.Doubt
	if p.Outcome == treatment.Unknown {
		doubts = append(doubts, view.Doubt{Reason: p.Why, Give: p.Give})
	}
	out.Certainty = *view.CertaintyOf(doubts, nil)
	var lost cpuset.Set
	for _, r := range p.Lost {
		lost = lost.Union(r.CPUs)
	}
	out.LostCPUs = lost.String()
	for _, q := range p.Quirks {
		if q.ID != "" {
			out.Why = append(out.Why, UpgradeReason{string(q.ID), q.Reason()})
		}
	}
	if len(out.Why) == 0 && p.Why != "" {
		out.Why = append(out.Why, UpgradeReason{Text: p.Why})
	}
	return out
}

func reasonsOf(quirks []quirk.Quirk) []UpgradeReason {
	all := []UpgradeReason{}
	for _, q := range quirks {
		all = append(all, UpgradeReason{string(q.ID), q.Text})
	}
	return all
}

func placeOf(g *node.Grant, m *machine.Machine) *UpgradePlace {
	if g == nil || !g.OwnsAnything() {
		return nil
	}
	p := &UpgradePlace{CPUs: g.CPUs().String(), NUMANodes: []int{}, Memory: []Block{}, MemoryNodes: []int{}}
	if nodes := m.NodesOf(g.CPUs()); !nodes.IsEmpty() {
		p.NUMANodes = nodes.Nodes()
	}
	if nodes := g.MemoryNodes(); !nodes.IsEmpty() {
		p.MemoryNodes = nodes.Nodes()
	}
	p.Memory = append(p.Memory, summed(g.Charged())...)
	return p
}

// summed returns the blocks with those of the same type on the same NUMA nodes as one.
func summed(blocks []memory.Block) []Block {
	type key struct {
		name  string
		nodes mask.Mask
	}
	var order []key
	bytes := map[key]int64{}
	for _, b := range blocks {
		k := key{b.Type, b.Nodes}
		if _, known := bytes[k]; !known {
			order = append(order, k)
		}
		bytes[k] += b.Size
	}
	var out []Block
	for _, k := range order {
		out = append(out, Block{k.name, uint64(bytes[k]), k.nodes.Nodes()})
	}
	return out
}

// Changes reports whether the kubelet does not start, or this start or the next one changes
// anything for a pod, or this is not known.
func (u *Upgrade) Changes() bool {
	return u.Answer != doctor.Starts.String() || u.Changed+u.Unsure+len(u.NextStart) > 0
}

// verdict returns the first line.
func (u *Upgrade) verdict() string {
	name, all := u.to.Name(), len(u.Pods)
	pods := func(n int) string {
		if n == 1 {
			return "1 pod"
		}
		return fmt.Sprintf("%d pods", n)
	}
	verb := "change"
	if u.Changed == 1 {
		verb = "changes"
	}
	changes := fmt.Sprintf("%d of %s %s", u.Changed, pods(all), verb)
	if u.Changed == 0 {
		changes = "no pod changes"
	}
	if u.otherMachine {
		return fmt.Sprintf("it is not known whether %s starts on %s, and what it does to its %s", name, u.Node, pods(all))
	}
	if u.Unsure > 0 {
		changes += fmt.Sprintf(", and it is not known of %d", u.Unsure)
	}
	for i := range u.Pods {
		if p := &u.Pods[i]; p.Outcome == string(treatment.Stops) {
			return fmt.Sprintf("%s stops on %s at pod %s; %s", name, u.Node, p.Pod, changes)
		}
	}
	switch u.Answer {
	case doctor.Rejects.String():
		return fmt.Sprintf("%s does not start on %s: %s", name, u.Node, u.rejects())
	case doctor.StartsWithout.String():
		return fmt.Sprintf("%s starts on %s, without %s, and running pods lose their devices; of CPUs and memory, %s", name, u.Node, u.file(doctor.StartsWithout), changes)
	case doctor.Unsure.String():
		return fmt.Sprintf("it is not known whether %s starts on %s; %s", name, u.Node, changes)
	}
	return fmt.Sprintf("%s starts on %s; %s", name, u.Node, changes)
}

// rejects returns with what the kubelet does not start.
func (u *Upgrade) rejects() string {
	if len(u.Configuration) > 0 {
		return "it does not accept " + u.Configuration[0].Field
	}
	return "it does not accept " + u.file(doctor.Rejects)
}

// file returns the name of the first file with an answer.
func (u *Upgrade) file(answer doctor.Answer) string {
	for _, f := range u.Files {
		if f.answer == answer {
			return f.File
		}
	}
	return cmp.Or(u.Node, "a file")
}

// number returns a reason in a line, with the number first.
func (r UpgradeReason) number() string {
	return strings.TrimPrefix(r.ID+": "+r.Text, ": ")
}
