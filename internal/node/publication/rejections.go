package publication

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
)

const (
	// maxCounts limits the combinations of class and cause that are counted separately, because
	// requests are written by users.
	maxCounts = 64
	// otherClass is the class of rejections beyond maxCounts.
	otherClass = "other"
	// maxLast is the number of rejections that are shown.
	maxLast = 10
	// maxMessage limits the message of one rejection, in bytes. The full message, which can be long
	// with many NUMA nodes, is in the pod's event.
	maxMessage = 512
)

// rejections counts the decisions of an engine and which of them are rejections. It is safe for
// concurrent use.
type rejections struct {
	since time.Time // when it began to count

	mu      sync.Mutex
	version uint64 // grows with every counted decision
	decided int64
	total   int64
	counts  map[[2]string]int64 // by class and cause
	last    []v1alpha1.Rejection
}

// count counts a decision. It reports whether it is a rejection.
func (r *rejections) count(d engine.Decision, now time.Time) bool {
	outside, is := errors.AsType[*engine.OutsideError](d.Err)
	if !is && d.Err != nil {
		return false // The plan is not durable: the pod comes again.
	}
	if !is && d.Plan.Rejection == nil {
		if !d.Plan.Known {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.decided++
			r.version++
		}
		return false
	}
	pod, cause, message := &d.Plan.Pod, "requests", outside.Error
	if !is {
		cause, message = d.Plan.Trace.Cause.String(), d.Plan.Rejection.Error
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	class := classOf(pod)
	if !is && (d.Plan.Rejection.Reason == rejection.Infeasible || d.Plan.Rejection.Reason == rejection.Deferred) {
		class = "resize to " + class
	}
	if r.counts == nil {
		r.counts = map[[2]string]int64{}
	}
	key := [2]string{class, cause}
	if _, there := r.counts[key]; !there && len(r.counts) >= maxCounts {
		key[0] = otherClass
	}
	r.counts[key]++
	r.decided++
	r.total++
	r.version++
	r.last = slices.Insert(r.last, 0, v1alpha1.Rejection{
		Time: metav1.NewTime(now).Rfc3339Copy(), Pod: pod.ID(), UID: pod.UID, Class: class, Cause: cause, Message: short(message()),
	})
	r.last = r.last[:min(len(r.last), maxLast)]
	return true
}

// short returns a text of at most maxMessage bytes, and an ellipsis if it was longer.
func short(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "…"
}

func (r *rejections) show() (v1alpha1.Rejections, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := metav1.NewTime(r.since).Rfc3339Copy()
	out := v1alpha1.Rejections{Since: &since, Decided: r.decided, Total: r.total, Last: slices.Clone(r.last)}
	for key, n := range r.counts {
		out.Counts = append(out.Counts, v1alpha1.RejectionCount{Class: key[0], Cause: key[1], Count: n})
	}
	slices.SortFunc(out.Counts, func(a, b v1alpha1.RejectionCount) int {
		return strings.Compare(a.Class+"\x00"+a.Cause, b.Class+"\x00"+b.Cause)
	})
	return out, r.version
}

// classOf describes the exclusive resources that a pod requests: its budget, or the sum of its
// containers. Init containers that run to completion count only where they request more than the
// other containers together.
func classOf(pod *request.Pod) string {
	cpus, amounts := int64(pod.BudgetCPUs), pod.BudgetMemory
	if pod.Kind != request.PodLevel {
		cpus, amounts = sumOf(pod)
	}
	parts := []string{fmt.Sprintf("%d CPUs", cpus)}
	if cpus == 1 {
		parts[0] = "1 CPU"
	}
	for _, a := range amounts {
		if request.IsMemory(a.Resource) {
			parts = append(parts, request.Bytes(a.Value)+" of "+a.Resource)
		} else {
			parts = append(parts, fmt.Sprintf("%d %s", a.Value, a.Resource))
		}
	}
	if asks := cachesOf(pod); asks != "" {
		parts = append(parts, asks)
	}
	return strings.Join(parts, ", ")
}

// cachesOf describes what a pod requests of the caches.
func cachesOf(pod *request.Pod) string {
	var asks []request.Cache
	if !pod.PoolCache.IsZero() {
		asks = append(asks, pod.PoolCache)
	}
	for i := range pod.Containers {
		if c := pod.Containers[i].Cache; !c.IsZero() && !slices.Contains(asks, c) {
			asks = append(asks, c)
		}
	}
	switch {
	case pod.CacheUnclear != "":
		return "an unclear part of the caches"
	case len(asks) == 0:
		return ""
	case len(asks) > 1:
		return "several parts of the caches"
	}
	return "cache " + asks[0].String()
}

func sumOf(pod *request.Pod) (cpus int64, amounts request.Amounts) {
	var initCPUs int64
	inits := request.Amounts{}
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if c.Type != request.Init {
			cpus += int64(c.CPUs)
			amounts = amounts.Plus(c.Memory).Plus(c.Devices)
			continue
		}
		initCPUs = max(initCPUs, int64(c.CPUs))
		for _, a := range slices.Concat(c.Memory, c.Devices) {
			before, _ := inits.Get(a.Resource)
			inits = inits.With(a.Resource, max(before, a.Value))
		}
	}
	for _, a := range inits {
		if n, _ := amounts.Get(a.Resource); n < a.Value {
			amounts = amounts.With(a.Resource, a.Value)
		}
	}
	return max(cpus, initCPUs), amounts
}
