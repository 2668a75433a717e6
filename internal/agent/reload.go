package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paddock-project/paddock/internal/node/telemetry"
)

// Reload makes a running agent read the log level and the manifests of pods again, like SIGHUP in
// other daemons. The agent logs the other fields that changed. It reads the policy and the machine
// only at the start, so no decision changes.
type Reload struct {
	// Asked gets an element for each request.
	Asked <-chan os.Signal
	// Read reads the configuration again, as at the start. It must not change anything.
	Read func() (Config, error)
	// Level is the level of the agent's log.
	Level *slog.LevelVar
}

// ReloadWith makes the agent read again on a signal. It must be called before Run.
func (a *Agent) ReloadWith(r Reload) { a.reload = &r }

// reloads waits for signals until ctx ends.
func (a *Agent) reloads(ctx context.Context) error {
	if a.reload == nil {
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.reload.Asked:
			a.reread(a.flows.WithOperation(ctx))
		}
	}
}

// reread reads the configuration again, applies what can change, and logs the result.
func (a *Agent) reread(ctx context.Context) {
	next, err := a.reload.Read()
	if err != nil {
		a.log.ErrorContext(ctx, "the configuration cannot be applied: nothing was changed", "error", err)
		return
	}
	if next.Log.Level != a.config.Log.Level {
		level, err := telemetry.Level(next.Log.Level)
		if err != nil {
			a.log.ErrorContext(ctx, "the configuration cannot be applied: nothing was changed", "error", err)
			return
		}
		was := a.config.Log.Level
		a.config.Log.Level = next.Log.Level
		a.reload.Level.Set(level)
		a.log.Log(ctx, max(level, slog.LevelInfo), "log level changed", "was", was, "is", next.Log.Level)
	}
	was, is := fields(a.config), fields(next)
	changed := slices.DeleteFunc(slices.Sorted(maps.Keys(is)), func(name string) bool { return reflect.DeepEqual(was[name], is[name]) })
	if len(changed) > 0 {
		a.log.WarnContext(ctx, "the configuration has changed fields that the running agent does not apply: restart the agent", "fields", strings.Join(changed, ", "))
	}
	looks := "none: the kubelet lists the pods"
	if a.config.Runtime == RuntimeSim {
		a.looks.now()
		looks = strings.Join(a.config.Pods, ", ")
	}
	a.log.InfoContext(ctx, "read again", "configuration", "log level", "manifests", looks)
}

// fields returns the values of a configuration by their names in the file, e.g. "log.level".
func fields(c Config) map[string]any {
	out := map[string]any{}
	var tree map[string]any
	data, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(data, &tree)
	}
	if err != nil {
		panic(fmt.Sprintf("a configuration is written as JSON: %v", err)) // It was read from YAML, which is decoded in the same way.
	}
	var walk func(prefix string, tree map[string]any)
	walk = func(prefix string, tree map[string]any) {
		for name, value := range tree {
			if inner, is := value.(map[string]any); is {
				walk(prefix+name+".", inner)
				continue
			}
			out[prefix+name] = value
		}
	}
	walk("", tree)
	return out
}

// looks is a clock for a goroutine that looks again after a time. It can end the wait early. The
// zero value is ready to use.
type looks struct {
	mu  sync.Mutex
	end func() // ends the last wait
}

// after is like time.After. It is for one goroutine at a time.
func (l *looks) after(d time.Duration) <-chan time.Time {
	c := make(chan time.Time, 1)
	end := sync.OnceFunc(func() { c <- time.Now() })
	time.AfterFunc(d, end)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = end
	return c
}

// now ends the last wait. If there was none, nothing was read yet, and the first read is still to
// come.
func (l *looks) now() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		l.end()
	}
}
