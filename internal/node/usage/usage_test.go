package usage

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	app  = Key{"u1", "app"}
	side = Key{"u1", "side"}
)

// minute returns a reading at a minute, with the CPU time that each container has used, in seconds.
func minute(n int, used map[Key]float64) Reading {
	r := Reading{At: time.Unix(1000, 0).Add(time.Duration(n) * time.Minute), Containers: map[Key]Count{}}
	for key, seconds := range used {
		r.Containers[key] = Count{"/pod/" + key.Container, time.Duration(seconds * float64(time.Second))}
	}
	return r
}

func near(got, want float64) bool { return math.Abs(got-want) < 1e-4 }

func TestMeter(t *testing.T) {
	var m Meter
	if u := m.Of(app); u != (Use{}) {
		t.Errorf("an empty meter has %v", u)
	}
	m.Add(minute(0, map[Key]float64{app: 1000}))
	if u := m.Of(app); u.Over != 0 {
		t.Errorf("one reading is a use: %v", u)
	}
	if at, length := m.Newest(); !at.IsZero() || length != 0 {
		t.Errorf("one reading has an interval: %v, %v", at, length)
	}
	m.Add(minute(1, map[Key]float64{app: 1060, side: 5}))
	m.Add(minute(2, map[Key]float64{app: 1240, side: 35}))
	if u := m.Of(app); !near(u.Mean, 2) || !near(u.Peak, 3) || !near(u.Last, 3) || u.Over != 2*time.Minute {
		t.Errorf("app uses %+v", u)
	}
	// side has a number for the second minute only.
	if u := m.Of(app, side); !near(u.Mean, (1+3.5)/2) || !near(u.Peak, 3.5) || u.Over != 2*time.Minute {
		t.Errorf("both use %+v", u)
	}
	if at, length := m.Newest(); !at.Equal(minute(2, nil).At) || length != time.Minute {
		t.Errorf("the newest interval ends at %v after %v", at, length)
	}
	m.Add(minute(3, map[Key]float64{side: 65}))
	if u := m.Of(app); u.Over != 0 {
		t.Errorf("a container that is gone uses %+v", u)
	}
}

// TestCountersBeginAgain checks that a restarted container, a counter that goes back and a clock
// that does are not taken for use.
func TestCountersBeginAgain(t *testing.T) {
	for name, second := range map[string]Reading{
		"another cgroup": {Containers: map[Key]Count{app: {"/pod/other", 5000 * time.Second}}},
		"fewer seconds":  {Containers: map[Key]Count{app: {"/pod/app", time.Second}}},
		"not there":      {Containers: map[Key]Count{}},
	} {
		var m Meter
		m.Add(minute(0, map[Key]float64{app: 1000}))
		second.At = minute(1, nil).At
		m.Add(second)
		if u := m.Of(app); u.Over != 0 {
			t.Errorf("%s: %+v", name, u)
		}
	}
	var m Meter
	m.Add(minute(1, map[Key]float64{app: 10}))
	m.Add(minute(0, map[Key]float64{app: 20})) // The clock was set back.
	m.Add(minute(1, map[Key]float64{app: 50}))
	if u := m.Of(app); !near(u.Mean, 0.5) || u.Over != time.Minute {
		t.Errorf("after the clock was set back: %+v", u)
	}
}

func TestOldIntervalsEnd(t *testing.T) {
	var m Meter
	m.Add(minute(0, map[Key]float64{app: 0}))
	m.Add(minute(1, map[Key]float64{app: 600}))
	for i := range Kept {
		m.Add(minute(2+i, map[Key]float64{app: 600}))
	}
	if u := m.Of(app); u.Peak != 0 || u.Over != Kept*time.Minute {
		t.Errorf("an hour later: %+v", u)
	}
}

// TestMeterAddsUp compares the mean with the difference of the counters.
func TestMeterAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Meter
		at, used, first := time.Unix(0, 0).Add(time.Hour), time.Duration(0), time.Duration(0)
		begin := at
		n := rapid.IntRange(2, Kept+1).Draw(t, "readings")
		for i := range n {
			if i > 0 {
				length := time.Duration(rapid.IntRange(1, 100).Draw(t, "length")) * time.Second
				at = at.Add(length)
				used += time.Duration(rapid.Float64Range(0, 64).Draw(t, "cpus") * float64(length))
			}
			m.Add(Reading{At: at, Containers: map[Key]Count{app: {"c", used}}})
		}
		want := float64(used-first) / float64(at.Sub(begin))
		u := m.Of(app)
		if math.Abs(u.Mean-want) > 1e-3 || u.Peak < u.Mean-1e-3 || u.Over != at.Sub(begin) {
			t.Fatalf("%+v, expected a mean of %v", u, want)
		}
	})
}

const stat = `cpu  400 0 200 1200 100 20 30 50 10 0
cpu0 100 10 50 700 100 20 20 500 10 0
cpu5 300 0 150 500 0 0 10 0 0 0
intr 1 2 3
ctxt 4
`

func TestParseStat(t *testing.T) {
	got, err := ParseStat(strings.NewReader(stat))
	want := map[int]Ticks{0: {200, 1000}, 5: {460, 960}}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("ParseStat = %v, %v, want %v", got, err, want)
	}
	var m Meter
	m.Add(Reading{At: time.Unix(100, 0), CPUs: got})
	m.Add(Reading{At: time.Unix(160, 0), CPUs: map[int]Ticks{0: {260, 1120}, 7: {1, 1}}})
	cpus := m.CPUs()
	if len(cpus) != 1 || !near(cpus[0].Mean, 0.5) {
		t.Errorf("CPUs = %v", cpus)
	}
	for text, want := range map[string]string{
		"":                  "expected lines that begin with cpu0",
		"intr 5\n":          "expected lines that begin with cpu0",
		"cpux 1 2 3 4\n":    `"cpux" is not the name of a CPU`,
		"cpu0 1 2 3\n":      "CPU 0: expected at least 4 times, found 3",
		"cpu0 1 2 3 -4 5\n": `CPU 0: "-4" is not a number`,
	} {
		if _, err := ParseStat(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseStat(%q) = %v, want %q", text, err, want)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add(stat)
	f.Fuzz(func(t *testing.T, text string) {
		if cpus, err := ParseStat(strings.NewReader(text)); (err == nil) != (len(cpus) > 0) {
			t.Errorf("%v, %v", cpus, err)
		}
	})
}

// BenchmarkAdd adds readings of a node with 256 CPUs and many containers, and asks for each of
// them.
func BenchmarkAdd(b *testing.B) {
	for _, n := range []int{10, 1000, 5000} {
		b.Run(fmt.Sprintf("containers=%d", n), func(b *testing.B) {
			var m Meter
			for i := range b.N {
				r := Reading{At: time.Unix(int64(60*i+60), 0), CPUs: map[int]Ticks{}, Containers: map[Key]Count{}}
				for c := range 256 {
					r.CPUs[c] = Ticks{uint64(i), uint64(2 * i)}
				}
				for c := range n {
					r.Containers[Key{"u", fmt.Sprint(c)}] = Count{"c", time.Duration(i) * time.Second}
				}
				m.Add(r)
			}
		})
	}
}
