package manifests

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestEventsAreSeenSoon: an event leads to a look at once. Without an event, the rescan looks.
func TestEventsAreSeenSoon(t *testing.T) {
	play(t, []string{"."}, all(), func(r running) {
		r.next(soon)
		begin := time.Now()
		r.do(write("a.yaml", pod("a")))
		r.tell <- struct{}{}
		r.next(time.Hour)
		if took := time.Since(begin); took != DefaultSettle {
			r.t.Errorf("told: took %s, want %s", took, DefaultSettle)
		}
		begin = time.Now()
		r.do(write("a.yaml", pod("b")))
		r.next(time.Hour)
		if took := time.Since(begin); took != DefaultRescan+DefaultSettle {
			r.t.Errorf("not told: took %s, want %s", took, DefaultRescan+DefaultSettle)
		}
	})
}

// TestBurstIsOneSet: a file that is being written is accepted only when it stays the same.
func TestBurstIsOneSet(t *testing.T) {
	play(t, []string{"."}, write("a.yaml", pod("a")), func(r running) {
		r.next(soon)
		for _, content := range []string{"", pod("x")[:20], pod("x"), pod("x") + pod("y")[:30], pod("x") + pod("y")} {
			r.do(write("a.yaml", content))
			select {
			case r.tell <- struct{}{}:
			default:
			}
			select {
			case s := <-r.sets:
				r.t.Fatalf("delivered too soon: %s", summary(r.dir, s))
			case <-time.After(DefaultSettle * 2 / 3): // never at the moment of a look
			}
		}
		if got := summary(r.dir, r.next(time.Second)); got != "x y" {
			r.t.Errorf("got %q", got)
		}
		r.quiet()
	})
}

// TestRestlessFile: a file that never stays the same does not delay the others for ever.
func TestRestlessFile(t *testing.T) {
	play(t, []string{"."}, all(), func(r running) {
		r.next(soon)
		r.do(write("b.yaml", pod("b")))
		r.tell <- struct{}{}
		for i := range 3 * mostLooks {
			r.do(write("a.yaml", pod(fmt.Sprintf("a%d", i))))
			select {
			case s := <-r.sets:
				if got := summary(r.dir, s); !strings.HasSuffix(got, " b") {
					r.t.Errorf("got %q", got)
				}
				return
			case <-time.After(DefaultSettle * 3 / 7): // never at the moment of a look
			}
		}
		r.t.Error("nothing was delivered")
	})
}

// TestProblemsSayWhatAndWhere checks the texts of the problems.
func TestProblemsSayWhatAndWhere(t *testing.T) {
	begin := all(write("a.yaml", "kind: ["), write("b.yaml", invalid), write("c.yaml", pod("c")),
		write("d.yaml", pod("c")+pod("d")), link("nowhere", "e.yaml"), write("f.yaml", ""),
		func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "g.yaml"), 0o600) },
		write("h.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: s}"), write("i.txt", ""))
	play(t, []string{".", "none"}, begin, func(r running) {
		set := r.next(soon)
		if got, want := summary(r.dir, set), "c d !a.yaml !b.yaml !d.yaml !e.yaml !f.yaml !g.yaml !none partial"; got != want {
			r.t.Errorf("got  %s\nwant %s", got, want)
		}
		for i, want := range []string{
			"a.yaml: yaml: line 1", "b.yaml: document 1 (line 1): Pod default/x: spec.containers[0].resources.requests",
			"d.yaml: document 1 (line 1): Pod default/c: the pod is ignored, because another one has the same uid", "e.yaml: no such file", "f.yaml: it is empty",
			"g.yaml: it is not a regular file (p", "none: no such file",
		} {
			if got := set.Broken[i].Err.Error(); !strings.Contains(got, want) {
				r.t.Errorf("problem %d: %q, want %q in it", i, got, want)
			}
		}
		if got := strings.Join(set.Notes, "\n"); strings.Count(got, "\n") != 1 || !strings.Contains(got, "Service default/s: left out") || !strings.Contains(got, "i.txt: ignored") {
			r.t.Errorf("notes %q", got)
		}
		r.do(write("c.yaml", "kind: ["))
		if got := r.next(time.Hour).Broken[2].Err.Error(); !strings.HasSuffix(got, "; the pod that was read from it before is kept") {
			r.t.Errorf("got %q", got)
		}
	})
}

// TestPodsAreAdmissible: defaults are filled in, and the UID belongs to the manifest as written.
func TestPodsAreAdmissible(t *testing.T) {
	play(t, []string{"."}, write("a.yaml", strings.Replace(pod("a"), "{name: c}", "{name: c, resources: {limits: {cpu: 1}}}", 1)), func(r running) {
		first := r.next(soon).Pods[0].Pod
		if cpu := first.Spec.Containers[0].Resources.Requests.Cpu().Value(); cpu != 1 {
			r.t.Errorf("requests %d CPUs, want 1 by default", cpu)
		}
		r.do(rename("a.yaml", "b.yaml"))
		if again := r.next(time.Hour).Pods[0].Pod; again.UID != first.UID || len(again.UID) != 36 {
			r.t.Errorf("uid %q became %q", first.UID, again.UID)
		}
	})
}
