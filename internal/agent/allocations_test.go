package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/paddock-project/paddock/internal/codec/claims"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletdevices"
)

// api is an API server with claims. It counts its requests.
type api struct {
	has  map[string][]claims.Allocated
	err  error
	asks int
}

func (a *api) ask(_ context.Context, namespace, name string) ([]claims.Allocated, error) {
	a.asks++
	if devices, there := a.has[namespace+"/"+name]; there {
		return devices, nil
	}
	if a.err != nil {
		return nil, a.err
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}, name)
}

// twoRequests returns a pod whose two containers each use one request of a claim with two GPUs, and
// the kubelet's list of that pod, which has the whole claim for both containers. An init container
// has a claim of its own.
func twoRequests() (request.Pod, kubeletdevices.Pod) {
	whole := []kubeletdevices.Claim{{Namespace: "default", Name: "gpus", Devices: []kubeletdevices.ClaimDevice{
		{Driver: "d", Pool: "p", Device: "gpu0", CDI: []string{"d=0"}}, {Driver: "d", Pool: "p", Device: "gpu1", CDI: []string{"d=1"}},
	}}}
	pod := request.Pod{Identity: request.Identity{UID: "u", Namespace: "default", Name: "p"}, Ask: request.Ask{Containers: []request.Container{{Name: "init"}, {Name: "a"}, {Name: "b"}}}, Notes: request.Notes{ResourceClaims: []request.Claim{
		{Name: "alone", Uses: []request.ClaimUse{{Container: "init"}}},
		{Name: "gpus", Uses: []request.ClaimUse{{Container: "a", Request: "r0"}, {Container: "b", Request: "r1"}}},
	}}}
	return pod, kubeletdevices.Pod{Namespace: "default", Name: "p", Containers: []kubeletdevices.Container{{Name: "a", Claims: whole}, {Name: "b", Claims: whole}}}
}

func givenText(pod request.Pod) string {
	text := ""
	for _, c := range pod.Containers {
		text += c.Name + ":"
		for _, g := range c.Given {
			text += " " + g.Name
		}
		text += "; "
	}
	return text
}

// TestRequestsOfTheAPIServer checks that a hook does not wait for the API server. The first attempt
// has the whole claim. The next one has what was read in the meantime, for ten minutes.
func TestRequestsOfTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &api{has: map[string][]claims.Allocated{
			"default/gpus":  {{Driver: "d", Pool: "p", Device: "gpu0", Request: "r0"}, {Driver: "d", Pool: "p", Device: "gpu1", Request: "r1/large"}},
			"default/alone": {{Driver: "d", Pool: "p", Device: "gpu7", Request: "r"}},
		}}
		p := &places{allocations: newAllocations(server.ask, time.Now), log: slog.New(slog.DiscardHandler)}
		d := &devices{there: func() bool { return true }, now: time.Now, places: p, wake: make(chan struct{}, 1)}
		pod, listed := twoRequests()
		d.ask = func(context.Context, string, string) (kubeletdevices.Pod, error) { return listed, nil }
		attempt := func() string {
			add, err := d.pod(t.Context(), "default", "p")
			if err != nil {
				t.Fatal(err)
			}
			return givenText(add(pod))
		}
		same(t, "first attempt", attempt(), "init:; a: gpu0 gpu1; b: gpu0 gpu1; ")
		if len(d.wake) != 1 || server.asks != 0 {
			t.Errorf("awake %d, asked %d times", len(d.wake), server.asks)
		}
		if err := p.allocations.round(t.Context()); err != nil || server.asks != 2 {
			t.Errorf("asked %d times, %v", server.asks, err)
		}
		same(t, "next attempt", attempt(), "init: gpu7; a: gpu0; b: gpu1; ")
		time.Sleep(fresh) //nolint:forbidigo // It takes no time.
		same(t, "later", attempt(), "init:; a: gpu0 gpu1; b: gpu0 gpu1; ")
	})
}

// TestAPIServerOfClaimsIsAway checks that a claim that is gone is not an error, that a forbidden
// claim does not stop the others, and that a round ends if the API server does not answer.
func TestAPIServerOfClaimsIsAway(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "resourceclaims"}, "x", errors.New("no right"))
	for name, c := range map[string]struct {
		err  error
		asks int
		want string
	}{
		"gone": {nil, 3, "<nil>"}, "forbidden": {forbidden, 3, "is forbidden"}, "no claim": {claims.ErrClaim, 3, "not a ResourceClaim"}, "away": {context.DeadlineExceeded, 1, "deadline"},
	} {
		server := &api{err: c.err}
		a := newAllocations(server.ask, time.Now)
		for i := range 3 {
			a.want("default", fmt.Sprint(i))
		}
		if err := a.round(t.Context()); !strings.Contains(fmt.Sprint(err), c.want) || server.asks != c.asks {
			t.Errorf("%s: asked %d times, want %d: %v", name, server.asks, c.asks, err)
		}
	}
	a := newAllocations(nil, time.Now)
	for i := range 2 * maxWanted {
		a.want("default", fmt.Sprint(i))
	}
	if len(a.wanted) != maxWanted {
		t.Errorf("%d claims are wanted", len(a.wanted))
	}
}

// TestRequestsOfTheKubeletsFile checks that requests are read from dra_manager_state. If the file
// is missing or has other content, it is ignored.
func TestRequestsOfTheKubeletsFile(t *testing.T) {
	const device = `{\"PoolName\":\"p\",\"DeviceName\":\"gpu%d\",\"RequestNames\":[\"r%d\"],\"CDIDeviceIDs\":[\"x\"]}`
	state := `{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":[{\"ClaimUID\":\"u\",\"ClaimName\":\"gpus\",\"Namespace\":\"default\",` +
		`\"PodUIDs\":{\"u\":{}},\"DriverState\":{\"d\":{\"Devices\":[` + fmt.Sprintf(device, 0, 0) + "," + fmt.Sprintf(device, 1, 1) + `]}}}]}","Checksum":1}`
	for text, want := range map[string]string{
		state:                          "init:; a: gpu0; b: gpu1; ",
		"":                             "init:; a: gpu0 gpu1; b: gpu0 gpu1; ",
		state[:100]:                    "init:; a: gpu0 gpu1; b: gpu0 gpu1; ",
		strings.Repeat("x", 5_000_000): "init:; a: gpu0 gpu1; b: gpu0 gpu1; ",
		strings.ReplaceAll(state, "default", "other"): "init:; a: gpu0 gpu1; b: gpu0 gpu1; ",
	} {
		config := DefaultConfig()
		config.Kubelet.Dir = t.TempDir()
		if err := os.WriteFile(filepath.Join(config.Kubelet.Dir, "dra_manager_state"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p := newPlaces(t.Context(), config, slog.New(slog.DiscardHandler))
		p.within = time.Minute
		pod, listed := twoRequests()
		same(t, fmt.Sprintf("%.20s", text), givenText(give(pod, listed, p.locate(t.Context(), listed))), want)
	}
}

// TestRequestsAreAdded checks that the API server's data about the claims of an admitted pod is
// added to its grant.
func TestRequestsAreAdded(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		b.follow(a, "db 2")
		uid := a.engine.State().Grants()[0].Pod.UID
		incomplete := []request.Claim{{Name: "gpus", Uses: []request.ClaimUse{{Container: "app", Request: "r"}}, Devices: []request.ClaimDevice{{Driver: "d", Pool: "p", Name: "gpu0", ShareID: "s", CDI: []string{"x"}}}}}
		if err := a.engine.Describe(t.Context(), uid, incomplete); err != nil {
			t.Fatal(err)
		}
		server := &api{has: map[string][]claims.Allocated{"default/gpus": {{Driver: "d", Pool: "p", Device: "gpu0", ShareID: "other", Request: "q"}, {Driver: "d", Pool: "p", Device: "gpu0", ShareID: "s", Request: "r"}}}}
		socket := &lister{}
		d := &devices{state: a.engine.State, list: socket.list, places: &places{allocations: newAllocations(server.ask, time.Now), log: a.log}}
		if left, err := d.complete(t.Context(), a.engine.Describe); left || err != nil || socket.asks > 0 {
			t.Errorf("left %t, %v, the kubelet was asked %d times", left, err, socket.asks)
		}
		same(t, "claims", claimsText(a.engine.State(), "db"), "gpus [{app r}] d/p/gpu0 share=s of [r]: [x]")
		if err := a.engine.Flush(t.Context()); err != nil { // before the store is closed
			t.Error(err)
		}
	})
}
