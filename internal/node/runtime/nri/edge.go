package nri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/paddock-project/paddock/internal/node/control"
)

// slowEvent is the time after which an event is logged and counted. Handling an event never blocks,
// so an event that takes longer computes too much, or the machine has no CPU time for the agent.
const slowEvent = 100 * time.Millisecond

// edge feeds the loop with events and carries out its actions, in one goroutine. Only this
// goroutine accesses the loop.
type edge struct {
	*Plugin
	loop control.Loop
	// ctx is the edge's context. flow is ctx with the number of the event, for the log.
	ctx, flow context.Context
	timer     <-chan time.Time
	// number counts the events. waiting maps the numbers of the events that are not answered yet to
	// the channels that take the answers.
	number  uint64
	waiting map[uint64]chan any
	// late lists the answers to the present event that come after their senders gave up.
	late []control.Placed
	// quiet lists the channels that are closed when no work is in progress.
	quiet []chan struct{}
}

// moment is the loop after an event, and the time at which the loop next acts without an event.
type moment struct {
	loop control.Loop
	wake time.Time
}

// message is an event on its way to the loop, with the channels on which its sender waits. A
// channel is nil if the sender does not wait.
type message struct {
	of control.Occurrence
	// ctx ends when the sender gives up. The event is then not handled. reply takes the answer.
	ctx   context.Context
	reply chan any
	// connects is the session of a Connected event.
	connects *session
	// quiet is closed when no work is in progress.
	quiet chan struct{}
	// returned is the reply channel of an answer that its sender did not take. Such a message has
	// no event of its own.
	returned chan any
}

func (p *Plugin) newEdge() *edge { return &edge{Plugin: p, waiting: map[uint64]chan any{}} }

func (e *edge) run(ctx context.Context) error {
	defer close(e.ended)
	e.ctx, e.flow = ctx, ctx
	c, begin := e.config, control.Start{Fresh: e.config.Fresh, LastAnswer: e.config.LastAnswer}
	loop, actions := control.New(control.Config{
		Timeout: c.Timeout, Period: c.Period, Grace: c.Grace, TakeOver: c.TakeOver, Notice: c.Moves.Notice, Interval: c.Moves.Interval,
		Promises: c.Handover != nil || c.Moves.Promises != nil, MakesRoom: c.Moves.Promises != nil, Seen: c.Seen != nil, Notices: c.Notices != nil, Alive: c.Alive != nil,
		Clock: c.After(time.Hour) != nil,
	}, begin, e.engine(), e.begun)
	e.carryOut(loop, actions)
	for {
		select {
		case m := <-e.events:
			e.handle(m)
		case <-e.timer:
			now := c.Now()
			e.slow.note("the wait of the agent's loop for its next step", now.Sub(e.latest.Load().wake), now)
			e.handle(message{of: control.Timer{}})
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if e.loop.Quiet() {
			for _, done := range e.quiet {
				close(done)
			}
			e.quiet = nil
		}
	}
}

// engine returns what the engine shows now.
func (p *Plugin) engine() control.Engine {
	s := p.config.Engine.Snapshot()
	return control.Engine{State: s.State, Pending: s.Pending, Unreleased: s.Unreleased, Version: s.Version}
}

func (e *edge) handle(m message) {
	begin := e.config.Now()
	if m.ctx != nil && m.ctx.Err() != nil {
		return
	}
	if m.returned != nil {
		if m.of = e.undelivered(m.returned); m.of == nil {
			return
		}
	}
	if m.connects != nil {
		e.present.Store(m.connects)
	}
	if m.quiet != nil {
		e.quiet = append(e.quiet, m.quiet)
	}
	e.flow = e.config.Operation(e.ctx)
	if e.number++; m.reply != nil {
		e.waiting[e.number] = m.reply
	}
	e.take(control.Event{Of: m.of, Request: e.number})
	for len(e.late) > 0 {
		placed := e.late[0]
		e.late = e.late[1:]
		e.take(control.Event{Of: control.Undelivered{Of: placed}})
	}
	if took := e.config.Now().Sub(begin); took > slowEvent {
		name := nameOf(m.of)
		containers, pods := e.loop.Size()
		e.config.Observer.Slow(name, took)
		e.config.Log.WarnContext(e.flow, "an event took long: answers to the runtime may come too late", "event", name, "took", took.String(),
			"containers", containers, "pods", pods)
	}
}

// take makes one Step of the loop.
func (e *edge) take(event control.Event) {
	event.Engine = e.engine()
	if s := e.present.Load(); s != nil {
		event.Open, event.Answered = int(s.open.Load()), s.lastAnswer()
	}
	if p := e.config.Moves.Promises; p != nil {
		event.Promised.UID, event.Promised.Until = p.Kept()
	}
	e.carryOut(control.Step(e.loop, event, e.config.Now()))
}

// undelivered returns the event that takes back an answer that its sender did not receive. It
// returns nil if there was no answer or the answer has no effect. If the answer is still to come,
// the edge stops waiting for it.
func (e *edge) undelivered(returned chan any) control.Occurrence {
	for number, reply := range e.waiting {
		if reply == returned {
			delete(e.waiting, number)
		}
	}
	select {
	case a := <-returned:
		if placed, is := a.(control.Placed); is {
			return control.Undelivered{Of: placed}
		}
	default:
	}
	return nil
}

// nameOf returns the name of an event for the log and the metrics. For the outcome of a job, it is
// the type of the outcome.
func nameOf(of control.Occurrence) string {
	if d, is := of.(control.Done); is && d.Outcome != nil {
		of = d.Outcome
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", of), "control.")
}

// carryOut stores the next loop and carries out the actions in their order.
func (e *edge) carryOut(next control.Loop, actions []control.Action) {
	e.loop = next
	wake := e.latest.Load().wake
	for _, a := range actions {
		if w, is := a.(control.Wake); is {
			wake = w.At
		}
	}
	e.latest.Store(&moment{next, wake})
	for _, a := range actions {
		switch a := a.(type) {
		case control.Answer:
			if reply := e.waiting[a.Request]; reply != nil {
				reply <- a.Reply // The channel has room for one reply.
				delete(e.waiting, a.Request)
			} else if placed, is := a.Reply.(control.Placed); is {
				e.late = append(e.late, placed)
			}
		case control.Log:
			e.config.Log.Log(e.flow, levels[a.Level], a.Text, a.Args...)
		case control.Wake:
			e.timer = nil
			if !a.At.IsZero() {
				e.timer = e.config.After(a.At.Sub(e.config.Now()))
			}
		case control.Job:
			e.begin(a)
		case control.Update:
			e.update(a)
		case control.WriteCgroups:
			e.jobs.Go(func() { e.tell(e.ctx, a.Carry(e.setCgroup)) })
		default:
			e.effect(a)
			e.count(a)
		}
	}
}

// tell passes an event to the loop. It returns when the loop takes it, or ctx or the loop ends.
func (p *Plugin) tell(ctx context.Context, of control.Occurrence) { p.send(ctx, message{of: of}) }

func (p *Plugin) send(ctx context.Context, m message) {
	select {
	case p.events <- m:
	case <-p.ended:
	case <-ctx.Done():
	}
}

// surely passes an event to the loop, whatever happens to the caller. It waits at most until ctx
// ends. If the event was not taken by then, surely passes it in the background.
func (p *Plugin) surely(ctx context.Context, of control.Occurrence) {
	select {
	case p.events <- message{of: of}:
	case <-p.ended:
	case <-ctx.Done():
		go p.tell(context.WithoutCancel(ctx), of)
	}
}

// ask passes an event to the loop and waits for the answer until ctx ends. It returns an error if
// ctx or the loop ends before the answer is there. An event whose sender has given up is not
// handled. If the sender gives up while the loop answers, the loop gets the answer back: see
// undelivered.
func ask[A any](ctx context.Context, p *Plugin, of control.Occurrence) (A, error) {
	var answer A
	reply := make(chan any, 1)
	select {
	case p.events <- message{of: of, ctx: ctx, reply: reply}:
	case <-p.ended:
		return answer, control.ErrGone
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}
	select {
	case a := <-reply:
		answer, _ = a.(A) // A nil error has no type.
		return answer, nil
	case <-p.ended:
		return answer, control.ErrGone
	case <-ctx.Done():
	}
	// The loop handles events in order. When it takes this message, it has either given the answer
	// to the event before or will not give one.
	go p.send(context.WithoutCancel(ctx), message{returned: reply})
	return answer, fmt.Errorf("the agent is too busy to answer in time: %w", context.Cause(ctx))
}

// askJobs is like ask, for an event that is answered after jobs, which end when ctx reaches its
// deadline. The answer, with the reason, comes then, so askJobs waits for longer than ctx. The
// runtime itself waits for twice as long.
func askJobs[A any](ctx context.Context, s *session, of control.Occurrence, longer time.Duration) (A, error) {
	end, _ := ctx.Deadline()
	all, cancel := context.WithDeadline(context.WithoutCancel(ctx), end.Add(longer))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel() // The connection has ended.
		}
	})
	defer stop()
	return ask[A](all, s.Plugin, of)
}

// askSurely is like ask, for an event that must reach the loop. If there is no answer in time, the
// loop gets the event later instead.
func askSurely[A any](ctx context.Context, p *Plugin, of, later control.Occurrence) (A, error) {
	answer, err := ask[A](ctx, p, of)
	if err != nil {
		p.surely(ctx, later)
	}
	return answer, err
}

// once closes a channel once.
type once struct {
	sync.Once
	done chan struct{}
}

func (o *once) close() { o.Do(func() { close(o.done) }) }
