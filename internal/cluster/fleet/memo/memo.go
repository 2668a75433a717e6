// Package memo keeps what nodes answered.
//
// A scheduler asks thousands of nodes the same question for each pod, and from one pod to the next
// one node has changed. A Node is a view of internal/cluster/fleet, which never changes, with the
// answers that it gave. A placement makes another Node, without answers. So an answer is never
// stale, and nothing has to be invalidated.
//
// Pods that differ in nothing but their names ask the same Question. Any number of goroutines may
// use a Node and Questions.
package memo

import (
	"sync"
	"sync/atomic"

	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Question is a pod as far as answers depend on it: all that nodes are asked but for names. It does
// not change.
type Question struct {
	pod fleet.Pod
	key string
}

// Pod is the pod without its names.
func (q *Question) Pod() *fleet.Pod { return &q.pod }

// Key is a text that two questions share exactly if every node gives them the same answer.
func (q *Question) Key() string { return q.key }

// maxQuestions is how many questions are kept. A cluster has tens of them; thousands come from pods
// that each ask for something else, whose answers are not asked for again.
const maxQuestions = 4096

// Questions finds the question of a pod. The zero value has none.
type Questions struct {
	mu    sync.Mutex
	byKey map[string]*Question
}

// Of is the question of a pod.
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
	// fitting is the question that was asked last of those whose pods fit.
	fitting atomic.Pointer[Question]
}

// answered is a question with its answer, in a list: the newest answer, which is asked for most,
// takes one read of memory that is not in a cache of the CPU. It does not change.
type answered struct {
	question *Question
	older    *answered
	number   int // of answers from here on
	answer   fleet.Answer
}

// maxAnswers is how many answers a node keeps. Most nodes live for less than that: a placement
// makes another one.
const maxAnswers = 32

// Of is a view without answers.
func Of(v *fleet.View) *Node { return &Node{View: v} }

// Next is the node in another state, on the same machine under the same policy.
func (n *Node) Next(s *node.State, used fleet.Amounts) *Node { return Of(n.View.Next(s, used)) }

// With is the node with other amounts.
func (n *Node) With(allocatable, used fleet.Amounts) *Node { return Of(n.View.With(allocatable, used)) }

// Place is View.Place.
func (n *Node) Place(pod fleet.Pod) (*Node, *node.Plan, error) {
	next, plan, err := n.View.Place(pod)
	if next == n.View {
		return n, plan, err
	}
	return Of(next), plan, err
}

// Fits reports whether the pod of this question fits now, without moves, as the question that was
// asked last. It reads less memory than Answer, and of thousands of nodes none is in a cache of the
// CPU. False: ask for the answer.
func (n *Node) Fits(q *Question) bool { return n.fitting.Load() == q }

// Answer is View.AskAfterMoves, once for each question: hit reports that the answer was there. The
// caller does not change it.
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
	next := &answered{question: q, number: 1, answer: n.AskAfterMoves(&q.pod)}
	if newest != nil && newest.number < maxAnswers { // With a full list it begins again.
		next.older, next.number = newest, newest.number+1
	}
	// Of two answers at the same time one is lost, and asked for again.
	if n.newest.CompareAndSwap(newest, next) && next.answer.Fits && !next.answer.AfterMoves {
		n.fitting.Store(q)
	}
	return &next.answer, false
}
