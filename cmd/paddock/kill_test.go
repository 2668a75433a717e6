package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/podres"
)

var (
	kills    = flag.Int("kills", 5, "how often TestKill kills the agent")
	killSeed = flag.Uint64("killseed", 0, "what TestKill draws from; 0: something new")
)

// manifestFiles is the largest number of manifests. Each pod requests up to four of 512 CPUs.
const manifestFiles = 300

func silentClient(socket string) (io.Closer, error) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	// An HTTP/2 server sends its settings after it has accepted the connection. Before that,
	// nothing waits for the client.
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// siege is an agent that is killed again and again while its manifests change.
type siege struct {
	*home
	rand *rand.Rand
	// files maps the present manifests to the names of their pods, which are also the UIDs. A
	// manifest that is added again has a different pod.
	files map[string]string
	made  int
	// left is the content of the state file after the last kill.
	left map[string]*node.Grant
	// seen has the answers of the PodResources API since then, by pod.
	seen map[string]string
}

// change adds the given manifests that are missing, and removes those that are present.
func (s *siege) change(manifests []int) {
	s.t.Helper()
	for _, i := range manifests {
		file := fmt.Sprintf("pods/%d.yaml", i)
		if _, there := s.files[file]; there {
			delete(s.files, file)
			if err := os.Remove(s.path(file)); err != nil {
				s.t.Fatal(err)
			}
			continue
		}
		s.made++
		name := fmt.Sprintf("p%d", s.made)
		s.files[file] = name
		resources := fmt.Sprintf(`{limits: {cpu: "%d", memory: 64Mi}}`, 1+s.rand.IntN(4))
		if s.rand.IntN(4) == 0 {
			resources = "{}"
		}
		s.write(file, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, uid: %s}, spec: {containers: [{name: c, image: x, resources: %s}]}}\n",
			name, name, resources))
	}
}

// round starts the agent with 200 changes, some of which happen while it runs. It kills the agent
// during its start or after a part of the work.
func (s *siege) round() *process {
	s.t.Helper()
	changes := s.rand.Perm(manifestFiles)[:200]
	early := s.rand.IntN(len(changes) + 1)
	s.change(changes[:early])
	p := s.start()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	asked := make(chan map[string]string, 1)
	go func() { asked <- watchPods(ctx, s.path("s")) }()
	s.change(changes[early:])
	if part := s.rand.IntN(s.work() + 1); part > 0 {
		p.await(s.t, part, "pod admitted", "pod released")
	}
	time.Sleep(time.Duration(s.rand.IntN(30)) * time.Millisecond) //nolint:forbidigo // A random moment.
	if err := p.end(s.t, syscall.SIGKILL); err == nil {
		s.t.Fatal("the agent ended by itself")
	}
	cancel()
	s.seen = <-asked
	return p
}

// work returns how many pods are to be admitted and released.
func (s *siege) work() int {
	n := len(s.left)
	for _, uid := range s.files {
		if s.left[uid] == nil {
			n++
		} else {
			n--
		}
	}
	return n
}

// watchPods asks the PodResources API for the resources of each pod's container, until no process
// answers.
func watchPods(ctx context.Context, socket string) map[string]string {
	seen := map[string]string{}
	for ctx.Err() == nil {
		client, err := podres.Dial(ctx, socket)
		if err != nil {
			continue // It is not up yet, or down again.
		}
		for {
			response, err := client.List(ctx)
			if err != nil {
				break
			}
			for _, p := range response.GetPodResources() {
				seen[p.GetName()] = fmt.Sprint(p.GetContainers()[0].GetCpuIds())
			}
		}
		_ = client.Close()
	}
	return seen
}

// inspect reads the state file that the agent left, and compares it with what was known, logged and
// seen.
func (s *siege) inspect(p *process) {
	s.t.Helper()
	now := s.read()
	wanted := map[string]bool{}
	for _, uid := range s.files {
		wanted[uid] = true
	}
	for uid, was := range s.left {
		g := now[uid]
		if g == nil && wanted[uid] {
			s.t.Errorf("pod %s is lost", uid)
		}
		if g != nil && (!g.CPUs().Equal(was.CPUs()) || g.Sequence != was.Sequence) {
			s.t.Errorf("pod %s has %s, had %s", uid, g.CPUs(), was.CPUs())
		}
	}
	s.checkLog(p, now, wanted)
	for uid, cpus := range s.seen {
		switch g := now[uid]; {
		case g == nil && wanted[uid]:
			s.t.Errorf("pod %s was seen with CPUs %s and is lost", uid, cpus)
		case g != nil && fmt.Sprint(g.CPUs().IDs()) != cpus:
			s.t.Errorf("pod %s was seen with CPUs %s, and has %s", uid, cpus, g.CPUs())
		}
	}
	s.left = now
}

// checkLog checks that a pod that was admitted and not released, according to the log, has its
// assignments.
func (s *siege) checkLog(p *process, now map[string]*node.Grant, wanted map[string]bool) {
	s.t.Helper()
	events, _ := p.events(s.t)
	for _, e := range events {
		switch {
		case e.Msg == "pod admitted" && wanted[e.UID] && now[e.UID] == nil:
			s.t.Errorf("pod %s was admitted and is lost", e.UID)
		case e.Msg == "pod released" && now[e.UID] != nil:
			s.t.Errorf("pod %s was released and is there", e.UID)
		}
	}
}

// read decodes the state file and checks that no two pods have the same CPU.
func (s *siege) read() map[string]*node.Grant {
	s.t.Helper()
	data, err := os.ReadFile(s.path("state.json"))
	if errors.Is(err, fs.ErrNotExist) && len(s.left) == 0 {
		return nil // It was killed before its first write.
	}
	if err != nil {
		s.t.Fatal(err)
	}
	file, err := statefile.Decode("state.json", data)
	if err != nil {
		s.t.Fatal(err)
	}
	grants := map[string]*node.Grant{}
	var taken cpuset.Set
	for _, g := range file.Grants {
		if taken.Intersects(g.CPUs()) {
			s.t.Errorf("pod %s has CPUs %s, some of which another one has", g.Pod.UID, g.CPUs())
		}
		taken = taken.Union(g.CPUs())
		grants[g.Pod.UID] = g
	}
	return grants
}

// TestKill kills a real agent at random moments while 200 manifests come and go. No admitted pod
// may be lost or changed, and nothing may be assigned twice. -kills=50 runs more rounds.
func TestKill(t *testing.T) {
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-killseed=%d", seed)
	s := &siege{
		home: newHome(t, machineText(2, 4, 32)), rand: rand.New(rand.NewPCG(seed, 0)),
		files: map[string]string{}, left: map[string]*node.Grant{},
	}
	count := map[string]int{}
	for range *kills {
		p := s.round()
		s.inspect(p)
		events, _ := p.events(t)
		for _, e := range events {
			count[e.Msg]++
		}
		count["seen"] += len(s.seen)
		if s.work() > 0 {
			count["cut"]++
		}
	}
	t.Logf("%d kills, %d of them in the middle of the work; %d admissions, %d releases, %d times a pod seen",
		*kills, count["cut"], count["pod admitted"], count["pod released"], count["seen"])
	if count["pod admitted"] == 0 || count["pod released"] == 0 {
		t.Error("nothing happened before the kills")
	}
	s.finish()
}

// finish lets the agent do the remaining work and end by itself.
func (s *siege) finish() {
	s.t.Helper()
	s.change(s.rand.Perm(manifestFiles)[:20])
	missing := slices.DeleteFunc(slices.Collect(maps.Values(s.files)), func(uid string) bool { return s.left[uid] != nil })
	there := map[string]bool{}
	for _, uid := range s.files {
		there[uid] = true
	}
	gone := 0
	for uid := range s.left {
		if !there[uid] {
			gone++
		}
	}
	p := s.start()
	if len(missing) > 0 {
		p.await(s.t, len(missing), "pod admitted")
	}
	if gone > 0 {
		p.await(s.t, gone, "pod released")
	}
	if err := p.end(s.t, syscall.SIGTERM); err != nil {
		s.t.Error(err)
	}
	s.inspect(p)
	if s.work() > 0 {
		s.t.Errorf("%d pods hold something, %d are there", len(s.left), len(s.files))
	}
}
