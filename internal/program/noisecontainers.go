package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/base/bounded"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/kubelet/state"
	"github.com/paddock-project/paddock/internal/node/kernelfiles"
	"github.com/paddock-project/paddock/internal/node/noise"
	"github.com/paddock-project/paddock/internal/node/podres"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletdevices"
	"github.com/paddock-project/paddock/internal/ui/web"
)

// noisy has the containers that noise watches, and their source.
type noisy struct {
	containers []noise.Container
	from       string
	notes      []noise.NotSeen
}

// find returns the containers with exclusive CPUs from the source that the flags select, or from
// the first of the usual sources that has any.
func (c *noiseCommand) find(ctx context.Context, cmd *cobra.Command, files kernelfiles.FS, online cpuset.Set) (*noisy, error) {
	if cmd.Flags().Changed("cpus") {
		return c.chosen(online)
	}
	s := console.StreamsOf(cmd)
	var found []noise.Container
	var from string
	var err error
	cgroups, walking := files.Cgroups()
	switch {
	case cmd.Flags().Changed("agent"):
		from = "the agent at " + c.agent.address
		found, err = c.ofAgent(ctx, cmd, s)
	case c.socket != "":
		from = "the PodResources API at " + c.socket
		found, err = ofPodResources(ctx, c.socket)
	case c.state != "":
		from = "the state " + c.state
		found, err = ofState(s, c.state)
	default:
		found, from = c.usual(ctx, s, files, cgroups, online)
	}
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, &console.ExitError{Code: 2, Err: fmt.Errorf("no container has exclusive CPUs, according to %s; to watch CPUs without a container: --cpus LIST", from)}
	}
	n := &noisy{containers: found, from: from}
	n.place(cgroups, walking)
	return n, nil
}

// chosen returns the CPUs of --cpus.
func (c *noiseCommand) chosen(online cpuset.Set) (*noisy, error) {
	cpus, err := cpuset.Parse(c.cpus)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--cpus %s: expected a list of CPUs such as 2-5,8: %w", c.cpus, err)
	case cpus.IsEmpty():
		return nil, errors.New("--cpus: expected at least one CPU, such as 2-5")
	case !cpus.Intersects(online):
		return nil, fmt.Errorf("--cpus %s: none of these CPUs is online; online are %s", c.cpus, online)
	}
	return &noisy{containers: []noise.Container{{CPUs: cpus}}, from: "none, the CPUs are those of --cpus"}, nil
}

// usual asks the usual sources one after another. A source that does not answer, or has no
// exclusive CPUs, is not the source of this node.
func (c *noiseCommand) usual(ctx context.Context, s console.Streams, files kernelfiles.FS, cgroups []kernelfiles.Cgroup, online cpuset.Set) (found []noise.Container, from string) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var asked []string
	for _, socket := range []string{podres.DefaultSocket, kubeletdevices.DefaultSocket} {
		socket = filepath.Join(files.Root, socket)
		if found, err := ofPodResources(ctx, socket); err == nil {
			if len(found) > 0 {
				return found, "the PodResources API at " + socket
			}
			asked = append(asked, "the PodResources API at "+socket)
		}
	}
	name := filepath.Join(files.Root, "/var/lib/kubelet", state.CPUManager.FileName())
	if found, err := ofState(s, name); err == nil {
		if len(found) > 0 {
			return found, "the state " + name
		}
		asked = append(asked, "the state "+name)
	}
	for _, g := range kernelfiles.Exclusive(cgroups, online) {
		found = append(found, noise.Container{UID: g.UID, Name: g.ID[:min(len(g.ID), 12)], CPUs: g.CPUs, Cgroup: g.Path})
	}
	return found, strings.Join(append(asked, "the cgroups at "+files.CgroupRoot()), ", ")
}

// ofAgent asks the agent of this node.
func (c *noiseCommand) ofAgent(ctx context.Context, cmd *cobra.Command, s console.Streams) ([]noise.Container, error) {
	if err := c.agent.check(cmd, "socket"); err != nil {
		return nil, err
	}
	data, err := c.agent.ask(ctx, s, "/api/state", nil)
	if err != nil {
		return nil, err
	}
	var answer web.State
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("agent at %s: the answer is not the state of a node: is this the listen address of a Paddock agent?", c.agent.address)
	}
	if host, err := os.Hostname(); err == nil && answer.Name != "" && answer.Name != host {
		s.Notes([]string{fmt.Sprintf("agent at %s: its node is %s, and this machine is %s: what is shown is of the CPUs of this machine", c.agent.address, answer.Name, host)})
	}
	var found []noise.Container
	for i := range answer.Pods {
		p := &answer.Pods[i]
		for k := range p.Containers {
			if of := &p.Containers[k]; of.Isolation == node.ContainerIsolation.String() {
				if cpus, err := cpuset.Parse(of.CPUs); err == nil && !cpus.IsEmpty() {
					found = append(found, noise.Container{Pod: p.Pod, UID: p.UID, Name: of.Name, CPUs: cpus})
				}
			}
		}
	}
	return found, nil
}

// ofPodResources lists the containers with exclusive CPUs of a PodResources API.
func ofPodResources(ctx context.Context, socket string) (found []noise.Container, err error) {
	client, err := podres.Dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	answer, err := client.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range answer.GetPodResources() {
		for _, of := range p.GetContainers() {
			if cpus := idSet(of.GetCpuIds()); !cpus.IsEmpty() {
				found = append(found, noise.Container{Pod: p.GetNamespace() + "/" + p.GetName(), Name: of.GetName(), CPUs: cpus})
			}
		}
	}
	return found, nil
}

// ofState returns the containers with exclusive CPUs of a state file, which is either the
// kubelet's, with the UIDs of pods, or the agent's.
func ofState(s console.Streams, name string) ([]noise.Container, error) {
	is, err := treatment.OfKubelet(s.Reader(), name)
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	if !is {
		return ofAgentState(s, name)
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name = filepath.Join(name, state.CPUManager.FileName())
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	defer file.Close()
	data, err := bounded.Read(name, file, state.MaxSize)
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	content, err := state.Recognise(data)
	if err != nil || content.CPU == nil {
		return nil, fmt.Errorf("--state %s: expected a cpu_manager_state of the kubelet: %w", name, errors.Join(err, fs.ErrInvalid))
	}
	var found []noise.Container
	for uid, containers := range content.CPU.Entries {
		for container, text := range containers {
			cpus, err := cpuset.Parse(text)
			if err != nil {
				return nil, fmt.Errorf("--state %s: pod with UID %s: container %s: %w", name, uid, container, err)
			}
			if pool := content.CPU.Pools[uid]; !cpus.IsEmpty() && !cpus.Equal(pool) {
				found = append(found, noise.Container{UID: uid, Name: container, CPUs: cpus})
			}
		}
	}
	sort.Slice(found, func(i, k int) bool { return found[i].UID+found[i].Name < found[k].UID+found[k].Name })
	return found, nil
}

// ofAgentState returns the containers of a state file of an agent.
func ofAgentState(s console.Streams, name string) ([]noise.Container, error) {
	r := s.Reader()
	n, err := r.Node(inputs.NodeFiles{Machine: discover.LiveName})
	if err != nil {
		return nil, err
	}
	saved, err := r.State(name, n)
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	var found []noise.Container
	for g := range saved.AllGrants() {
		for i := range g.Containers {
			if cpus := g.Containers[i].CPUs; g.Isolation(i) == node.ContainerIsolation && !g.Containers[i].Removed && !cpus.IsEmpty() {
				found = append(found, noise.Container{Pod: g.Pod.ID(), UID: g.Pod.UID, Name: g.Pod.Containers[i].Name, CPUs: cpus})
			}
		}
	}
	return found, nil
}

// place finds the cgroup of each container: the one with exactly its CPUs, in the cgroup of its pod
// if the UID is known.
func (n *noisy) place(cgroups []kernelfiles.Cgroup, walking error) {
	if walking != nil {
		n.notes = append(n.notes, noise.NotSeen{What: "the cgroups of containers", Why: walking.Error() + ". Tasks that can run only on the CPUs of a container are taken for its own"})
		return
	}
	for i := range n.containers {
		c := &n.containers[i]
		var fits []kernelfiles.Cgroup
		for _, g := range cgroups {
			if g.CPUs.Equal(c.CPUs) && (c.UID == "" || c.UID == g.UID) {
				fits = append(fits, g)
			}
		}
		switch {
		case c.Cgroup != "":
		case len(fits) == 1:
			c.Cgroup, c.UID = fits[0].Path, fits[0].UID
		default:
			n.notes = append(n.notes, noise.NotSeen{
				What: fmt.Sprintf("the cgroup of %s container %s", strings.TrimSpace(c.Pod+" "+c.UID), c.Name),
				Why:  fmt.Sprintf("%d cgroups have exactly CPUs %s. Tasks that can run only on these CPUs are taken for its own", len(fits), c.CPUs),
			})
		}
	}
}
