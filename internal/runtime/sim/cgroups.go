package sim

import (
	"fmt"
	"io/fs"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/node"
)

// Cgroups are the files of the cgroups that the runtime's pods and containers have.
type Cgroups struct{ runtime *Runtime }

// Cgroups are the runtime's.
func (r *Runtime) Cgroups() Cgroups { return Cgroups{r} }

// Read returns what a container's cgroup has, by the path that the runtime shows. The error wraps fs.ErrNotExist for
// one that is not there.
func (g Cgroups) Read(path string) (converge.Setting, error) {
	r := g.runtime
	r.mu.Lock()
	defer r.mu.Unlock()
	at, err := r.at(path)
	if err != nil {
		return converge.Setting{}, err
	}
	return at.setting(), nil
}

// SetQuota gives a pod's or a container's cgroup a CFS quota, and reports whether it had another one. node.KeepQuota
// changes nothing. The error wraps fs.ErrNotExist for a cgroup that is not there.
func (g Cgroups) SetQuota(path string, want node.Quota) (bool, error) {
	r := g.runtime
	r.mu.Lock()
	defer r.mu.Unlock()
	at, err := r.at(path)
	if err != nil || want == node.KeepQuota || at.setting().Quota == want {
		return false, err
	}
	at.Quota, at.Period = int64(want), node.QuotaPeriod
	return true, nil
}

// at is the cgroup of that path. mu held.
func (r *Runtime) at(path string) (*Resources, error) {
	if parent := r.parents[path]; parent != nil {
		return parent, nil
	}
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] != '/' {
			continue
		}
		if c := r.containers[path[i+1:]]; c != nil && c.cgroup != nil && c.path() == path {
			return c.cgroup, nil
		}
		break
	}
	return nil, fmt.Errorf("cgroup %s: %w", path, fs.ErrNotExist)
}
