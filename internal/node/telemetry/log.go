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

// Formats for NewLogger.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// Formats and Levels are the names that NewLogger and Level accept.
var (
	Formats = []string{FormatText, FormatJSON}
	Levels  = []string{"debug", "info", "warn", "error"}
)

// Level returns the level with that name. The error for an unknown name lists the known ones.
func Level(name string) (slog.Level, error) {
	at := slices.Index(Levels, name)
	if at < 0 {
		return 0, fmt.Errorf("log level %q is not known: use one of %s", name, strings.Join(Levels, ", "))
	}
	return []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}[at], nil
}

// NewLogger returns a logger that writes one line for each event of at least the given level. The
// level can change at any time if it is a slog.LevelVar. The levels are:
//
//	error   a person must act: the state could not be written, the runtime is lost
//	warn    a person should know: a pod was rejected, a note on a decision, an attempt that is retried
//	info    normal events: pods are admitted or released, containers share, start and end
//	debug   details that no operator needs: pods keep their grant, every message of the runtime
//
// A line that is logged with a context of WithOperation (by slog's InfoContext and similar methods)
// has the number of the operation as "op". NewLogger returns an error for an unknown format.
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
// the control loop. The zero value is ready to use. Numbers start at 1 and increase.
type Operations struct{ last atomic.Uint64 }

type operationKey struct{}

// WithOperation begins an operation and returns a context with its number. If ctx already has a
// number, it returns ctx.
func (o *Operations) WithOperation(ctx context.Context) context.Context {
	if Operation(ctx) != 0 {
		return ctx
	}
	return context.WithValue(ctx, operationKey{}, o.last.Add(1))
}

// Operation returns the number of the context's operation, or 0 if it has none.
func Operation(ctx context.Context) uint64 {
	id, _ := ctx.Value(operationKey{}).(uint64)
	return id
}

// operationHandler adds the number of the operation to records.
type operationHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h operationHandler) Handle(ctx context.Context, r slog.Record) error {
	if id := Operation(ctx); id != 0 {
		r = r.Clone()
		r.AddAttrs(slog.Uint64("op", id))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h operationHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return operationHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h operationHandler) WithGroup(name string) slog.Handler {
	return operationHandler{h.Handler.WithGroup(name)}
}
