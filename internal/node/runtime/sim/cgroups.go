package sim

import (
	"fmt"
	"io/fs"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/quota"
)

// Cgroups gives access to the cgroups of the runtime's pods and containers.
type Cgroups struct{ runtime *Runtime }

// Cgroups returns the runtime's cgroups.
func (r *Runtime) Cgroups() Cgroups { return Cgroups{r} }

// Read returns the settings of a container's cgroup, by the path that the runtime shows. The error
// wraps fs.ErrNotExist for a cgroup that does not exist.
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

// Inner returns no cgroup, because containers have none of their own.
func (g Cgroups) Inner(path string) (string, cpuset.Set, error) {
	_, err := g.Read(path)
	return "", cpuset.Set{}, err
}

// Set writes the settings of a cgroup. The error wraps fs.ErrNotExist for a cgroup that does not
// exist.
func (g Cgroups) Set(path string, s converge.Setting) error {
	r := g.runtime
	r.mu.Lock()
	at, err := r.at(path)
	if err == nil && !s.CPUs.IsEmpty() {
		at.CPUs = s.CPUs
	}
	if err == nil && !s.Mems.IsEmpty() {
		at.Mems = s.Mems
	}
	r.mu.Unlock()
	if err == nil {
		_, err = g.SetQuota(path, s.Quota)
	}
	return err
}

// Pages returns no pages, because the runtime has no memory.
func (g Cgroups) Pages(path string) (map[int]int64, error) {
	_, err := g.Read(path)
	return nil, err
}

// SetQuota writes the CFS quota of a pod's or a container's cgroup, and reports whether it changed.
// quota.Keep changes nothing. The error wraps fs.ErrNotExist for a cgroup that does not exist.
func (g Cgroups) SetQuota(path string, want quota.Quota) (bool, error) {
	r := g.runtime
	r.mu.Lock()
	defer r.mu.Unlock()
	at, err := r.at(path)
	if err != nil || want == quota.Keep || at.setting().Quota == want {
		return false, err
	}
	at.Quota, at.Period = int64(want), quota.Period
	return true, nil
}

// at returns the cgroup at a path. The caller has locked mu.
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
