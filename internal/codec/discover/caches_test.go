package discover

import (
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/machine"
)

// aDivision draws how a kernel divides caches.
func aDivision(t *rapid.T) machine.Caches {
	if rapid.Bool().Draw(t, "divides nothing") {
		return machine.Caches{}
	}
	c := machine.Caches{Classes: rapid.IntRange(1, 64).Draw(t, "classes"), Ways: rapid.IntRange(1, machine.MaxWays).Draw(t, "ways")}
	c.LeastWays = rapid.IntRange(1, c.Ways).Draw(t, "least")
	c.HardwareWays = rapid.Uint32Max(uint32(1)<<(c.Ways-1)).Draw(t, "hardware") &^ (1 << (c.Ways - 1))
	c.Sparse, c.CodeAndData = rapid.Bool().Draw(t, "sparse"), rapid.Bool().Draw(t, "cdp")
	if c.AbsoluteBandwidth = rapid.Bool().Draw(t, "absolute"); !c.AbsoluteBandwidth {
		c.LeastBandwidth, c.BandwidthStep = rapid.IntRange(0, 100).Draw(t, "least bandwidth"), rapid.IntRange(0, 100).Draw(t, "step")
	}
	return c
}

const (
	xeonFiles = `/sys/fs/resctrl/info/L3/bit_usage:0=SSSSSSSSSXX
/sys/fs/resctrl/info/L3/cbm_mask:7ff
/sys/fs/resctrl/info/L3/min_cbm_bits:1
/sys/fs/resctrl/info/L3/num_closids:16
/sys/fs/resctrl/info/L3/shareable_bits:600
/sys/fs/resctrl/info/MB/bandwidth_gran:10
/sys/fs/resctrl/info/MB/delay_linear:1
/sys/fs/resctrl/info/MB/min_bandwidth:10
/sys/fs/resctrl/info/MB/num_closids:8
/sys/fs/resctrl/info/L3_MON/num_rmids:192
/sys/fs/resctrl/info/last_cmd_status:ok
/sys/fs/resctrl/schemata:    MB:0=100
/sys/fs/resctrl/schemata:    L3:0=7ff
`
	haswell = "/sys/fs/resctrl/info/L3/num_closids:4\n/sys/fs/resctrl/info/L3/cbm_mask:fffff\n/sys/fs/resctrl/info/L3/min_cbm_bits:2\n"
)

// TestResctrlFiles checks what the files describe, in the form in which a folder has them.
func TestResctrlFiles(t *testing.T) {
	xeon := machine.Caches{Classes: 8, Ways: 11, LeastWays: 1, HardwareWays: 0x600, LeastBandwidth: 10, BandwidthStep: 10}
	absolute := machine.Caches{Classes: 8, Ways: 11, LeastWays: 1, HardwareWays: 0x600, AbsoluteBandwidth: true}
	for name, c := range map[string]struct {
		text string
		want machine.Caches
		err  string
	}{
		"a Xeon with MBA":         {xeonFiles, xeon, ""},
		"in MiB/s (mba_MBps)":     {strings.Replace(xeonFiles, "MB:0=100", "MB:0=4294967295", 1), absolute, ""},
		"an old kernel":           {haswell, machine.Caches{Classes: 4, Ways: 20, LeastWays: 2}, ""},
		"monitoring only":         {"/sys/fs/resctrl/info/L3_MON/num_rmids:192\n", machine.Caches{}, ""},
		"L2 only":                 {"/sys/fs/resctrl/info/L2/num_closids:4\n/sys/fs/resctrl/info/L2/cbm_mask:ff\n", machine.Caches{}, ""},
		"MB only":                 {"/sys/fs/resctrl/info/MB/num_closids:8\n/sys/fs/resctrl/info/MB/min_bandwidth:10\n/sys/fs/resctrl/info/MB/bandwidth_gran:10\n", machine.Caches{Classes: 8, LeastBandwidth: 10, BandwidthStep: 10}, ""},
		"fewer classes in L2":     {haswell + "/sys/fs/resctrl/info/L2/num_closids:3\n", machine.Caches{Classes: 3, Ways: 20, LeastWays: 2}, ""},
		"empty masks (AMD)":       {strings.Replace(haswell, "bits:2", "bits:0", 1) + "/sys/fs/resctrl/info/L3/sparse_masks:1\n", machine.Caches{Classes: 4, Ways: 20, LeastWays: 1, Sparse: true}, ""},
		"no cbm_mask":             {strings.Replace(haswell, "cbm_mask", "bit_usage", 1), machine.Caches{}, "/sys/fs/resctrl/info/L3/cbm_mask: it is missing"},
		"a hole in cbm_mask":      {strings.Replace(haswell, "fffff", "fdfff", 1), machine.Caches{}, "/sys/fs/resctrl/info/L3/cbm_mask: fdfff: expected ones"},
		"no number":               {strings.Replace(haswell, "closids:4", "closids:four", 1), machine.Caches{}, `/sys/fs/resctrl/info/L3/num_closids: "four"`},
		"garbage in the schemata": {haswell + "/sys/fs/resctrl/schemata:L3:0=xyz\n", machine.Caches{}, `/sys/fs/resctrl/schemata: "0=xyz" of L3`},
	} {
		got, _, err := readResctrl(File{Data: []byte(c.text)}).caches()
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %+v, %v, want %+v, %s", name, got, err, c.want, c.err)
		}
	}
}

// TestCachesOfAFolder checks that a folder has the caches of the files beside lscpu, and not if the
// ids of the caches are not those of the kernel.
func TestCachesOfAFolder(t *testing.T) {
	for ids, divides := range map[string]bool{"0": true, "2": false} {
		f, err := Assemble("d", files(map[string]string{"a": tableText, "b": numactlFile, "c": strings.NewReplacer(":    L3:0=7ff", ":    L3:"+ids+"=7ff;1=7ff", ":    MB:0=100", ":    MB:"+ids+"=100;1=100").Replace(xeonFiles)}), nil)
		if err != nil {
			t.Fatal(err)
		}
		if c := f.Machine.Caches(); (c.Ways == 11) != divides || c.IsEmpty() == divides {
			t.Errorf("cache %s: %+v with the remarks %q", ids, c, f.Remarks)
		}
		if shown := strings.Contains(strings.Join(f.Remarks, "\n"), "the kernel divides caches"); shown == divides {
			t.Errorf("cache %s: the remarks %q", ids, f.Remarks)
		}
	}
	_, err := Assemble("d", files(map[string]string{"a": tableText, "b": numactlFile, "c": "/sys/fs/resctrl/info/L3/num_closids:no\n"}), nil)
	if err == nil || !strings.HasPrefix(err.Error(), "d/c: /sys/fs/resctrl/info/L3/") {
		t.Errorf("error %v, want one that names both files", err)
	}
}

func FuzzResctrl(f *testing.F) {
	f.Add([]byte(xeonFiles))
	f.Add([]byte(haswell))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, _, err := readResctrl(File{Data: data}).caches()
		if err != nil && !c.IsEmpty() {
			t.Errorf("both %+v and %v", c, err)
		}
	})
}

func TestHasGroup(t *testing.T) {
	root := fstest.MapFS{"host/sys/fs/resctrl/paddock-a.main/schemata": {}, "host/sys/fs/resctrl/info/L3/cbm_mask": {}}
	if !HasGroup(root, "paddock-a.main") || HasGroup(root, "paddock-a") || HasGroup(root, "info") || HasGroup(root, "../x") {
		t.Error("the groups are not those of the directory")
	}
}

func TestBadRecordedCaches(t *testing.T) {
	for text, want := range map[string]string{
		`{"num_closids":16,"cbm_bits":11,"min_cbm_bits":1,"shareable_bits":"xy"}`: "m.json: shareable_bits of resctrl",
		`{"num_closids":16,"cbm_bits":40,"min_cbm_bits":1}`:                       "40 ways",
	} {
		info := `{"resctrl":` + text + `,"num_cores":1,"num_sockets":1,"topology":[{"node_id":0,"memory":1024,"cores":[{"core_id":0,"thread_ids":[0],"uncore_caches":[{"id":0}],"socket_id":0}]}]}`
		if _, err := Read("m.json", []byte(info)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", text, err, want)
		}
	}
}
