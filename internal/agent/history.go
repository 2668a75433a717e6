package agent

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/paddock-project/paddock/internal/codec/journal"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/store"
	"github.com/paddock-project/paddock/internal/ui/web"
)

// historyEvery is the minimum time between two writes of the history. No answer waits for these
// writes, but each of them syncs the disk of the state.
const historyEvery = 5 * time.Second

// history keeps the decisions in a file beside the state, so that a restarted agent can explain
// them. Nothing waits for it: one write at a time is in progress, in its own goroutine, and the
// next write includes the decisions that were made in the meantime.
type history struct {
	file *store.Beside
	web  *web.Web
	log  *slog.Logger
	// turn has an element while no write is in progress. The goroutine that took it owns the fields
	// below.
	turn chan struct{}
	// written is the edition in the file. failing is true if the last write failed.
	written uint64
	failing bool
}

// load gives the history of the previous agent to the web. If it cannot be read, only the history
// is missing.
func (h *history) load(ctx context.Context, s *node.State) {
	data, err := h.file.Read()
	if errors.Is(err, fs.ErrNotExist) {
		h.log.InfoContext(ctx, "no history of decisions before this start", "file", h.file.Path())
		return
	}
	var j journal.Journal
	if err == nil {
		j, err = journal.Decode(data)
	}
	if err != nil {
		h.log.WarnContext(ctx, "the history of decisions cannot be read and is ignored: the next write replaces it, and no pod is affected", "file", h.file.Path(), "error", err)
		return
	}
	h.web.Restore(j, s)
	h.log.InfoContext(ctx, "history of decisions read", "file", h.file.Path(), "rejections", len(j.Rejections), "admissions", len(j.Admissions))
}

// run writes the history until ctx ends. It does not wait for a write in progress then.
func (h *history) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.web.Edited():
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.turn:
		}
		go func() {
			h.write(context.WithoutCancel(ctx))
			h.turn <- struct{}{}
		}()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(historyEvery):
		}
	}
}

// end writes the last changes, until ctx ends. Nothing is written after that. It reports whether no
// write is in progress any more.
func (h *history) end(ctx context.Context) bool {
	done := make(chan struct{})
	select {
	case <-ctx.Done():
	case <-h.turn:
		go func() {
			h.write(context.WithoutCancel(ctx))
			close(done)
		}()
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		h.log.WarnContext(ctx, "the disk stalls: the agent ends without the last changes to the history of decisions", "file", h.file.Path())
		return false
	}
}

// write writes the journal if it has changed. It logs the first failure in a row.
func (h *history) write(ctx context.Context) {
	j, edition := h.web.Journal()
	if edition == h.written {
		return
	}
	data, err := journal.Encode(j)
	if err == nil {
		err = h.file.Write(data)
	}
	if err != nil {
		if !h.failing {
			h.log.WarnContext(ctx, "the history of decisions cannot be written; the agent tries again after the next decision", "error", err)
		}
		h.failing = true
		return
	}
	h.written, h.failing = edition, false
}
