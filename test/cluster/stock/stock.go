// Package stock runs kubelets that decide with the kubelet's own packages: the programs of
// test/record with -live. A process has many kubelets of one minor version. Each has a directory
// with its state files and an address, so that an agent can observe it.
package stock

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Event is an event of docs/rules/format.md, or one of test/record/live.go.
type Event struct {
	Op           string          `json:"op"`
	Pod          string          `json:"pod,omitempty"`
	Container    string          `json:"container,omitempty"`
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	ConfigPatch  map[string]any  `json:"configPatch,omitempty"`
	Plugins      string          `json:"plugins,omitempty"`
}

// Answer is what an event led to. It has the fields that are read here.
type Answer struct {
	Admitted   *bool  `json:"admitted"`
	Reason     string `json:"reason"`
	Message    string `json:"message"`
	StartError string `json:"startError"`
	Panic      string `json:"panic"`
	CPU        *struct {
		Entries    map[string]map[string]string `json:"entries"`
		PodEntries map[string]string            `json:"podEntries"`
	} `json:"cpu"`
	Memory *struct {
		Entries    map[string]map[string][]Block `json:"entries"`
		PodEntries map[string][]Block            `json:"podEntries"`
	} `json:"memory"`
	Devices map[string]json.RawMessage `json:"devices"`
}

// Block is bytes of a type of memory on a set of NUMA nodes.
type Block struct {
	Type string `json:"type"`
	Size int64  `json:"size"`
	NUMA []int  `json:"numa"`
}

// CPUs returns the exclusive CPUs of a pod's containers and those of its pool, as lists of CPUs.
func (a *Answer) CPUs(uid string) (lists []string) {
	if a.CPU == nil {
		return nil
	}
	if pool, has := a.CPU.PodEntries[uid]; has {
		lists = append(lists, pool)
	}
	return slices.AppendSeq(lists, maps.Values(a.CPU.Entries[uid]))
}

// Bytes returns the memory of a pod's pool, or that of its containers if it has no pool.
func (a *Answer) Bytes(uid string) (blocks []Block) {
	if a.Memory == nil {
		return nil
	}
	if pool := a.Memory.PodEntries[uid]; len(pool) > 0 {
		return pool
	}
	return slices.Concat(slices.Collect(maps.Values(a.Memory.Entries[uid]))...)
}

// Has reports whether a pod has something of its own.
func (a *Answer) Has(uid string) bool {
	if _, has := a.Devices[uid]; has {
		return true
	}
	if c := a.CPU; c != nil {
		if _, has := c.PodEntries[uid]; has || len(c.Entries[uid]) > 0 {
			return true
		}
	}
	if m := a.Memory; m != nil {
		_, container := m.Entries[uid]
		_, pool := m.PodEntries[uid]
		return container || pool
	}
	return false
}

// ErrEndless means that an event takes longer than Patience. The process was killed.
var ErrEndless = errors.New("the event does not end")

// Patience is how long an event may take. Some requests make the managers try more combinations
// than there is time.
const Patience = 20 * time.Second

// Programs reads a list of MINOR=PROGRAM that are separated by commas. An empty list has none.
func Programs(list string) (map[string]string, error) {
	programs := map[string]string{}
	for one := range strings.SplitSeq(list, ",") {
		minor, path, ok := strings.Cut(one, "=")
		switch {
		case list == "":
		case !ok:
			return nil, fmt.Errorf("kubelets %q: expected MINOR=PROGRAM, such as 1.36=bin/record-1.36", one)
		default:
			programs[minor] = path
		}
	}
	return programs, nil
}

// Minors returns the minor versions of programs, in order.
func Minors(programs map[string]string) []string { return slices.Sorted(maps.Keys(programs)) }

// Process is a process with kubelets. It is safe for concurrent use: orders wait for each other.
type Process struct {
	mu      sync.Mutex
	cmd     *exec.Cmd
	in      io.WriteCloser
	orders  *json.Encoder
	replies chan reply
}

type order struct {
	Node  string          `json:"node"`
	Begin json.RawMessage `json:"begin,omitempty"`
	Event *Event          `json:"event,omitempty"`
	Pod   *v1.Pod         `json:"pod,omitempty"`
	End   bool            `json:"end,omitempty"`
}

type reply struct {
	URL    string          `json:"url"`
	Dir    string          `json:"dir"`
	Answer json.RawMessage `json:"answer"`
	Error  string          `json:"error"`
}

// Start starts a process. It ends with ctx, and with this process.
func Start(ctx context.Context, program string) (*Process, error) {
	p := &Process{cmd: exec.CommandContext(ctx, program, "-live"), replies: make(chan reply)}
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.orders = json.NewEncoder(p.in)
	go func() {
		defer close(p.replies)
		lines := json.NewDecoder(bufio.NewReader(out))
		for {
			var r reply
			if lines.Decode(&r) != nil {
				return // The process has ended.
			}
			p.replies <- r
		}
	}()
	return p, nil
}

// Stop ends the process and its kubelets.
func (p *Process) Stop() {
	_ = p.in.Close() // It ends with its input.
	done := time.AfterFunc(Patience, func() { _ = p.cmd.Process.Kill() })
	defer done.Stop()
	for range p.replies {
	}
	_ = p.cmd.Wait() // It was told to end.
}

// Kubelet is one kubelet of a process.
type Kubelet struct {
	// URL is its address, and Dir its directory.
	URL, Dir string

	process *Process
	name    string
}

// Begin starts a kubelet with the machine and the configuration of a bare scenario. name is one that
// no other kubelet of the process has.
func (p *Process) Begin(name string, scenario json.RawMessage) (*Kubelet, error) {
	r, err := p.ask(order{Node: name, Begin: scenario})
	if err != nil {
		return nil, err
	}
	return &Kubelet{URL: r.URL, Dir: r.Dir, process: p, name: name}, nil
}

// Do carries out an event. pod is that of the event if the scenario does not have it.
func (k *Kubelet) Do(e Event, pod *v1.Pod) (*Answer, error) {
	r, err := k.process.ask(order{Node: k.name, Event: &e, Pod: pod})
	if err != nil {
		return nil, err
	}
	var a Answer
	return &a, json.Unmarshal(r.Answer, &a)
}

// End ends the kubelet and removes its directory.
func (k *Kubelet) End() error {
	_, err := k.process.ask(order{Node: k.name, End: true})
	return err
}

func (p *Process) ask(o order) (reply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.orders.Encode(o); err != nil {
		return reply{}, err
	}
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case r, open := <-p.replies:
		switch {
		case !open:
			return r, fmt.Errorf("node %s: the process of the kubelets has ended", o.Node)
		case r.Error != "":
			return r, fmt.Errorf("node %s: %s", o.Node, r.Error)
		}
		return r, nil
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		return reply{}, ErrEndless
	}
}

// Boundless returns a Node that has enough for all requests: the recorder runs the managers of a
// kubelet, and not the comparison of requests that follows them.
func Boundless() *v1.Node {
	enough := *resource.NewQuantity(1<<50, resource.BinarySI)
	all := v1.ResourceList{v1.ResourceCPU: enough, v1.ResourceMemory: enough, v1.ResourcePods: enough}
	for _, size := range []string{"64Ki", "2Mi", "4Mi", "32Mi", "512Mi", "1Gi", "16Gi"} {
		all[v1.ResourceName(v1.ResourceHugePagesPrefix+size)] = enough
	}
	return &v1.Node{Status: v1.NodeStatus{Allocatable: all}}
}
