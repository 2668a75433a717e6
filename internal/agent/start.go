package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/store"
)

// ErrStrict is wrapped when Config.Strict keeps the agent from starting.
var ErrStrict = errors.New("a part of the state is no longer valid, and strict is set")

// environment is what the agent finds where it starts.
type environment struct {
	*inputs.Node
}

// read reads the machine, the policy and the devices. Nothing is changed.
func (w World) read() (*environment, error) {
	n, err := w.Node()
	if err != nil {
		return nil, err
	}
	return &environment{n}, nil
}

// readNode reads the files that a configuration names.
func readNode(c Config) (*inputs.Node, error) {
	quota, err := c.CPUQuota.Policy()
	if err != nil {
		return nil, err
	}
	return inputs.Reader{Names: inputs.Fields}.Node(inputs.NodeFiles{Machine: c.Machine, Policy: c.KubeletConfig, Devices: c.Devices, Quota: quota, MaxContainers: c.MaxContainersPerPod})
}

// keepReservation uses the reserved CPUs of the state file instead of those that were counted off
// on a machine with offline CPUs: with all CPUs online, the same number chose others, which pods
// must not get now. It reports whether that changed anything. With all CPUs online, or with CPUs
// that the configuration names, there is nothing to keep; nor where more CPUs are to be reserved
// than before.
func (e *environment) keepReservation(then node.Policy) bool {
	before, now := then.ReservedCPUs, e.Policy.ReservedCPUs
	known := e.Found.Machine.AllCPUs().Union(e.Found.Offline)
	if e.Found.Offline.IsEmpty() || !e.Policy.Counted || !e.Policy.StaticCPU || before.Equal(now) || before.Len() < now.Len() || !known.Contains(before) {
		return false
	}
	e.Policy.ReservedCPUs = before
	return true
}

// startEngine opens the state and adopts its grants. The store is open; the engine writes it.
func (e *environment) startEngine(ctx context.Context, c Config, w World, observer engine.Observer, by plans, log *slog.Logger) (*engine.Engine, *store.Store, error) {
	kept, loaded, err := store.Open(w.FS, c.State, statefile.MaxSize, func(data []byte) error {
		_, err := statefile.Decode(c.State, data)
		if errors.Is(err, statefile.ErrNewer) || errors.Is(err, statefile.ErrForeign) {
			return fmt.Errorf("%w: %w", store.ErrForeign, err) // It is intact, and another program's.
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("state: %w", err)
	}
	log.InfoContext(ctx, "state opened", "found", loaded.String())
	state, forgotten, err := e.adopt(ctx, c, loaded, log)
	if err == nil && forgotten > 0 {
		// The machine or the policy may be the wrong one by mistake: what was loaded is kept before
		// a state is written that forgets pods.
		var name string
		if name, err = kept.Keep(loaded.Data); err != nil {
			err = fmt.Errorf("%d pods would be removed from the state, and no copy of the state can be kept: %w", forgotten, err)
		} else {
			log.WarnContext(ctx, "pods are removed from the state; a copy keeps what they had", "pods", forgotten, "copy", name)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, kept.Close())
	}
	var encoder statefile.Encoder
	var meter statefile.Meter
	started := engine.New(state, engine.Config{
		Store: kept, Encode: encoder.Encode, Fits: meter.Fits, Plan: by.plan, Reserve: by.reserve, Now: w.Now, Observer: observer, Log: log,
	})
	// If the state cannot be written now, each admission is rejected later. Pods that have
	// assignments already are better off with an agent than without.
	if err := started.Flush(ctx); err != nil {
		log.ErrorContext(ctx, "the state cannot be written: the agent starts, but admits no pod until it can", "error", err)
	}
	return started, kept, nil
}

// adopt makes a state of what was loaded, and names what is not valid any more. The number is of
// the pods that the state does not know any more.
func (e *environment) adopt(ctx context.Context, c Config, loaded store.Loaded, log *slog.Logger) (*node.State, int, error) {
	var grants []*node.Grant
	var generation uint64
	if loaded.Data != nil {
		file, err := statefile.Decode(loaded.Path, loaded.Data)
		if err != nil {
			return nil, 0, err
		}
		grants, generation = file.Grants, file.Generation
		if e.keepReservation(file.Policy) {
			log.WarnContext(ctx, "some CPUs are offline: the CPUs that were reserved before stay reserved", "reserved", e.Policy.ReservedCPUs.String(), "offline", e.Found.Offline.String())
		}
		for _, change := range file.Changes(e.Found.Machine, e.Policy.Policy) {
			log.WarnContext(ctx, "the node has changed since the state was written", "what", change)
		}
	}
	if offline := e.Policy.ReservedCPUs.Difference(e.Found.Machine.AllCPUs()); !offline.IsEmpty() {
		log.WarnContext(ctx, "reserved CPUs are offline; they stay reserved", "cpus", offline.String())
	}
	state, findings, err := node.Adopt(e.Found.Machine, e.Policy.Policy, e.Devices, grants)
	if err != nil {
		return nil, 0, err
	}
	lines := make([]string, len(findings))
	for i, f := range findings {
		lines[i] = f.String()
		log.WarnContext(ctx, "a change of the node affects a pod", "pod", f.Pod, "uid", f.UID, "kept", f.Kept, "what", f.What, "do", f.Do)
	}
	if c.Strict && len(findings) > 0 {
		return nil, 0, fmt.Errorf("%w: %s", ErrStrict, strings.Join(lines, "; "))
	}
	log.InfoContext(ctx, "state adopted", "pods", state.NumGrants(), "revision", max(generation, state.Generation()))
	return state.Resume(generation), len(grants) - state.NumGrants(), nil
}
