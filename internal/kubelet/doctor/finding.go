package doctor

import (
	"fmt"
	"slices"

	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

//go:generate go tool stringer -type=Level,Answer -linecomment -output=enum_string.go

// Level is how grave a finding is.
type Level int

// The levels.
const (
	// Note is worth knowing and stops no kubelet.
	Note Level = iota // note
	// Doubt is why it is not known whether the kubelet starts.
	Doubt // doubt
	// Loss is what running pods lose although the kubelet starts.
	Loss // loss
	// Fault stops the kubelet.
	Fault // fault
)

// Finding is one thing that is worth reporting about a file.
type Finding struct {
	Level Level
	// Rule is the rule behind What, or several, as node.Why has them.
	Rule string
	// What is the cause, Do what a person can do about it.
	What, Do string
	// Command is the command of paddock that Do recommends, with the flags that are not the
	// default, and without the files, --kubelet-config and --machine of the call that found it;
	// empty where Do recommends none. After it has run, or where it explains why it cannot, the
	// finding is gone.
	Command string
	// Kubelet is what the kubelet logs; empty for what it does not notice.
	Kubelet string
}

// Answer is whether the kubelet starts.
type Answer int

// The answers.
const (
	Unsure        Answer = iota // it is not known
	Starts                      // starts
	StartsWithout               // starts without it
	Rejects                     // does not start
)

// Diagnosis is the result of Verify for one file.
type Diagnosis struct {
	Manager kubeletstate.Manager
	// File is what the text is; nil if it cannot be read.
	File *kubeletstate.File
	// Read is what the kubelet reads out of it; nil if it reads nothing.
	Read *kubeletstate.Loaded
	// Devices is a file about devices; nil if it cannot be read, and for the other managers.
	Devices *kubeletstate.DeviceFile
	// Findings are in the order in which the kubelet would come upon them, notes last. It
	// stops at the first fault.
	Findings []Finding

	kubelet kubeletstate.Kubelet
}

// advice is what to do: a sentence, and the command in it.
type advice struct{ text, command string }

// plain is advice without a command.
func plain(text string) advice { return advice{text: text} }

// after puts words before the advice.
func (a advice) after(words string) advice { return advice{words + a.text, a.command} }

// drain is the advice that is always left.
const drain = "drain the node and delete the file"

// defaultKubelet is the release that the commands mean without --kubelet.
const defaultKubelet = 36

// repair advises to repair the file for the kubelet.
func (d *Diagnosis) repair() advice {
	command := "state repair"
	if d.kubelet.Minor != defaultKubelet {
		command += fmt.Sprintf(" --kubelet 1.%d", d.kubelet.Minor)
	}
	return advice{fmt.Sprintf(`run "paddock %s", or %s`, command, drain), command}
}

// convert advises to make the file one of the kubelet.
func (d *Diagnosis) convert() advice {
	command := "state convert --to " + Target(d.kubelet)
	return advice{fmt.Sprintf(`run "paddock %s"`, command), command}
}

// Answer is what the findings come to: one fault is enough to reject, else one loss to start
// without what the file has, else one doubt to be unsure.
func (d *Diagnosis) Answer() Answer {
	has := func(l Level) bool {
		return slices.ContainsFunc(d.Findings, func(f Finding) bool { return f.Level == l })
	}
	switch {
	case has(Fault):
		return Rejects
	case has(Loss):
		return StartsWithout
	case has(Doubt):
		return Unsure
	}
	return Starts
}

func (d *Diagnosis) fault(rule, kubelet, what string, do advice) {
	prefix := map[kubeletstate.Manager]string{
		kubeletstate.CPUManager:    "start cpu manager error: ",
		kubeletstate.MemoryManager: "start memory manager error: ",
		kubeletstate.DRAManager:    "create ResourceClaim cache: GetOrCreate() on checkpoint state: ",
	}[d.Manager]
	d.Findings = append(d.Findings, Finding{Fault, rule, what, do.text, do.command, prefix + kubelet})
}

func (d *Diagnosis) loss(rule, kubelet, what string, do advice) {
	d.Findings = append(d.Findings, Finding{Loss, rule, what, do.text, do.command, kubelet})
}

func (d *Diagnosis) doubt(rule, what string, do advice) {
	d.Findings = append(d.Findings, Finding{Level: Doubt, Rule: rule, What: what, Do: do.text, Command: do.command})
}

func (d *Diagnosis) note(rule, what string, do advice) {
	d.Findings = append(d.Findings, Finding{Level: Note, Rule: rule, What: what, Do: do.text, Command: do.command})
}
