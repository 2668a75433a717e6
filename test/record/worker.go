package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// WorkerFlag is the only argument of a worker, a process that plays scenarios from its standard
// input. If an allocation of the managers does not end, nothing can stop it from within its
// process.
const WorkerFlag = "-worker"

// question asks a worker to play a scenario.
type question struct {
	Machines string          `json:"machines"`
	Scenario json.RawMessage `json:"scenario"`
	// Events is the number of its events to play.
	Events int  `json:"events"`
	Runs   int  `json:"runs"`
	Trim   bool `json:"trim"`
}

// message is one line of a worker's output: an event has begun, or the answer.
type message struct {
	Begun  *int            `json:"begun,omitempty"`
	Answer json.RawMessage `json:"answer,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// work answers questions until the input ends.
func work(minor Minor, in io.Reader, out io.Writer) error {
	questions, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q question
		if err := questions.Decode(&q); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		answer, err := q.answer(minor, func(event int) { _ = answers.Encode(message{Begun: &event}) })
		m := message{}
		if err == nil {
			m.Answer, err = json.Marshal(answer)
		}
		if err != nil {
			m.Error = err.Error()
		}
		if err := answers.Encode(m); err != nil {
			return err
		}
	}
}

func (q *question) answer(minor Minor, begun func(int)) (any, error) {
	var s scenario
	if err := json.Unmarshal(q.Scenario, &s); err != nil {
		return nil, err
	}
	machine, err := readMachine(minor, q.Machines, s.Machine)
	if err != nil {
		return nil, err
	}
	if s.File != "" {
		return judge(&s, machine)
	}
	s.Events = s.Events[:min(q.Events, len(s.Events))]
	r, err := record(&s, machine, q.Runs, begun)
	if q.Trim {
		r.trim()
	}
	return r, err
}

// worker is a worker's process as the command sees it. The zero value starts a process when it is
// asked.
type worker struct {
	process  *exec.Cmd
	in       io.WriteCloser
	messages chan message
}

var errEndless = errors.New("the event does not end")

// ask returns the answer to a question. With errEndless, at is the position of the event.
func (w *worker) ask(q question, patience time.Duration) (answer json.RawMessage, at int, err error) {
	if w.process == nil {
		if err := w.start(); err != nil {
			return nil, 0, err
		}
	}
	if err := json.NewEncoder(w.in).Encode(q); err != nil {
		return nil, 0, err
	}
	at = -1
	for {
		select {
		case m, open := <-w.messages:
			switch {
			case !open:
				w.stop()
				return nil, at, fmt.Errorf("the worker ended during event %d", at)
			case m.Begun != nil:
				at = *m.Begun
			case m.Error != "":
				return nil, at, errors.New(m.Error)
			default:
				return m.Answer, at, nil
			}
		case <-time.After(patience):
			w.stop()
			return nil, at, errEndless
		}
	}
}

func (w *worker) start() error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	process := exec.Command(executable, WorkerFlag)
	process.Stderr = os.Stderr
	in, err := process.StdinPipe()
	if err != nil {
		return err
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return err
	}
	messages := make(chan message)
	go func() {
		defer close(messages)
		lines := json.NewDecoder(bufio.NewReader(out))
		for {
			var m message
			if lines.Decode(&m) != nil {
				return // The process has ended.
			}
			messages <- m
		}
	}()
	w.process, w.in, w.messages = process, in, messages
	return nil
}

// stop ends the process.
func (w *worker) stop() {
	if w.process == nil {
		return
	}
	_ = w.process.Process.Kill() // It may have ended.
	for range w.messages {
	}
	_ = w.process.Wait() // It was killed.
	*w = worker{}
}

// answer plays a scenario. An event that takes longer than the patience ends it. The answer then
// has the events before it, and marks the event as endless.
func (c *command) answer(machines string, text json.RawMessage, s *scenario, runs int) (json.RawMessage, error) {
	q := question{Machines: machines, Scenario: text, Events: len(s.Events), Runs: runs, Trim: c.trim}
	answer, at, err := c.worker.ask(q, c.patience)
	if !errors.Is(err, errEndless) || at < 0 {
		return answer, err
	}
	c.endless++
	q.Events = at
	if answer, _, err = c.worker.ask(q, c.patience); err != nil {
		return nil, fmt.Errorf("the events before %d, which does not end: %w", at, err)
	}
	var r map[string]any
	if err := json.Unmarshal(answer, &r); err != nil {
		return nil, err
	}
	e := s.Events[at]
	last := map[string]any{"op": e.Op, "endless": true}
	if e.Pod != "" {
		last["pod"] = e.Pod
	}
	events, _ := r["events"].([]any)
	r["events"] = append(events, last)
	return json.Marshal(r)
}
