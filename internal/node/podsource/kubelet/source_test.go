package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/node/podsource/kubelet"
)

func TestLookup(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []string
		status  int
		asked   int
		want    string // part of the error
	}{
		{"there", []string{list("a 1", "p 2")}, 200, 1, ""},
		{"there when asked again", []string{list(), list("p 2")}, 200, 2, ""},
		{"not there", []string{list("a 1")}, 200, 2, "does not list"},
		{"ended", []string{list("p 2 Succeeded")}, 200, 2, "does not list"},
		{"failed", []string{list("p 2 Failed")}, 200, 2, "does not list"},
		{"not understood", []string{list("p -2")}, 200, 1, "default/n-p"},
		{"no list", []string{`{"kind":"Status"}`}, 200, 1, `a "Status" of apiVersion "": expected a PodList`},
		{"no JSON", []string{`<html>`}, 200, 1, "not a JSON object: expected a PodList"},
		{"who are you", []string{"Unauthorized"}, 401, 1, "set tokenFile"},
		{"not for you", []string{"Forbidden"}, 403, 1, "nodes/pods"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, c.answers...)
			s.status = c.status
			pod, err := newSource(t, kubelet.Address{URL: s.URL}).Lookup(t.Context(), "p")
			if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if errors.Is(err, kubelet.ErrUnusablePod) != (c.name == "not understood") {
				t.Errorf("error %v is of the wrong kind", err)
			}
			if err == nil && (pod.UID != "p" || pod.Name != "n-p" || pod.Containers[0].CPUs != 2) {
				t.Errorf("pod %+v", pod)
			}
			if s.count() != c.asked {
				t.Errorf("asked %d times, want %d", s.count(), c.asked)
			}
		})
	}
}

func TestLookupKnowsWhatWasListed(t *testing.T) {
	s := newServer(t, list("p 2"), list())
	source := newSource(t, kubelet.Address{URL: s.URL})
	if _, err := source.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Lookup(t.Context(), "p"); err != nil || s.count() != 1 {
		t.Errorf("asked %d times, error %v; want what is known", s.count(), err)
	}
	listed, err := source.List(t.Context())
	if err != nil || len(listed) != 0 {
		t.Errorf("listed %v, %v; a list is asked for anew", listed, err)
	}
	if _, err := source.Lookup(t.Context(), "p"); !errors.Is(err, kubelet.ErrUnknownPod) {
		t.Errorf("error %v, want that it is gone", err)
	}
}

func TestLookupEndsInTime(t *testing.T) {
	s := newServer(t, list())
	source := newSource(t, kubelet.Address{URL: s.URL})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := source.Lookup(ctx, "p"); err == nil {
		t.Error("no error after the end of its time")
	}
}

func TestTokenIsReadForEveryCall(t *testing.T) {
	s := newServer(t, list())
	s.Close()
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	token := filepath.Join(t.TempDir(), "token")
	source := newSource(t, kubelet.Address{URL: s.URL, TokenFile: token, Insecure: true})
	for _, text := range []string{"one\n", "two"} {
		if err := os.WriteFile(token, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := source.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := "Bearer " + strings.TrimSpace(text); s.token != want || s.path != "/pods" {
			t.Errorf("asked %s with %q, want /pods with %q", s.path, s.token, want)
		}
	}
}

func TestUntrustedKubelet(t *testing.T) {
	s := newServer(t, list())
	s.Close()
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	if _, err := newSource(t, kubelet.Address{URL: s.URL}).List(t.Context()); err == nil {
		t.Error("a certificate of nobody was taken")
	}
}

func TestAddressCheck(t *testing.T) {
	for _, c := range []struct {
		address kubelet.Address
		want    string
	}{
		{kubelet.Address{URL: "http://127.0.0.1:10255"}, ""},
		{kubelet.Address{URL: "https://127.0.0.1:10250", CertFile: "c", KeyFile: "k"}, ""},
		{kubelet.Address{}, "expected http"},
		{kubelet.Address{URL: "unix:///x"}, "expected http"},
		{kubelet.Address{URL: "http://[::1"}, "url"},
		{kubelet.Address{URL: "https://h", CertFile: "c"}, "both or none"},
		{kubelet.Address{URL: "http://h", TokenFile: "t"}, "sends no token over http"},
		{kubelet.Address{URL: "https://h", Insecure: true, CAFile: "c"}, "one of them"},
	} {
		err := c.address.Check()
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.address, err, c.want)
		}
	}
	if _, err := kubelet.New(kubelet.Address{URL: "https://h", CAFile: "/nonexistent"}, kubelet.Options{}); err == nil {
		t.Error("a CA that is not there was taken")
	}
}

// TestRecordedList reads the answer of a real kubelet (1.36.3).
func TestRecordedList(t *testing.T) {
	data, err := os.ReadFile("testdata/pods-1.36.3.json")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, string(data))
	pods, err := newSource(t, kubelet.Address{URL: s.URL + "/pods"}).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[string]string{"plr-g-uid": "pod-level 3", "plr-b-uid": "pod-level 0", "ctr-g-uid": "plain 0", "plr-h-uid": "pod-level 1"} {
		p := pods[uid]
		if got := fmt.Sprint(p.Kind, " ", p.BudgetCPUs); got != want || len(p.Containers) == 0 {
			t.Errorf("%s: %s with %d containers, want %s", uid, got, len(p.Containers), want)
		}
	}
}

// TestQuiet: the time until which a pod asks to be left alone is known once the pod is listed and
// usable.
func TestQuiet(t *testing.T) {
	asks := func(text string) string {
		return strings.Replace(list("p 2"), `"metadata":{`, `"metadata":{"annotations":{"paddock-project.github.io/leave-alone-until":"`+text+`"},`, 1)
	}
	for name, c := range map[string]struct {
		answer string
		until  int64
		known  bool
	}{
		"asks for nothing":   {list("p 2"), time.Time{}.Unix(), true},
		"asks":               {asks("2027-01-31T18:00:00Z"), 1801418400, true},
		"no time":            {asks(strings.Repeat("9", 1000)), time.Time{}.Unix(), true},
		"a year of ten":      {asks("9999999999-01-31T18:00:00Z"), time.Time{}.Unix(), true},
		"the first year":     {asks("0001-01-01T00:00:00Z"), time.Time{}.Unix(), true},
		"the last year":      {asks("9999-12-31T23:59:59Z"), 253402300799, true},
		"not listed":         {list("a 1"), time.Time{}.Unix(), false},
		"not usable":         {list("p -2"), time.Time{}.Unix(), false},
		"an annotation list": {strings.Replace(list("p 2"), `"metadata":{`, `"metadata":{"annotations":[],`, 1), time.Time{}.Unix(), false},
	} {
		source := newSource(t, kubelet.Address{URL: newServer(t, c.answer).URL})
		if _, known := source.Quiet("p"); known {
			t.Errorf("%s: known before it is asked for", name)
		}
		_, _ = source.List(t.Context())
		if until, known := source.Quiet("p"); until.Unix() != c.until || known != c.known {
			t.Errorf("%s: until %v, known %t; want %t", name, until, known, c.known)
		}
	}
}

// TestLatest: the last list has a pod's request, and the reason why the kubelet does not apply a
// resize to it.
func TestLatest(t *testing.T) {
	condition := func(text string) string {
		return strings.Replace(list("p 2"), `"status":{`, `"status":{"conditions":[{"type":"Ready","status":"True","message":"m"},`+text+`],`, 1)
	}
	pending := func(status string) string {
		return condition(`{"type":"PodResizePending","status":"` + status + `","reason":"Deferred","message":"Node didn't have enough resource: cpu","observedGeneration":2}`)
	}
	for name, c := range map[string]struct {
		answer, pending string
		known           bool
	}{
		"as it runs":   {list("p 2"), "", true},
		"deferred":     {pending("True"), "Deferred: Node didn't have enough resource: cpu", true},
		"not any more": {pending("False"), "", true},
		"in progress":  {condition(`{"type":"PodResizeInProgress","status":"True"}`), "", true},
		"a null":       {strings.Replace(list("p 2"), `"status":{`, `"status":{"conditions":null,`, 1), "", true},
		"no list":      {strings.Replace(list("p 2"), `"status":{`, `"status":{"conditions":{},`, 1), "", false},
		"not listed":   {list("a 1"), "", false},
		"not usable":   {list("p -2"), "", false},
	} {
		source := newSource(t, kubelet.Address{URL: newServer(t, c.answer).URL})
		if _, _, known := source.Latest("p"); known {
			t.Errorf("%s: known before it is asked for", name)
		}
		if _, err := source.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		pod, why, known := source.Latest("p")
		if why != c.pending || known != c.known || known && pod.Containers[0].CPUs != 2 {
			t.Errorf("%s: pending for %q, known %t, %v; want %q, %t", name, why, known, pod, c.pending, c.known)
		}
	}
}
