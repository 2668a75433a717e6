package nri_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// notices records the calls of nri.Notices. If slow is set, Open never answers in time.
type notices struct {
	mu    sync.Mutex
	lines []string
	there string
	slow  bool
}

func (n *notices) add(what string, c nri.Noticed) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf("%s %s/%s %s on %s, %s", what, c.UID, c.Container, c.Setting.CPUs, c.Setting.Mems, c.Level))
}

func (n *notices) Open(ctx context.Context, c nri.Noticed) nri.Mount {
	if c.Annotations["ask"] == "" || slices.Contains(c.Mounts, "/notice") {
		return nri.Mount{}
	}
	n.add("open "+c.Namespace+"/"+c.Pod, c)
	if n.slow {
		<-ctx.Done()
		return nri.Mount{}
	}
	return nri.Mount{Source: "/run/paddock/notices/" + c.UID, Destination: "/notice"}
}

func (n *notices) Changed(c nri.Noticed) { n.add("has", c) }

func (n *notices) Keep(pods map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.there = strings.Join(slices.Sorted(maps.Keys(pods)), " ")
}

// take returns the lines since the last call, sorted.
func (n *notices) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	slices.Sort(n.lines)
	text := strings.Join(n.lines, "\n")
	n.lines = nil
	return text
}

func noticing(t *testing.T) (*bench, *notices) {
	t.Helper()
	n := &notices{}
	return newBench(t.Context(), func(c *nri.Config) { c.Now, c.After, c.Notices = time.Now, time.After, n }), n
}

func wantLines(t *testing.T, what, got string, want ...string) {
	t.Helper()
	if text := strings.Join(want, "\n"); got != text {
		t.Errorf("%s:\n%s\nwant:\n%s", what, got, text)
	}
}

// A notice gets a container's resources once they are certain: after the update of a neighbour was
// applied, and not when it is sent. A container that asks has its notice before it runs. The
// notices of pods that have ended are not kept.
func TestNoticesFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, n := noticing(t)
		b.start()
		defer b.check(t)
		b.list(burstable("b"), guaranteed("g", 2))
		b.mustRun(t, "b")
		pass(time.Second)
		wantLines(t, "alone", n.take(), "has b/web 0-7 on {0-1}, host")
		b.between = func() { // The first of the two replies has the update of the neighbour.
			b.between = nil
			synctest.Wait()
			wantLines(t, "while the reply is on its way", n.take())
		}
		b.mustRun(t, "g")
		pass(time.Second)
		wantLines(t, "with a neighbour", n.take(), "has b/web 0-1,4-7 on {0-1}, host", "has g/app 2-3 on {0}, container", "has g/log 0-1,4-7 on {0}, host")
		pass(time.Minute)
		wantLines(t, "later", n.take())
		b.boot()
		b.connect()
		pass(time.Second)
		wantLines(t, "after a restart", n.take(), "has b/web 0-1,4-7 on {0-1}, host", "has g/app 2-3 on {0}, container", "has g/log 0-1,4-7 on {0}, host")
		if n.there != "b g" {
			t.Errorf("kept %q", n.there)
		}
		b.end("g")
		pass(time.Minute)
		wantLines(t, "alone again", n.take(), "has b/web 0-7 on {0-1}, host")
		if n.there != "b" {
			t.Errorf("kept %q", n.there)
		}
	})
}

// The mount of a container that asks is in the reply, read-only. The container's own mounts are
// passed on. A notice that does not come in time delays the reply by a quarter of the time for it.
func TestNoticeMounts(t *testing.T) {
	const mount = `bind /run/paddock/notices/g on /notice [bind ro nosuid nodev noexec rprivate]`
	for name, c := range map[string]struct {
		asks, slow bool
		own        string // a mount of the container
		want       string
		took       time.Duration
	}{
		"asks":                  {asks: true, want: mount},
		"does not ask":          {},
		"has another mount":     {asks: true, own: "/data", want: mount},
		"has a mount there":     {asks: true, own: "/notice"},
		"the disk does not end": {asks: true, slow: true, took: 250 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, n := noticing(t)
			n.slow = c.slow
			b.start()
			defer b.check(t)
			b.list(guaranteed("g", 2))
			box := sandboxOf("g")
			if c.asks {
				box.Annotations = map[string]string{"ask": "yes"}
			}
			if err := b.plugin.RunPodSandbox(b.ctx, box); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			adjust, _, err := b.plugin.CreateContainer(b.ctx, box, &api.Container{Id: "c", PodSandboxId: box.GetId(), Name: "app", Mounts: []*api.Mount{{Destination: c.own}}})
			if err != nil || time.Since(begin) != c.took {
				t.Errorf("%s: after %v, want %v: %v", name, time.Since(begin), c.took, err)
			}
			var got []string
			for _, m := range adjust.GetMounts() {
				got = append(got, fmt.Sprintf("%s %s on %s %v", m.GetType(), m.GetSource(), m.GetDestination(), m.GetOptions()))
			}
			wantLines(t, name, strings.Join(got, "\n"), c.want)
			if adjust.GetLinux().GetResources().GetCpu().GetCpus() != "2-3" {
				t.Errorf("%s: it runs on %v", name, adjust.GetLinux().GetResources().GetCpu())
			}
			if c.want != "" || c.slow {
				wantLines(t, name, n.take(), "open default/g g/app 2-3 on {0}, container")
			}
		})
	}
}
