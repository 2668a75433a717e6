package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/node/cgroup"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// TestMeasuring reads the kernel's counters for ten minutes, in which app uses a quarter of its two
// CPUs, and log, which shares, uses much more.
func TestMeasuring(t *testing.T) {
	c := verifying(t, map[string]string{"kubepods/podu1/aaa/cpu.stat": "usage_usec 0", "kubepods/podu1/bbb/cpu.stat": "usage_usec 0"})
	s, err := stored(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stat := filepath.Join(t.TempDir(), "stat")
	write(stat, "cpu 0 0 0 0\ncpu1 0 0 0 0")
	now, reads := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), 0
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	var waits []time.Duration
	m := &measuring{
		files: cgroup.FS{Root: c.CgroupRoot}, stat: stat, now: func() time.Time { return now },
		running: func() []runningCgroup {
			return []runningCgroup{
				{Pod: "u1", Container: "app", Path: "/kubepods/podu1/aaa"},
				{Pod: "u1", Container: "log", Path: "/kubepods/podu1/bbb"},
				{Pod: "u3", Container: "ended", Path: "/kubepods/podu3/eee"},
			}
		},
		after: func(d time.Duration) <-chan time.Time {
			waits, now, reads = append(waits, d), now.Add(d), reads+1
			seconds := now.Sub(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)).Seconds()
			write(filepath.Join(c.CgroupRoot, "kubepods/podu1/aaa/cpu.stat"), "usage_usec "+whole(seconds*0.5e6))
			write(filepath.Join(c.CgroupRoot, "kubepods/podu1/bbb/cpu.stat"), "usage_usec "+whole(seconds*7e6))
			write(stat, "cpu 0 0 0 0\ncpu1 "+whole(seconds*25)+" 0 0 "+whole(seconds*75))
			passed := make(chan time.Time, 1)
			if passed <- now; reads > 10 {
				cancel(enough)
				return nil
			}
			return passed
		},
	}
	if err := m.run(ctx); !errors.Is(err, enough) {
		t.Errorf("it ended with %v", err)
	}
	if waits[0] != firstMeasure || waits[1] != measureEvery || waits[9] != measureEvery {
		t.Errorf("it waits %v", waits)
	}
	u := m.use(s)
	if len(u.Owners) != 1 || u.CPUs[1] != 0.25 {
		t.Fatalf("the use is %+v", u)
	}
	if o := u.Owners[0]; o.Pod != "default/db" || o.Container != "app" || o.CPUs != 2 || o.Mean != 0.5 || o.Peak != 0.5 || o.Idle != 1 || u.Idle != 1 || u.Reserved != 2 {
		t.Errorf("the use is %+v", u)
	}
	text := strings.Join(strings.Fields(view.Report{ReservedAndIdle: &u.OwnersUse}.Text(terminal.Style{Width: 200})), " ")
	for _, want := range []string{"Reserved and idle", "1 of 2 CPUs that one container or one pod has were not needed in any minute", "default/db app 2 0.5 0.5 1 9 min"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no %q: %s", want, text)
		}
	}
}

func whole(x float64) string { return strconv.FormatInt(int64(x), 10) }
