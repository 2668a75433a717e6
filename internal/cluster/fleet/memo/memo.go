// Package memo caches the answers of nodes.
//
// A scheduler asks thousands of nodes the same question for each pod, and only one node changes
// from one pod to the next. A Node is a view of internal/cluster/fleet, which never changes, with
// the answers that it gave. A placement creates another Node without answers. So an answer is never
// stale, and nothing has to be invalidated.
//
// Pods that differ only in their names ask the same Question, and nodes that have the same free
// give it the same answer: see shapes. Any number of goroutines may use a Node and Questions.
package memo

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Question is a pod without its names: everything on which answers depend. It never changes.
type Question struct {
	pod    fleet.Pod
	key    string
	number int
	shapes *shapes
}

// Number is the number of questions that were known before this one. Those who keep the answers to
// a few questions can use it to choose a place.
func (q *Question) Number() int { return q.number }

// Pod returns the pod without its names.
func (q *Question) Pod() *fleet.Pod { return &q.pod }

// Key returns a text that is the same for two questions exactly if every node gives them the same
// answer.
func (q *Question) Key() string { return q.key }

// maxQuestions is the number of questions that are kept. A cluster has tens of them. Thousands come
// from pods that each request something else, whose answers are not needed again.
const maxQuestions = 4096

// Questions finds the question of a pod. The zero value is empty.
type Questions struct {
	mu     sync.Mutex
	byKey  map[string]*Question
	shapes shapes
}

// Of returns the question of a pod.
func (q *Questions) Of(pod fleet.Pod) *Question {
	key := pod.Key()
	q.mu.Lock()
	defer q.mu.Unlock()
	if known, ok := q.byKey[key]; ok {
		return known
	}
	if q.byKey == nil || len(q.byKey) >= maxQuestions {
		q.byKey = map[string]*Question{}
	}
	pod.Pod = request.Pod{Ask: pod.Ask}
	known := &Question{pod: pod, key: key, number: len(q.byKey), shapes: &q.shapes}
	q.byKey[key] = known
	return known
}

// Node is a view of a node with its answers.
type Node struct {
	*fleet.View
	newest atomic.Pointer[answered]
	costs  atomic.Pointer[costed]
	shape  atomic.Pointer[shape] // nil as long as nothing has asked for it
}

// A list of answers. The newest one is requested most often and takes one read of memory that is
// not in a CPU cache.
type (
	answered = entry[*Question, fleet.Answer]
	costed   = entry[*Question, fleet.Cost]
)

// entry is an entry of a list, which never changes.
type entry[K, V any] struct {
	key    K
	older  *entry[K, V]
	number int // number of entries from here on
	value  V
}

// maxAnswers is the number of answers, and of costs, that a node keeps. Most nodes do not reach it,
// because a placement creates a new one.
const maxAnswers = 32

// add adds an entry in front of the newest one. If the list is full, it starts a new one. If two
// entries arrive at the same time, one is lost and will be computed again.
func add[K, V any](list *atomic.Pointer[entry[K, V]], key K, value V) *entry[K, V] {
	newest := list.Load()
	next := &entry[K, V]{key: key, number: 1, value: value}
	if newest != nil && newest.number < maxAnswers {
		next.older, next.number = newest, newest.number+1
	}
	list.CompareAndSwap(newest, next)
	return next
}

// find returns the entry of a question in a list, or nil.
func find[V any](e *entry[*Question, V], q *Question) *entry[*Question, V] {
	for e != nil && e.key != q {
		e = e.older
	}
	return e
}

// Of returns a node without answers.
func Of(v *fleet.View) *Node { return &Node{View: v} }

// Next returns the node in another state, on the same machine and under the same policy.
func (n *Node) Next(s *node.State, used fleet.Amounts) *Node { return Of(n.View.Next(s, used)) }

// With returns the node with other amounts. It keeps the answers, which do not depend on amounts.
// The costs do.
func (n *Node) With(allocatable, used fleet.Amounts) *Node {
	next := Of(n.View.With(allocatable, used))
	next.newest.Store(n.newest.Load())
	next.shape.Store(n.shape.Load())
	return next
}

// Place is View.Place for a Node.
func (n *Node) Place(pod fleet.Pod) (*Node, *node.Plan, error) {
	next, plan, err := n.View.Place(pod)
	if next == n.View {
		return n, plan, err
	}
	return Of(next), plan, err
}

// Answer is View.AskAfterMoves, computed once for each question, and once for nodes that have the
// same free. hit reports whether the answer was cached. The caller must not change the answer.
func (n *Node) Answer(q *Question) (a *fleet.Answer, hit bool) {
	if k := find(n.newest.Load(), q); k != nil {
		return &k.value, true
	}
	s := n.like(q)
	if k := find(s.newest.Load(), q); k != nil {
		return n.keep(q, k.value), true
	}
	answer := n.AskAfterMoves(&q.pod)
	if s.common.Load() {
		add(&s.newest, q, answer)
	}
	return n.keep(q, answer), false
}

func (n *Node) keep(q *Question, a fleet.Answer) *fleet.Answer {
	return &add(&n.newest, q, a).value
}

// Cost returns the cost of a pod that fits, computed once for each question, and once for nodes
// that have the same free and the same amounts. hit reports whether it was cached. A pod that does
// not fit without moves has costAfterMoves.
func (n *Node) Cost(q *Question) (cost fleet.Cost, hit bool) {
	if k := find(n.costs.Load(), q); k != nil {
		return k.value, true
	}
	s := n.like(q)
	if cost, hit = s.cost(q, n.View); !hit {
		a := n.Ask(&q.pod)
		if cost = a.Cost; !a.Fits {
			cost = costAfterMoves()
		}
		if s.common.Load() {
			add(&s.costs, basis{q, n.Basis()}, cost)
		}
	}
	add(&n.costs, q, cost)
	return cost, hit
}

// costAfterMoves returns the cost of a pod that fits only after moves. They cost more than every
// placement without moves, and the placement is not planned.
func costAfterMoves() fleet.Cost { return fleet.Cost{Stranded: math.MaxInt64} }

// Learn computes the answer to a question and the cost in one plan, for a node that will be asked
// both. It does not look for moves.
func (n *Node) Learn(q *Question) {
	a := n.Ask(&q.pod)
	if a.Fits {
		add(&n.costs, q, a.Cost)
	}
	if a.Fits || n.State.Policy().Moves.Pods == 0 {
		a.Cost = fleet.Cost{}
		n.keep(q, a)
	}
}
