package noise

import "strings"

// Class is a kind of interruption.
type Class string

// The classes. Metrics have a series for each of Counted.
const (
	Device       Class = "device"
	Timer        Class = "timer"
	IPI          Class = "ipi"
	OtherClass   Class = "other"
	Softirq      Class = "softirq"
	KernelThread Class = "kernel-thread"
	OtherTask    Class = "task"
	Throttled    Class = "throttling"
	Involuntary  Class = "involuntary-switch"
	Migrated     Class = "memory-migration"
)

// Counted are the classes that the kernel counts by itself, without a look at every task.
func Counted() []Class { return []Class{Device, Timer, IPI, OtherClass, Softirq} }

// ClassOf returns the class of a row of /proc/interrupts. Rows with a number are device interrupts.
// On arm64 and RISC-V, the timer of a CPU is one of them (Documentation/arch/x86/irq.rst;
// arch/*/kernel/irq.c, smp.c: arch_show_interrupts).
func ClassOf(id, name string) Class {
	if id != "" && id[0] >= '0' && id[0] <= '9' {
		if strings.Contains(name, "arch_timer") || strings.Contains(name, "riscv-timer") {
			return Timer
		}
		return Device
	}
	switch id {
	case "LOC":
		return Timer
	case "RES", "CAL", "TLB", "IWI", "IWI0":
		return IPI
	}
	if strings.HasPrefix(id, "IPI") {
		return IPI
	}
	return OtherClass
}

// These are the weights, in microseconds of CPU time for each occurrence. They are estimates of the
// time on a server of today, with the cost of entering and leaving the kernel, and without that of
// the caches, which is larger and depends on the program.
const (
	costDevice  = 4
	costTimer   = 2
	costIPI     = 1.5
	costOther   = 2
	costSoftirq = 3
	costSwitch  = 2
	costPage    = 5
)

// heavy are the rows that differ much from the weight of their class.
var heavy = map[string]float64{
	"RES": 1, "IWI": 1, "TLB": 1.5, "CAL": 2, "MCE": 20, "MCP": 20, "NMI": 3, "PMI": 3, "TRM": 5, "THR": 5,
	"TIMER": 2, "HRTIMER": 2, "RCU": 1.5, "SCHED": 3, "NET_RX": 8, "NET_TX": 4, "BLOCK": 4, "TASKLET": 3, "HI": 2, "IRQ_POLL": 5,
}

// weight returns the estimated cost of one occurrence, in microseconds.
func weight(class Class, id string) float64 {
	if cost, is := heavy[id]; is {
		return cost
	}
	switch class {
	case Device:
		return costDevice
	case Timer:
		return costTimer
	case IPI:
		return costIPI
	case Softirq:
		return costSoftirq
	case Involuntary:
		return costSwitch
	case Migrated:
		return costPage
	case OtherClass, KernelThread, OtherTask, Throttled:
	}
	return costOther
}

// names describe the rows whose name in the kernel does not explain them.
var names = map[string]string{
	"LOC": "timer ticks and other local timers", "RES": "rescheduling IPIs: another CPU woke a task here", "CAL": "function call IPIs: another CPU ran a function here",
	"TLB": "TLB shootdowns: another CPU changed an address space", "IWI": "IRQ work",
	"TIMER": "timer wheel", "HRTIMER": "high-resolution timers", "NET_TX": "network, sending", "NET_RX": "network, receiving", "BLOCK": "end of block I/O",
	"TASKLET": "tasklets of drivers", "SCHED": "load balancer", "RCU": "RCU callbacks", "HI": "tasklets of high priority", "IRQ_POLL": "polling of block devices",
}
