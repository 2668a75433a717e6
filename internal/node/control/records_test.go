package control

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"
	"weak"

	"pgregory.net/rapid"
)

// TestEarlierLoopsAreFreed checks that a loop keeps no earlier loop alive, and so no old state.
func TestEarlierLoopsAreFreed(t *testing.T) {
	w := newWorld(t)
	var earlier []weak.Pointer[[parts]part[pod]]
	for i := range 10 {
		box := &Sandbox{ID: fmt.Sprint("box", i), Pod: fmt.Sprint("p", i), Who: "default/p"}
		loop, _ := Step(w.loop, Event{Engine: w.engine(), Of: Enter{Connection: w.connection, Box: box}}, w.now)
		earlier = append(earlier, weak.Make(w.loop.pods.parts))
		w.loop, w.now = loop, w.now.Add(time.Second)
	}
	runtime.GC()
	for i, p := range earlier {
		if p != (weak.Pointer[[parts]part[pod]]{}) && p.Value() != nil {
			t.Errorf("the pods of loop %d are still in memory after 10 events", i)
		}
	}
	runtime.KeepAlive(&w.loop)
}

// TestRecords checks that records behave like maps that are copied before every change, even if
// several changes start from the same records.
func TestRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type moment struct {
			is   records[int]
			want map[string]int
		}
		moments := []moment{{}}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			from := moments[rapid.IntRange(0, len(moments)-1).Draw(t, "from")]
			next, by := moment{from.is, maps.Clone(from.want)}, &step{owner: new(owner)}
			if next.want == nil {
				next.want = map[string]int{}
			}
			for range rapid.IntRange(0, 6).Draw(t, "changes") {
				key, v := fmt.Sprint("k", rapid.IntRange(0, 90).Draw(t, "key")), rapid.IntRange(1, 9).Draw(t, "value")
				switch rapid.IntRange(0, 3).Draw(t, "change") {
				case 0:
					next.is.put(by, key, v)
					next.want[key] = v
				case 1:
					*next.is.edit(by, key) += v
					next.want[key] += v
				case 2:
					next.is.remove(by, key)
					delete(next.want, key)
				case 3:
					next.is.removeIf(by, func(_ string, at *int) bool { return *at%2 == v%2 })
					maps.DeleteFunc(next.want, func(_ string, at int) bool { return at%2 == v%2 })
				}
			}
			moments = append(moments, next)
		}
		for i, m := range moments {
			got := map[string]int{}
			for key, v := range m.is.all() {
				got[key] = *v
			}
			if !maps.Equal(got, m.want) || m.is.len() != len(m.want) || !slices.Equal(m.is.keys(), slices.Sorted(maps.Keys(m.want))) {
				t.Fatalf("moment %d: %v, want %v", i, got, m.want)
			}
		}
	})
}
