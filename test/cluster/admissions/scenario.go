package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/agent"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletdevices"
	"github.com/paddock-project/paddock/internal/node/telemetry"
	"github.com/paddock-project/paddock/test/cluster/stock"
	"github.com/paddock-project/paddock/test/e2e/tally"
)

// speed is how many times faster the agent's clock is, so that a look that comes every 30 s on a
// node comes every 3 s here. The kubelet's answers take as long as they take.
const speed = 10

// These are times of this process.
const (
	// lookEvery is a little longer than the longest time between two looks of the agent.
	lookEvery = 3500 * time.Millisecond
	// noticeTime is how long a decision may take until the agent has compared it.
	noticeTime = 5 * time.Second
)

// scenario is a random history on one node.
type scenario struct {
	minor, program string
	seed           uint64
	kind           []string

	kubelet *stock.Kubelet
	agent   *agent.Observing
	result  tally.Result
	// active is false for pods that were rejected or removed, and has no key for those that the
	// kubelet does not know.
	active map[string]bool
}

// history is what is read of a bare scenario.
type history struct {
	Machine json.RawMessage `json:"machine"`
	Devices *struct {
		Resources map[string][]struct {
			ID        string `json:"id"`
			NUMANodes []int  `json:"numaNodes"`
		} `json:"resources"`
	} `json:"devices"`
	Events []stock.Event `json:"events"`
}

// play plays the scenario, and returns what the agent made of it.
func (s *scenario) play(ctx context.Context) (tally.Result, error) {
	begin := time.Now()
	s.result = tally.Result{Minor: s.minor, Seed: s.seed, Kind: cmp.Or(strings.Join(s.kind, " "), "plain")}
	s.active = map[string]bool{}
	text, err := exec.CommandContext(ctx, s.program, append([]string{"-random", "1", "-seed", strconv.FormatUint(s.seed, 10)}, s.kind...)...).Output()
	if err != nil {
		return s.result, fmt.Errorf("%s: %w", s.program, err)
	}
	var h history
	if err := json.Unmarshal(text, &h); err != nil {
		return s.result, err
	}
	process, err := stock.Start(ctx, s.program)
	if err != nil {
		return s.result, err
	}
	defer process.Stop()
	if s.kubelet, err = process.Begin("node", text); err != nil {
		s.result.Broken = err.Error() // Its configuration is not allowed on its machine.
		return s.result, nil
	}
	defer func() { _ = os.RemoveAll(s.kubelet.Dir) }() // A process that was killed has left it.
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	if err := s.observe(ctx, &h, ended); err != nil {
		cancel()
		return s.result, err
	}
	err = s.events(ctx, h.Events)
	if t, known := s.agent.Trust(); known {
		s.result.Admissions, s.result.Rejections, s.result.Reasons, s.result.Differ = t.Admissions, t.Rejections, t.Unpredicted, t.Differences
	}
	cancel()
	s.result.Seconds = time.Since(begin).Seconds()
	return s.result, errors.Join(err, <-ended)
}

// observe starts the agent, and waits until it has looked. The error of its end is sent to ended.
func (s *scenario) observe(ctx context.Context, h *history, ended chan<- error) error {
	machine := filepath.Join(s.kubelet.Dir, "machine.json")
	if err := os.WriteFile(machine, h.Machine, 0o600); err != nil {
		return err
	}
	c := agent.DefaultConfig()
	c.Decides, c.Machine, c.Listen = agent.DecidesKubelet, machine, ""
	c.Kubelet = agent.KubeletConfig{URL: s.kubelet.URL, Dir: s.kubelet.Dir, PodResources: "as the devices of the scenario"}
	began := time.Now()
	world := agent.Here()
	world.Now = func() time.Time { return began.Add(time.Since(began) * speed) }
	world.After = func(d time.Duration) <-chan time.Time { return time.After(d / speed) }
	world.Allocatable = func(context.Context) ([]kubeletdevices.Device, error) { return h.devices(), nil }
	world.Object = func(context.Context) (*v1.Node, error) { return stock.Boundless(), nil }
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("ADMISSIONS_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	var err error
	if s.agent, err = agent.NewObserving(c, world, telemetry.Build{}, log); err != nil {
		return err
	}
	go func() { ended <- s.agent.Run(ctx) }()
	return s.await(ctx, func() bool { _, known := s.agent.Trust(); return known })
}

func (h *history) devices() (all []kubeletdevices.Device) {
	if h.Devices == nil {
		return nil
	}
	for resource, list := range h.Devices.Resources {
		for _, d := range list {
			all = append(all, kubeletdevices.Device{Resource: resource, ID: d.ID, Nodes: mask.Of(d.NUMANodes...)})
		}
	}
	return all
}

// await waits until something holds, for at most noticeTime.
func (s *scenario) await(ctx context.Context, holds func() bool) error {
	for begin := time.Now(); !holds(); {
		if time.Since(begin) > noticeTime {
			return fmt.Errorf("it does not hold after %v", noticeTime)
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// events lets the events happen, and waits after each decision until the agent has compared it. Of
// the pods that are removed, every other one ends and stays listed.
func (s *scenario) events(ctx context.Context, events []stock.Event) error {
	removed, restarted := 0, false
	for i, e := range events {
		active, decided := s.active[e.Pod]
		again := e.Op == "admit" && active
		if restarted && !again { // The agent notices at its next look, at the latest, that the kubelet has another process.
			restarted = false
			if err := sleep(ctx, lookEvery); err != nil {
				return err
			}
		}
		switch e.Op {
		case "removePod":
			if !active {
				continue // It was rejected when the kubelet was started again.
			}
			if removed++; removed%2 == 0 {
				e.Op = "endPod"
			}
			s.active[e.Pod] = false
		case "admit":
			if decided && !again {
				continue // A kubelet that starts again does not decide about a pod that has ended.
			}
		case "stopContainer":
			if !active {
				continue
			}
		case "restart":
			restarted = true
		}
		a, err := s.kubelet.Do(e, nil)
		if errors.Is(err, stock.ErrEndless) {
			s.result.Endless = true
			return nil
		}
		if err != nil {
			return fmt.Errorf("event %d, %s: %w", i, e.Op, err)
		}
		if broken := cmp.Or(a.StartError, a.Panic); broken != "" {
			s.result.Broken = broken
			return nil
		}
		if a.Admitted == nil {
			continue
		}
		s.active[e.Pod] = *a.Admitted
		if again || *a.Admitted && !a.Has(e.Pod) {
			continue
		}
		s.result.Decisions++
		if err := s.await(ctx, func() bool { return s.seen() >= s.result.Decisions }); err != nil && ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// seen returns how many decisions the agent has compared.
func (s *scenario) seen() int {
	t, _ := s.agent.Trust()
	return t.Admissions.All + t.Rejections.All
}
