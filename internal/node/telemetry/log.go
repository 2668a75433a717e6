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

// Formats and Levels are the names for NewLogger and Level.
var (
	Formats = []string{FormatText, FormatJSON}
	Levels  = []string{"debug", "info", "warn", "error"}
)

// Level is the level of that name. The error lists the names.
func Level(name string) (slog.Level, error) {
	at := slices.Index(Levels, name)
	if at < 0 {
		return 0, fmt.Errorf("log level %q is not known: use one of %s", name, strings.Join(Levels, ", "))
	}
	return []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}[at], nil
}

// NewLogger returns a logger that writes a line for each event from a level on. The level can
// change at any time, if it is a slog.LevelVar. The levels:
//
//	error   a person must act: the state could not be written, the runtime is lost
//	warn    a person should know: a pod was rejected, a note on a decision, an attempt that is repeated
//	info    normal events: pods that are admitted or released, containers that share, start and end
//	debug   details that no operator needs: pods that keep their grant, every message of the runtime
//
// A line that is logged with a context of WithOperation (by slog's InfoContext and similar methods)
// has the operation's number as "op". The error is for an unknown format.
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

// Operations numbers the operations of a process: an admission, a request of a client, a round of
// the control loop. The zero value is ready; numbers begin with 1 and grow.
type Operations struct{ last atomic.Uint64 }

type operationKey struct{}

// WithOperation begins an operation: it returns a context with the operation's number. A context
// that has a number already is returned as it is.
func (o *Operations) WithOperation(ctx context.Context) context.Context {
	if Operation(ctx) != 0 {
		return ctx
	}
	return context.WithValue(ctx, operationKey{}, o.last.Add(1))
}

// Operation is the number of the context's operation, or 0.
func Operation(ctx context.Context) uint64 {
	id, _ := ctx.Value(operationKey{}).(uint64)
	return id
}

// operationHandler adds the number of a record's operation.
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
