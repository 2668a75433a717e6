package agent

import (
	"context"
	"log/slog"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/node/cgroup"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletdevices"
	"github.com/paddock-project/paddock/internal/node/publication"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
	"github.com/paddock-project/paddock/internal/node/store"
)

// World is the environment of an agent, as values. Here returns that of a real node. A simulated
// node passes its own parts, so that the agent on it is the same. Both use the kubelet at
// Config.Kubelet.
type World struct {
	// FS has the state. Now and After are the functions of package time, or replacements of them.
	FS    store.FS
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	// Node reads the machine, the policy and the devices. If nil, the files that Config names are
	// read.
	Node func() (*inputs.Node, error)
	// Dial connects to the runtime. If nil, the agent connects to Config.NRI.Socket.
	Dial func(handler any) (nri.Link, error)
	// Cgroups reads and writes the cgroups of containers, as the runtime names them, and Seen shows
	// the running containers. If nil, the cgroups below Config.CgroupRoot and the containers that
	// the kubelet lists are used.
	Cgroups nri.Cgroups
	Seen    func(ctx context.Context, paths map[string]string) ([]nri.Seen, error)
	// Marks keeps the time of the last answer to the runtime. If nil, a file beside the state keeps
	// it.
	Marks Marks
	// Publication is the client that writes the objects of the node. If nil, Config.APIServer is
	// used.
	Publication *publication.Client
	// Allocatable returns the devices of the kubelet's device plugins. If nil, the kubelet is asked
	// at Config.Kubelet.PodResources. Only an observing agent uses it.
	Allocatable func(context.Context) ([]kubeletdevices.Device, error)
	// Object returns the Node of this node. If nil, Config.APIServer is asked. Only an observing
	// agent uses it.
	Object func(context.Context) (*v1.Node, error)
	// FreeHugePages returns the free huge pages of a size, in bytes, on a NUMA node. If nil, sysfs
	// has them if Config.Machine is the machine on which the process runs. Only an observing agent
	// uses it.
	FreeHugePages func(numaNode int, size int64) (pages int64, err error)
	// Watch receives events, in addition to the metrics.
	Watch Watch
}

// Marks keeps a time while no agent runs.
type Marks interface {
	// Mark stores a time. It may block on a disk.
	Mark(at time.Time) error
	// Marked returns the time that was stored last, or the zero time if there is none.
	Marked() time.Time
}

// Watch has functions that are called when something happens. Any of them may be nil. They must not
// block.
type Watch struct {
	Engine    engine.Observer
	Hook      func(name string, took time.Duration, err error)
	Published func(took time.Duration, err error)
	Handed    func(handover.Reason)
}

// Here returns the World of the node on which the process runs.
func Here() World { return World{FS: store.OS(), Now: time.Now, After: time.After} }

// complete fills in the parts of a real node that are missing.
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

// markFile is a file whose modification time is the stored time.
type markFile string

// Mark implements Marks.
func (f markFile) Mark(at time.Time) error { return store.Mark(string(f), at) }

// Marked implements Marks.
func (f markFile) Marked() time.Time { return store.Marked(string(f)) }

// client returns the client that writes the objects of the node.
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

// publisher returns the publisher of the objects of the node.
func (w World) publisher(c Config, view func() publication.View, counted publication.Observer, log *slog.Logger) (*publication.Publisher, error) {
	client, err := w.client(c)
	if err != nil {
		return nil, err
	}
	return publication.New(publication.Config{
		Node: c.NodeName, Client: client, View: view, Now: w.Now, After: w.After, Observer: publicationWatch{counted, w.Watch}, Log: log,
	}), nil
}

// runtimeWatch is an nri.Observer that also calls a Watch.
type runtimeWatch struct {
	nri.Observer

	watch Watch
}

// Hook implements nri.Observer.
func (w runtimeWatch) Hook(name string, took time.Duration, err error) {
	w.Observer.Hook(name, took, err)
	if w.watch.Hook != nil {
		w.watch.Hook(name, took, err)
	}
}

// publicationWatch is a publication.Observer that also calls a Watch.
type publicationWatch struct {
	publication.Observer

	watch Watch
}

// Published implements publication.Observer.
func (w publicationWatch) Published(took time.Duration, err error) {
	w.Observer.Published(took, err)
	if w.watch.Published != nil {
		w.watch.Published(took, err)
	}
}
