package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/kernelfiles"
	"github.com/paddock-project/paddock/internal/node/noise"
)

// exclusive returns a state in which that many pods have an exclusive CPU each, from CPU 1 on, and
// that many others share the rest.
func exclusive(t testing.TB, alone, sharing int) *node.State {
	t.Helper()
	cores := machine.NodeDescription{Memory: 1 << 40}
	for cpu := range alone + 2 {
		cores.Cores = append(cores.Cores, machine.CoreDescription{Threads: []int{cpu}})
	}
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{cores}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := node.New(m, node.Policy{StaticCPU: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range alone + sharing {
		pod := request.Pod{Identity: request.Identity{UID: fmt.Sprint("u", i), Namespace: "default", Name: fmt.Sprint("pod", i)}}
		pod.QoS = request.Guaranteed
		pod.Containers = []request.Container{{Name: "c", Type: request.App, Equivalent: true}}
		if i < alone {
			pod.Containers[0].CPUs = 1
		}
		plan := s.Plan(pod)
		if plan.Rejection != nil {
			t.Fatal(plan.Rejection)
		}
		if s, err = s.Apply(plan); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestInterrupting checks what the metrics and the page have of the kernel's counts, that nothing
// is read without exclusive CPUs, and that what is missing is logged once.
func TestInterrupting(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		if err := errors.Join(os.MkdirAll(filepath.Join(root, "proc"), 0o700), os.WriteFile(filepath.Join(root, "proc", name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	now, state := time.Unix(1000, 0), exclusive(t, 0, 3)
	i := &interrupting{
		files: kernelfiles.FS{Root: root}, state: func() *node.State { return state }, now: func() time.Time { return now }, log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	step := 0
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	i.after = func(d time.Duration) <-chan time.Time {
		now, step = now.Add(d), step+1
		passed := make(chan time.Time, 1)
		passed <- now
		switch step {
		case 1:
			if len(i.series()) != 0 || log.Len() != 0 {
				t.Errorf("without exclusive CPUs: %v, %s", i.series(), log.String())
			}
			state = exclusive(t, 1, 3)
		case 2, 3: // There is no such file.
		case 4:
			write("interrupts", "CPU0 CPU1\n9: 100 100 x\nLOC: 100 100 Local timer interrupts\n")
			write("softirqs", "CPU0 CPU1\nTIMER: 5 5\n")
		case 5:
			write("interrupts", "CPU0 CPU1\n9: 200 130 x\nLOC: 900 250 Local timer interrupts\n")
		case 6:
			cancel(enough)
			return nil
		}
		return passed
	}
	if err := i.run(ctx); !errors.Is(err, enough) {
		t.Errorf("it ended with %v", err)
	}
	got := ""
	for _, s := range i.series() {
		got += fmt.Sprintf("%s %s %s %d; ", s.Pod, s.Container, s.Source, s.Count)
	}
	cpu := exclusiveCPU(t, state)
	device, timer := 100, 800
	if cpu == 1 {
		device, timer = 30, 150
	}
	if want := fmt.Sprintf("default/pod0 c device %d; default/pod0 c timer %d; default/pod0 c ipi 0; default/pod0 c other 0; default/pod0 c softirq 0; ", device, timer); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	shown := i.shown()
	if of := shown.CPUs[cpu]; len(shown.CPUs) != 1 || shown.Seconds != 15 || shown.Age != 15 || of.Sources[noise.Timer] != float64(timer)/15 && of.PerSecond == 0 {
		t.Errorf("%+v", shown)
	}
	if n := strings.Count(log.String(), "are not counted"); n != 1 {
		t.Errorf("it was logged %d times: %s", n, log.String())
	}
}

// exclusiveCPU returns the CPU of the only owner.
func exclusiveCPU(t *testing.T, s *node.State) int {
	t.Helper()
	owners, cpus := exclusiveOwners(s)
	if len(owners) != 1 || cpus.Len() != 1 {
		t.Fatalf("owners: %v", owners)
	}
	return cpus.Lowest()
}

// BenchmarkCountInterruptions counts on a node with 250 exclusive CPUs and further containers
// without. The file has the interrupts of 256 CPUs.
func BenchmarkCountInterruptions(b *testing.B) {
	for _, n := range []int{10, 1000, 5000} {
		b.Run(fmt.Sprintf("containers=%d", n), func(b *testing.B) {
			root := b.TempDir()
			var text strings.Builder
			for cpu := range 256 {
				fmt.Fprintf(&text, "CPU%d ", cpu)
			}
			for i := range 300 {
				fmt.Fprintf(&text, "\n%d: %s PCI-MSIX-0000:00:02.0 1-edge nvme%d", i, strings.Repeat("     123456", 256), i)
			}
			for _, name := range []string{"interrupts", "softirqs"} {
				if err := errors.Join(os.MkdirAll(filepath.Join(root, "proc"), 0o700), os.WriteFile(filepath.Join(root, "proc", name), []byte(text.String()), 0o600)); err != nil {
					b.Fatal(err)
				}
			}
			s := exclusive(b, min(n, 250), max(0, n-250))
			i := &interrupting{files: kernelfiles.FS{Root: root}, state: func() *node.State { return s }, now: time.Now, log: slog.New(slog.DiscardHandler)}
			b.ReportAllocs()
			for b.Loop() {
				i.count(b.Context())
				if len(i.series()) == 0 {
					b.Fatal("nothing is counted")
				}
			}
		})
	}
}
