package agent

import (
	"context"
	"net/http"
	"os"

	"github.com/paddock-project/paddock/internal/base/access"
)

// mapSwitch names the setting that serves the map everywhere.
const mapSwitch = "the agent runs with map: everywhere in its configuration, or --map everywhere"

// handler returns the handler for everything on the listen address, behind one guard. Streams end
// with ctx.
func (a *Agent) handler(ctx context.Context) http.Handler {
	name, _ := os.Hostname() // If there is no name, clients use localhost or an address.
	guard := access.Guard{Everywhere: a.config.Map == MapEverywhere, Switch: mapSwitch, Name: name}
	mux := http.NewServeMux()
	mux.Handle("POST "+movesPath, http.NewCrossOriginProtection().Handler(http.HandlerFunc(a.serveMoves)))
	mux.Handle("/", a.web.Handler(ctx, a.metrics.Handler(a.config.Profile)))
	return guard.Handler(mux)
}
