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

// ErrStrict is wrapped by the error of a start that Config.Strict prevents.
var ErrStrict = errors.New("a part of the state is no longer valid, and strict is set")

// environment is what the agent finds on the node where it starts.
type environment struct {
	*inputs.Node
}

// read reads the machine, the policy and the devices. It changes nothing.
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

// keepReservation uses the reserved CPUs of the state file if the policy reserves a number of CPUs
// and some CPUs of the machine are offline: with all CPUs online, the same number chose other CPUs,
// which pods must not get now. It reports whether it changed the policy. It changes nothing if all
// CPUs are online, if the configuration names the CPUs, or if more CPUs are to be reserved than
// before.
func (e *environment) keepReservation(then node.Policy) bool {
	before, now := then.ReservedCPUs, e.Policy.ReservedCPUs
	known := e.Found.Machine.AllCPUs().Union(e.Found.Offline)
	if e.Found.Offline.IsEmpty() || !e.Policy.Counted || !e.Policy.StaticCPU || before.Equal(now) || before.Len() < now.Len() || !known.Contains(before) {
		return false
	}
	e.Policy.ReservedCPUs = before
	return true
}

// startEngine opens the state and adopts its grants. It returns the engine and the open store,
// which the engine writes.
func (e *environment) startEngine(ctx context.Context, c Config, w World, observer engine.Observer, by plans, log *slog.Logger) (*engine.Engine, *store.Store, error) {
	kept, loaded, err := store.Open(w.FS, c.State, statefile.MaxSize, func(data []byte) error {
		_, err := statefile.Decode(c.State, data)
		if errors.Is(err, statefile.ErrNewer) || errors.Is(err, statefile.ErrForeign) {
			return fmt.Errorf("%w: %w", store.ErrForeign, err) // It is intact, but belongs to another program.
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("state: %w", err)
	}
	log.InfoContext(ctx, "state opened", "found", loaded.String())
	state, forgotten, err := e.adopt(ctx, c, loaded, log)
	if err == nil && forgotten > 0 {
		// The machine or the policy may be wrong by mistake. So a copy of what was loaded is kept
		// before a state without these pods is written.
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
	// If the state cannot be written now, admissions are rejected later. Pods that already have
	// assignments are better off with an agent than without.
	if err := started.Flush(ctx); err != nil {
		log.ErrorContext(ctx, "the state cannot be written: the agent starts, but admits no pod until it can", "error", err)
	}
	return started, kept, nil
}

// adopt makes a state of what was loaded, and logs what is no longer valid. It also returns the
// number of pods that are no longer in the state.
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
