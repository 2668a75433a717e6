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

	"github.com/paddock-project/paddock/internal/telemetry"
)

// Reload is what an agent re-reads when a signal asks for it: the log level, and the manifests of pods. What it
// cannot change while it runs it names, so that a person who sends SIGHUP, as they would to other daemons,
// knows what came of it. Decisions never change that way: a policy or a machine is read at the start only.
type Reload struct {
	// Asked gets an element each time.
	Asked <-chan os.Signal
	// Read reads the configuration again, as at the start. It must not change anything.
	Read func() (Config, error)
	// Level is that of the agent's log.
	Level *slog.LevelVar
}

// ReloadWith lets the agent re-read. It is called before Run, if at all.
func (a *Agent) ReloadWith(r Reload) { a.reload = &r }

// reloads waits for somebody to ask, until ctx ends.
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

// reread reads again, does what can be done, and logs what came of it.
func (a *Agent) reread(ctx context.Context) {
	next, err := a.reload.Read()
	if err != nil {
		a.log.ErrorContext(ctx, "the configuration was read again and is not usable: nothing was changed", "error", err)
		return
	}
	if next.Log.Level != a.config.Log.Level {
		level, err := telemetry.Level(next.Log.Level)
		if err != nil {
			a.log.ErrorContext(ctx, "the configuration was read again and is not usable: nothing was changed", "error", err)
			return
		}
		was := a.config.Log.Level
		a.config.Log.Level = next.Log.Level
		a.reload.Level.Set(level)
		a.log.Log(ctx, max(level, slog.LevelInfo), "log level changed", "was", was, "is", next.Log.Level)
	}
	if changed := changedFields(a.config, next); len(changed) > 0 {
		a.log.WarnContext(ctx, "changed in the configuration, and not in the running agent: restart it", "fields", strings.Join(changed, ", "))
	}
	looks := "none: the kubelet lists the pods"
	if a.config.Runtime == RuntimeSim {
		a.looks.now()
		looks = strings.Join(a.config.Pods, ", ")
	}
	a.log.InfoContext(ctx, "read again", "configuration", "log level", "manifests", looks)
}

// changedFields are the fields that differ, by their names in the file, ascending.
func changedFields(a, b Config) []string {
	was, is := fields(a), fields(b)
	var names []string
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if !reflect.DeepEqual(was[name], is[name]) {
			names = append(names, name)
		}
	}
	return names
}

// fields are the values of a configuration by name, as "log.level".
func fields(c Config) map[string]any {
	out := map[string]any{}
	var tree map[string]any
	data, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(data, &tree)
	}
	if err != nil {
		panic(fmt.Sprintf("a configuration is written as JSON: %v", err)) // It was read from YAML, which goes the same way.
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

// looks is a clock for one that waits for the time to look again: it can be made to look now. The zero value is
// ready.
type looks struct {
	mu  sync.Mutex
	end func() // ends the wait that was begun last
}

// after is time.After for one goroutine at a time.
func (l *looks) after(d time.Duration) <-chan time.Time {
	c := make(chan time.Time, 1)
	end := sync.OnceFunc(func() { c <- time.Now() })
	time.AfterFunc(d, end)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = end
	return c
}

// now ends the wait that was begun last. Where none was begun nothing was read either, and it will be.
func (l *looks) now() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		l.end()
	}
}
