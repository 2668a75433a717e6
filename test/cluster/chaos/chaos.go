// Package chaos injects faults into a cluster while a load runs, and records when and where. So
// each rejection is either the consequence of an injected fault, or one that nothing excuses.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
)

// Window is the time in which a fault may have consequences on a node.
type Window struct {
	Kind string
	// Node is the name of the node. If empty, the fault concerns all nodes.
	Node     string
	From, To time.Time
	// Pod is the UID of the only pod that the fault excuses. If empty, it excuses every pod.
	Pod string
}

// World is what faults are injected into.
type World struct {
	Client kubernetes.Interface
	Nodes  []string
	// Order sends an order to the hollow nodes.
	Order func(ctx context.Context, path string, form map[string]string) error
	// RestartAPI kills the API server and starts it again.
	RestartAPI func() error
	// Slow delays the scheduler's watches by that time. Zero ends the delay.
	Slow      func(time.Duration)
	Namespace string
	Seed      uint64
	Say       func(format string, args ...any)
}

// Chaos injects faults and records them.
type Chaos struct {
	World
	kinds []string

	mu      sync.Mutex
	random  *rand.Rand
	busy    map[string]bool // nodes with a fault; a node has at most one at a time
	windows []Window
	number  int
}

// kind describes one kind of fault.
type kind struct {
	// every is the mean time between two faults.
	every time.Duration
	// lag is how long after its end a fault may have consequences: until the scheduler sees what
	// the node shows.
	lag    time.Duration
	global bool
	inject func(c *Chaos, ctx context.Context, node string) error
	what   string
}

// kinds has the faults by name.
var kinds = map[string]kind{
	"agents":  {every: time.Second, lag: 2 * time.Second, inject: (*Chaos).agent, what: "an agent is killed, and starts again after a while"},
	"api":     {every: 40 * time.Second, lag: 5 * time.Second, global: true, inject: (*Chaos).api, what: "the API server is killed, and starts again"},
	"slow":    {every: 30 * time.Second, lag: 3 * time.Second, global: true, inject: (*Chaos).slow, what: "the watches of the kubelets or of the scheduler are three seconds late"},
	"static":  {every: 2 * time.Second, lag: 2 * time.Second, inject: (*Chaos).static, what: "a static pod with CPUs of its own starts"},
	"foreign": {every: 2 * time.Second, lag: 2 * time.Second, inject: (*Chaos).foreign, what: "another scheduler binds a pod with CPUs of its own"},
	"drain":   {every: 5 * time.Second, lag: 2 * time.Second, inject: (*Chaos).drain, what: "a node is cordoned, its pods are evicted, and it comes back"},
	"policy":  {every: 5 * time.Second, lag: 2 * time.Second, inject: (*Chaos).policy, what: "the agent of a node starts again with another policy"},
	"lost":    {every: time.Second, lag: 2 * time.Second, inject: tamper("lost"), what: "the kubelet passes on no grant of the pods of a node"},
	"corrupt": {every: time.Second, lag: 2 * time.Second, inject: tamper("corrupt"), what: "the kubelet passes on damaged grants"},
	"forged":  {every: time.Second, lag: 2 * time.Second, inject: tamper("forged"), what: "the kubelet passes on grants with other CPUs"},
}

// Kinds returns the names of all faults, and their descriptions.
func Kinds() (names []string, what map[string]string) {
	what = map[string]string{}
	for name, k := range kinds {
		what[name] = k.what
	}
	return slices.Sorted(maps.Keys(kinds)), what
}

// New returns a Chaos for a comma-separated list of kinds. "all" selects all of them, and an empty
// list none.
func New(list string, w World) (*Chaos, error) {
	names, _ := Kinds()
	var chosen []string
	switch list {
	case "":
	case "all":
		chosen = names
	default:
		chosen = strings.Split(list, ",")
	}
	for _, name := range chosen {
		if _, known := kinds[name]; !known {
			return nil, fmt.Errorf("there is no fault %q; expected all, or some of %s", name, strings.Join(names, ","))
		}
	}
	return &Chaos{World: w, kinds: chosen, random: rand.New(rand.NewPCG(w.Seed, 2)), busy: map[string]bool{}}, nil
}

// Run injects faults until enough is closed, and waits until the last one is over. It returns an
// error for faults that could not be injected. It ends with ctx, even during a fault.
func (c *Chaos) Run(ctx context.Context, enough <-chan struct{}) error {
	var group sync.WaitGroup
	var mu sync.Mutex
	var wrong error
	for _, name := range c.kinds {
		group.Go(func() {
			k := kinds[name]
			for {
				select {
				case <-ctx.Done():
					return
				case <-enough:
					return
				case <-time.After(time.Duration(float64(k.every) * (0.5 + c.float()))):
				}
				if err := c.one(ctx, name, k); err != nil {
					mu.Lock()
					wrong = errors.Join(wrong, fmt.Errorf("fault %s: %w", name, err))
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return wrong
}

// longest bounds the time of one fault.
const longest = 3 * time.Minute

// one injects one fault, on a node that has no other one.
func (c *Chaos) one(ctx context.Context, name string, k kind) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	node := ""
	c.mu.Lock()
	if !k.global {
		node = c.Nodes[c.random.IntN(len(c.Nodes))]
		if c.busy[node] {
			c.mu.Unlock()
			return nil
		}
		c.busy[node] = true
	}
	i := len(c.windows)
	c.windows = append(c.windows, Window{Kind: name, Node: node, From: time.Now(), To: time.Now().Add(longest)})
	c.mu.Unlock()
	err := k.inject(c, ctx, node)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.windows[i].To = time.Now().Add(k.lag)
	delete(c.busy, node)
	return err
}

func (c *Chaos) float() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.Float64()
}

// between returns a random time between least and most.
func (c *Chaos) between(least, most time.Duration) time.Duration {
	return least + time.Duration(c.float()*float64(most-least))
}

// wait waits for that time. If ctx ends earlier, it returns the cause.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Cause returns the kind of the fault that excuses the rejection of a pod on a node, given the
// times at which the pod was bound and rejected. It returns an empty string if there is none. A
// fault excuses decisions that were made while it could have consequences.
func (c *Chaos) Cause(node, pod string, bound, rejected time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.windows {
		if (w.Node == "" || w.Node == node) && (w.Pod == "" || w.Pod == pod) && !bound.After(w.To) && !rejected.Before(w.From) {
			return w.Kind
		}
	}
	return ""
}

// Counts returns the number of injected faults of each kind.
func (c *Chaos) Counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]int{}
	for _, w := range c.windows {
		counts[w.Kind]++
	}
	return counts
}
