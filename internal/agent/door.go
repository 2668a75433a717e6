package agent

import (
	"context"
	"net/http"

	"github.com/paddock-project/paddock/internal/access"
)

// handler is everything that is served on the listen address, behind one guard. Streams end with ctx.
func (a *Agent) handler(ctx context.Context) http.Handler {
	guard := access.Guard{Everywhere: a.config.Map == MapEverywhere}
	return guard.Handler(a.web.Handler(ctx, a.metrics.Handler(a.config.Profile)))
}
