package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
)

// The formats of NewLogger.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// Formats and Levels are what NewLogger and Level understand.
var (
	Formats = []string{FormatText, FormatJSON}
	Levels  = []string{"debug", "info", "warn", "error"}
)

// Level is the level of that name. The error says which names there are.
func Level(name string) (slog.Level, error) {
	at := slices.Index(Levels, name)
	if at < 0 {
		return 0, fmt.Errorf("log level %q is not known: use one of %s", name, strings.Join(Levels, ", "))
	}
	return []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}[at], nil
}

// NewLogger makes a logger that writes a line for each event from a level on, which can change while it
// is used, as that of a slog.LevelVar. What the levels mean:
//
//	error   something that somebody must see to: the state could not be written, the runtime is lost
//	warn    something that somebody should know: a pod was refused, a note on a decision, an attempt that is repeated
//	info    what happens: pods that are admitted or released, containers that share, start and end
//	debug   how it comes about: pods that keep their grant, every message with a runtime, nothing that an operator needs
//
// A line that is logged with a context which WithOperation made (slog's InfoContext and the like)
// carries the flow's id as "op".
// The error says which format is not understood.
func NewLogger(w io.Writer, format string, level slog.Leveler) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: level}
	switch format {
	case FormatText:
		return slog.New(operationHandler{slog.NewTextHandler(w, options)}), nil
	case FormatJSON:
		return slog.New(operationHandler{slog.NewJSONHandler(w, options)}), nil
	}
	return nil, fmt.Errorf("log format %q is not known: use one of %s", format, strings.Join(Formats, ", "))
}

// Operations numbers the flows of a process: one admission, one request of a client, one
// round of the reconcile loop. The zero value is ready; ids begin with 1 and grow.
type Operations struct{ last atomic.Uint64 }

type operationKey struct{}

// WithOperation begins a flow: it returns a context that carries the flow's id. A context that
// is part of a flow already is returned as it is.
func (o *Operations) WithOperation(ctx context.Context) context.Context {
	if Operation(ctx) != 0 {
		return ctx
	}
	return context.WithValue(ctx, operationKey{}, o.last.Add(1))
}

// Operation is the id of the flow that the context is part of, or 0.
func Operation(ctx context.Context) uint64 {
	id, _ := ctx.Value(operationKey{}).(uint64)
	return id
}

// operationHandler adds the id of a record's flow.
type operationHandler struct{ slog.Handler }

// Handle is slog.Handler's.
func (h operationHandler) Handle(ctx context.Context, r slog.Record) error {
	if id := Operation(ctx); id != 0 {
		r = r.Clone()
		r.AddAttrs(slog.Uint64("op", id))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs is slog.Handler's.
func (h operationHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return operationHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup is slog.Handler's.
func (h operationHandler) WithGroup(name string) slog.Handler {
	return operationHandler{h.Handler.WithGroup(name)}
}
