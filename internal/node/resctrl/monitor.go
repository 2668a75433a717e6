package resctrl

import (
	"strconv"
	"strings"
)

// Events are the files of a directory mon_data/mon_L3_XX that are read. With sub-NUMA clusters,
// such a file has the sum of those in mon_sub_L3_YY (resctrl.rst, "Notes on Sub-NUMA Cluster
// mode"), so that only this one is read.
var Events = [3]string{"llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"}

// IsMonitored reports whether a name in mon_data is that of an L3 cache.
func IsMonitored(name string) bool {
	id, is := strings.CutPrefix(name, "mon_L3_")
	_, err := strconv.ParseUint(id, 10, 31)
	return is && err == nil
}

// ParseEvent reads the file of an event. known is false for "Unavailable", "Error" and
// "Unassigned" (fs/resctrl/ctrlmondata.c, rdtgroup_mondata_show), which a later reading can
// replace with a number.
func ParseEvent(text string) (value uint64, known bool) {
	value, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	return value, err == nil
}
