package resourceslices

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/paddock-project/paddock/internal/codec/claims"
)

// show returns the NUMA nodes of the first two devices of a pool as text.
func (w *Watch) show(pool string) string {
	var text []string
	for _, name := range []string{"gpu0", "gpu1"} {
		nodes, listed := w.Places().Nodes("gpu.example.com", pool, name)
		text = append(text, fmt.Sprint(nodes, listed))
	}
	return strings.Join(text, " ")
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// TestWatch: the slices of one node are listed, and followed by a watch. A broken slice is ignored
// without an effect on the others.
func TestWatch(t *testing.T) {
	s := newServer(t, listOf(slice("a", 1, 1, 0, 1), strings.Replace(slice("b", 2, 1, 1), `"driver":"gpu.example.com"`, `"driver":5`, 1)))
	var log text
	w, changes := started(t, s, &log)
	await(t, changes, 1)
	<-w.First()
	same(t, "selector", s.selected(), "spec.nodeName=node7")
	same(t, "a", w.show("a"), "{0} true {1} true")
	same(t, "b, broken", w.show("b"), "{} false {} false")
	before := w.Places()
	s.send(t, "MODIFIED", slice("a", 11, 2, 1))
	s.send(t, "ADDED", slice("b", 12, 1, 1, 1))
	await(t, changes, 2)
	same(t, "a, changed", w.show("a"), "{1} true {} false")
	same(t, "b, added", w.show("b"), "{1} true {1} true")
	if nodes, _ := before.Nodes("gpu.example.com", "a", "gpu1"); nodes.String() != "{1}" {
		t.Error("a published value was changed")
	}
	s.send(t, "DELETED", slice("a", 13, 2, 1))
	await(t, changes, 1)
	same(t, "a, deleted", w.show("a"), "{} false {} false")
	if w.Trouble() != nil || !strings.Contains(log.String(), "a ResourceSlice is ignored") || !strings.Contains(log.String(), "slice=b") {
		t.Errorf("%v, log %s", w.Trouble(), log.String())
	}
}

// TestBadAnswers: an answer that is not a list changes nothing that is known, and its error is
// reported.
func TestBadAnswers(t *testing.T) {
	many := listOf(strings.Split(strings.TrimSuffix(strings.Repeat(slice("x", 1, 1)+"\n", maxSlices+1), "\n"), "\n")...)
	for name, c := range map[string]struct {
		list   string
		status int
		want   string
	}{
		"forbidden": {`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"resourceslices.resource.k8s.io is forbidden"}`, http.StatusForbidden, "is forbidden"},
		"not there": {"404 page not found", http.StatusNotFound, "could not find the requested resource"},
		"no JSON":   {"<html>", 0, "invalid character"},
		"a pod":     {`{"kind":"Pod","apiVersion":"v1"}`, 0, "no kind"},
		"too many":  {many, 0, "more than 1024 ResourceSlices"},
		"too large": {listOf(strings.Replace(slice("a", 1, 1), `"name"`, `"x":"`+strings.Repeat("x", 17<<20)+`","name"`, 1)), 0, "more than 16 MiB"},
		"no items":  {`{"kind":"ResourceSliceList","apiVersion":"resource.k8s.io/v1","items":{}}`, 0, "expected a list of ResourceSlices"},
		"cut off":   {listOf(slice("a", 1, 1))[:100], 0, "unexpected end"},
	} {
		s := newServer(t, c.list)
		s.set(c.list, c.status)
		w, changes := started(t, s, nil)
		for w.Trouble() == nil {
			select {
			case <-changes:
				t.Fatalf("%s: it is a list", name)
			default:
			}
		}
		if err := w.Trouble(); !strings.Contains(err.Error(), c.want) || w.Places() != nil {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestServerComesBack: what was known stays while the server is away, and is read again afterwards.
func TestServerComesBack(t *testing.T) {
	s := newServer(t, listOf(slice("a", 1, 1, 0)))
	w, changes := started(t, s, nil)
	await(t, changes, 1)
	s.set("{}", http.StatusInternalServerError)
	s.send(t, "ERROR", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}`)
	for w.Trouble() == nil {
		runtime.Gosched() // The next list fails.
	}
	same(t, "away", w.show("a"), "{0} true {} false")
	s.set(listOf(slice("a", 2, 1, 1)), 0)
	await(t, changes, 1)
	same(t, "back", w.show("a"), "{1} true {} false")
	for w.Trouble() != nil {
		runtime.Gosched() // The list is published before the watch begins.
	}
}

// TestFrozenServer: a server that accepts a connection and does not answer delays no reader.
func TestFrozenServer(t *testing.T) {
	s := newServer(t, listOf(slice("a", 1, 1, 0)))
	s.frozen = make(chan struct{})
	w, changes := started(t, s, nil)
	if w.Places() != nil || w.Trouble() != nil {
		t.Error("it is known without an answer")
	}
	close(s.frozen)
	await(t, changes, 1)
	same(t, "a", w.show("a"), "{0} true {} false")
}

// TestMutatedLists decodes 10,000 changed lists and stores their content. The result is an error or
// a value, never a panic.
func TestMutatedLists(t *testing.T) {
	text := listOf(slice("a", 1, 1, 0, 1), slice("b", 2, 1, 1))
	decoder := codecs().UniversalDeserializer()
	r := rand.New(rand.NewPCG(16, 5))
	other := &Watch{options: Options{Node: "node7", Log: slog.New(slog.DiscardHandler)}, first: make(chan struct{}), slices: map[string]*claims.Slice{}}
	kept := 0
	for range 10_000 {
		data := []byte(text)
		for range 1 + r.IntN(4) {
			at := r.IntN(len(data))
			switch r.IntN(3) {
			case 0:
				data[at] = byte(r.IntN(256))
			case 1:
				data = append(data[:at:at], data[min(len(data), at+r.IntN(20)):]...)
			default:
				data = append(data[:at:at], append([]byte(`{"a":[`)[:r.IntN(7)], data[at:]...)...)
			}
		}
		l := &list{}
		if _, _, err := decoder.Decode(data, nil, l); err != nil {
			continue
		}
		kept++
		objects, err := meta.ExtractList(l.DeepCopyObject())
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		all := make([]any, len(objects))
		for i := range objects {
			all[i] = objects[i]
		}
		if err := (store{other, t.Context()}).Replace(all, ""); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
	}
	if kept == 0 {
		t.Error("no list was read")
	}
}
