package statefile_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// wild draws pods that have names of any length and content, and many containers.
func wild(number int) *rapid.Generator[request.Pod] {
	return rapid.Custom(func(t *rapid.T) request.Pod {
		name := rapid.OneOf(rapid.String(), rapid.StringN(0, 500, -1), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 8), func(b []byte) string { return string(b) }))
		p := request.Pod{
			Identity: request.Identity{UID: fmt.Sprint(number) + name.Draw(t, "uid"), Namespace: name.Draw(t, "namespace"), Name: name.Draw(t, "name")},
			Notes:    request.Notes{Priority: rapid.Int32().Draw(t, "priority"), Created: rapid.Int64Range(0, 1<<62).Draw(t, "created")},
		}
		prefix := name.Draw(t, "container")
		for i := range rapid.IntRange(0, 40).Draw(t, "containers") {
			p.Containers = append(p.Containers, request.Container{Name: fmt.Sprint(prefix, i), Type: request.App, Sharing: request.QoSNotGuaranteed})
		}
		return p
	})
}

func readable(p request.Pod) bool {
	return utf8.ValidString(p.UID) && utf8.ValidString(p.Namespace) && utf8.ValidString(p.Name) &&
		!slices.ContainsFunc(p.Containers, func(c request.Container) bool { return !utf8.ValidString(c.Name) })
}

type writer struct {
	statefile.Encoder
	statefile.Meter
}

// TestBound checks that a state near the bound is either rejected with the reason or decoded
// unchanged. If a state was written, every state that results from a removal can be written too.
func TestBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(600, 20_000).Draw(t, "limit")
		s := withDevices(t, hardware(t, 1, 2), node.Policy{})
		var e writer
		for i := range rapid.IntRange(1, 8).Draw(t, "pods") {
			pod := wild(i).Draw(t, "pod")
			next, err := s.Apply(s.Plan(pod))
			if err != nil {
				t.Fatal(err)
			}
			if s = next; !kept(t, &e, limit, next, pod) {
				s = s.Release(pod.UID)
			}
		}
		for len(s.Grants()) > 0 {
			pod := rapid.SampledFrom(s.Grants()).Draw(t, "of").Pod
			next := s.Release(pod.UID)
			if len(pod.Containers) > 0 && rapid.IntRange(0, 3).Draw(t, "release") > 0 {
				next = s.RemoveContainer(pod.UID, rapid.SampledFrom(pod.Containers).Draw(t, "container").Name)
			}
			s = next
			if !kept(t, &e, limit, s, request.Pod{}) {
				t.Fatalf("what leaves the node cannot be written in %d bytes", limit)
			}
		}
	})
}

// kept reports whether the state can be written. If so, it checks that the state can be read back.
func kept(t *rapid.T, e *writer, limit int, s *node.State, last request.Pod) bool {
	data, err := e.EncodeWithin(limit, s)
	if fits := e.FitsWithin(limit, s); fmt.Sprint(fits) != fmt.Sprint(err) {
		t.Fatalf("the meter says %v, the encoder %v", fits, err)
	}
	switch {
	case err != nil && data != nil:
		t.Fatalf("%d bytes and an error: %v", len(data), err)
	case errors.Is(err, statefile.ErrNotEncodable):
		if readable(last) {
			t.Fatalf("cannot be encoded: %v", err)
		}
		return false
	case errors.Is(err, statefile.ErrTooLarge):
		if whole, err := statefile.Encode(s); err != nil || len(whole) < limit/2 && len(s.Grants()) > 0 && len(whole) > 1200 {
			t.Fatalf("%d bytes are too large for %d: %v", len(whole), limit, err)
		}
		return false
	case err != nil || len(data) > limit:
		t.Fatalf("%d bytes, error %v", len(data), err)
	}
	f, err := statefile.Decode("state", data)
	if err != nil || f.Generation != s.Generation() || !slices.EqualFunc(f.Grants, s.Grants(), equalGrants) {
		t.Fatalf("%v: read is not what was written\n%s", err, data)
	}
	return true
}

// TestLargestState tests the bound itself: the largest state that can be encoded is decoded, one
// byte more is rejected, and a smaller pod still fits after that.
func TestLargestState(t *testing.T) {
	s := withDevices(t, hardware(t, 2, 6), podScope())
	with := func(uid string, length int) *node.State {
		next, err := s.Apply(s.Plan(request.Pod{
			Identity: request.Identity{UID: uid, Namespace: "default", Name: "big"}, Ask: request.Ask{Containers: []request.Container{{Name: strings.Repeat("x", length), Type: request.App}}},
		}))
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	low, high := 0, statefile.MaxSize // the first fits, the second does not
	for high-low > 1 {
		half := (low + high) / 2
		if data, err := statefile.Encode(with("1", half)); err == nil {
			low = half
		} else if high = half; !errors.Is(err, statefile.ErrTooLarge) || data != nil {
			t.Fatal(err)
		}
	}
	if low < statefile.MaxSize-5000 {
		t.Errorf("a name of %d bytes is the most in %d", low, statefile.MaxSize)
	}
	data, err := statefile.Encode(with("1", low))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := statefile.Decode("state", data); err != nil {
		t.Error(err)
	}
	_, err = statefile.Encode(with("1", high))
	for _, want := range []string{"its 1 containers need 167", "at most 16777216; the largest pod is default/big with 1 containers", "on another node"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	s = with("1", low-1000)
	if _, err := statefile.Encode(with("2", 1000)); !errors.Is(err, statefile.ErrTooLarge) {
		t.Errorf("another pod: %v", err)
	}
	if _, err := statefile.Encode(with("2", 100)); err != nil {
		t.Errorf("a smaller pod: %v", err)
	}
}
