package node_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// anyBehavior draws how a recorded kubelet decides, or any mixture of its points.
func anyBehavior(t *rapid.T) node.Behavior {
	if rapid.Bool().Draw(t, "recorded") {
		b, err := behavior.Of(rapid.SampledFrom(behavior.Recorded()).Draw(t, "kubelet"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var b node.Behavior
	var set func(v reflect.Value)
	set = func(v reflect.Value) {
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.Struct {
				set(f)
			} else {
				f.SetBool(rapid.Bool().Draw(t, v.Type().Field(i).Name))
			}
		}
	}
	set(reflect.ValueOf(&b).Elem())
	return b
}

// TestVerdictsOfKubelets compares Admits with Plan in random histories of nodes on which a kubelet
// decides: pods come, come again, are rejected and go, and some have amounts that no kubelet reads.
func TestVerdictsOfKubelets(t *testing.T) {
	setChecksTo(t, histories)
	fit, rejected := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		h := rapid.SampledFrom([]func(*rapid.T) *history{start, startTight}).Draw(t, "start")(t)
		s := h.state().As(anyBehavior(t))
		var last []request.Pod
		for range h.intn(1, 10, "steps") {
			pod, is := h.anyPod(last)
			if !is {
				continue
			}
			if h.checkVerdict(s, pod).Fits {
				fit++
			} else {
				rejected++
			}
			switch h.intn(0, 3, "then") {
			case 0: // It is only asked about.
			case 1:
				s = s.Release(pod.UID)
			default:
				s = h.apply(s, s.Plan(pod))
			}
			last = append(last, pod)
		}
	})
	if fit == 0 || rejected == 0 {
		t.Errorf("%d pods fit and %d were rejected: want both", fit, rejected)
	}
}

// anyPod draws a new pod, or one of those that came before.
func (h *history) anyPod(before []request.Pod) (request.Pod, bool) {
	if len(before) > 0 && h.chance(4, "an earlier pod") {
		return rapid.SampledFrom(before).Draw(h.t, "which"), true
	}
	name := h.describePod()
	if name == "" {
		return request.Pod{}, false
	}
	pod, err := h.n.Request(name)
	if err != nil {
		h.fatalf("%v", err)
	}
	pod.FractionalMemory = h.chance(10, "fraction of a byte")
	for i := range pod.Containers {
		pod.Containers[i].FractionalMemory = h.chance(10, "fraction of a byte")
	}
	return pod, true
}
