package sim_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
	"github.com/paddock-project/paddock/internal/node/store"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// BenchmarkHooks measures how long the runtime waits for each answer on a node of 384 CPUs on which
// 250 pods run, a fifth of them with exclusive CPUs, while one after the other is replaced by a new
// pod. The kubelet answers at once, and the state is on the disk of TMPDIR. For each pod, as many
// bytes as the state has are also written to the same disk and synced, which is the lower bound for
// a durable admission.
func BenchmarkHooks(b *testing.B) {
	const pods = 250
	n := newTimed(b)
	var all []request.Pod
	for i := range pods {
		all = append(all, timedPod(i))
	}
	n.kubelet.Follow(all, nil)
	n.await(b, pods)
	n.hooks = map[string][]time.Duration{}
	for i := 0; b.Loop(); i++ {
		all[i%pods] = timedPod(pods + i)
		n.kubelet.Follow(slices.Clone(all), nil)
		n.await(b, pods)
		n.bareWrite(b)
	}
	n.report(b)
}

// timedPod returns pod i. Every fifth pod has two exclusive CPUs.
func timedPod(i int) request.Pod {
	if uid := fmt.Sprint("p", i); i%5 != 0 {
		return sharing(uid)
	} else {
		return exclusive(uid, 2)
	}
}

// timed is a node on a real clock and a real disk. It records how long each hook takes.
type timed struct {
	ignore
	engine  *engine.Engine
	kubelet *sim.Kubelet
	state   string

	mu    sync.Mutex
	hooks map[string][]time.Duration
}

// Hook implements the plugin's observer.
func (n *timed) Hook(name string, took time.Duration, _ error) { n.note(name, took) }

func (n *timed) note(name string, took time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hooks[name] = append(n.hooks[name], took)
}

func newTimed(b *testing.B) *timed {
	b.Helper()
	n := &timed{hooks: map[string][]time.Duration{}, state: filepath.Join(b.TempDir(), "state.json")}
	kept, _, err := store.Open(store.OS(), n.state, statefile.MaxSize, func([]byte) error { return nil })
	if err != nil {
		b.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	var encoder statefile.Encoder
	var meter statefile.Meter
	n.engine = engine.New(largeState(b), engine.Config{
		Store: kept, Encode: encoder.Encode, Fits: meter.Fits, Now: time.Now, Observer: ignore{}, Log: log,
	})
	ctx, end := context.WithCancel(b.Context())
	runtime := sim.New(ctx, sim.Config{Now: time.Now, After: time.After})
	n.kubelet = runtime.NewKubelet(sim.KubeletConfig{Log: log})
	plugin := nri.New(nri.Config{
		Engine: n.engine, Pods: n.kubelet, Cgroups: runtime.Cgroups(), Observer: n, Log: log, Now: time.Now, After: time.After,
		Dial:   func(h any) (nri.Link, error) { return runtime.Dial(h, "paddock", "90") },
		Socket: "in memory", Timeout: time.Second, Period: 10 * time.Second, Grace: 30 * time.Second, TakeOver: true,
	})
	var group sync.WaitGroup
	group.Go(func() { _ = plugin.Run(ctx) })
	if err := runtime.Await(ctx); err != nil {
		b.Fatal(err)
	}
	group.Go(func() { _ = n.kubelet.Run(ctx) })
	b.Cleanup(func() {
		end()
		runtime.Close()
		group.Wait()
		if err := kept.Close(); err != nil {
			b.Error(err)
		}
	})
	return n
}

// largeState returns the state of a node with two sockets of four NUMA nodes with 48 CPUs each.
func largeState(b *testing.B) *node.State {
	b.Helper()
	m := scenario.Machine("sockets=2 numa=4 cores=24 threads=2 memory=96Gi")
	inventory, err := device.NewInventory(m, nil)
	if err != nil {
		b.Fatal(err)
	}
	s, _, err := node.Adopt(m, node.Policy{StaticCPU: true, ReservedCPUs: cpuset.Of(0, 192), LiftQuota: true}, inventory, nil)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// await waits until exactly the given number of pods run.
func (n *timed) await(b *testing.B, pods int) {
	b.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) { //nolint:forbidigo // The disk is a real one.
		runs := 0
		for _, p := range n.kubelet.Status() {
			if p.Running && !p.Ending {
				runs++
			}
		}
		if runs == pods && len(n.kubelet.Status()) == pods {
			return
		}
		if time.Since(begin) > time.Minute {
			b.Fatalf("%d of %d pods run after a minute", runs, pods)
		}
	}
}

// bareWrite writes and syncs as many bytes as the state has.
func (n *timed) bareWrite(b *testing.B) {
	b.Helper()
	data, err := os.ReadFile(n.state)
	if err != nil {
		b.Fatal(err)
	}
	begin := time.Now()
	f, err := os.Create(n.state + ".bare")
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	n.note("(bare synced write)", time.Since(begin))
}

func (n *timed) report(b *testing.B) {
	b.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	names := make([]string, 0, len(n.hooks))
	for name := range n.hooks {
		names = append(names, name)
	}
	slices.Sort(names)
	var out strings.Builder
	for _, name := range names {
		took := n.hooks[name]
		slices.Sort(took)
		fmt.Fprintf(&out, "\n%-22s %6d  50 %% %8.3f ms  99 %% %8.3f ms", name, len(took), millis(took[len(took)/2]), millis(took[len(took)*99/100]))
	}
	b.Log(out.String())
	b.ReportMetric(millis(n.hooks["RunPodSandbox"][len(n.hooks["RunPodSandbox"])*99/100]), "p99-RunPodSandbox-ms")
	b.ReportMetric(millis(n.hooks["CreateContainer"][len(n.hooks["CreateContainer"])*99/100]), "p99-CreateContainer-ms")
	b.ReportMetric(millis(n.hooks["(bare synced write)"][len(n.hooks["(bare synced write)"])*99/100]), "p99-bare-write-ms")
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
