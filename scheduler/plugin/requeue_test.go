package plugin

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkRequeue measures the time from the release that makes room for a waiting pod until the
// pod is bound. It uses the scheduler's default backoff of 1 s to 10 s and an idle queue. Ten pods
// wait, and room is made for one at a time.
func BenchmarkRequeue(b *testing.B) {
	w := &world{t: b, backoff: 1, longest: 10}
	w.start()
	w.node("n", map[string]string{"numa": "1"})
	next := func(name string) { w.pod(name, map[string]string{"cpus": "7"}) }
	next("first")
	if got := w.outcome("first"); got != "first: bound to n, CPUs 1-7" {
		b.Fatal(got)
	}
	const waiting = 10
	holder, queue := "first", []string{}
	for i := range waiting {
		queue = append(queue, fmt.Sprint("w", i))
		next(queue[i])
		w.outcome(queue[i])
	}
	var took []time.Duration
	attempts := 0
	for i := range 100 {
		begin := time.Now()
		w.delete(holder)
		holder = w.first(queue)
		took = append(took, time.Since(begin))
		for _, name := range queue {
			for len(w.of(name)) > 0 {
				<-w.of(name)
				attempts++
			}
		}
		queue = slices.DeleteFunc(queue, func(name string) bool { return name == holder })
		name := fmt.Sprint("x", i)
		queue = append(queue, name)
		next(name)
		w.outcome(name)
	}
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "ms-p95")
	b.ReportMetric(float64(attempts)/float64(len(took)), "failed-attempts/release")
}

// first returns the first of these pods that is bound.
func (w *world) first(pods []string) string {
	deadline := time.After(5 * time.Minute)
	for {
		for _, name := range pods {
			if pod, err := w.plugin.pods.Pods("default").Get(name); err == nil && pod.Spec.NodeName != "" {
				return name
			}
		}
		select {
		case <-deadline:
			w.t.Fatalf("none of %v is bound within 30 s", pods)
		case <-time.After(time.Millisecond):
		}
	}
}
