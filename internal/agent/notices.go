package agent

import (
	"context"

	"github.com/paddock-project/paddock/internal/node/notice"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/node/store"
)

// newNotices returns the writer of notices to containers, or nil if the configuration has no
// directory for them.
func (a *Agent) newNotices() *notice.Writer {
	if a.config.NoticeDir == "" {
		return nil
	}
	files := store.NewShown(a.config.NoticeDir, notice.FileName, notice.MaxSize)
	var w *notice.Writer
	counted := a.metrics.NewNotices(func() int { return w.Containers() }) // It is called at each scrape, when w is set.
	w = notice.New(notice.Config{Files: files, After: a.world.After, Log: a.log, Observer: counted})
	return w
}

// notices implements nri.Notices.
type notices struct{ *notice.Writer }

// Open implements nri.Notices.
func (n notices) Open(ctx context.Context, c nri.Noticed) nri.Mount {
	dir := n.Writer.Open(ctx, notice.Container{Namespace: c.Namespace, Pod: c.Pod, UID: c.UID, Name: c.Container, Annotations: c.Annotations, Mounts: c.Mounts}, settingOf(c))
	return nri.Mount{Source: dir, Destination: notice.MountPoint}
}

// Changed implements nri.Notices.
func (n notices) Changed(c nri.Noticed) { n.Writer.Changed(c.UID, c.Container, settingOf(c)) }

func settingOf(c nri.Noticed) notice.Setting {
	return notice.Setting{CPUs: c.Setting.CPUs, Mems: c.Setting.Mems, Level: c.Level}
}
