package nri_test

import (
	"io/fs"
	"strings"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/quota"
)

// cgroups implements nri.Cgroups.
type cgroups struct{ *bench }

func (c cgroups) Read(path string) (converge.Setting, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.runs {
		if r.c.GetLinux().GetCgroupsPath() == path {
			return r.setting, nil
		}
	}
	return converge.Setting{}, fs.ErrNotExist
}

// Inner returns the cgroup that a test has set, or none.
func (c cgroups) Inner(path string) (string, cpuset.Set, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, inner := range c.inner {
		if strings.Contains(path, name) {
			return "housekeeping", inner, nil
		}
	}
	return "", cpuset.Set{}, nil
}

func (c cgroups) Set(path string, s converge.Setting) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unwritable != nil {
		return c.unwritable
	}
	for _, r := range c.runs {
		if r.c.GetLinux().GetCgroupsPath() == path {
			r.setting = s
			return nil
		}
	}
	return fs.ErrNotExist
}

// Pages returns the pages that a test has set, or nil.
func (c cgroups) Pages(path string) (map[int]int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pages[path], nil
}

func (c cgroups) SetQuota(path string, want quota.Quota) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	had, there := c.quotas[path]
	if !there {
		return false, fs.ErrNotExist
	}
	c.quotas[path] = want != quota.None
	return had != c.quotas[path], nil
}
