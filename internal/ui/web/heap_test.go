package web

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// heap returns the number of bytes of live objects.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestHeapIsBounded checks that thousands of decisions of each kind leave little memory in use
// besides the pods themselves.
func TestHeapIsBounded(t *testing.T) {
	const most = 40 << 20
	wide := func(name string, cpus, containers int) request.Pod {
		p := pod(name, cpus)
		for i := range containers - 1 {
			p.Containers = append(p.Containers, request.Container{Name: fmt.Sprintf("c%d", i), Type: request.App})
		}
		return p
	}
	for _, c := range []struct {
		name string
		pods int
		run  func(r *rig, i int)
	}{
		{"held", 4_000, func(r *rig, i int) { r.admit(fmt.Sprintf("p%d", i), 0) }},
		{"come and gone", 10_000, func(r *rig, i int) {
			name := fmt.Sprintf("p%d", i)
			r.admit(name, 1)
			r.release(name)
		}},
		{"come and gone beside 500", 10_000, func(r *rig, i int) {
			name := fmt.Sprintf("p%d", i)
			r.admit(name, 0)
			if i >= 500 {
				r.release(fmt.Sprintf("p%d", i-500))
			}
		}},
		{"rejected", 10_000, func(r *rig, i int) { r.admit(fmt.Sprintf("p%d", i), 9) }},
		{"of many containers", 200, func(r *rig, i int) {
			for _, cpus := range []int{1, 9} {
				if _, err := r.engine.Admit(t.Context(), wide(fmt.Sprintf("p%d-%d", i, cpus), cpus, 2000)); err != nil {
					t.Fatal(err)
				}
			}
			r.release(fmt.Sprintf("p%d-1", i))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := heap()
			r := newRig(t)
			for i := range c.pods {
				c.run(r, i)
			}
			all := heap()
			r.web.config.Snapshot = func() *engine.Snapshot { return nil }
			kept := len(r.web.history.kept())
			r.web = nil
			t.Logf("%d MiB in all, %d states kept", (all-before)>>20, kept)
			if all-before > most {
				t.Errorf("%d MiB are live after %d decisions", (all-before)>>20, c.pods)
			}
			runtime.KeepAlive(r)
		})
	}
}

// TestRejectionKeepsItsAccount checks that an explanation of a rejection that is made later, when
// the other pods are gone, equals the one that would have been made at once.
func TestRejectionKeepsItsAccount(t *testing.T) {
	r := newRig(t)
	r.admit("a", 3)
	before := r.engine.State()
	plan, err := r.engine.Admit(t.Context(), pod("large", 6))
	if err != nil {
		t.Fatal(err)
	}
	want := view.ExplanationOf(before, plan, nil).Text(terminal.Style{}, false)
	r.release("a")
	r.fill(100)
	list := read[[]Rejected](r, "/api/rejections")
	if len(list) != 1 || list[0].Explanation != want || !strings.Contains(want, "default/a 3") {
		t.Errorf("got %+v\nwant the explanation\n%s", list, want)
	}
}
