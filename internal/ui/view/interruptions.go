package view

import (
	"time"

	"github.com/paddock-project/paddock/internal/node/noise"
)

// Interruptions is how often the exclusive CPUs of a node were interrupted, as its agent has
// counted it. The page marks the CPUs with it.
type Interruptions struct {
	// Seconds is how long was counted. It is 0 until there are two readings.
	Seconds float64 `json:"seconds"`
	// Age is how old the last reading is, in seconds.
	Age float64 `json:"age"`
	// CPUs maps the id of a CPU to how often it was interrupted. Only exclusive CPUs are counted.
	CPUs map[int]CPUInterruptions `json:"cpus"`
	// Missing is why some classes are not counted, or "".
	Missing string `json:"missing,omitempty"`
}

// CPUInterruptions is how often a CPU was interrupted.
type CPUInterruptions struct {
	PerSecond float64 `json:"perSecond"`
	// Sources has the classes of sources that did, each with how often in a second.
	Sources map[noise.Class]float64 `json:"sources"`
}

// InterruptionsOf returns what a tally has counted. age is that of its last reading.
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
