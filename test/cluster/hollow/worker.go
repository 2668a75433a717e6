package hollow

import (
	"context"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Duration is the annotation of a pod that ends by itself: how long it runs, in the format of
// time.ParseDuration.
const Duration = "cluster.paddock-project.github.io/duration"

const (
	// backOff is the kubelet's wait before it tries a pod again. It is extended by up to half
	// (pkg/kubelet: backOffPeriod and workerBackOffPeriodJitterFactor in 1.36).
	backOff = 10 * time.Second
	jitter  = 0.5
)

// worker does the kubelet's work for one pod. The node's mu guards the fields up to the blank line.
// The others belong to the goroutine.
type worker struct {
	node   *Node
	uid    string
	object *v1.Pod
	tamper string // what happens to the grant
	phase  v1.PodPhase
	// removed is set if the API server does not have the pod any more. over is set if nothing of it
	// runs any more.
	removed, over bool
	ending        bool
	ended         chan struct{} // closed when ending is set

	tries    int
	made     made // by a managed host
	admitted bool // by the kubelet of an observed host
}

// pod returns the pod as the API server has it.
func (w *worker) pod() *v1.Pod {
	w.node.mu.Lock()
	defer w.node.mu.Unlock()
	return w.object
}

// shown returns the pod as the kubelet shows it. The caller must have locked mu.
func (w *worker) shown() *v1.Pod {
	if w.phase == "" || w.object.Status.Phase == w.phase {
		return w.object
	}
	changed := *w.object
	changed.Status.Phase = w.phase
	return &changed
}

// end makes the pod end. The caller must have locked mu.
func (w *worker) end() {
	if !w.ending {
		w.ending = true
		close(w.ended)
	}
}

func (w *worker) set(p v1.PodPhase) {
	w.node.mu.Lock()
	defer w.node.mu.Unlock()
	w.phase = p
}

// run starts the pod, trying again until it succeeds, keeps it running, and ends it.
func (w *worker) run(ctx context.Context) {
	host := w.node.host
	at := waiting
	for at == waiting {
		w.tries++
		at = host.start(ctx, w)
		if at == waiting && !w.wait(ctx, time.Duration(float64(backOff)*(1+jitter*rand.Float64()))) {
			break
		}
	}
	if ctx.Err() != nil {
		return
	}
	final := v1.PodFailed
	switch {
	case w.isEnding():
	case at == rejected: // It stays Failed until its controller deletes it.
		w.set(v1.PodFailed)
		select {
		case <-w.ended:
		case <-ctx.Done():
			return
		}
	default:
		w.set(v1.PodRunning)
		w.node.fleet.report(ctx, w.pod(), v1.PodRunning)
		if d, err := time.ParseDuration(w.pod().Annotations[Duration]); err == nil {
			if w.wait(ctx, d) {
				final = v1.PodSucceeded
			}
		} else {
			select {
			case <-w.ended:
			case <-ctx.Done():
				return
			}
		}
	}
	// The kubelet shows that a pod has ended when nothing of it runs any more.
	host.stop(ctx, w)
	if ctx.Err() != nil {
		return
	}
	w.set(final)
	if final == v1.PodSucceeded {
		w.node.fleet.report(ctx, w.pod(), final)
		select {
		case <-w.ended:
		case <-ctx.Done():
			return
		}
	}
	w.finish(ctx)
}

// finish removes the pod from the API, as the kubelet does when a deleted pod has ended.
func (w *worker) finish(ctx context.Context) {
	w.node.mu.Lock()
	w.over = true
	removed := w.removed
	if removed {
		delete(w.node.pods, w.uid)
	}
	w.node.mu.Unlock()
	if !removed {
		w.node.fleet.remove(ctx, w.pod())
	}
	w.node.host.gone(w)
}

func (w *worker) isEnding() bool {
	w.node.mu.Lock()
	defer w.node.mu.Unlock()
	return w.ending
}

// wait reports whether that time passed before the pod ended.
func (w *worker) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.ended:
	case <-ctx.Done():
	}
	return false
}
