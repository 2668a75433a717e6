package plugin

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestRejectedByOthers has pods for which this plugin finds room and which another plugin rejects
// everywhere. It checks that they are tried after changes, and not repeatedly without one.
func TestRejectedByOthers(t *testing.T) {
	t.Parallel()
	const nodes, pods, rounds = 20, 10, 3
	w := &world{t: t, backoff: 1, longest: 10}
	w.start()
	w.node("full", map[string]string{"numa": "1"})
	w.pod("holder", map[string]string{"cpus": "7"})
	if got := w.outcome("holder"); got != "holder: bound to full, CPUs 1-7" {
		t.Fatal(got)
	}
	for i := range nodes {
		w.node(fmt.Sprint("n", i), map[string]string{"numa": "1"})
	}
	for i := range pods {
		w.pod(fmt.Sprint("w", i), map[string]string{"cpus": "7", "only": "full"})
		w.outcome(fmt.Sprint("w", i))
	}
	for range rounds {
		for i := range nodes {
			w.publish(fmt.Sprint("n", i), nil)
		}
	}
	attempts := func() (all int) {
		for i := range pods {
			for name := fmt.Sprint("w", i); len(w.of(name)) > 0; all++ {
				<-w.of(name)
			}
		}
		return all
	}
	time.Sleep((activations + 1) * promiseTime)
	// Each change of a node makes room for one of the pods. A pod may be activated once more when
	// its promise ends.
	if all := attempts(); all > 2*rounds*nodes {
		t.Errorf("%d attempts for %d changes", all, rounds*nodes)
	}
	time.Sleep(promiseTime + snapshotAge)
	if all := attempts(); all > 0 {
		t.Errorf("%d attempts, and no node had changed", all)
	}
	begin := time.Now()
	w.delete("holder")
	for {
		bound := 0
		for i := range pods {
			if pod, err := w.plugin.pods.Pods("default").Get(fmt.Sprint("w", i)); err == nil && pod.Spec.NodeName == "full" {
				bound++
			}
		}
		if bound == 1 {
			break
		}
		if time.Since(begin) > promiseTime {
			t.Fatalf("%d pods are bound %s after there was room for one", bound, time.Since(begin))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestManyNodesManyPods has pods that wait at the start, and nodes whose objects arrive later. It
// checks that the objects of many nodes do not wake every pod once per node: for a thousand nodes
// and sixty pods that would be sixty thousand times.
func TestManyNodesManyPods(t *testing.T) {
	t.Parallel()
	const nodes, pods = 300, 60
	w := &world{t: t, backoff: 1, longest: 10}
	w.start()
	w.plugin.synced.Store(false)
	for i := range nodes {
		w.object(fmt.Sprint("n", i), map[string]string{"numa": "1"})
	}
	for i := range pods {
		w.pod(fmt.Sprint("w", i), map[string]string{"cpus": "7"})
		if got := w.outcome(fmt.Sprint("w", i)); !strings.Contains(got, "not read yet") {
			t.Fatal(got)
		}
	}
	for i := range nodes {
		w.manage(fmt.Sprint("n", i), map[string]string{"numa": "1"})
	}
	w.plugin.promises.mu.Lock()
	if n := len(w.plugin.promises.queue); n > 0 {
		t.Errorf("%d promises of rooms that no pod can have yet", n)
	}
	w.plugin.promises.mu.Unlock()
	begin := time.Now()
	w.sink.Synced()
	for i := range nodes {
		w.publish(fmt.Sprint("n", i), nil)
	}
	for i := range pods {
		for name := fmt.Sprint("w", i); !strings.Contains(w.outcome(name), "bound"); {
			continue
		}
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("%d pods were bound after %s", pods, took)
	}
}
