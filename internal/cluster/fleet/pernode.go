package fleet

import (
	"fmt"
	"strconv"
)

// PerNode limits how many pods of a workload are on a node. The zero value is no limit. The fleet
// counts the pods that it places, and not those that nodes have at the start.
type PerNode struct {
	// Workload is the name of the workload. It is unique in the fleet.
	Workload string
	// Most is how many of its pods a node has at most, at least 1. 0 means that there is no limit.
	Most int64
}

// appendKey appends a text that differs for pods that the fleet counts separately.
func (p PerNode) appendKey(to []byte) []byte {
	if p.Most == 0 {
		return to
	}
	to = strconv.AppendInt(append(to, '/'), p.Most, 10)
	return append(append(to, '/'), p.Workload...)
}

// Explain returns a sentence about why a node that has as many pods as the limit allows does not
// take another one, and a change of the limit with which it would.
func (p PerNode) Explain() (detail, remedy string) {
	return fmt.Sprintf("at most %d of workload %s on a node, and it has %d", p.Most, p.Workload, p.Most),
		fmt.Sprintf("allow %d of workload %s on a node", p.Most+1, p.Workload)
}

// limited returns a new class for a pod with a limit. It shares the answers of the class without
// the limit, because fleets have many workloads with equal pods.
func (f *Fleet) limited(pod Pod) *Class {
	limit := pod.PerNode
	pod.PerNode = PerNode{}
	like := f.Class(pod)
	like.followed = true
	f.refresh(like)
	c := &Class{pod: like.pod, like: like, read: len(like.log), answers: like.answers, best: like.best.clone(), on: f.onNodes(limit)}
	c.pod.PerNode = limit
	for i := range c.on {
		if c.full(i) {
			c.update(i)
		}
	}
	return c
}

// Full reports whether a node has as many pods of the pod's workload as its limit allows.
func (f *Fleet) Full(pod *Pod, node string) bool {
	i, is := f.byName[node]
	on := f.counts[pod.PerNode.Workload]
	return is && on != nil && pod.PerNode.Most > 0 && on[i] >= pod.PerNode.Most
}

// full reports whether a node has as many pods of the workload as the limit allows.
func (c *Class) full(i int) bool { return len(c.on) > 0 && c.on[i] >= c.pod.PerNode.Most }

// update replays the matches of an answer. A node that is full loses them.
func (c *Class) update(i int) {
	if c.full(i) {
		c.best.remove(i, c.answers)
	} else {
		c.best.update(i, c.answers)
	}
}

// follow takes into account which answers have changed. All classes that share them call it.
func (c *Class) follow() {
	for _, i := range c.like.log[c.read:] {
		c.update(int(i))
	}
	c.read = len(c.like.log)
}

// admit finds out whether a node would take a pod, without the cost.
func (f *Fleet) admit(c *Class, i int) {
	if c.answers[i].admits {
		return
	}
	if a := f.members[i].Admits(&c.pod); !a.Fits {
		c.set(i, answer{verdict: rejected, why: a.Why})
	} else {
		c.answers[i].admits = true
	}
}

// onNodes returns the number of pods of a workload on each member, which Place increases, or nil if
// the workload has no limit.
func (f *Fleet) onNodes(p PerNode) []int64 {
	if p.Most == 0 {
		return nil
	}
	on, ok := f.counts[p.Workload]
	if !ok {
		on = make([]int64, len(f.members))
		f.counts[p.Workload] = on
	}
	return on
}
