package silencer

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/node/kernelfiles"
	"github.com/paddock-project/paddock/internal/node/podres"
	"github.com/paddock-project/paddock/internal/node/quiet"
	"github.com/paddock-project/paddock/internal/node/store"
	"github.com/paddock-project/paddock/internal/testing/fakekernel"
)

// TestWishesThatAreNotAllowed checks that a wish that is not allowed is an event of the pod, once.
func TestWishesThatAreNotAllowed(t *testing.T) {
	var events []object
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var o object
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil || r.URL.Path != "/api/v1/namespaces/prod/events" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s with %q: %v", r.URL, r.Header.Get("Authorization"), err)
		}
		events = append(events, o)
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	dir := t.TempDir()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	must(t, os.WriteFile(filepath.Join(dir, "ca.crt"), certificate, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "token"), []byte("secret\n"), 0o600))
	r := newRig(t, fakekernel.Options{CPUs: 8}, quiet.DefaultPolicy())
	r.config.APIServer = APIServer{URL: server.URL, TokenFile: filepath.Join(dir, "token"), CAFile: filepath.Join(dir, "ca.crt")}
	r.start()
	c := r.pod("a", cpuset.Of(2, 3), map[string]string{quiet.AskCStates + "/main": "disable"})
	r.s.config.Quiet.Partition = quiet.Exclusive
	r.pod("all", cpuset.Of(0, 1, 4, 5, 6, 7), nil) // It can have no partition, and has not asked for one.
	r.rounds(3)
	if len(events) != 1 || events[0].InvolvedObject.Name != "a" || events[0].InvolvedObject.UID != c.UID || !strings.Contains(events[0].Message, quiet.AskCStates+"/main: its pod may not ask for it") {
		t.Errorf("events %+v", events)
	}
	r.wantFiles(map[string]string{quiet.LatencyFile(2): "0"})
	server.CloseClientConnections()
}

// silent is an API server that does not answer.
type silent struct{ asked int }

func (s *silent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked++
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestAnAPIServerThatDoesNotAnswer checks that pods with wishes that are not allowed do not stop
// the rounds for longer than one question takes.
func TestAnAPIServerThatDoesNotAnswer(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8}, quiet.DefaultPolicy())
	r.start()
	server := &silent{}
	r.s.events = &events{base: "https://api", client: &http.Client{Timeout: askTime, Transport: server}, now: time.Now}
	for i := range 4 {
		r.pod(fmt.Sprint("p", i), cpuset.Of(i+2), map[string]string{quiet.AskCStates: "disable"})
	}
	r.rounds(1)
	if server.asked != 1 || strings.Count(r.log.String(), "may not ask") != 1 {
		t.Errorf("%d questions in one round, log:\n%s", server.asked, r.log.String())
	}
	r.s.events.client.Transport = http.NewFileTransport(http.Dir(t.TempDir())) // It answers at once.
	r.rounds(1)
	if n := strings.Count(r.log.String(), "may not ask"); n != 4 {
		t.Errorf("%d of 4 problems were reported in the end", n)
	}
}

const list = `{"kind":"PodList","metadata":{"x":["items"]},"items":[
 {"metadata":{"name":"a","namespace":"prod","uid":"u1","annotations":{"irq-load-balancing.crio.io":"disable"}},"spec":{"runtimeClassName":"fast","containers":[{"name":"main"}]},
  "status":{"phase":"Running","containerStatuses":[{"name":"main","containerID":"containerd://abc"}]}},
 {"metadata":{"name":"asks","namespace":"prod","uid":"u2","annotations":{"cpu-c-states.crio.io":"disable"}},"spec":{"containers":[{"name":"main"}]},"status":{"phase":"Running"}}]}`

// TestUnknownContainers checks how often the kubelet's list is read while a container that has CPUs
// never gets an ID, as with an image that cannot be pulled: at once, because it is another set of
// unknown containers than without a list, after 1, 2, 4 and 8 s, and then every 10 s.
func TestUnknownContainers(t *testing.T) {
	reads := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reads++
		_, _ = io.WriteString(w, list)
	}))
	defer server.Close()
	c := DefaultConfig()
	c.Kubelet.URL = server.URL
	now := time.Date(2026, 11, 28, 7, 0, 0, 0, time.UTC)
	f, err := newFollower(&c, nil, func() time.Time { return now })
	must(t, err)
	defer f.Close()
	waits := assigned{namespace: "prod", pod: "asks", name: "main", cpus: cpuset.Of(4)}
	f.sources = []*source{{socket: "s", last: []assigned{{"prod", "a", "main", cpuset.Of(2, 3), cpuset.Set{}}, waits}}}
	var at []int
	for second := range 36 {
		before := reads
		f.readPods(t.Context())
		if reads > before {
			at = append(at, second)
		}
		now = now.Add(time.Second)
	}
	if want := []int{0, 1, 2, 4, 8, 16, 26}; !slices.Equal(at, want) {
		t.Errorf("the list was read after %v s, want %v", at, want)
	}
	before := reads
	f.sources[0].last = append(f.sources[0].last, assigned{namespace: "prod", pod: "new", name: "main", cpus: cpuset.Of(5)})
	f.readPods(t.Context())
	if reads != before+1 {
		t.Errorf("the list was read %d times for a new container", reads-before)
	}
}

// TestTheKubeletsPods reads pods, and puts them together with CPUs and cgroups.
func TestTheKubeletsPods(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, list) }))
	defer server.Close()
	c := DefaultConfig()
	c.Kubelet.URL = server.URL
	f, err := newFollower(&c, nil, time.Now)
	must(t, err)
	f.sources = []*source{{socket: "s", last: []assigned{{"prod", "a", "main", cpuset.Of(2, 3), cpuset.Of(5)}}}}
	f.readPods(t.Context())
	got := f.assemble([]kernelfiles.Cgroup{{Path: "/other", UID: "u9", ID: "abd", CPUs: cpuset.Of(2, 3)}, {Path: "/pod/abc", UID: "u1", ID: "abc", CPUs: cpuset.Of(2)}})
	f.Close()
	server.CloseClientConnections()
	if len(got) != 2 || got[0].Cgroup != "/pod/abc" || got[0].RuntimeClass != "fast" || got[0].Assigned.String() != "2-3,5" || !got[0].Runs.Equal(cpuset.Of(2)) || got[1].Pod != "asks" || !got[1].Assigned.IsEmpty() {
		t.Errorf("%+v, %v", got, f.podsErr)
	}
	for _, text := range []string{list[:len(list)-2], list[:100], "{}", "", `{"items":[1]}`} {
		if pods, err := readPods(strings.NewReader(text)); err == nil {
			t.Errorf("%.30q: %d pods and no error", text, len(pods))
		}
	}
	if pods, err := readPods(strings.NewReader(`{"items":null}`)); err != nil || len(pods) != 0 {
		t.Errorf("an empty list: %v, %v", pods, err)
	}
}

// TestLargeAnnotations checks that annotations take no memory except for short wishes of containers
// that exist: with 256 KiB of them in each of 250 pods, the process would be killed at its limit.
func TestLargeAnnotations(t *testing.T) {
	text := strings.Replace(list, `"annotations":{`, `"annotations":{"note":"`+strings.Repeat("x", 1<<18)+`","cpu-c-states.crio.io/other":"enable",
		"cpu-c-states.crio.io/main":"enable","cpu-freq-governor.crio.io":"`+strings.Repeat("é", 1<<17)+`",`, 1)
	pods, err := readPods(strings.NewReader(text))
	must(t, err)
	got := pods["prod/a"].Metadata.Annotations
	if len(got) != 3 || got[quiet.AskInterrupts] != "disable" || got[quiet.AskCStates+"/main"] != "enable" || len(got[quiet.AskGovernor]) > 100 {
		t.Errorf("%d annotations are kept: %.300v", len(got), got)
	}
}

// TestCgroupsWithoutIDs finds the cgroup of a container without the kubelet's list.
func TestCgroupsWithoutIDs(t *testing.T) {
	f := &follower{groups: map[string]string{}, now: time.Now}
	s := &source{last: []assigned{{"prod", "a", "main", cpuset.Of(2, 3), cpuset.Set{}}}}
	f.sources = []*source{s}
	groups := []kernelfiles.Cgroup{{Path: "/a", CPUs: cpuset.Of(2, 3)}, {Path: "/b", CPUs: cpuset.Of(0, 1)}}
	for step, want := range []string{"/a", "/a", "/a", ""} {
		switch step {
		case 1: // It is to move, and has not.
			s.last[0].to = cpuset.Of(4, 5)
		case 2: // It has been moved in the state, and not in the cgroup.
			s.last[0].cpus, s.last[0].to = cpuset.Of(4, 5), cpuset.Set{}
		case 3:
			groups = groups[1:]
		}
		if got := f.assemble(groups); got[0].Cgroup != want {
			t.Errorf("step %d: %q, want %q", step, got[0].Cgroup, want)
		}
	}
}

// TestASourceThatHadContainers checks that a restart of this process beside an agent that is away
// gives nothing back, and that a source that stays away is forgotten.
func TestASourceThatHadContainers(t *testing.T) {
	now := time.Unix(1e9, 0)
	c := DefaultConfig()
	c.PodResources = []string{filepath.Join(t.TempDir(), "s")}
	f, err := newFollower(&c, c.PodResources, func() time.Time { return now })
	must(t, err)
	if _, err := f.Containers(t.Context(), nil); !errors.Is(err, errNoSource) {
		t.Errorf("containers of a source that does not answer: %v", err)
	}
	if got := f.answered(); len(got) != 1 {
		t.Errorf("the source is forgotten: %q", got)
	}
	now = now.Add(forgetAfter + time.Second)
	f.sources = append(f.sources, &source{socket: "other"})
	f.sources[0].ask(t.Context(), now)
	if f.sources[0].missed(now, f.began) || len(f.answered()) != 0 {
		t.Error("a source that never answers keeps everything as it is")
	}
}

// TestWrongClasses checks that classes that cannot be true change nothing, and are a problem until
// the next answer.
func TestWrongClasses(t *testing.T) {
	shown, wrong := &podres.Caches{}, errors.New("two containers both have ways 0-3 of cache 0")
	s := &source{socket: "run/s"}
	f := follower{sources: []*source{s}}
	for i, c := range []struct {
		extras podres.Extras
		want   *podres.Caches
		text   string
	}{
		{podres.Extras{Caches: shown}, shown, ""},
		{podres.Extras{CachesError: wrong}, shown, "the classes of the caches that run/s shows: " + wrong.Error() + "; the classes stay as they were"},
		{podres.Extras{}, nil, ""},
	} {
		s.take(&c.extras)
		text := ""
		for _, p := range f.problems() {
			text += p.Text
		}
		if f.classes() != c.want || !strings.HasPrefix(text, c.text) || c.text == "" && text != "" {
			t.Errorf("%d: %v, %q", i, f.classes(), text)
		}
	}
}

func TestConfig(t *testing.T) {
	for text, want := range map[string]string{
		"quiet: {interrupts: all}":                   `quiet.interrupts: "all": expected one of [off asked exclusive]`,
		"interval: 1ms":                              "interval: 1ms: expected a time from 200ms to 1m0s",
		"quiet: {partition: off, frequency: off}":    "",
		"quiet: {partition: on}":                     `quiet.partition: "true": expected one of [off asked exclusive]`,
		"interval: 2":                                `a time such as "2s"`,
		"interval: 2x":                               `interval: "2x": expected a time such as "2s"`,
		"onExit: undo":                               `onExit: "undo": expected leave or release`,
		"quiet: {allow: {namespaces: [prod]}}":       "set kubelet.url",
		"quite: {}":                                  `unknown field "quite"`,
		"kubelet: {url: ftp://x}":                    "kubelet.url",
		"kubelet: {url: http://x, tokenFile: token}": "no token is sent over http",
		"state: state.json":                          "expected the absolute path",
		"podResources: []":                           "podResources: expected",
		"quiet: {mostFights: 0, latency: -1}":        "quiet.mostFights",
		"":                                           "",
	} {
		c, err := ReadConfig("quiet.yaml", []byte(text))
		if err == nil {
			err = c.Check()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestSaved(t *testing.T) {
	s := saved{Version: 1, Boot: "b", Files: quiet.Records{"proc/irq/1/smp_affinity_list": {Before: "0-3", Wrote: "0-1"}}}
	text, err := s.encode()
	must(t, err)
	if got, err := decode(text); err != nil || got.Files["proc/irq/1/smp_affinity_list"].Wrote != "0-1" {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range text {
		damaged := append([]byte{}, text...)
		damaged[i] ^= 1
		if got, err := decode(damaged); err == nil {
			t.Errorf("byte %d changed: %+v", i, got)
		}
	}
	for _, name := range []string{"etc/shadow", "proc/irq/../../etc/smp_affinity_list", "/etc/passwd"} {
		forged := saved{Version: 1, Files: quiet.Records{name: {Before: "x"}}}
		text, err := forged.encode()
		must(t, err)
		if got, err := decode(text); err == nil {
			t.Errorf("a record of %s: %+v", name, got)
		}
	}
	newer := saved{Version: 2}
	text, err = newer.encode()
	must(t, err)
	if _, err := decode(text); !errors.Is(err, store.ErrForeign) {
		t.Errorf("of a newer program: %v", err)
	}
}

// TestServed checks what the process serves.
func TestServed(t *testing.T) {
	r := newRig(t, fakekernel.Options{CPUs: 8}, everything())
	r.start()
	get := func(path string) (int, string) {
		answer := httptest.NewRecorder()
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		request.Host = "localhost"
		r.s.Handler().ServeHTTP(answer, request)
		return answer.Code, answer.Body.String()
	}
	if code, text := get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("before the first round: %d %s", code, text)
	}
	r.pod("a", cpuset.Of(2, 3), nil)
	r.rounds(1)
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ready", "/status": `"file":"proc/irq/24/smp_affinity_list","sets":"interrupt","before":"0-7","wanted":"0-1,4-7","now":"0-1,4-7","for":["prod/a/main"]`,
		"/metrics": "paddock_quiet_changed_files{sets=\"interrupt\"} 7\n",
	} {
		if code, text := get(path); code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want %s", path, code, text, want)
		}
	}
}
