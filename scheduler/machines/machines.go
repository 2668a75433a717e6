// Package machines deletes PaddockMachines that no node uses.
//
// Agents create the PaddockMachine of their node, and nodes of a kind share one. When the last of
// these nodes is gone, or has other hardware, nothing refers to it any more. An object is deleted
// if no PaddockNode referred to it in any pass for the time Unused.
//
// An agent creates the PaddockMachine before it refers to it, within the same second, and again
// within a minute if the API server was away. So an object that is about to be used is young, and
// not deleted. One that is old can be used again in the moment in which it is deleted: agents look
// at their machine every ten minutes, and create it again.
package machines

import (
	"context"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

const (
	// Unused is for how long no pass found a PaddockNode that refers to an object that is deleted.
	// A node that is drained, replaced and comes back meanwhile finds its machine.
	Unused = time.Hour
	// Period is the time between two passes: each reads all PaddockNodes.
	Period = 10 * time.Minute
)

// World is what there is. Its methods ask the API server.
type World struct {
	Now func() time.Time
	// Machines are the UIDs of all PaddockMachines, by their names.
	Machines func(ctx context.Context) (map[string]types.UID, error)
	// Used are the names to which PaddockNodes refer.
	Used func(ctx context.Context) (map[string]bool, error)
	// Delete deletes the PaddockMachine of this name if it has this UID.
	Delete func(ctx context.Context, name string, uid types.UID) error
	// Deleted counts.
	Deleted func()
}

// Collector deletes what is unused. It is for one goroutine.
type Collector struct {
	world World
	// since is from when on each object was unused in every pass.
	since map[types.UID]time.Time
}

// New makes a collector that has seen nothing yet.
func New(world World) *Collector { return &Collector{world, map[types.UID]time.Time{}} }

// Pass deletes the objects that are due. What fails is tried again in the next pass.
func (c *Collector) Pass(ctx context.Context) {
	log := klog.FromContext(ctx)
	// Machines first: what is added between the two lists is not judged.
	all, err := c.world.Machines(ctx)
	if err != nil {
		log.Error(err, "PaddockMachines cannot be listed: unused ones stay")
		return
	}
	used, err := c.world.Used(ctx)
	if err != nil {
		log.Error(err, "PaddockNodes cannot be listed: unused PaddockMachines stay")
		return
	}
	now := c.world.Now()
	unused := map[types.UID]bool{}
	for name, uid := range all {
		if used[name] {
			continue
		}
		unused[uid] = true
		if _, known := c.since[uid]; !known {
			c.since[uid] = now
		}
		if now.Sub(c.since[uid]) < Unused {
			continue
		}
		switch err := c.world.Delete(ctx, name, uid); {
		case err == nil:
			log.Info("Deleted a PaddockMachine that no node uses", "machine", name, "unused", now.Sub(c.since[uid]))
			c.world.Deleted()
		case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
			log.Error(err, "A PaddockMachine that no node uses is not deleted", "machine", name)
		}
	}
	maps.DeleteFunc(c.since, func(uid types.UID, _ time.Time) bool { return !unused[uid] })
}
