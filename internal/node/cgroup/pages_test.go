package cgroup_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"testing"
)

func TestPages(t *testing.T) {
	new2 := put(t, map[string]string{
		"cgroup.controllers":   "cpuset memory\n",
		"a/memory.numa_stat":   "anon N0=4096 N1=0\nfile N0=8192 N1=8192\nanon_thp N0=1 N1=1\n",
		"bad/memory.numa_stat": "anon N0=much\n",
		"odd/memory.numa_stat": "file N0=1\n",
	})
	got, err := new2.Pages("/a")
	if want := map[int]int64{0: 4096, 1: 0}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, path := range []string{"/bad", "/odd"} {
		if got, err := new2.Pages(path); err == nil {
			t.Errorf("%s: %v without an error", path, got)
		}
	}
	if _, err := new2.Pages("/gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	old := put(t, map[string]string{"memory/a/memory.numa_stat": "total=9 N0=5 N1=4\nfile=6 N0=3 N1=3\nanon=3 N0=2 N1=1\n"})
	size := int64(os.Getpagesize())
	if got, err := old.Pages("/a"); err != nil || !maps.Equal(got, map[int]int64{0: 2 * size, 1: size}) {
		t.Errorf("%v, %v", got, err)
	}
}
