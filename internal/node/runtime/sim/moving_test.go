package sim_test

import (
	"context"
	"time"

	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// exclusive returns a pod that consents to moves, and requests memory, if the policy is dynamic.
func (o *ordeal) exclusive(uid string, cpus int) request.Pod {
	pod := exclusive(uid, cpus)
	if o.dynamic {
		pod.Moves = request.MoveMemory
		for i := range pod.Containers {
			pod.Containers[i].Memory = request.Amounts{{Resource: machine.Memory, Value: 64 << 20}}
		}
	}
	return pod
}

// carry moves a pod, or one after it in the list, as an operator does who repeats the command for a
// while.
func (o *ordeal) carry(uid string) {
	for range 20 {
		for _, err := range o.tryMoves(uid) {
			if err == nil {
				return
			}
		}
		time.Sleep(time.Second) //nolint:forbidigo // The clock is the bubble's.
	}
}

// tryMoves tries to move the pods whose UIDs are not before from, until one move begins. It returns
// the answers.
func (o *ordeal) tryMoves(from string) (answers []error) {
	a := o.agent.Load()
	s := a.engine.State()
	for _, g := range s.Grants() {
		if g.Pod.UID < from || g.Moving != nil {
			continue
		}
		p := scenario.Elsewhere(s, g)
		if p.Rejection != nil {
			continue
		}
		ctx, end := context.WithTimeout(o.ctx, answerWithin)
		err := a.plugin.Carry(ctx, []moves.Move{{From: g, To: p.Grant}}, false)
		end()
		if answers = append(answers, err); err == nil {
			break
		}
	}
	return answers
}

// Begun implements nri.MoveObserver.
func (a *agent) Begun(nri.Moving) {}

// Ended implements nri.MoveObserver.
func (a *agent) Ended(_ nri.Moving, done bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if done {
		a.moved++
	} else {
		a.notMoved++
	}
}
