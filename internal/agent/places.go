package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/base/bounded"
	"github.com/paddock-project/paddock/internal/codec/claims"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/node/podsource/devicemetadata"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletdevices"
	"github.com/paddock-project/paddock/internal/node/podsource/resourceslices"
)

const (
	// firstSlices is how long a start waits for the first list of ResourceSlices. An API server
	// answers in milliseconds, and while the agent is not connected, pods start without it.
	firstSlices = time.Second
	// filesTime limits how long the metadata files of one pod are read. They are small and local. A
	// file system that does not answer takes no more of a hook's time.
	filesTime = 100 * time.Millisecond
)

// places finds the NUMA nodes of the devices of claims. It looks in the known ResourceSlices of the
// node first, and otherwise in the files of the drivers. It does not wait for the API server.
type places struct {
	slices *resourceslices.Watch // nil if the API server is not used
	// allocations have the requests of claims' devices. Nil means that the API server is not used.
	allocations *allocations
	files       *devicemetadata.Reader // nil if they are not read
	// checkpoint is the kubelet's file of claims, which also has the requests. If empty, it is not
	// read. reading has an element while a read is in progress.
	checkpoint string
	reading    chan struct{}
	// within limits how long the files of one pod are read.
	within time.Duration
	log    *slog.Logger
}

// newPlaces returns the places of a node's devices. If the API server has no usable address, it
// uses the files alone.
func newPlaces(ctx context.Context, c Config, log *slog.Logger) *places {
	pci := discover.PCINodes{FS: os.DirFS("/")}
	p := &places{log: log, reading: make(chan struct{}, 1), within: filesTime}
	if c.Kubelet.Dir != "" {
		p.checkpoint = filepath.Join(c.Kubelet.Dir, "dra_manager_state")
		p.files = devicemetadata.New(c.Kubelet.Dir, pci)
	}
	if c.APIServer.URL == "" {
		return p
	}
	config, err := c.APIServer.address().Config(os.Getenv)
	if err == nil {
		var client *resourceslices.Claims
		if client, err = resourceslices.NewClaims(config); err == nil {
			p.allocations = newAllocations(client.Allocation, time.Now)
			p.slices, err = resourceslices.New(config, resourceslices.Options{Node: c.NodeName, PCI: pci, Log: log})
		}
	}
	if err != nil {
		log.ErrorContext(ctx, "the API server cannot be asked: the NUMA nodes of claims' devices are known only from metadata files", "error", err)
	}
	return p
}

// first waits for the first list of ResourceSlices, up to firstSlices.
func (p *places) first(ctx context.Context) {
	if p == nil || p.slices == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-p.slices.First():
	case <-time.After(firstSlices):
	}
}

// located has the devices of one pod's claims.
type located struct {
	slices *claims.Places
	files  map[deviceName]mask.Mask
	// allocations has the claims in this namespace.
	allocations *allocations
	namespace   string
	// named and checkpoint map the devices of claims to the requests that they are for: named from
	// the files of drivers, and checkpoint from the kubelet's file.
	named, checkpoint map[claimedDevice][]string
}

type (
	deviceName    struct{ driver, pool, name string }
	claimedDevice struct {
		claim string
		deviceName
	}
)

// locate finds the devices of a pod. It takes at most p.within, and returns what it found in that
// time. A nil receiver knows none. The requests of a claim's devices come from its known
// allocation, otherwise from the files of drivers, and otherwise from the kubelet's file.
func (p *places) locate(ctx context.Context, pod kubeletdevices.Pod) located {
	l := located{files: map[deviceName]mask.Mask{}, namespace: pod.Namespace, named: map[claimedDevice][]string{}, checkpoint: map[claimedDevice][]string{}}
	if p == nil {
		return l
	}
	l.allocations = p.allocations
	if p.slices != nil {
		l.slices = p.slices.Places()
	}
	within, cancel := context.WithTimeout(ctx, p.within)
	defer cancel()
	type source struct{ driver, claim string }
	read := map[source]bool{}
	if slices.ContainsFunc(pod.Containers, func(c kubeletdevices.Container) bool { return len(c.Claims) > 0 }) {
		p.prepared(within, &l)
	}
	for _, c := range pod.Containers {
		for _, claim := range c.Claims {
			for _, d := range claim.Devices {
				if of := (source{d.Driver, claim.Name}); !read[of] && p.files != nil {
					read[of] = true
					p.read(within, &l, d.Driver, pod, claim.Name)
				}
			}
		}
	}
	return l
}

// report logs the devices of a pod whose NUMA nodes are not known, and the reason.
func (p *places) report(ctx context.Context, pod kubeletdevices.Pod, l located) {
	var unknown []string
	for _, c := range pod.Containers {
		for _, claim := range c.Claims {
			for _, d := range claim.Devices {
				if l.nodes(d.Driver, d.Pool, d.Device).IsEmpty() {
					unknown = append(unknown, d.Driver+"/"+d.Pool+"/"+d.Device)
				}
			}
		}
	}
	if len(unknown) > 0 && p != nil {
		why := "neither the ResourceSlices nor the metadata files of their drivers have them"
		switch {
		case p.slices == nil:
			why = "the API server is not asked, and no metadata file of their drivers has them"
		case p.slices.Trouble() != nil:
			why = p.slices.Trouble().Error()
		case l.slices == nil:
			why = "the API server has not answered yet"
		}
		p.log.WarnContext(ctx, "the NUMA nodes of devices of claims are unknown", "pod", pod.Namespace+"/"+pod.Name, "devices", unknown[:min(len(unknown), 8)], "why", why)
	}
}

// maxCheckpoint limits the kubelet's file of claims in bytes. On a node with 500 claims it has
// about 300 KiB.
const maxCheckpoint = 4 << 20

// prepared reads the kubelet's file of claims until ctx ends. It takes the requests of the claims
// in the namespace of l.
func (p *places) prepared(ctx context.Context, l *located) {
	if p.checkpoint == "" {
		return
	}
	select {
	case p.reading <- struct{}{}:
	default:
		return // A read is in progress: the file system does not answer, or another pod starts.
	}
	answers := make(chan *kubeletstate.DeviceFile, 1)
	go func() {
		defer func() { <-p.reading }()
		file := &kubeletstate.DeviceFile{}
		if f, err := os.Open(p.checkpoint); err == nil {
			data, err := bounded.Read(p.checkpoint, f, maxCheckpoint)
			if read, damaged := kubeletstate.RecogniseDevices(data); err == nil && damaged == nil {
				file = read // The doctor reports a damaged file.
			}
			_ = f.Close() // It was only read.
		}
		answers <- file
	}()
	select {
	case file := <-answers:
		for _, c := range file.Claims {
			for _, d := range c.Devices {
				if c.Namespace == l.namespace {
					l.checkpoint[claimedDevice{c.Name, deviceName{d.Driver, d.Pool, d.Device}}] = d.Requests
				}
			}
		}
	case <-ctx.Done():
	}
}

// read reads the files of one driver about one claim.
func (p *places) read(ctx context.Context, l *located, driver string, pod kubeletdevices.Pod, claim string) {
	described, err := p.files.Claim(ctx, driver, pod.Namespace, claim)
	if err != nil {
		p.log.WarnContext(ctx, "a metadata file of devices cannot be read", "pod", pod.Namespace+"/"+pod.Name, "claim", claim, "driver", driver, "error", err)
	}
	for _, d := range described {
		device := deviceName{d.Driver, d.Pool, d.Device}
		l.files[device] |= d.Nodes
		of := claimedDevice{claim, device}
		l.named[of] = append(l.named[of], d.Request)
	}
}

// requests returns the requests that a device of a claim is for, in ascending order, or nil if they
// are not known.
func (l located) requests(claim string, d kubeletdevices.ClaimDevice) []string {
	of := claimedDevice{claim, deviceName{d.Driver, d.Pool, d.Device}}
	var named []string
	for _, a := range l.allocations.of(l.namespace, claim) {
		if (deviceName{a.Driver, a.Pool, a.Device}) == of.deviceName && a.ShareID == d.ShareID {
			named = append(named, a.Request)
		}
	}
	for _, other := range [][]string{l.named[of], l.checkpoint[of]} {
		if named == nil && other != nil {
			named = slices.Clone(other)
		}
	}
	slices.Sort(named)
	return slices.Compact(named)
}

// nodes returns the NUMA nodes of a device. It returns an empty mask if they are not known.
func (l located) nodes(driver, pool, name string) mask.Mask {
	if nodes, _ := l.slices.Nodes(driver, pool, name); !nodes.IsEmpty() {
		return nodes
	}
	return l.files[deviceName{driver, pool, name}]
}

// stock returns what the node has of the drivers of a pod's devices.
func (l located) stock(pod request.Pod) []request.Stock {
	var all []request.Given
	for _, c := range pod.Containers {
		all = append(all, c.Given...)
	}
	return l.slices.Stock(all)
}
