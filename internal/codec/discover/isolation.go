package discover

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
)

// isolationText is the recorded form of machine.Isolation: lists of CPUs as the kernel writes them.
// Empty lists are left out.
type isolationText struct {
	Isolated   string `json:"isolated,omitempty"`
	NoHzFull   string `json:"nohz_full,omitempty"`
	ManagedIRQ string `json:"managed_irq,omitempty"`
}

// isolationTextOf returns nil for a machine on which the kernel keeps nothing away from any CPU, so
// that its recorded form is the same as before this member existed.
func isolationTextOf(i machine.Isolation) *isolationText {
	if i.IsEmpty() {
		return nil
	}
	return &isolationText{i.Isolated.String(), i.NoHzFull.String(), i.ManagedIRQ.String()}
}

func (x *isolationText) isolation() (i machine.Isolation, err error) {
	if x == nil {
		return i, nil
	}
	for _, list := range []struct {
		name, text string
		to         *cpuset.Set
	}{{"isolated", x.Isolated, &i.Isolated}, {"nohz_full", x.NoHzFull, &i.NoHzFull}, {"managed_irq", x.ManagedIRQ, &i.ManagedIRQ}} {
		if *list.to, err = cpuset.Parse(list.text); err != nil {
			return i, fmt.Errorf("%s of isolation: %w; expected CPUs as the kernel lists them, such as \"2-7\"", list.name, err)
		}
	}
	return i, nil
}

// isolation reads which CPUs the kernel keeps free, and of what
// (Documentation/ABI/testing/sysfs-devices-system-cpu, "isolated" and "nohz_full";
// Documentation/admin-guide/kernel-parameters.txt, "isolcpus="). A kernel without one of the files
// keeps nothing away. nohz_full reads "(null)" if the parameter is not set.
func (t *tree) isolation() (i machine.Isolation, err error) {
	if i.Isolated, _, err = t.list(cpuDir + "/isolated"); err != nil {
		return i, err
	}
	if text, err := t.text(cpuDir + "/nohz_full"); err == nil {
		if i.NoHzFull, err = noHzFull(text); err != nil {
			return i, fmt.Errorf("/%s/nohz_full: %w", cpuDir, err)
		}
	}
	if text, err := t.text("proc/cmdline"); err == nil {
		i.ManagedIRQ = managedIRQ(text)
	}
	return i, nil
}

func noHzFull(text string) (cpuset.Set, error) {
	if text == "(null)" {
		return cpuset.Set{}, nil
	}
	return cpuset.Parse(text)
}

// kernelLine matches a line of a kernel's file about isolation, after the name of the file: what
// "grep -H . /sys/devices/system/cpu/isolated /sys/devices/system/cpu/nohz_full /proc/cmdline"
// writes.
var kernelLine = regexp.MustCompile(`(?m)^/(sys/devices/system/cpu/isolated|sys/devices/system/cpu/nohz_full|proc/cmdline):(.*)$`)

// readKernel parses the lines of the kernel's files that kernelLine matches. Lines of /proc/cmdline
// can be the whole command line, or some of its parameters.
func readKernel(f File) (i machine.Isolation, err error) {
	var cmdline []string
	for _, line := range kernelLine.FindAllStringSubmatch(string(f.Data), -1) {
		file, text := line[1], strings.TrimSpace(line[2])
		switch file {
		case cpuDir + "/isolated":
			i.Isolated, err = cpuset.Parse(text)
		case cpuDir + "/nohz_full":
			i.NoHzFull, err = noHzFull(text)
		default:
			cmdline = append(cmdline, text)
		}
		if err != nil {
			return machine.Isolation{}, fmt.Errorf("%s: /%s: %w; expected CPUs as the kernel lists them, such as \"2-7\"", f.Name, file, err)
		}
	}
	i.ManagedIRQ = managedIRQ(strings.Join(cmdline, " "))
	return i, nil
}

// managedIRQ returns the CPUs of the parameter isolcpus=managed_irq,…,CPUS of a kernel's command
// line. The kernel uses the last such parameter. Lists that this function cannot parse, such as
// those with a stride, count as empty: nothing is decided by them.
func managedIRQ(cmdline string) (set cpuset.Set) {
	for _, word := range strings.Fields(cmdline) {
		value, is := strings.CutPrefix(word, "isolcpus=")
		if !is {
			continue
		}
		parts := strings.Split(value, ",")
		cpus := slices.IndexFunc(parts, func(p string) bool { return p != "" && p[0] >= '0' && p[0] <= '9' })
		if cpus < 0 || !slices.Contains(parts[:cpus], "managed_irq") {
			continue
		}
		if found, err := cpuset.Parse(strings.Join(parts[cpus:], ",")); err == nil {
			set = found
		}
	}
	return set
}
