package view

import (
	"time"

	"github.com/paddock-project/paddock/internal/node/noise"
)

// Interruptions describes how often the exclusive CPUs of a node were interrupted, according to its
// agent. The page uses it to mark the CPUs.
type Interruptions struct {
	// Seconds is the length of the count. It is 0 until there are two readings.
	Seconds float64 `json:"seconds"`
	// Age is the age of the last reading, in seconds.
	Age float64 `json:"age"`
	// CPUs maps the id of a CPU to its interruptions. Only exclusive CPUs are counted.
	CPUs map[int]CPUInterruptions `json:"cpus"`
	// Missing is the reason why some classes are not counted, or "".
	Missing string `json:"missing,omitempty"`
}

// CPUInterruptions is how often a CPU was interrupted.
type CPUInterruptions struct {
	PerSecond float64 `json:"perSecond"`
	// Sources maps each class of sources that interrupted the CPU to the number of interruptions
	// per second.
	Sources map[noise.Class]float64 `json:"sources"`
}

// InterruptionsOf returns the counts of a tally. age is the age of its last reading.
func InterruptionsOf(t *noise.Tally, age time.Duration, missing string) *Interruptions {
	rates, interval := t.Rates()
	all := &Interruptions{Age: rounded(age.Seconds()), CPUs: make(map[int]CPUInterruptions, len(rates)), Missing: missing}
	for cpu, rate := range rates {
		of := CPUInterruptions{Sources: map[noise.Class]float64{}}
		for i, class := range noise.Counted() {
			if rate[i] > 0 {
				of.PerSecond += rate[i]
				of.Sources[class] = rounded(rate[i])
			}
		}
		of.PerSecond = rounded(of.PerSecond)
		all.CPUs[cpu] = of
	}
	if len(rates) > 0 {
		all.Seconds = rounded(interval.Seconds())
	}
	return all
}
