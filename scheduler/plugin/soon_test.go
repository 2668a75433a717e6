package plugin

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TestPostponed checks that a pod preempts others at least every 10 seconds, also where some node
// always has room that is not published: pods come and go there without a pause.
func TestPostponed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const within = 10 * time.Second
		var w waiting
		pod := &v1.Pod{}
		pod.UID = "big"
		if wait, _ := w.postpone(pod.UID, time.Now(), time.Now().Add(within), within); wait {
			t.Fatal("a pod waits that no node of Paddock has rejected")
		}
		w.add(waitingPod{pod: pod})
		last := time.Now()
		preemptions := 0
		for range 600 {
			now := time.Now()
			wait, again := w.postpone(pod.UID, now, now.Add(within), within)
			if !wait {
				preemptions++
				last = now
			}
			if now.Sub(last) > within {
				t.Fatalf("the pod waits for %s", now.Sub(last))
			}
			if wait && again.After(last.Add(within+100*time.Millisecond)) {
				t.Fatalf("the pod is tried again %s after its last preemption", again.Sub(last))
			}
			w.add(waitingPod{pod: pod}) // As the next cycle does.
			time.Sleep(100 * time.Millisecond)
		}
		if preemptions == 0 || preemptions > 6 {
			t.Errorf("%d preemptions in a minute", preemptions)
		}
	})
}

// TestRetriedOnce checks that only the last time that postpone returned wakes a pod.
func TestRetriedOnce(t *testing.T) {
	const within = 10 * time.Second
	var w waiting
	pod := &v1.Pod{}
	pod.UID = "big"
	w.add(waitingPod{pod: pod})
	start := time.Now()
	_, first := w.postpone(pod.UID, start, start.Add(5*time.Second), within)
	_, second := w.postpone(pod.UID, start.Add(time.Second), start.Add(2*time.Second), within)
	_, same := w.postpone(pod.UID, start.Add(time.Second), start.Add(2*time.Second), within)
	switch {
	case !first.Equal(start.Add(5*time.Second)) || !second.Equal(start.Add(2*time.Second)):
		t.Errorf("the pod is tried at %s and %s", first.Sub(start), second.Sub(start))
	case !same.IsZero():
		t.Error("a second timer for the same time")
	case w.due(pod.UID, first) || !w.due(pod.UID, second) || w.due(pod.UID, second):
		t.Error("the pod is not woken exactly once")
	}
	w.postpone(pod.UID, start, start.Add(5*time.Second), within)
	if w.postpone(pod.UID, start, time.Time{}, within); w.due(pod.UID, start.Add(5*time.Second)) {
		t.Error("a pod is woken that waits for nothing")
	}
}
