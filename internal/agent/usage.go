package agent

import (
	"context"
	"os"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/cgroup"
	"github.com/paddock-project/paddock/internal/node/usage"
	"github.com/paddock-project/paddock/internal/ui/view"
)

const (
	// measureEvery is how often the agent reads how much CPU time was used. firstMeasure is the
	// time until the second reading, so that there are numbers soon after the start.
	measureEvery = time.Minute
	firstMeasure = 10 * time.Second
)

// measuring reads how much CPU time the containers use. Only one goroutine reads. If reading a
// cgroup never returns, it blocks only that goroutine; the numbers then become old, and show their
// age.
type measuring struct {
	meter   usage.Meter
	files   cgroup.FS
	running func() []runningCgroup
	stat    string // the path of /proc/stat
	now     func() time.Time
	after   func(time.Duration) <-chan time.Time
}

// run reads until ctx ends.
func (m *measuring) run(ctx context.Context) error {
	for wait := firstMeasure; ; wait = measureEvery {
		m.meter.Add(m.read())
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-m.after(wait):
		}
	}
}

// read omits what it cannot read: a container that ended, or the CPUs if /proc/stat is missing.
func (m *measuring) read() usage.Reading {
	running := m.running()
	r := usage.Reading{Containers: make(map[usage.Key]usage.Count, len(running))}
	for _, c := range running {
		if used, err := m.files.Used(c.Path); err == nil {
			r.Containers[usage.Key{UID: c.Pod, Container: c.Container}] = usage.Count{Cgroup: c.Path, Used: used}
		}
	}
	if file, err := os.Open(m.stat); err == nil {
		r.CPUs, _ = usage.ParseStat(file) // Without it there is no shade.
		_ = file.Close()
	}
	r.At = m.now()
	return r
}

// use returns how busy the node is, for the page and the report.
func (m *measuring) use(s *node.State) *view.Use { return view.UseOf(s, &m.meter, m.now()) }
