package agent

import (
	"context"
	"os"
	"time"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/node/cgroup"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/publication"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/node/store"
)

// World is what is around an agent, as values. Here is that of a real node; a simulated node hands
// in its own parts, so that the agent on it is the same. The kubelet is at Config.Kubelet in both.
type World struct {
	// FS has the state. Now and After are those of package time.
	FS    store.FS
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	// Node reads the machine, the policy and the devices; nil: the files that Config names.
	Node func() (*inputs.Node, error)
	// Dial connects to the runtime; nil: Config.NRI.Socket.
	Dial func(handler any) (nri.Link, error)
	// Cgroups are those of containers, as the runtime names them, and Seen shows what runs; nil:
	// those below Config.CgroupRoot, of the containers that the kubelet lists.
	Cgroups nri.Cgroups
	Seen    func(ctx context.Context, paths map[string]string) ([]nri.Seen, error)
	// Marks keep the time of the last answer to the runtime; nil: a file beside the state.
	Marks Marks
	// Publication is where the objects of the node are written; nil: Config.APIServer.
	Publication *publication.Client
	// Watch learns of what happens, beside the metrics.
	Watch Watch
}

// Marks keep a time while no agent runs.
type Marks interface {
	// Mark notes a time. It may wait for a disk.
	Mark(at time.Time) error
	// Marked is the time that was noted last; zero: none is known.
	Marked() time.Time
}

// Watch has functions that are called when something happens; nil: none is. They must not wait.
type Watch struct {
	Engine    engine.Observer
	Hook      func(name string, took time.Duration, err error)
	Published func(took time.Duration, err error)
	Handed    func(handover.Reason)
}

// Here is the world of the node on which the process runs.
func Here() World { return World{FS: store.OS(), Now: time.Now, After: time.After} }

// complete fills in what is a real node's.
func (w World) complete(c Config) World {
	if w.Node == nil {
		w.Node = func() (*inputs.Node, error) { return readNode(c) }
	}
	if w.Cgroups == nil {
		w.Cgroups = cgroups{cgroup.FS{Root: c.CgroupRoot}}
	}
	if w.Marks == nil {
		w.Marks = markFile(c.State + suffixAlive)
	}
	return w
}

// markFile is a file whose time of change is the one that was noted.
type markFile string

// Mark is Marks'.
func (f markFile) Mark(at time.Time) error { return store.Mark(string(f), at) }

// Marked is Marks'.
func (f markFile) Marked() time.Time { return store.Marked(string(f)) }

// client is where the objects of the node are written.
func (w World) client(c Config) (*publication.Client, error) {
	if w.Publication != nil {
		return w.Publication, nil
	}
	config, err := c.APIServer.address().Config(os.Getenv)
	if err != nil {
		return nil, err
	}
	return publication.NewClient(config)
}

// runtimeWatch is an observer with a Watch beside it.
type runtimeWatch struct {
	nri.Observer

	watch Watch
}

// Hook is nri.Observer's.
func (w runtimeWatch) Hook(name string, took time.Duration, err error) {
	w.Observer.Hook(name, took, err)
	if w.watch.Hook != nil {
		w.watch.Hook(name, took, err)
	}
}

// publicationWatch is the same for the publication.
type publicationWatch struct {
	publication.Observer

	watch Watch
}

// Published is publication.Observer's.
func (w publicationWatch) Published(took time.Duration, err error) {
	w.Observer.Published(took, err)
	if w.watch.Published != nil {
		w.watch.Published(took, err)
	}
}
