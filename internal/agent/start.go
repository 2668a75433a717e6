package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/devicefile"
	"github.com/paddock-project/paddock/internal/discover"
	"github.com/paddock-project/paddock/internal/engine"
	"github.com/paddock-project/paddock/internal/kubeletcfg"
	"github.com/paddock-project/paddock/internal/statefile"
	"github.com/paddock-project/paddock/internal/store"
)

// ErrStrict is wrapped when Config.Strict keeps the agent from starting.
var ErrStrict = errors.New("the state is not valid as it is, and strict is set")

// place is what the agent finds where it starts.
type place struct {
	machine *machine.Machine
	// offline CPUs are there and not online when the agent starts. A recorded machine has none.
	offline cpuset.Set
	policy  node.Policy
	// counted tells that the policy reserves a number of CPUs and names none.
	counted bool
	// said describes the policy; warnings are settings without effect.
	said      string
	warnings  []string
	period    time.Duration
	inventory *device.Inventory
}

// readPlace reads the machine, the policy and the devices. Nothing is changed.
func readPlace(c Config) (*place, error) {
	p := &place{period: (&kubeletcfg.Config{}).ReconcilePeriod()}
	found, err := readMachine(c.Machine)
	if err != nil {
		return nil, err
	}
	p.machine, p.offline = found.Machine, found.Offline
	if err := p.readPolicy(c.KubeletConfig); err != nil {
		return nil, err
	}
	if p.policy.Quota, err = c.CPUQuota.Policy(); err != nil {
		return nil, err
	}
	return p, p.readDevices(c.Devices)
}

func readMachine(name string) (*discover.Found, error) {
	if name == discover.LiveName {
		return discover.Live(os.DirFS("/"))
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	return discover.Read(name, data)
}

func (p *place) readPolicy(name string) error {
	if name == "" {
		p.policy, p.said = kubeletcfg.Default(p.machine)
		p.counted = true
		return nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("kubeletConfig: %w", err)
	}
	config, err := kubeletcfg.Read(name, data)
	if err != nil {
		return err
	}
	if p.policy, err = config.ResolveOffline(p.machine, p.offline); err != nil {
		return err
	}
	p.counted = !config.NamesReserved()
	p.said, p.period = kubeletcfg.Describe(p.policy), config.ReconcilePeriod()
	for _, w := range config.Warnings(p.machine) {
		p.warnings = append(p.warnings, name+": "+w.String())
	}
	return nil
}

// keepReservation takes the reserved CPUs of the state file in place of those that were counted off
// on a machine of which CPUs are offline: on all of its CPUs the same number chose others, which pods
// must not get now. It tells whether that changed anything. With all CPUs online, or with CPUs that the
// configuration names, there is nothing to keep; nor where more CPUs are to be reserved than before.
func (p *place) keepReservation(then node.Policy) bool {
	before, now := then.ReservedCPUs, p.policy.ReservedCPUs
	known := p.machine.AllCPUs().Union(p.offline)
	if p.offline.IsEmpty() || !p.counted || !p.policy.StaticCPU || before.Equal(now) || before.Len() < now.Len() || !known.Contains(before) {
		return false
	}
	p.policy.ReservedCPUs = before
	return true
}

func (p *place) readDevices(name string) error {
	var err error
	if name == "" {
		p.inventory, err = device.NewInventory(p.machine, nil)
		return err
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("devices: %w", err)
	}
	p.inventory, err = devicefile.Inventory(p.machine, name, data)
	return err
}

// startEngine opens the state and adopts what it holds. The store is open; the engine writes it.
func (p *place) startEngine(ctx context.Context, c Config, fsys store.FS, observer engine.Observer, log *slog.Logger) (*engine.Engine, *store.Store, error) {
	kept, loaded, err := store.Open(fsys, c.State, statefile.MaxSize, func(data []byte) error {
		_, err := statefile.Decode(c.State, data)
		if errors.Is(err, statefile.ErrNewer) || errors.Is(err, statefile.ErrForeign) {
			return fmt.Errorf("%w: %w", store.ErrForeign, err) // Whole, and not ours to go behind.
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("state: %w", err)
	}
	log.InfoContext(ctx, "state opened", "found", loaded.String())
	state, forgotten, err := p.adopt(ctx, c, loaded, log)
	if err == nil && forgotten > 0 {
		err = keepCopy(ctx, kept, loaded.Data, forgotten, log)
	}
	if err != nil {
		return nil, nil, errors.Join(err, kept.Close())
	}
	var encoder statefile.Encoder
	var meter statefile.Meter
	e := engine.New(state, engine.Config{Store: kept, Encode: encoder.Encode, Fits: meter.Fits, Now: time.Now, Observer: observer, Log: log})
	// A state that cannot be written now refuses admissions later, one by one; pods that hold
	// something already are better off with an agent than without.
	if err := e.Flush(ctx); err != nil {
		log.ErrorContext(ctx, "starting all the same: nothing can be admitted until the state can be written", "error", err)
	}
	return e, kept, nil
}

// keepCopy keeps what was loaded before a state is written that forgets pods: the machine or the
// policy may be the wrong one by mistake.
func keepCopy(ctx context.Context, s *store.Store, data []byte, forgotten int, log *slog.Logger) error {
	name, err := s.Keep(data)
	if err != nil {
		return fmt.Errorf("%d pods are to be forgotten, and no copy of what they have can be kept: %w", forgotten, err)
	}
	log.WarnContext(ctx, "pods are forgotten; what they had is kept in a copy", "pods", forgotten, "copy", name)
	return nil
}

// adopt makes a state of what was loaded, and names what does not hold. The number is of the pods that
// the state does not know any more.
func (p *place) adopt(ctx context.Context, c Config, loaded store.Loaded, log *slog.Logger) (*node.State, int, error) {
	var grants []*node.Grant
	var generation uint64
	if loaded.Data != nil {
		file, err := statefile.Decode(loaded.Path, loaded.Data)
		if err != nil {
			return nil, 0, err
		}
		grants, generation = file.Grants, file.Generation
		if p.keepReservation(file.Policy) {
			log.WarnContext(ctx, "CPUs are offline: the CPUs that were reserved before stay reserved", "reserved", p.policy.ReservedCPUs.String(), "offline", p.offline.String())
		}
		for _, change := range file.Changes(p.machine, p.policy) {
			log.WarnContext(ctx, "changed since the state was written", "what", change)
		}
	}
	if offline := p.policy.ReservedCPUs.Difference(p.machine.AllCPUs()); !offline.IsEmpty() {
		log.WarnContext(ctx, "reserved CPUs are offline; they stay reserved", "cpus", offline.String())
	}
	state, findings, err := node.Adopt(p.machine, p.policy, p.inventory, grants)
	if err != nil {
		return nil, 0, err
	}
	lines := make([]string, len(findings))
	for i, f := range findings {
		lines[i] = f.String()
		log.WarnContext(ctx, "a pod is touched by a change", "pod", f.Pod, "uid", f.UID, "kept", f.Kept, "what", f.What, "do", f.Do)
	}
	if c.Strict && len(findings) > 0 {
		return nil, 0, fmt.Errorf("%w: %s", ErrStrict, strings.Join(lines, "; "))
	}
	log.InfoContext(ctx, "state adopted", "pods", len(state.Grants()), "generation", max(generation, state.Generation()))
	return state.Resume(generation), len(grants) - len(state.Grants()), nil
}
