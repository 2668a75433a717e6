package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/ui/webui"
)

// movesPath is the path to which a client sends requests for moves.
const movesPath = "/api/v1/moves"

// MovesRequest is the request of a client: moves in their order.
type MovesRequest struct {
	// CarryOut makes the moves. If false, the answer is only whether they are possible.
	CarryOut bool `json:"carryOut,omitempty"`
	// Moves has, for each pod, its new place as a grant in the form of the state file.
	Moves []MoveRequest `json:"moves"`
	// Defragment requests, instead of Moves, the moves that make room for a larger pod.
	Defragment *DefragmentRequest `json:"defragment,omitempty"`
}

// DefragmentRequest has the parameters of an earlier request of paddock defragment, and the moves
// in the answer to it. If the node would make other moves now, nothing is moved.
type DefragmentRequest struct {
	Moves  int               `json:"moves"`
	Bytes  int64             `json:"bytes"`
	Answer []explain.PodMove `json:"answer"`
}

// MoveRequest is one move.
type MoveRequest struct {
	UID string `json:"uid"`
	To  string `json:"to"`
}

// MovesAnswer is the answer: the moves that are possible or that have begun.
type MovesAnswer struct {
	CarriedOut bool         `json:"carriedOut"`
	Moves      []MoveAnswer `json:"moves"`
}

// MoveAnswer is one move.
type MoveAnswer struct {
	Pod      string `json:"pod"`
	UID      string `json:"uid"`
	FromCPUs string `json:"fromCPUs,omitempty"`
	ToCPUs   string `json:"toCPUs,omitempty"`
	Bytes    int64  `json:"bytes,omitempty"`
}

// maxMovesBody limits a request in bytes. It has room for some hundred grants of ordinary pods.
const maxMovesBody = 1 << 20

// serveMoves answers a client that requests moves.
func (a *Agent) serveMoves(w http.ResponseWriter, r *http.Request) {
	reply := func(status int, document any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(document) // The client is gone if this fails.
	}
	fail := func(status int, format string, args ...any) {
		reply(status, map[string]string{"error": fmt.Sprintf(format, args...)})
	}
	asked, err := readMoves(http.MaxBytesReader(w, r.Body, maxMovesBody))
	switch {
	case err != nil:
		fail(http.StatusBadRequest, "the request is not valid: expected {\"moves\":[{\"uid\":…,\"to\":…}]}: %v", err)
		return
	case a.config.Moves.OnRequest:
	case asked.CarryOut:
		fail(http.StatusForbidden, "this agent does not carry out moves on request: set moves.onRequest: true in its configuration, or ask without carryOut whether the moves are possible")
		return
	case asked.Defragment != nil:
		fail(http.StatusForbidden, "this agent does not look for moves on request: set moves.onRequest: true in its configuration, or ask with paddock defragment --agent which moves there are")
		return
	}
	var list []moves.Move
	err = a.web.Search(r.Context(), func() (err error) {
		list, err = a.find(r.Context(), asked)
		return err
	})
	if err == nil { // This waits for the control loop and for the disk, so it is not part of the search.
		err = a.plugin.Carry(r.Context(), list, !asked.CarryOut)
	}
	switch {
	case r.Context().Err() != nil:
		return // The client is gone.
	case errors.Is(err, webui.ErrBusy):
		webui.Busy(w)
		return
	case err != nil:
		fail(http.StatusConflict, "%v", err)
		return
	}
	answer := MovesAnswer{CarriedOut: asked.CarryOut, Moves: []MoveAnswer{}}
	for _, m := range list {
		answer.Moves = append(answer.Moves, MoveAnswer{Pod: m.To.Pod.ID(), UID: m.To.Pod.UID, FromCPUs: m.From.CPUs().String(), ToCPUs: m.To.CPUs().String(), Bytes: m.Bytes})
	}
	reply(http.StatusOK, answer)
}

// readMoves reads a request to its end. Only then does the server notice that the client is gone.
func readMoves(body io.Reader) (asked MovesRequest, err error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return asked, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return asked, d.Decode(&asked)
}

// requested returns the moves that a client requests. It ends with ctx.
func (a *Agent) requested(ctx context.Context, asked MovesRequest) ([]moves.Move, error) {
	if asked.Defragment != nil {
		return a.defragment(ctx, *asked.Defragment)
	}
	return a.movesOf(ctx, asked.Moves)
}

// defragment returns the moves that make room for a larger pod. It returns an error if they differ
// from those that the client knows.
func (a *Agent) defragment(ctx context.Context, asked DefragmentRequest) ([]moves.Move, error) {
	s := a.engine.State()
	if asked.Moves < 1 || asked.Moves > explain.MaxDefragMoves {
		return nil, fmt.Errorf("%d moves: expected 1 to %d", asked.Moves, explain.MaxDefragMoves)
	}
	gain := moves.Defragment(s, asked.Moves, moves.Terms{Bytes: asked.Bytes, BothPlaces: true, Plans: explain.DefragPlans, Stop: func() bool { return ctx.Err() != nil }})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !slices.EqualFunc(gain.Moves, asked.Answer, func(m moves.Move, known explain.PodMove) bool {
		return m.To.Pod.UID == known.UID && m.From.CPUs().String() == known.FromCPUs && m.To.CPUs().String() == known.ToCPUs
	}) {
		return nil, errors.New("the pods of the node have changed, and the moves would be different now: ask again")
	}
	return gain.Moves, nil
}

// movesOf returns the moves that a client requests. Each new place must be one that the rules give
// the pod.
func (a *Agent) movesOf(ctx context.Context, asked []MoveRequest) ([]moves.Move, error) {
	s := a.engine.State()
	var list []moves.Move
	for _, m := range asked {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		from, there := s.Grant(m.UID)
		if !there {
			return nil, fmt.Errorf("no pod with UID %q has an assignment on this node", m.UID)
		}
		to, err := grantform.Decode([]byte(m.To))
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", from.Pod.ID(), err)
		}
		move, err := moves.Between(s, from, to)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", from.Pod.ID(), err)
		}
		list = append(list, move)
		if s, err = s.Move(move.To); err != nil {
			return nil, err
		}
	}
	return list, nil
}
