package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/node/cgroup"
	"github.com/paddock-project/paddock/internal/node/podsource/kubelet"
)

// kubeletWith returns the source of a kubelet that answers with that list.
func kubeletWith(tb testing.TB, list string) *kubelet.Source {
	tb.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(list)) }))
	tb.Cleanup(server.Close)
	source, err := kubelet.New(kubelet.Address{URL: server.URL}, kubelet.Options{Now: time.Now, After: time.After, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	return source
}

// TestSeen checks that a container that the loop knows is read where the runtime reports it, that
// another one is found by its id, and that one without a cgroup has an error.
func TestSeen(t *testing.T) {
	c := verifying(t, map[string]string{
		"elsewhere/aaa/cpuset.cpus": "5", "elsewhere/aaa/cpuset.mems": "0", "elsewhere/aaa/cpu.max": "max 100000",
		"kubepods/podu1/bbb/cpuset.cpus": "gone", "kubepods/podu1/bbb/cpuset.mems": "gone", "kubepods/podu1/bbb/cpu.max": "gone",
	})
	list, err := seen(kubeletWith(t, listedPods), cgroup.FS{Root: c.CgroupRoot}, slog.New(slog.DiscardHandler))(t.Context(), map[string]string{"aaa": "/elsewhere/aaa", "bbb": "/kubepods/podu1/bbb"})
	if err != nil || len(list) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, s := range list {
		got := fmt.Sprintf("%s %s %s %s %s", s.Who, s.Pod, s.Container, s.Path, s.CPUs)
		want := map[string]string{
			"aaa": "default/db u1 app /elsewhere/aaa 5", "bbb": "default/db u1 log /kubepods/podu1/bbb ",
			"ddd": "default/web u2 web /kubepods/burstable/podu2/ddd 0,3-7",
		}[s.ID]
		if got != want || errors.Is(s.Err, fs.ErrNotExist) != (s.ID == "bbb") {
			t.Errorf("%s: %q, %v; want %q", s.ID, got, s.Err, want)
		}
	}
}

// BenchmarkSeen measures what the comparison of all running containers reads, in each
// cpuManagerReconcilePeriod.
func BenchmarkSeen(b *testing.B) {
	for _, containers := range []int{10, 1000, 5000} {
		b.Run(fmt.Sprint(containers), func(b *testing.B) {
			root, paths := b.TempDir(), map[string]string{}
			if err := os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte("cpuset cpu\n"), 0o600); err != nil {
				b.Fatal(err)
			}
			var items []string
			for i := range containers {
				id := fmt.Sprintf("%064d", i)
				paths[id] = "/kubepods/pod" + id[60:] + "/" + id
				dir := filepath.Join(root, paths[id])
				if err := os.MkdirAll(dir, 0o755); err != nil {
					b.Fatal(err)
				}
				for name, text := range map[string]string{"cpuset.cpus": "0-7", "cpuset.mems": "0", "cpu.max": "max 100000"} {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
						b.Fatal(err)
					}
				}
				items = append(items, fmt.Sprintf(`{"metadata":{"name":"p%d","namespace":"default","uid":"u%d"},"spec":{"containers":[{"name":"c"}]},`+
					`"status":{"containerStatuses":[{"name":"c","containerID":"containerd://%s","state":{"running":{}}}]}}`, i, i, id))
			}
			source := kubeletWith(b, `{"kind":"PodList","apiVersion":"v1","items":[`+strings.Join(items, ",")+`]}`)
			look := seen(source, cgroup.FS{Root: root}, slog.New(slog.DiscardHandler))
			for b.Loop() {
				if list, err := look(b.Context(), paths); err != nil || len(list) != containers {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}
