package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/notice"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/node/telemetry"
)

// TestNotices checks that the agent of a node writes what the control loop passes on to the
// configured directory, and nothing for a container that does not ask. Without a directory there is
// no writer.
func TestNotices(t *testing.T) {
	b := newBench(t)
	b.config.Runtime, b.config.Pods, b.config.NoticeDir = RuntimeNRI, nil, filepath.Join(t.TempDir(), "notices")
	a := b.start()
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- a.notices.Run(ctx) }()
	c := nri.Noticed{UID: "u", Container: "c", Setting: converge.Setting{CPUs: cpuset.Of(2, 3), Mems: mask.Of(1)}, Level: node.PodIsolation}
	if m := (notices{a.notices}).Open(ctx, c); m.Source != "" {
		t.Errorf("a container that does not ask gets %v", m)
	}
	if all, err := os.ReadDir(b.config.NoticeDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no container asks, and the directory is there: %v, %v", all, err)
	}
	c.Annotations = map[string]string{notice.Annotation: "c"}
	m := (notices{a.notices}).Open(ctx, c)
	if m.Source != b.config.NoticeDir+"/u/c" || m.Destination != notice.MountPoint {
		t.Errorf("mounts %v", m)
	}
	if data, err := os.ReadFile(m.Source + "/notice.json"); err != nil || !strings.Contains(string(data), `"cpus": "2-3"`) || !strings.Contains(string(data), `"sharedWith": "pod"`) {
		t.Errorf("%s, %v", data, err)
	}
	o := moveObserver{counted: telemetry.New(telemetry.Config{}).NewMoves(func() int { return 0 }, func() int { return 0 }), notices: a.notices, nodes: mask.Of(0, 1)}
	change := nri.Change{Container: "c", Before: c.Setting, After: converge.Setting{CPUs: cpuset.Of(6)}}
	for _, pending := range []bool{true, false} {
		if m := (nri.Moving{UID: "u", Deadline: time.Now(), Changes: []nri.Change{change}}); pending {
			o.Begun(m)
		} else {
			o.Ended(m, false)
		}
		(notices{a.notices}).Open(ctx, nri.Noticed{UID: "v", Container: "c", Annotations: c.Annotations}) // This notice is written after the other one.
		data, err := os.ReadFile(m.Source + "/notice.json")
		if text := string(data); err != nil || strings.Contains(text, `"cpus": "6"`) != pending || strings.Contains(text, `"mems": "0-1"`) != pending {
			t.Errorf("pending %v: %s, %v", pending, data, err)
		}
	}
	end()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	b = newBench(t)
	b.config.Runtime, b.config.Pods, b.config.NoticeDir = RuntimeNRI, nil, ""
	if a := b.start(); a.notices != nil {
		t.Error("there is a writer without a directory")
	}
	for dir, good := range map[string]bool{"": true, "/run/x": true, "run/x": false, "/": false, "//": false} {
		if err := (Config{NoticeDir: dir, Runtime: RuntimeNRI}).Check(); strings.Contains(err.Error(), "noticeDir: ") == good {
			t.Errorf("%q: %v", dir, err)
		}
	}
}
