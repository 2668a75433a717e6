package cgroup_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"
)

func TestUsed(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  time.Duration
		bad   string
	}{
		{"v2", map[string]string{"p/cpu.stat": "usage_usec 1500000\nuser_usec 1\nsystem_usec 2\n"}, 1500 * time.Millisecond, ""},
		{"v2 no line", map[string]string{"p/cpu.stat": "user_usec 1\n"}, 0, "has no line usage_usec"},
		{"v2 no number", map[string]string{"p/cpu.stat": "usage_usec much\n"}, 0, `"much" is not a number of microseconds`},
		{"v2 too large", map[string]string{"p/cpu.stat": "usage_usec 9223372036854775807\n"}, 0, "is not a number of microseconds"},
		{"v1", map[string]string{"cpuacct/p/cpuacct.usage": "2000000000\n"}, 2 * time.Second, ""},
		{"v1 negative", map[string]string{"cpuacct/p/cpuacct.usage": "-1\n"}, 0, "is not a number of nanoseconds"},
	} {
		if strings.HasPrefix(c.name, "v2") {
			c.files["cgroup.controllers"] = "cpu"
		}
		files := put(t, c.files)
		got, err := files.Used("/p")
		if got != c.want || (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s: %v, %v; want %v, %q", c.name, got, err, c.want, c.bad)
		}
		if _, err := files.Used("/gone"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a cgroup that is gone: %v", c.name, err)
		}
	}
}
