package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/podsource/devicemetadata"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletdevices"
)

// claiming returns a pod with one container and one claim, as the kubelet lists it.
func claiming(name, claim string) kubeletdevices.Pod {
	return kubeletdevices.Pod{Namespace: "default", Name: name, Containers: []kubeletdevices.Container{{
		Name:   "app",
		Claims: []kubeletdevices.Claim{{Namespace: "default", Name: claim, Devices: []kubeletdevices.ClaimDevice{{Driver: "d", Pool: "p", Device: "gpu0", ShareID: "s", CDI: []string{"x"}}}}},
	}}}
}

// claimsText returns the claims of a pod as they are reported.
func claimsText(s *node.State, name string) string {
	text := ""
	for _, g := range s.Grants() {
		if g.Pod.Name != name {
			continue
		}
		for _, c := range g.Pod.ResourceClaims {
			text += fmt.Sprintf("%s %v", c.Name, c.Uses)
			for _, d := range c.Devices {
				text += fmt.Sprintf(" %s/%s/%s share=%s of %v: %v", d.Driver, d.Pool, d.Name, d.ShareID, d.Requests, d.CDI)
			}
		}
	}
	return text
}

// lister is a kubelet's socket that counts its requests.
type lister struct {
	mu   sync.Mutex
	pods []kubeletdevices.Pod
	err  error
	asks int
}

func (l *lister) list(context.Context) ([]kubeletdevices.Pod, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asks++
	return l.pods, l.err
}

// TestClaimsOfPods checks that missing data about a pod's claims is looked for after the pod was
// admitted. The data is still there after a restart, without a request to the kubelet, and is
// removed with the pod.
func TestClaimsOfPods(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		socket := &lister{err: errors.New("away")}
		a.devices = &devices{state: a.engine.State, list: socket.list, now: time.Now, wake: make(chan struct{}, 1)}
		b.follow(a, "db 2")
		uid := a.engine.State().Grants()[0].Pod.UID
		if err := a.engine.Describe(t.Context(), uid, []request.Claim{{Name: "gpus", Uses: []request.ClaimUse{{Container: "app", Request: "r"}}}}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = a.completeClaims(ctx)
		}()
		time.Sleep(time.Minute) //nolint:forbidigo // This takes no real time.
		same(t, "the kubelet is away", claimsText(a.engine.State(), "db"), "gpus [{app r}]")
		socket.mu.Lock()
		if socket.asks < 4 || socket.asks > 8 {
			t.Errorf("asked %d times in a minute", socket.asks)
		}
		socket.pods, socket.err = []kubeletdevices.Pod{claiming("other", "x"), claiming("db", "gpus")}, nil
		socket.mu.Unlock()
		a.devices.wake <- struct{}{}
		time.Sleep(2 * soon) //nolint:forbidigo // This takes no real time.
		const known = "gpus [{app r}] d/p/gpu0 share=s of []: [x]"
		same(t, "completed", claimsText(a.engine.State(), "db"), known)
		cancel()
		<-ended
		b.kill(a)
		again := b.start()
		same(t, "after a start", claimsText(again.engine.State(), "db"), known)
		if err := again.engine.Release(t.Context(), uid); err != nil {
			t.Fatal(err)
		}
		same(t, "released", claimsText(again.engine.State(), "db"), "")
	})
}

// TestNothingIsMissing checks that the kubelet is not asked while all claims are known. A state of
// an earlier Paddock version has only the devices of claims, and gets the claims.
func TestNothingIsMissing(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.start()
		b.follow(a, "db 2")
		g := a.engine.State().Grants()[0]
		socket := &lister{pods: []kubeletdevices.Pod{claiming("db", "gpus")}}
		d := &devices{state: a.engine.State, list: socket.list}
		if left, err := d.complete(t.Context(), a.engine.Describe); left || err != nil || socket.asks > 0 {
			t.Errorf("asked %d times, %t, %v", socket.asks, left, err)
		}
		before := *g
		before.Pod.Containers = slices.Clone(g.Pod.Containers)
		before.Pod.Containers[0].Given = []request.Given{{Claim: "gpus", Driver: "d", Pool: "p", Name: "gpu0"}}
		if !missing(&before) || missing(g) {
			t.Error("the claims of an earlier state are not missing")
		}
		b.kill(a)
	})
}

// TestGivenDevices checks that the devices of the kubelet's answer are added to the request, by the
// names of containers, with their NUMA nodes if these are known.
func TestGivenDevices(t *testing.T) {
	listed := claiming("p", "gpus")
	listed.Containers[0].Devices = []kubeletdevices.Device{{Resource: "example.com/nic", ID: "nic0", Nodes: mask.Of(1)}}
	listed.Containers = append(listed.Containers, kubeletdevices.Container{Name: "unknown", Devices: listed.Containers[0].Devices})
	pod := request.Pod{Identity: request.Identity{UID: "u", Namespace: "default", Name: "p"}, Ask: request.Ask{Containers: []request.Container{{Name: "app", Type: request.App}}}}
	got := give(pod, listed, located{})
	want := []request.Given{{Driver: "d", Pool: "p", Name: "gpu0", Claim: "gpus"}, {Resource: "example.com/nic", Name: "nic0", Nodes: mask.Of(1)}}
	if !slices.Equal(got.Containers[0].Given, want) || pod.Containers[0].Given != nil {
		t.Errorf("got %v, want %v; before %v", got.Containers[0].Given, want, pod.Containers[0].Given)
	}
}

// TestSilentSocket checks that a socket that does not answer in time is not used for a while.
func TestSilentSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		d := &devices{there: func() bool { return true }, now: time.Now, state: func() *node.State { return nil }}
		d.ask = func(ctx context.Context, _, _ string) (kubeletdevices.Pod, error) {
			asked++
			<-ctx.Done()
			return kubeletdevices.Pod{}, ctx.Err()
		}
		for _, want := range []int{1, 1, 2} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := d.pod(ctx, "a", "b"); err == nil || asked != want {
				t.Errorf("asked %d times, want %d: %v", asked, want, err)
			}
			cancel()
			time.Sleep(silence / 2) //nolint:forbidigo // This takes no real time.
		}
	})
}

// TestRequestsOfClaims checks that a container that names one request gets only its devices, if the
// requests are known, and that an init container gets devices although the kubelet does not list
// it.
func TestRequestsOfClaims(t *testing.T) {
	device := func(name string) kubeletdevices.ClaimDevice {
		return kubeletdevices.ClaimDevice{Driver: "gpu.example.com", Pool: "p", Device: name}
	}
	whole := []kubeletdevices.Claim{{Namespace: "default", Name: "gpus", Devices: []kubeletdevices.ClaimDevice{device("gpu1"), device("gpu2"), device("gpu0")}}}
	listed := kubeletdevices.Pod{Namespace: "default", Name: "p", Containers: []kubeletdevices.Container{{Name: "a", Claims: whole}, {Name: "b", Claims: whole}}}
	pod := request.Pod{Identity: request.Identity{UID: "u", Namespace: "default", Name: "p"}, Ask: request.Ask{Containers: []request.Container{{Name: "init"}, {Name: "a"}, {Name: "b"}}}, Notes: request.Notes{ResourceClaims: []request.Claim{
		{Name: "gpus", Uses: []request.ClaimUse{{Container: "a", Request: "r"}, {Container: "b", Request: "other"}, {Container: "init", Request: "r"}}},
		{Name: "later", Uses: []request.ClaimUse{{Container: "init"}}},
	}}}
	p := &places{files: devicemetadata.New(kubeletDir(t), nil), within: time.Minute, log: slog.New(slog.DiscardHandler)}
	got := give(pod, listed, p.locate(t.Context(), listed))
	text := ""
	for _, c := range got.Containers {
		text += fmt.Sprint(c.Name, c.Given, " ")
	}
	same(t, "given", text, "init[gpu.example.com/p/gpu0@{} claim=gpus gpu.example.com/p/gpu1@{3} claim=gpus gpu.example.com/p/gpu2@{2} claim=gpus] "+
		"a[gpu.example.com/p/gpu0@{} claim=gpus gpu.example.com/p/gpu1@{3} claim=gpus gpu.example.com/p/gpu2@{2} claim=gpus] b[gpu.example.com/p/gpu0@{} claim=gpus] ")
	if got.ResourceClaims[1].Devices != nil || got.ResourceClaims[0].Complete() || pod.ResourceClaims[0].Devices != nil {
		t.Errorf("claims %v, before %v", got.ResourceClaims, pod.ResourceClaims)
	}
}
