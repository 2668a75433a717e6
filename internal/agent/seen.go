package agent

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/node/cgroup"
	"github.com/paddock-project/paddock/internal/node/podsource/kubelet"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// seen returns the function for nri.Config.Seen. The kubelet lists the running containers, and
// their cgroups show where they run. If the loop does not know a container, or it is not where the
// runtime reports it, its cgroup is looked for by the container's id.
func seen(source *kubelet.Source, files cgroup.FS, log *slog.Logger) func(context.Context, map[string]string) ([]nri.Seen, error) {
	return func(ctx context.Context, paths map[string]string) ([]nri.Seen, error) {
		running, unread, err := source.Running(ctx)
		if err != nil {
			return nil, err
		}
		for _, err := range unread {
			log.DebugContext(ctx, "containers of a pod are not verified: the kubelet's entry for it cannot be read", "error", err)
		}
		list, strange := make([]nri.Seen, len(running)), []string(nil)
		for i, r := range running {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			s := &list[i]
			*s = nri.Seen{Who: r.Who, Path: paths[r.ID], Deleted: r.Deleted, Observed: converge.Observed{ID: r.ID, Pod: r.Pod, Container: r.Container}}
			if s.Err = fs.ErrNotExist; s.Path != "" {
				s.Setting, s.Err = files.Read(cgroup.Path(s.Path))
			}
			if errors.Is(s.Err, fs.ErrNotExist) {
				strange = append(strange, r.ID)
			}
		}
		if len(strange) == 0 {
			return list, nil
		}
		found, missing := files.Find(strange)
		for i := range list {
			s := &list[i]
			switch at, there := found[s.ID]; {
			case !errors.Is(s.Err, fs.ErrNotExist):
			case there:
				s.Path = at
				s.Setting, s.Err = files.Read(at)
			case missing != nil:
				s.Err = missing
			default:
				s.Err = &fs.PathError{Op: "find the cgroup of container", Path: s.ID, Err: fs.ErrNotExist}
			}
		}
		return list, nil
	}
}
