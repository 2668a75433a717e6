package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/test/e2e/parts"
	"github.com/paddock-project/paddock/test/e2e/vm"
)

// nightsDir has the nights. The tests of cmd/paddock explain what is recorded there.
var nightsDir = filepath.Join("..", "..", "..", "examples", "nights")

var nightNames = flag.String("nights", "", "record the nights whose names match this regular expression, and play no page")

// ownKubelet is the minor of the kubelet that all pages have. Nights with another one use a
// recorded kubelet: see parts.RecordedKubelet.
const ownKubelet = "1.37"

// night is a node on which a stock kubelet rejects a pod, and how the node gets there: the file
// night.yaml. Recording it makes the folder node beside it.
type night struct {
	// About is what happened, as an administrator knows it afterwards.
	About string `json:"about"`
	// Kubelet is the minor of the kubelet, and Machine the name of the machine.
	Kubelet string `json:"kubelet"`
	Machine string `json:"machine"`
	// Config is added to files/kubelet.yaml.
	Config map[string]any `json:"config"`
	// Devices are the devices of the node by resource, as the program devices reads them.
	Devices map[string]any `json:"devices,omitempty"`
	Steps   []step         `json:"steps"`
	// Pod is the name of the pod that is explained, and Phase its phase at the end.
	Pod   string `json:"pod"`
	Phase string `json:"phase"`
	// Expected is what the tests of cmd/paddock expect.
	Expected map[string]any `json:"expected"`

	dir string
}

// TestNights records the nights that -nights names, from nothing: a kubelet rejects a pod on a
// node, and the script of paddock collect reads the node. It is not part of other runs.
func TestNights(t *testing.T) {
	if *nightNames == "" {
		t.Skip("nights are recorded with -nights")
	}
	nights, err := readNights(*nightNames)
	if err != nil || len(nights) == 0 {
		t.Fatalf("no nights match %q: %v", *nightNames, err)
	}
	r := newPlainRig(t)
	groups := map[[2]string][]*night{}
	for _, n := range nights {
		key := [2]string{n.Kubelet, n.Machine}
		groups[key] = append(groups[key], n)
	}
	for _, key := range slices.SortedFunc(maps.Keys(groups), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		group, err := r.withKubelet(t.Context(), key[0], key[1])
		if err != nil {
			t.Fatal(err)
		}
		t.Run(key[0]+"-"+key[1], func(t *testing.T) { group.recordAll(t, groups[key]) })
	}
}

// newPlainRig prepares what a stock node needs, without snapshots and without an image of Paddock.
func newPlainRig(t *testing.T) *rig {
	t.Helper()
	var err error
	r := &rig{dir: t.TempDir(), parts: find(t, needs{kernels: []string{nightKernel}})}
	if r.certs, err = newCerts(r.dir); err != nil {
		t.Fatal(err)
	}
	r.plugin = filepath.Join(r.dir, "kubectl-paddock")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", r.plugin, "./cmd/paddock")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return r
}

const (
	// nightKernel is the kernel of all nights.
	nightKernel = "6.1"
	// nightLimit only ends nights that hang: one takes about a minute.
	nightLimit = 30 * time.Minute
)

// readNights reads the nights whose names match a regular expression, sorted by name.
func readNights(match string) ([]*night, error) {
	wanted, err := regexp.Compile(match)
	if err != nil {
		return nil, err
	}
	names, err := filepath.Glob(filepath.Join(nightsDir, "*", "night.yaml"))
	var nights []*night
	for _, name := range names {
		n := &night{dir: filepath.Dir(name)}
		if !wanted.MatchString(filepath.Base(n.dir)) {
			continue
		}
		data, readErr := os.ReadFile(name)
		if readErr == nil {
			readErr = yaml.UnmarshalStrict(data, n)
		}
		if readErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, readErr))
		}
		nights = append(nights, n)
	}
	return nights, err
}

// withKubelet returns a rig whose nodes have another kubelet and machine.
func (r *rig) withKubelet(ctx context.Context, minor, machine string) (*rig, error) {
	group, p := *r, *r.parts
	group.parts = &p
	p.Input = maps.Clone(r.parts.Input)
	var err error
	if group.machine, err = vm.ReadMachine(filepath.Join("..", "testdata", "machines", machine+".json")); err != nil || minor == ownKubelet {
		return &group, err
	}
	source, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		return nil, err
	}
	p.Input["kubelet"], err = parts.RecordedKubelet(ctx, source, minor, say)
	return &group, err
}

// recordAll records nights one after the other on one cluster. If the emulator fails, it goes on
// with a new cluster.
func (r *rig) recordAll(t *testing.T, nights []*night) {
	var w *whole
	ctx := t.Context() // A cluster outlives the night for which it was started.
	for _, n := range nights {
		t.Run(filepath.Base(n.dir), func(t *testing.T) {
			for again := false; ; again = true {
				begin := time.Now()
				var err error
				if w == nil {
					w, err = r.newWhole(ctx)
				}
				if err == nil {
					err = w.record(ctx, n)
				}
				say("%s: %.0f s: %v", filepath.Base(n.dir), time.Since(begin).Seconds(), err)
				if err == nil {
					return
				}
				fault := w.fault(ctx, err)
				logs := filepath.Join(*keep, "nights", filepath.Base(n.dir))
				err = errors.Join(err, w.saveLogs(logs))
				if fault != nil || w.control == nil || w.node == nil {
					err = errors.Join(err, w.close())
					w = nil
				}
				if fault == nil || again {
					t.Fatalf("%v\nlogs are in %s", err, logs)
				}
			}
		})
	}
	if w != nil {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}
}

// newWhole boots a cluster. It is to be closed if there is an error, too.
func (r *rig) newWhole(ctx context.Context) (*whole, error) {
	dir, err := os.MkdirTemp("", "e2e") // The path of a socket must be short.
	if err != nil {
		return &whole{}, err
	}
	w := &whole{rig: r, dir: dir}
	if _, err := w.begin(ctx, "boot "+nightKernel); err != nil {
		return w, err
	}
	// The script calls paddock by its name.
	return w, os.Symlink(r.plugin, filepath.Join(dir, "bin", "paddock"))
}

// record records a night on a cluster, which may have had other nights.
func (w *whole) record(ctx context.Context, n *night) error {
	ctx, cancel := context.WithTimeout(ctx, nightLimit)
	defer cancel()
	if err := w.prepare(ctx, n); err != nil {
		return fmt.Errorf("the node: %w", err)
	}
	for i, s := range n.Steps {
		if err := w.node.step(ctx, s); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	if err := w.node.await(ctx, n.Pod, n.Phase); err != nil {
		return err
	}
	return w.collect(ctx, n)
}

// prepare starts the kubelet of a night without pods and without state files.
func (w *whole) prepare(ctx context.Context, n *night) error {
	devices, err := yaml.Marshal(map[string]any{"plugins": n.Devices})
	if err != nil {
		return err
	}
	_ = w.node.stopUnit(ctx, "devices") // It may not run.
	if err := w.node.mustWith(ctx, "cat > /etc/devices.yaml", devices); err != nil {
		return err
	}
	if err := w.node.renewKubelet(ctx, n.Config); err != nil || len(n.Devices) == 0 {
		return err
	}
	if err := w.node.startUnit(ctx, "devices"); err != nil {
		return err
	}
	for resource := range n.Devices {
		path := strings.ReplaceAll(resource, ".", `\.`)
		if err := w.must(ctx, "until kubectl get node "+nodeName+" -o 'jsonpath={.status.allocatable."+path+"}' | grep -v '^0$' | grep .; do sleep 1; done", ""); err != nil {
			return err
		}
	}
	return nil
}

// must runs a command that must exit with 0.
func (w *whole) must(ctx context.Context, command, stdin string) error {
	_, err := w.output(ctx, command, stdin)
	return err
}

// output returns the standard output of a command in the shell.
func (w *whole) output(ctx context.Context, command, stdin string) ([]byte, error) {
	var out, messages strings.Builder
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env, cmd.Dir, cmd.WaitDelay = w.env, w.dir, 5*time.Second
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &messages
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s%s", command, err, out.String(), messages.String())
	}
	if messages.Len() > 0 {
		say("%s: %s", command, messages.String())
	}
	return []byte(out.String()), nil
}

// collect runs the script of paddock collect, and replaces the recorded folder of the night.
func (w *whole) collect(ctx context.Context, n *night) error {
	dir, err := os.MkdirTemp(w.dir, "collect")
	if err != nil {
		return err
	}
	if err := w.must(ctx, "cd "+dir+" && paddock collect --print --node "+nodeName+" --via ssh --folder ./node > collect.sh && sh collect.sh", ""); err != nil {
		return err
	}
	to := filepath.Join(n.dir, "node")
	return errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(filepath.Join(dir, "node"))))
}
