package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// reloading returns a bench, an agent that can read its configuration again, the configuration that
// it would read, and its log level.
func reloading(t *testing.T) (b *bench, a *Agent, next *Config, level *slog.LevelVar) {
	t.Helper()
	b = newBench(t)
	a = b.start()
	next, level = new(Config), new(slog.LevelVar)
	*next = a.config
	a.ReloadWith(Reload{Asked: make(chan os.Signal, 1), Read: func() (Config, error) { return *next, next.Check() }, Level: level})
	b.log.take()
	return b, a, next, level
}

// TestReread checks that the log level is applied, that fields which are not applied are logged,
// and that an invalid configuration changes nothing.
func TestReread(t *testing.T) {
	b, a, next, level := reloading(t)
	a.reread(t.Context())
	if text := b.log.take(); !strings.Contains(text, `"msg":"read again"`) || strings.Contains(text, "changed") {
		t.Errorf("nothing was different: %s", text)
	}
	next.Log.Level, next.State, next.NRI.TakeOver = "debug", "/elsewhere", true
	a.reread(t.Context())
	contains(t, "log", b.log.take(), `"msg":"log level changed","was":"info","is":"debug"`, `restart the agent","fields":"nri.takeOver, state"`, `"msg":"read again"`)
	if level.Level() != slog.LevelDebug || a.config.State == "/elsewhere" {
		t.Errorf("level %s, state %s", level.Level(), a.config.State)
	}
	next.Log.Level, next.Map = "error", "nobody"
	a.reread(t.Context())
	contains(t, "log", b.log.take(), `"level":"ERROR"`, "nothing was changed", "nobody")
	if level.Level() != slog.LevelDebug {
		t.Errorf("level %s", level.Level())
	}
	a.reload.Read = func() (Config, error) { return Config{}, errors.New("no such file") }
	a.reread(t.Context())
	contains(t, "log", b.log.take(), `"error":"no such file"`)
}

// TestSignalRereads checks that a running agent reads again on a signal and keeps running.
func TestSignalRereads(t *testing.T) {
	b := newBench(t)
	asked := make(chan os.Signal, 1)
	a := b.start()
	a.ReloadWith(Reload{Asked: asked, Read: func() (Config, error) { return a.config, nil }, Level: new(slog.LevelVar)})
	again, admitted := b.log.when("read again"), b.log.when("pod admitted")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	asked <- syscall.SIGHUP
	await(t, "what was read again", again)
	b.write("a.yaml", manifest("a 1"))
	await(t, "a pod", admitted)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestLooks checks that a wait ends when its time is over, or when now is called.
func TestLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l looks
		l.now()
		begin := time.Now()
		<-l.after(time.Hour)
		if waited := time.Since(begin); waited != time.Hour {
			t.Errorf("waited %v", waited)
		}
		begin = time.Now()
		c := l.after(time.Hour)
		l.now()
		l.now()
		if <-c; time.Since(begin) != 0 {
			t.Errorf("waited %v", time.Since(begin))
		}
		<-l.after(2 * time.Hour)
		select {
		case <-c:
			t.Error("it fired twice")
		default:
		}
	})
}
