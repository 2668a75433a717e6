package control

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-project/paddock/internal/node/runtime/sim"
)

// lives are the lives of pods on a node. At the end of each, the pod is no longer listed.
var lives = map[string]func(w *world, uid string){
	"a pod with CPUs":   func(w *world, uid string) { w.play("run "+uid+" 1", "again "+uid, "end "+uid) },
	"a pod that shares": func(w *world, uid string) { w.play("run "+uid+" 0", "again "+uid, "end "+uid) },
	"resizes": func(w *world, uid string) {
		w.play("run "+uid+" 1", "resize "+uid+" 9", "resize "+uid+" 2", "resize "+uid+" 9", "end "+uid)
	},
	"a move":       func(w *world, uid string) { w.play("run "+uid+" 2", "move "+uid, "wait 5s", "end "+uid) },
	"a cut move":   func(w *world, uid string) { w.play("run "+uid+" 2", "move "+uid, "end "+uid) },
	"a rejection":  func(w *world, uid string) { w.play("run "+uid+" 9", "run "+uid+" 9", "end "+uid) },
	"lost updates": func(w *world, uid string) { w.play("lose 2", "run "+uid+" 1", "drift "+uid+" 0-7", "end "+uid) },
	"an estimate": func(w *world, uid string) {
		pod := podOf(uid, "0")
		pod.Estimated = true
		w.estimated[uid] = pod
		w.sandbox(w.box(uid), func() {})
		w.goOn()
		delete(w.estimated, uid)
		w.play("run "+uid+" 0", "wait 11s", "end "+uid)
	},
	"an end that is not reported": func(w *world, uid string) {
		w.play("run " + uid + " 1")
		w.vanish(uid)
		delete(w.listed, uid)
	},
	"a creation that fails and is not reported": func(w *world, uid string) {
		w.play("create " + uid + " 1")
		w.vanish(uid)
		delete(w.listed, uid)
	},
	"a start of which the creation is not reported": func(w *world, uid string) {
		w.play("create "+uid+" 1", "lose 1")
		r := w.containerOf(uid)
		r.begun = true
		w.step(Started{w.connection, w.boxes[uid], w.of(r)})
		w.vanish(uid)
		delete(w.listed, uid)
	},
	"sandboxes that another plugin fails": func(w *world, uid string) {
		w.failSandboxes(uid, 3)
		delete(w.listed, uid)
	},
	"a pod that runs and does not fit": func(w *world, uid string) {
		w.listed[uid] = podOf(uid, "9")
		w.runUnasked(uid)
		w.vanish(uid)
		delete(w.listed, uid)
	},
	"a pod that runs and fits": func(w *world, uid string) {
		w.listed[uid] = podOf(uid, "1")
		w.runUnasked(uid)
		w.play("end " + uid)
	},
	"a pod that runs and is not listed": func(w *world, uid string) {
		w.runUnasked(uid)
		w.vanish(uid)
	},
}

// TestLoopIsBounded checks that the loop does not grow. 5,000 pods come and go beside one that
// stays, whose containers and sandboxes come and go. The runtime does not report every end.
// Afterwards the loop is as small as before.
func TestLoopIsBounded(t *testing.T) {
	w := newWorld(t)
	w.looks = 1 << 60
	w.play("run stays 0", "wait 1h")
	before, connections := sizes(w.loop), w.connections
	for i := 0; i < 5000; {
		for _, name := range slices.Sorted(maps.Keys(lives)) {
			lives[name](w, fmt.Sprint("p-", i))
			w.play("wait 1s")
			i++
		}
		w.vanish("stays")
		w.failSandboxes("stays", 1)
		w.play("run stays 0")
	}
	if n := sizes(w.loop)["containers"]; n > 100 {
		t.Errorf("%d containers", n)
	}
	w.play("wait 1h")
	if diff := cmp.Diff(before, sizes(w.loop)); diff != "" {
		t.Errorf("before and after 5,000 pods: %s", diff)
	}
	if w.connections != connections {
		t.Error("the runtime has synchronised again, and the table was made again")
	}
	if wrong := w.atRest(); len(wrong) > 0 {
		t.Errorf("at rest: %s", strings.Join(wrong, "; "))
	}
}

// play carries out commands.
func (w *world) play(lines ...string) {
	for _, line := range lines {
		words := strings.Fields(line)
		w.command(words[0], words[1:])
	}
}

// vanish ends the container and the sandbox of a pod. The runtime reports nothing, because another
// plugin failed first.
func (w *world) vanish(uid string) {
	for _, r := range w.containersOf(uid) {
		delete(w.running, r.id)
		w.observe(sim.Stopped, "", r, r.setting)
	}
	delete(w.boxes, uid)
}

// failSandboxes makes another plugin fail sandboxes of a pod after the loop has answered.
// containerd does not report that.
func (w *world) failSandboxes(uid string, n int) {
	w.listed[uid] = podOf(uid, "0")
	for range n {
		w.sandbox(w.box(uid), func() {})
		w.goOn()
	}
	delete(w.boxes, uid)
}

// runUnasked runs a container whose creation the loop was not asked about, until the loop has tried
// to plan its pod.
func (w *world) runUnasked(uid string) {
	w.box(uid)
	r := w.container(uid, "app")
	w.running[r.id] = r
	w.observe(sim.Replied, "", r, r.setting)
	w.report()
	w.play("wait 11s")
}

// sizes returns the lengths of all records, maps and lists of a loop, by field.
func sizes(l Loop) map[string]int {
	sizes := map[string]int{}
	count(sizes, "", reflect.ValueOf(l))
	return sizes
}

func count(sizes map[string]int, name string, v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // The others have no length.
	case reflect.Pointer:
		if !v.IsNil() && v.Type().Elem().PkgPath() == reflect.TypeFor[Loop]().PkgPath() {
			count(sizes, name, v.Elem())
		}
	case reflect.Slice, reflect.Map:
		sizes[name] = v.Len()
	case reflect.Struct:
		if strings.HasPrefix(v.Type().Name(), "records[") {
			sizes[name] = int(v.FieldByName("n").Int())
			return
		}
		for i := range v.NumField() {
			count(sizes, strings.TrimPrefix(name+"."+v.Type().Field(i).Name, "."), v.Field(i))
		}
	}
}

// TestOneAdoptionAtATime checks that rounds do not ask the source of pods again for the pods that
// run without a grant while it does not answer.
func TestOneAdoptionAtATime(t *testing.T) {
	w := newWorld(t)
	w.play("stall")
	w.listed["a"] = podOf("a", "1")
	w.box("a")
	r := w.container("a", "app")
	w.running[r.id] = r
	w.report()
	for range 5 {
		w.step(Round{})
	}
	asked := 0
	for _, a := range w.held {
		if j, is := a.(Job); is {
			if _, is := j.Of.(FindAll); is {
				asked++
			}
		}
	}
	if asked != 1 {
		t.Errorf("%d adoptions are under way, want one", asked)
	}
	w.play("go", "wait 20s")
	if g, there := w.state.Grant("a"); !there || g.CPUs().Len() != 1 {
		t.Error("the pod is not adopted")
	}
}
