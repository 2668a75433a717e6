// Package machines deletes PaddockMachines that no node uses.
//
// An agent creates the PaddockMachine of its node. Nodes of the same kind share one. When the last
// of these nodes is gone, or has other hardware, nothing refers to the object any more. An object
// is deleted if no pass found a PaddockNode that refers to it for the time Unused.
//
// An agent creates the PaddockMachine before it refers to it, within the same second. It creates it
// again within a minute if the API server was unavailable. So an object that is about to be used is
// young and is not deleted. An old object can be used again at the moment at which it is deleted.
// Agents check their machine every ten minutes, and create it again.
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
	// Unused is how long no pass must find a PaddockNode that refers to an object before the object
	// is deleted. A node that is drained, replaced and returns within this time finds its machine.
	Unused = time.Hour
	// Period is the time between two passes. Each pass reads all PaddockNodes.
	Period = 10 * time.Minute
)

// World has everything that the collector depends on. Its functions call the API server.
type World struct {
	Now func() time.Time
	// Machines returns the UIDs of all PaddockMachines by name.
	Machines func(ctx context.Context) (map[string]types.UID, error)
	// Used returns the names to which PaddockNodes refer.
	Used func(ctx context.Context) (map[string]bool, error)
	// Delete deletes the PaddockMachine of this name if it has this UID.
	Delete func(ctx context.Context, name string, uid types.UID) error
	// Deleted counts a deleted object.
	Deleted func()
}

// Collector deletes unused PaddockMachines. It must not be used by several goroutines.
type Collector struct {
	world World
	// since has the time since which each object was unused in every pass.
	since map[types.UID]time.Time
}

// New returns a Collector that has not seen anything yet.
func New(world World) *Collector { return &Collector{world, map[types.UID]time.Time{}} }

// Pass deletes the objects that are due. Deletions that fail are tried again in the next pass.
func (c *Collector) Pass(ctx context.Context) {
	log := klog.FromContext(ctx)
	// Machines are listed first, so a machine that is created between the two lists is not judged.
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
