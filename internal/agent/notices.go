package agent

import (
	"context"

	"github.com/paddock-project/paddock/internal/node/notice"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/node/store"
)

// newNotices returns the writer of notices to containers; nil: the configuration has no directory
// for them.
func (a *Agent) newNotices() *notice.Writer {
	if a.config.NoticeDir == "" {
		return nil
	}
	files := store.NewShown(a.config.NoticeDir, notice.FileName, notice.MaxSize)
	var w *notice.Writer
	counted := a.metrics.NewNotices(func() int { return w.Containers() }) // It is called when somebody scrapes.
	w = notice.New(notice.Config{Files: files, After: a.world.After, Log: a.log, Observer: counted})
	return w
}

// notices is nri.Notices.
type notices struct{ *notice.Writer }

// Open is nri.Notices'.
func (n notices) Open(ctx context.Context, c nri.Noticed) nri.Mount {
	dir := n.Writer.Open(ctx, notice.Container{Namespace: c.Namespace, Pod: c.Pod, UID: c.UID, Name: c.Container, Annotations: c.Annotations, Mounts: c.Mounts}, settingOf(c))
	return nri.Mount{Source: dir, Destination: notice.MountPoint}
}

// Changed is nri.Notices'.
func (n notices) Changed(c nri.Noticed) { n.Writer.Changed(c.UID, c.Container, settingOf(c)) }

func settingOf(c nri.Noticed) notice.Setting {
	return notice.Setting{CPUs: c.Setting.CPUs, Mems: c.Setting.Mems, Level: c.Level}
}
