package load

import (
	"context"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
)

// patience is how long a pod of Config.Once waits for a node before the next pods are created
// although it waits. The load ends when no pod was bound for as long. A scheduler places dozens of
// pods in this time, also on a busy machine.
const patience = 30 * time.Second

// Shuffled returns every pod of the shapes once, with the frequencies of the file as their numbers,
// as pods of one container in a random order.
func (t *Templates) Shuffled(r *rand.Rand) (pods []*Pod) {
	before := int64(0)
	for _, s := range t.shapes {
		for range s.upTo - before {
			pod := with(s.gpus, v1.PodSpec{Containers: []v1.Container{container("main", s.milli, s.bytes, true)}})
			pods = append(pods, &Pod{spec: pod, Milli: s.milli, labels: map[string]string{"app": "load"}})
		}
		before = s.upTo
	}
	r.Shuffle(len(pods), func(i, k int) { pods[i], pods[k] = pods[k], pods[i] })
	return pods
}

// once creates the pods of Config.Once that are next, as long as few that came lately wait.
func (l *Load) once(ctx context.Context, _ summary) {
	now, fresh := time.Now(), 0
	l.mu.Lock()
	for _, p := range l.pods {
		if p.Bound.IsZero() && now.Sub(p.Created) < patience {
			fresh++
		}
	}
	l.mu.Unlock()
	for ; fresh < waiting && len(l.Once) > 0; fresh++ {
		l.create(ctx, l.Once[0])
		l.Once = l.Once[1:]
	}
}

// placedOnce reports whether every pod of Config.Once is bound, or no pod was created or bound for
// a while.
func (l *Load) placedOnce(s summary) bool {
	if len(l.Once) > 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var last time.Time
	for _, p := range l.pods {
		for _, at := range []time.Time{p.Created, p.Bound} {
			if at.After(last) {
				last = at
			}
		}
	}
	return s.bound == len(l.pods) || time.Since(last) > patience
}
