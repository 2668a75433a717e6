package agent

import (
	"log/slog"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/engine"
	"github.com/paddock-project/paddock/internal/podsource/manifests"
	"github.com/paddock-project/paddock/internal/podspec"
)

// runtime is what the keeper needs of a runtime that it drives itself.
type runtime interface {
	StartPod(uid string, containers []request.Container) error
	StopPod(uid string)
	Observe() []converge.Observed
	Update(updates []converge.Update) error
}

// keeper makes the node hold the pods that are asked for. It is one goroutine's.
type keeper struct {
	engine  *engine.Engine
	runtime runtime
	gates   podspec.Gates
	log     *slog.Logger

	// asked are the pods that should run, in their order; running are those whose containers
	// were started; refused remembers for which generation a pod was refused, so that it is not
	// planned again before something changed.
	asked   []request.Pod
	running map[string]bool
	refused map[string]uint64
	// broken are the problems that were told already.
	broken map[string]bool
}

func newKeeper(e *engine.Engine, r runtime, gates podspec.Gates, log *slog.Logger) *keeper {
	return &keeper{engine: e, runtime: r, gates: gates, log: log, running: map[string]bool{}, refused: map[string]uint64{}, broken: map[string]bool{}}
}

// follow takes a new set of pods: who left is released first, so that who came finds room.
func (k *keeper) follow(set manifests.Set) {
	k.tell(set)
	k.asked = k.asked[:0]
	wanted := map[string]bool{}
	for _, source := range set.Pods {
		pod, err := podspec.Request(source.Pod, k.gates)
		if err != nil {
			k.log.Error("pod not usable", "from", source.Origin.String(), "error", err)
			continue
		}
		k.asked = append(k.asked, pod)
		wanted[pod.UID] = true
	}
	if set.Partial {
		k.log.Warn("some manifests could not be read yet: no pod is released")
	} else {
		k.release(wanted)
	}
	k.admit()
}

// tell says what is wrong with the manifests, once each.
func (k *keeper) tell(set manifests.Set) {
	broken := map[string]bool{}
	for _, p := range set.Broken {
		line := p.Err.Error()
		if broken[line] = true; !k.broken[line] {
			k.log.Error("manifest not usable", "file", p.File, "error", line, "pods_kept", p.Kept)
		}
	}
	k.broken = broken
}

// release lets go of every pod that is not wanted.
func (k *keeper) release(wanted map[string]bool) {
	for _, g := range k.engine.State().Grants() {
		uid := g.Pod.UID
		if wanted[uid] {
			continue
		}
		k.runtime.StopPod(uid)
		delete(k.running, uid)
		if err := k.engine.Release(uid); err != nil {
			k.log.Error("pod is gone and holds its CPUs until the state can be written", "pod", g.Pod.ID(), "uid", uid, "error", err)
			continue
		}
		k.log.Info("pod released", "pod", g.Pod.ID(), "uid", uid)
	}
	for uid := range k.refused {
		if !wanted[uid] {
			delete(k.refused, uid)
		}
	}
}

// admit plans and starts what does not run yet.
func (k *keeper) admit() {
	for _, pod := range k.asked {
		now := k.engine.State().Generation()
		if at, refused := k.refused[pod.UID]; k.running[pod.UID] || refused && at == now {
			continue
		}
		plan, err := k.engine.Admit(pod)
		if err != nil {
			continue // The engine said so; the next tick tries again.
		}
		if plan.Refusal != nil {
			k.refused[pod.UID] = now
			continue
		}
		delete(k.refused, pod.UID)
		k.start(plan.Grant)
	}
	k.converge()
}

// start makes room, then creates the pod's containers.
func (k *keeper) start(g *node.Grant) {
	k.converge()
	if err := k.runtime.StartPod(g.Pod.UID, g.Pod.Containers); err != nil {
		k.log.Error("pod not started", "pod", g.Pod.ID(), "uid", g.Pod.UID, "error", err)
		return
	}
	k.running[g.Pod.UID] = true
}

// converge makes what runs equal to what should.
func (k *keeper) converge() {
	report := k.engine.Converge(k.runtime.Observe())
	for _, o := range report.Stranded {
		k.log.Error("the node's shared pool is empty: a container stays where it is", "uid", o.Pod, "container", o.Container, "cpus", o.CPUs.String())
	}
	if len(report.Updates) == 0 {
		return
	}
	for _, u := range report.Updates {
		k.log.Debug("container updated", "uid", u.Pod, "container", u.Container, "from", u.Before.CPUs.String(), "to", u.After.CPUs.String())
	}
	if err := k.runtime.Update(report.Updates); err != nil {
		k.log.Error("containers not updated; the next tick tries again", "error", err)
	}
}

// tick retries what did not work, and repairs what drifted.
func (k *keeper) tick() {
	if err := k.engine.Tick(); err != nil {
		k.log.Warn("state still not written", "error", err)
	}
	k.admit()
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
