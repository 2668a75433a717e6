package doctor

import (
	"fmt"
	"slices"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

//go:generate go tool stringer -type=Level,Answer -linecomment -output=enum_string.go

// Level is the severity of a finding.
type Level int

// The levels.
const (
	// Note is useful to know and does not prevent the kubelet from starting.
	Note Level = iota // note
	// Doubt is a reason why it is not known whether the kubelet starts.
	Doubt // doubt
	// Loss is something that running pods lose although the kubelet starts.
	Loss // loss
	// Fault prevents the kubelet from starting.
	Fault // fault
)

// Finding is one fact about a file that is worth reporting.
type Finding struct {
	Level Level
	// Rule is the rule, or the rules, behind What, in the form of node.Why.
	Rule string
	// What is the cause. Do is what a person can do about it.
	What, Do string
	// Command is the paddock command that Do recommends. It includes flags that differ from the
	// default, but not the files, --kubelet-config and --machine of the call that found it. It is
	// empty if Do recommends no command. After the command has run, the finding is gone, unless the
	// command explains why it cannot help.
	Command string
	// Foreign is the reason why no kubelet that runs on the Setup can have written the file, or
	// zero.
	Foreign Foreign
	// Kubelet is the message that the kubelet logs. It is empty if the kubelet does not notice the
	// fault.
	Kubelet string
}

// Foreign is the reason why no kubelet that runs on a Setup can have written a file.
type Foreign struct {
	Why string
	// Machine is set if the file belongs to another machine, or if its machine was changed.
	// Otherwise, the kubelet was started with another configuration, or the memory of the machine
	// differs slightly, for example after an update of the kernel.
	Machine bool
}

// Answer is the answer to whether the kubelet starts.
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
	// File is the recognised file. It is nil if the text cannot be read.
	File *kubeletstate.File
	// Read is what the kubelet reads from the file. It is nil if the kubelet reads nothing.
	Read *kubeletstate.Loaded
	// Devices is the content of a file about devices. It is nil if the file cannot be read, and for
	// the other managers.
	Devices *kubeletstate.DeviceFile
	// Findings are in the order in which the kubelet would encounter them, with notes last. The
	// kubelet stops at the first fault.
	Findings []Finding
	// Leaked are the CPUs of the machine that the file lacks. They may never have been there.
	Leaked cpuset.Set
	// SameMemory is set if the file has exactly the NUMA nodes and the memory of the machine.
	SameMemory bool

	kubelet kubeletstate.Kubelet
}

// advice is a sentence about what to do, and the command in the sentence.
type advice struct{ text, command string }

// plain returns advice without a command.
func plain(text string) advice { return advice{text: text} }

// after returns the advice with words before it.
func (a advice) after(words string) advice { return advice{words + a.text, a.command} }

// drain is the advice of last resort.
const drain = "drain the node and delete the file"

// defaultKubelet is the release that the commands assume without --kubelet.
const defaultKubelet = 36

// repair returns the advice to repair the file for the kubelet.
func (d *Diagnosis) repair() advice {
	command := "state repair"
	if d.kubelet.Minor != defaultKubelet {
		command += fmt.Sprintf(" --kubelet 1.%d", d.kubelet.Minor)
	}
	return advice{fmt.Sprintf(`run "paddock %s", or %s`, command, drain), command}
}

// convert returns the advice to convert the file for the kubelet.
func (d *Diagnosis) convert() advice {
	command := "state convert --to " + Target(d.kubelet)
	return advice{fmt.Sprintf(`run "paddock %s"`, command), command}
}

// Answer summarizes the findings. With a fault, the kubelet rejects the file. Otherwise, with a
// loss, it starts without the content of the file. Otherwise, with a doubt, it is unsure whether it
// starts.
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
	d.Findings = append(d.Findings, Finding{Level: Fault, Rule: rule, What: what, Do: do.text, Command: do.command, Kubelet: prefix + kubelet})
}

// foreign is fault for a file that no kubelet on the setup writes. why is the reason.
func (d *Diagnosis) foreign(rule, kubelet, what string, why Foreign, do advice) {
	d.fault(rule, kubelet, what, do)
	d.Findings[len(d.Findings)-1].Foreign = why
}

// Foreign returns why no kubelet that runs on the Setup can have written the file. It prefers a
// reason about the machine. It is zero if there is none.
func (d *Diagnosis) Foreign() Foreign {
	var first Foreign
	for _, f := range d.Findings {
		if f.Foreign.Machine {
			return f.Foreign
		}
		if first == (Foreign{}) {
			first = f.Foreign
		}
	}
	return first
}

func (d *Diagnosis) loss(rule, kubelet, what string, do advice) {
	d.Findings = append(d.Findings, Finding{Level: Loss, Rule: rule, What: what, Do: do.text, Command: do.command, Kubelet: kubelet})
}

func (d *Diagnosis) doubt(rule, what string, do advice) {
	d.Findings = append(d.Findings, Finding{Level: Doubt, Rule: rule, What: what, Do: do.text, Command: do.command})
}

func (d *Diagnosis) note(rule, what string, do advice) {
	d.Findings = append(d.Findings, Finding{Level: Note, Rule: rule, What: what, Do: do.text, Command: do.command})
}
