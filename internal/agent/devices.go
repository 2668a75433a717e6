package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletdevices"
	"github.com/paddock-project/paddock/internal/node/runtime/nri"
)

// silence is how long the agent does not use the kubelet's PodResources socket after the socket did
// not answer in time. A socket that hangs thus does not take half of the time of every hook.
const silence = 10 * time.Second

// errNoDeviceSocket is the reason why the devices of a pod are not known if the socket does not
// exist.
var errNoDeviceSocket = errors.New("the kubelet's PodResources socket does not exist: set kubelet.podResources to its path, and mount its directory as deploy/ does")

// devices reads from the kubelet's list which devices the kubelet and the scheduler chose for pods.
type devices struct {
	there func() bool // whether the socket exists
	ask   func(ctx context.Context, namespace, name string) (kubeletdevices.Pod, error)
	list  func(context.Context) ([]kubeletdevices.Pod, error)
	state func() *node.State
	now   func() time.Time
	// places finds the NUMA nodes of claims' devices. Nil means that they are not known.
	places *places
	// wake gets an element when the agent looked up a pod whose claims are not completely known.
	wake chan struct{}

	mu     sync.Mutex
	silent time.Time // the time until which the kubelet is not asked
}

// pod implements nri.Config.Devices.
func (d *devices) pod(ctx context.Context, namespace, name string) (func(request.Pod) request.Pod, error) {
	d.mu.Lock()
	wait := d.silent.Sub(d.now())
	d.mu.Unlock()
	if wait > 0 {
		return nil, fmt.Errorf("the kubelet's PodResources socket did not answer in time for another pod: the agent asks it again in %v; %w", wait.Round(time.Second), nri.ErrLater)
	}
	if !d.there() {
		return nil, errNoDeviceSocket
	}
	listed, err := d.ask(ctx, namespace, name)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			d.mu.Lock()
			d.silent = d.now().Add(silence)
			d.mu.Unlock()
		}
		return nil, err
	}
	at := d.places.locate(ctx, listed)
	d.places.report(ctx, listed, at)
	return func(pod request.Pod) request.Pod {
		pod = give(pod, listed, at)
		if at.allocations.wantAll(&pod) {
			select {
			case d.wake <- struct{}{}:
			default: // It is already awake.
			}
		}
		return pod
	}, nil
}

// give returns the pod with its claims and with the devices that others chose for its containers.
// The NUMA nodes of claims' devices are from at, because the kubelet does not list them.
func give(pod request.Pod, listed kubeletdevices.Pod, at located) request.Pod {
	pod.ResourceClaims = claimsOf(pod.ResourceClaims, listed, at)
	pod.Containers = slices.Clone(pod.Containers)
	for i := range pod.Containers {
		c := &pod.Containers[i]
		var given []request.Given
		for _, l := range listed.Containers {
			if l.Name != c.Name {
				continue
			}
			for _, dev := range l.Devices {
				given = append(given, request.Given{Resource: dev.Resource, Name: dev.ID, Nodes: dev.Nodes})
			}
		}
		for _, claim := range pod.ResourceClaims {
			for k := range claim.Devices {
				dev := &claim.Devices[k]
				if claim.Has(c.Name, dev) {
					nodes := at.nodes(dev.Driver, dev.Pool, dev.Name)
					given = append(given, request.Given{Claim: claim.Name, Driver: dev.Driver, Pool: dev.Pool, Name: dev.Name, Nodes: nodes})
				}
			}
		}
		slices.SortFunc(given, func(a, b request.Given) int { return a.Compare(&b) })
		c.Given = slices.CompactFunc(given, func(a, b request.Given) bool { return a.Compare(&b) == 0 }) // All shares of a device count as one.
	}
	pod.Stock = at.stock(pod)
	return pod
}

// claimsOf returns the claims of a pod with the devices that the kubelet lists. known are the
// claims of the pod's specification, with the requests that containers name. A claim that is not in
// known, because the specification is older, is used as a whole by the containers for which the
// kubelet lists it.
func claimsOf(known []request.Claim, listed kubeletdevices.Pod, at located) []request.Claim {
	all := slices.Clone(known)
	for _, c := range listed.Containers {
		for _, claim := range c.Claims {
			found := request.Claim{Name: claim.Name, Devices: []request.ClaimDevice{}}
			if !slices.ContainsFunc(known, func(k request.Claim) bool { return k.Name == claim.Name }) {
				found.Uses = []request.ClaimUse{{Container: c.Name}}
			}
			for _, dev := range claim.Devices {
				found.Devices = append(found.Devices, request.ClaimDevice{
					Driver: dev.Driver, Pool: dev.Pool, Name: dev.Device, ShareID: dev.ShareID, CDI: dev.CDI,
					Requests: at.requests(claim.Name, dev),
				})
			}
			all = append(all, found)
		}
	}
	for _, k := range known { // The kubelet lists neither init containers nor claims that only they use.
		allocated := at.allocations.of(at.namespace, k.Name)
		if allocated == nil || slices.ContainsFunc(all, func(c request.Claim) bool { return c.Name == k.Name && c.Devices != nil }) {
			continue
		}
		found := request.Claim{Name: k.Name, Devices: []request.ClaimDevice{}}
		for _, a := range allocated {
			requests := at.requests(k.Name, kubeletdevices.ClaimDevice{Driver: a.Driver, Pool: a.Pool, Device: a.Device, ShareID: a.ShareID})
			found.Devices = append(found.Devices, request.ClaimDevice{Driver: a.Driver, Pool: a.Pool, Name: a.Device, ShareID: a.ShareID, Requests: requests})
		}
		all = append(all, found)
	}
	return request.Ordered(all)
}

// newDevices returns devices that use a kubelet's socket, and a function that closes the
// connection.
func newDevices(socket string, state func() *node.State) (*devices, func() error, error) {
	client, err := kubeletdevices.New(socket, time.After)
	if err != nil {
		return nil, nil, err
	}
	there := func() bool {
		_, err := os.Stat(socket)
		return err == nil
	}
	return &devices{there: there, ask: client.Pod, list: client.List, state: state, now: time.Now, wake: make(chan struct{}, 1)}, client.Close, nil
}
