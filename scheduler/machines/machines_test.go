package machines_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/scheduler/machines"
)

// cluster is a cluster in memory. unused has the time since which each machine was unused in every
// list.
type cluster struct {
	now    time.Time
	uids   map[string]types.UID
	nodes  map[string]string // the machine of each node
	unused map[types.UID]time.Time
	away   bool
	// deleted has the machines that were deleted, each with the time for which it was unused.
	deleted map[types.UID]time.Duration
	next    int
}

var errAway = errors.New("the API server is away")

func (c *cluster) world() machines.World {
	return machines.World{
		Now: func() time.Time { return c.now },
		Machines: func(context.Context) (map[string]types.UID, error) {
			if c.away {
				return nil, errAway
			}
			return maps.Clone(c.uids), nil
		},
		Used: func(context.Context) (map[string]bool, error) {
			if c.away {
				return nil, errAway
			}
			used := map[string]bool{}
			for _, m := range c.nodes {
				used[m] = true
				delete(c.unused, c.uids[m])
			}
			return used, nil
		},
		Delete: func(_ context.Context, name string, uid types.UID) error {
			if c.uids[name] != uid {
				return apierrors.NewConflict(schema.GroupResource{}, name, nil)
			}
			c.deleted[uid] = c.now.Sub(c.unused[uid])
			delete(c.uids, name)
			return nil
		},
		Deleted: func() {},
	}
}

// use lets a node use a machine. Like an agent, it creates the machine first. An empty machine
// removes the node.
func (c *cluster) use(node, machine string) {
	if delete(c.nodes, node); machine != "" {
		if c.uids[machine] == "" {
			c.next++
			c.uids[machine] = types.UID(rune('0' + c.next))
		}
		c.nodes[node] = machine
	}
	for name, uid := range c.uids {
		if _, was := c.unused[uid]; !was && !c.uses(name) {
			c.unused[uid] = c.now
		}
	}
}

// uses reports whether a node uses a machine now.
func (c *cluster) uses(machine string) bool {
	return slices.Contains(slices.Collect(maps.Values(c.nodes)), machine)
}

// TestCollector checks that a machine is deleted only after no pass of an hour found it used, and
// within two passes after that while the API server answers. A new leader starts without memory.
func TestCollector(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &cluster{now: time.Unix(1000, 0), uids: map[string]types.UID{}, nodes: map[string]string{}, unused: map[types.UID]time.Time{}, deleted: map[types.UID]time.Duration{}}
		leader, since := machines.New(c.world()), c.now
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"use", "pass", "pass", "pass", "leader", "away"}).Draw(t, "step") {
			case "use":
				c.use(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "node"), rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "machine"))
			case "leader":
				leader, since = machines.New(c.world()), c.now
			case "away":
				c.away = !c.away
				since = c.now
			case "pass":
				c.now = c.now.Add(machines.Period)
				leader.Pass(context.Background())
			}
			for uid, unused := range c.deleted {
				if unused < machines.Unused {
					t.Fatalf("machine %s was deleted after it was unused for %v", uid, unused)
				}
			}
			for name, uid := range c.uids {
				from, unused := c.unused[uid]
				if from.Before(since) {
					from = since
				}
				if over := c.now.Sub(from); unused && !c.uses(name) && !c.away && over > machines.Unused+2*machines.Period {
					t.Fatalf("machine %s is unused for %v, and not deleted", name, over)
				}
			}
		}
	})
}
