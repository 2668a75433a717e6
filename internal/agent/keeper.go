package agent

import (
	"context"
	"errors"
	"log/slog"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/engine"
	"github.com/paddock-project/paddock/internal/podsource/manifests"
	"github.com/paddock-project/paddock/internal/podspec"
	"github.com/paddock-project/paddock/internal/telemetry"
)

// runtime is what the keeper needs of a runtime that it drives itself.
type runtime interface {
	StartPod(uid string, containers []request.Container) error
	StopPod(uid string)
	Observe() []converge.Observed
	Update(updates []converge.Update) error
}

// keeper makes the node hold the pods that are asked for. It is one goroutine's. When the context
// ends it stops between two pods, as each of them may cost a write.
type keeper struct {
	engine  *engine.Engine
	runtime runtime
	gates   podspec.Gates
	log     *slog.Logger
	// flows numbers what is logged: one admission with its start, one release, one round of repairs.
	flows *telemetry.Operations

	// asked are the pods that should run, in their order; running are those whose containers
	// were started; refused remembers for which generation a pod was refused, so that it is not
	// planned again before something changed.
	asked   []request.Pod
	running map[string]bool
	refused map[string]uint64
	// broken are the problems that were told already.
	broken map[string]bool
}

func newKeeper(e *engine.Engine, r runtime, gates podspec.Gates, flows *telemetry.Operations, log *slog.Logger) *keeper {
	return &keeper{
		engine: e, runtime: r, gates: gates, log: log, flows: flows,
		running: map[string]bool{}, refused: map[string]uint64{}, broken: map[string]bool{},
	}
}

// follow takes a new set of pods: who left is released first, so that who came finds room.
func (k *keeper) follow(ctx context.Context, set manifests.Set) {
	flow := k.flows.WithOperation(ctx)
	k.tell(flow, set)
	k.asked = k.asked[:0]
	wanted := map[string]bool{}
	for _, source := range set.Pods {
		pod, err := podspec.Request(source.Pod, k.gates)
		if err != nil {
			k.log.ErrorContext(flow, "pod not usable", "from", source.Origin.String(), "error", err)
			continue
		}
		k.asked = append(k.asked, pod)
		wanted[pod.UID] = true
	}
	if set.Partial {
		k.log.WarnContext(flow, "some manifests could not be read yet: no pod is released")
	} else {
		k.release(ctx, wanted)
	}
	k.admit(ctx)
}

// tell says what is wrong with the manifests, once each.
func (k *keeper) tell(ctx context.Context, set manifests.Set) {
	broken := map[string]bool{}
	for _, p := range set.Broken {
		line := p.Err.Error()
		if broken[line] = true; !k.broken[line] {
			k.log.ErrorContext(ctx, "manifest not usable", "file", p.File, "error", line, "pods_kept", p.Kept)
		}
	}
	k.broken = broken
}

// release lets go of every pod that is not wanted.
func (k *keeper) release(ctx context.Context, wanted map[string]bool) {
	for _, g := range k.engine.State().Grants() {
		uid := g.Pod.UID
		if ctx.Err() != nil {
			return
		}
		if wanted[uid] {
			continue
		}
		k.runtime.StopPod(uid)
		delete(k.running, uid)
		flow := k.flows.WithOperation(ctx)
		if err := k.engine.Release(flow, uid); err != nil {
			k.log.ErrorContext(flow, "pod is gone and holds its CPUs until the state can be written", "pod", g.Pod.ID(), "uid", uid, "error", err)
			continue
		}
		k.log.InfoContext(flow, "pod released", "pod", g.Pod.ID(), "uid", uid)
	}
	for uid := range k.refused {
		if !wanted[uid] {
			delete(k.refused, uid)
		}
	}
}

// admit plans and starts what does not run yet. While the state cannot be written only pods that
// have a grant already are tried, so that a full disk is not asked once for each of the others.
func (k *keeper) admit(ctx context.Context) {
	stuck := false
	for _, pod := range k.asked {
		if ctx.Err() != nil {
			return
		}
		s := k.engine.State()
		_, holds := s.Grant(pod.UID)
		at, refused := k.refused[pod.UID]
		if k.running[pod.UID] || refused && at == s.Generation() || stuck && !holds {
			continue
		}
		flow := k.flows.WithOperation(ctx)
		plan, err := k.engine.Admit(flow, pod)
		if err != nil { // The engine said so; the next tick tries again.
			stuck = stuck || errors.Is(err, engine.ErrNotWritten)
			continue
		}
		if plan.Refusal != nil {
			k.refused[pod.UID] = s.Generation()
			continue
		}
		delete(k.refused, pod.UID)
		k.start(flow, plan.Grant)
	}
	k.converge(k.flows.WithOperation(ctx))
}

// start makes room, then creates the pod's containers.
func (k *keeper) start(ctx context.Context, g *node.Grant) {
	k.converge(ctx)
	if err := k.runtime.StartPod(g.Pod.UID, g.Pod.Containers); err != nil {
		k.log.ErrorContext(ctx, "pod not started", "pod", g.Pod.ID(), "uid", g.Pod.UID, "error", err)
		return
	}
	k.running[g.Pod.UID] = true
}

// converge makes what runs equal to what should.
func (k *keeper) converge(ctx context.Context) {
	report := k.engine.Converge(k.runtime.Observe())
	for _, o := range report.Stranded {
		k.log.ErrorContext(ctx, "the node's shared pool is empty: a container stays where it is", "uid", o.Pod, "container", o.Container, "cpus", o.CPUs.String())
	}
	if len(report.Updates) == 0 {
		return
	}
	for _, u := range report.Updates {
		k.log.DebugContext(ctx, "container updated", "uid", u.Pod, "container", u.Container, "from", u.Before.CPUs.String(), "to", u.After.CPUs.String())
	}
	if err := k.runtime.Update(report.Updates); err != nil {
		k.log.ErrorContext(ctx, "containers not updated; the next tick tries again", "error", err)
	}
}

// tick retries what did not work, and repairs what drifted.
func (k *keeper) tick(ctx context.Context) {
	flow := k.flows.WithOperation(ctx)
	if err := k.engine.Tick(flow); err != nil {
		k.log.WarnContext(flow, "state still not written", "error", err)
	}
	k.admit(ctx)
}

// creating answers the runtime right before it creates a container.
func creating(e *engine.Engine) func(uid, container string) (converge.Setting, error) {
	return func(uid, container string) (converge.Setting, error) {
		g, known := e.State().Grant(uid)
		if !known {
			return converge.Setting{}, errNotAdmitted
		}
		_, i := g.Pod.Container(container)
		if i < 0 {
			return converge.Setting{}, errNoContainer
		}
		setting := converge.Desired(e.State(), g, i)
		if setting.CPUs.IsEmpty() && e.State().Policy().StaticCPU {
			return converge.Setting{}, errEmptyPool
		}
		e.ContainerCreated(uid, container)
		return setting, nil
	}
}
