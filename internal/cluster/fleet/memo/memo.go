// Package memo caches the answers of nodes.
//
// A scheduler asks thousands of nodes the same question for each pod, and only one node changes
// from one pod to the next. A Node is a view of internal/cluster/fleet, which never changes, with
// the answers that it gave. A placement creates another Node without answers. So an answer is never
// stale, and nothing has to be invalidated.
//
// Pods that differ only in their names ask the same Question. Any number of goroutines may use a
// Node and Questions.
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
	pod fleet.Pod
	key string
}

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
	mu    sync.Mutex
	byKey map[string]*Question
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
	known := &Question{pod: pod, key: key}
	q.byKey[key] = known
	return known
}

// Node is a view of a node with its answers.
type Node struct {
	*fleet.View
	newest atomic.Pointer[answered]
	costs  atomic.Pointer[costed]
	// fitting is the question that was asked last among those whose pods fit.
	fitting atomic.Pointer[Question]
}

// answered is a question with its answer, in a list. The newest answer is requested most often and
// takes one read of memory that is not in a CPU cache. It never changes.
type answered struct {
	question *Question
	older    *answered
	number   int // number of answers from here on
	answer   fleet.Answer
}

// costed is a question with the cost of its pod, in a list. It never changes.
type costed struct {
	question *Question
	older    *costed
	number   int // number of costs from here on
	cost     fleet.Cost
}

// maxAnswers is the number of answers, and of costs, that a node keeps. Most nodes do not reach it,
// because a placement creates a new one.
const maxAnswers = 32

// Of returns a node without answers.
func Of(v *fleet.View) *Node { return &Node{View: v} }

// Next returns the node in another state, on the same machine and under the same policy.
func (n *Node) Next(s *node.State, used fleet.Amounts) *Node { return Of(n.View.Next(s, used)) }

// With returns the node with other amounts. It keeps the answers, which do not depend on amounts.
// The costs do.
func (n *Node) With(allocatable, used fleet.Amounts) *Node {
	next := Of(n.View.With(allocatable, used))
	next.newest.Store(n.newest.Load())
	next.fitting.Store(n.fitting.Load())
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

// Fits reports whether the pod of this question fits now, without moves, and was asked last among
// those that fit. It reads less memory than Answer, and with thousands of nodes none of it is in a
// CPU cache. If it returns false, call Answer.
func (n *Node) Fits(q *Question) bool { return n.fitting.Load() == q }

// Answer is View.AskAfterMoves, computed once for each question. hit reports whether the answer was
// cached. The caller must not change the answer.
func (n *Node) Answer(q *Question) (a *fleet.Answer, hit bool) {
	newest := n.newest.Load()
	for k := newest; k != nil; k = k.older {
		if k.question == q {
			if k.answer.Fits && !k.answer.AfterMoves {
				n.fitting.Store(q)
			}
			return &k.answer, true
		}
	}
	return n.keep(newest, q, n.AskAfterMoves(&q.pod)), false
}

// keep adds an answer in front of the newest one.
func (n *Node) keep(newest *answered, q *Question, a fleet.Answer) *fleet.Answer {
	next := &answered{question: q, number: 1, answer: a}
	if newest != nil && newest.number < maxAnswers { // If the list is full, start a new one.
		next.older, next.number = newest, newest.number+1
	}
	// If two answers arrive at the same time, one is lost and will be computed again.
	if n.newest.CompareAndSwap(newest, next) && a.Fits && !a.AfterMoves {
		n.fitting.Store(q)
	}
	return &next.answer
}

// Cost returns the cost of a pod that fits, computed once for each question. hit reports whether it
// was cached. A pod that does not fit without moves has costAfterMoves.
func (n *Node) Cost(q *Question) (cost fleet.Cost, hit bool) {
	for k := n.costs.Load(); k != nil; k = k.older {
		if k.question == q {
			return k.cost, true
		}
	}
	a := n.Ask(&q.pod)
	if !a.Fits {
		a.Cost = costAfterMoves()
	}
	n.keepCost(q, a.Cost)
	return a.Cost, false
}

func (n *Node) keepCost(q *Question, cost fleet.Cost) {
	newest := n.costs.Load()
	next := &costed{question: q, number: 1, cost: cost}
	if newest != nil && newest.number < maxAnswers {
		next.older, next.number = newest, newest.number+1
	}
	n.costs.CompareAndSwap(newest, next)
}

// costAfterMoves returns the cost of a pod that fits only after moves. They cost more than every
// placement without moves, and the placement is not planned.
func costAfterMoves() fleet.Cost { return fleet.Cost{Stranded: math.MaxInt64} }

// Learn computes the answer to a question and the cost in one plan, for a node that will be asked
// both. It does not look for moves.
func (n *Node) Learn(q *Question) {
	newest := n.newest.Load()
	a := n.Ask(&q.pod)
	if a.Fits {
		n.keepCost(q, a.Cost)
	}
	if a.Fits || n.State.Policy().Moves.Pods == 0 {
		a.Cost = fleet.Cost{}
		n.keep(newest, q, a)
	}
}
