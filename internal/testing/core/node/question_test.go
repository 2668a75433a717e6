package node_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// TestEqualKeysGetEqualPlans plans two pods with the same key in random states. They differ in
// everything that is not in the key. A planner that reads a note decides differently about them.
func TestEqualKeysGetEqualPlans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawGiven(t)
		one := c.pod
		one.QoS = rapid.SampledFrom([]request.QoS{request.Guaranteed, request.Guaranteed, request.Burstable}).Draw(t, "QoS")
		if rapid.Bool().Draw(t, "devices unknown") {
			one.DevicesUnknown = "no answer"
		}
		other := otherwise(t, one)
		if one.Key() != other.Key() || one.Equal(other) {
			t.Fatalf("%s and %s: want one key, and two pods", one, other)
		}
		if a, b := decided(c.state.Plan(one)), decided(c.state.Plan(other)); !reflect.DeepEqual(a, b) {
			t.Fatalf("%s gets\n%+v\n%s gets\n%+v", one, a, other, b)
		}
	})
}

// otherwise returns the pod with other values in everything that is not in its key, including
// fields that are added later.
func otherwise(t *rapid.T, p request.Pod) request.Pod {
	p.Containers = append([]request.Container(nil), p.Containers...)
	p.Identity, p.Notes = request.Identity{}, request.Notes{}
	drawInto(t, reflect.ValueOf(&p.Identity).Elem())
	drawInto(t, reflect.ValueOf(&p.Notes).Elem())
	for i := range p.Containers {
		drawInto(t, reflect.ValueOf(&p.Containers[i].ContainerNotes).Elem())
	}
	if p.DevicesUnknown != "" {
		p.DevicesUnknown = "another reason"
	}
	return p
}

// drawInto sets a value to non-zero values.
func drawInto(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			drawInto(t, v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		drawInto(t, v.Index(0))
	case reflect.String:
		v.SetString(rapid.SampledFrom([]string{request.Memory, "x", "c0"}).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.SetInt(rapid.SampledFrom([]int64{1, 2, 1 << 30}).Draw(t, "number"))
	}
}

// decided returns a plan without the names of pods. Its remarks name reasons and claims, for
// people.
func decided(p *node.Plan) node.Plan {
	out := node.Plan{Base: p.Base, Grant: p.Grant, Known: p.Known, Rejection: p.Rejection, Delta: p.Delta, Trace: p.Trace}
	out.Trace.Notes = nil
	if out.Grant != nil {
		g := *out.Grant
		out.Grant, g.Pod = &g, request.Pod{}
	}
	if out.Rejection != nil { // Holders are sorted by their names.
		for i := range out.Rejection.Nodes {
			out.Rejection.Nodes[i].Holders = nil
		}
	}
	return out
}
