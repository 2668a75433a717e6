package nri_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// TestCreatedWhileAway: a container is created while the connection is renewed, and the runtime
// does not show it when it synchronises, as CRI-O does. The first request that names the container
// makes it known, and it gets its CPUs: at once or, if updates are sent only in replies, with the
// next reply or connection.
func TestCreatedWhileAway(t *testing.T) {
	update := func(c *creation) error {
		updates, err := c.plugin.UpdateContainer(c.ctx, c.box, c.c, numbers(512, 0, 0, 0))
		c.reply(updates)
		return err
	}
	for name, first := range map[string]func(*creation) error{
		"StartContainer":      func(c *creation) error { return c.start() },
		"PostStartContainer":  func(c *creation) error { return c.plugin.PostStartContainer(c.ctx, c.box, c.c) },
		"PostCreateContainer": func(c *creation) error { return c.report() },
		"UpdateContainer":     update,
	} {
		for _, old := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " of an old runtime"}[old], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := live(t)
					b.old = old
					b.start()
					b.list(guaranteed("x", 2), guaranteed("y", 2))
					b.mustRun(t, "x")
					box, err := b.sandbox("y")
					b.broke(err)
					b.disconnect()
					c := b.container(box, "app")
					b.connect() // The container is in creation and not shown.
					b.mu.Lock()
					b.runs[c.c.GetId()] = &c.running
					b.mu.Unlock()
					b.broke(first(c))
					if name == "PostCreateContainer" {
						b.broke(c.start())
					}
					if old && name != "UpdateContainer" {
						b.reconnect()
					}
					pass(5 * time.Second)
					b.want(t, "a little later", map[string]string{"x/app": "2-3 on {0} no quota", "x/log": "0-1,6-7 on {0}", "y/app": "4-5 on {1} no quota"})
					if said := b.said.String(); !strings.Contains(said, "a container was created without Paddock") || !strings.Contains(said, "pod=default/y") {
						t.Errorf("the log does not name it: %s", said)
					}
					b.check(t)
				})
			})
		}
	}
}

// TestStartAfterTheEnd: a request after the end of its container does not bring the container back.
func TestStartAfterTheEnd(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	b.list(guaranteed("x", 2), guaranteed("y", 4))
	b.mustRun(t, "x")
	id := b.of("x")[0]
	c := b.runs[id].c
	b.end("x")
	b.broke(b.plugin.PostStartContainer(b.ctx, sandboxOf("x"), c))
	if phase := b.plugin.Phase(id); phase != "none" {
		t.Errorf("a container that has ended is %s", phase)
	}
	b.plugin.Reconcile(b.ctx)
	b.mustRun(t, "y")
	b.check(t)
}

// TestKnownWhileInCreation: CRI-O synchronises while it applies the reply to a creation, and does
// not show the container. The CPUs in the reply still count as the container's.
func TestKnownWhileInCreation(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	b.list(burstable("y"), guaranteed("x", 2))
	box, err := b.sandbox("y")
	b.broke(err)
	c := b.container(box, "web")
	b.broke(c.ask())
	b.disconnect()
	b.runtime = "cri-o"
	b.connect()
	if phase := b.plugin.Phase(c.c.GetId()); phase != "creating" {
		t.Errorf("a container in creation is %s", phase)
	}
	if err := b.run("x"); err == nil || !strings.Contains(err.Error(), "container web of pod default/y") {
		t.Errorf("created on CPUs that a container in creation has: %v", err)
	}
	b.check(t)
}

// TestStartedWhileAway: containers that were created while the agent was away are reported, even if
// their pod was admitted before.
func TestStartedWhileAway(t *testing.T) {
	b := newBench(t.Context())
	b.start()
	b.list(guaranteed("x", 2))
	box, err := b.sandbox("x")
	b.broke(err)
	b.disconnect()
	c := b.container(box, "app")
	c.c.State = api.ContainerState_CONTAINER_RUNNING
	b.runs[c.c.GetId()] = &c.running
	b.clock.pass(18 * time.Second)
	b.connect()
	if said := b.said.String(); !strings.Contains(said, "pods_started_without_paddock=[default/x]") {
		t.Errorf("it is not reported: %s", said)
	}
	b.check(t)
}
