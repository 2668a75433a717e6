package silencer

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/base/access"
	"github.com/paddock-project/paddock/internal/node/quiet"
)

// StatusPath is the path of the status on the listen address.
const StatusPath = "/status"

// Handler returns a handler for the following paths:
//
//	/status    the Status, as JSON, to clients on the node
//	/healthz   200 while the process answers
//	/readyz    200 if the last round did what was to be done, 503 otherwise
//	/metrics   the numbers of the status
//
// No request changes anything.
func (s *Silencer) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+StatusPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.Status()) // The client is gone if this fails.
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		waiting := s.Status().Waiting
		switch {
		case waiting == "":
			answer(w, http.StatusOK, "ready\n")
		case access.Local(r):
			answer(w, http.StatusServiceUnavailable, "not ready: "+waiting+"\n")
		default:
			answer(w, http.StatusServiceUnavailable, "not ready\n")
		}
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		answer(w, http.StatusOK, s.Status().metrics()+s.classMetrics())
	})
	return access.Guard{}.Handler(mux)
}

func answer(w http.ResponseWriter, code int, text string) {
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // The client is gone if this fails.
}

// metrics returns the numbers of a status in the text format of Prometheus. No label names a pod;
// only those of classMetrics do.
func (s *Status) metrics() string {
	var out strings.Builder
	metric := func(name, kind, help string) {
		fmt.Fprintf(&out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	changed, fought, rejected := map[string]int{}, 0, 0
	for _, k := range []quiet.Kind{
		quiet.Interrupt, quiet.NewInterrupts, quiet.Workqueues, quiet.Queue, quiet.NewQueues, quiet.ExclusiveCPUs,
		quiet.Partition, quiet.Latency, quiet.Governor, quiet.MinFrequency, quiet.MaxFrequency, quiet.Balancer,
		quiet.DefaultClass, quiet.CacheClass,
	} {
		changed[string(k)] = 0
	}
	for i := range s.Files {
		f := &s.Files[i]
		switch {
		case f.Error != "":
			rejected++
		case f.ChangedBack > 0:
			fought++
		}
		if f.Since != "" {
			changed[f.Sets]++
		}
	}
	metric("paddock_quiet_ready", "gauge", "1 if the last round did what was to be done.")
	fmt.Fprintf(&out, "paddock_quiet_ready %d\n", map[bool]int{true: 1}[s.Waiting == ""])
	metric("paddock_quiet_containers", "gauge", "Containers with exclusive CPUs.")
	fmt.Fprintf(&out, "paddock_quiet_containers %d\n", len(s.Containers))
	metric("paddock_quiet_changed_files", "gauge", "Files of the kernel that are changed, by what they set.")
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		fmt.Fprintf(&out, "paddock_quiet_changed_files{sets=%q} %d\n", name, changed[name])
	}
	metric("paddock_quiet_troubled_files", "gauge", "Files that do not have what they must contain: another program changes them back, or the kernel rejects the value.")
	fmt.Fprintf(&out, "paddock_quiet_troubled_files{cause=\"changed-back\"} %d\npaddock_quiet_troubled_files{cause=\"rejected\"} %d\n", fought, rejected)
	metric("paddock_quiet_problems", "gauge", "Wishes and settings that are not carried out.")
	fmt.Fprintf(&out, "paddock_quiet_problems %d\n", len(s.Problems))
	for _, c := range []struct {
		name, help string
		value      uint64
	}{
		{"rounds", "Looks at the node.", s.Counts.Rounds},
		{"writes", "Writes to files of the kernel.", s.Counts.Writes},
		{"failed_writes", "Writes that the kernel rejected.", s.Counts.Failed},
		{"saves", "Writes of the state.", s.Counts.Saves},
		{"moved_threads", "Threads that were moved to a class of the caches.", s.Counts.Moved},
	} {
		metric("paddock_quiet_"+c.name+"_total", "counter", c.help)
		fmt.Fprintf(&out, "paddock_quiet_%s_total %d\n", c.name, c.value)
	}
	return out.String()
}
