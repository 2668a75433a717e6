package fleetcommand

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/ui/view"
)

func (c *fleetCommand) largestCommand() *cobra.Command {
	var like string
	cmd := &cobra.Command{
		Use:   "largest --like POD",
		Short: "Show how large a pod can be that some node of the fleet still takes",
		Long: `Largest shows how far a pod can grow, for each number of its devices:

` + view.LikeHelp + `

NODES counts the nodes that take a pod of this size now. Of the pod, the container with the most CPUs grows, and a
pod-level budget with it.

POD is a manifest with one pod. NODES are as for "paddock fleet", with the pods that run on them. With --pods, these
pods are placed first, as by "paddock fleet".

Exit codes: 0 done, 1 error or interrupted, 2 no node takes such a pod of any size.`,
		Example: `  paddock fleet largest --nodes live --like train.yaml
  paddock fleet largest --nodes examples/fleet/nodes.yaml --like examples/pods/10-inference.yaml
  paddock fleet largest --nodes nodes.yaml --pods trace.csv --like train.yaml`,
		Args: console.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.largest(cmd, like) },
	}
	c.register(cmd)
	console.Need(cmd, "--pods", func() bool { return len(c.pods) > 0 }, "scoring", "order")
	cmd.Flags().StringVar(&like, "like", "", "the pod: a `FILE` with its manifest, or \"-\" for standard input")
	console.Require(cmd, "like", "a file with the manifest of a pod")
	c.output.Register(cmd, "table", "json", "yaml")
	return cmd
}

func (c *fleetCommand) largest(cmd *cobra.Command, like string) error {
	s := console.StreamsOf(cmd)
	c.podless = true
	if len(c.nodes) != 1 {
		return errors.New("--nodes is given several times: give it once")
	}
	q, err := c.question(cmd.Context(), s, c.nodes[0], false)
	if err != nil {
		return err
	}
	nodes := q.nodes
	pods, notes, err := c.fleetPods(c.reader(s), nodes, inputs.PodFiles{Paths: []string{like}})
	s.Notes(notes)
	switch {
	case err != nil:
		return fmt.Errorf("--like: %w", err)
	case slices.ContainsFunc(pods, func(p fleet.Pod) bool { return p.Ask.Key() != pods[0].Ask.Key() }):
		return fmt.Errorf("--like: %s has %d pods that differ, expected one", like, len(pods))
	}
	if len(pods[0].Readings) > 0 {
		return fmt.Errorf("--like: %s asks for pod-level resources, which not all kinds of nodes read alike, because their feature gates (PodLevelResources, PodLevelResourceManagers) or kubelets differ: give --nodes with kinds that agree", pods[0].ID())
	}
	answer := view.FleetLargest{Pod: pods[0].ID()}
	kinds := nodes.Kinds
	ctx, stop, a := interruptible(cmd.Context(), s, &q.options)
	defer stop()
	if len(c.pods) > 0 {
		r, err := capacity.Fit(ctx, kinds, q.items, q.options)
		if err != nil {
			return a.outcome(err)
		}
		kinds, answer.Pods = r.Kinded(), view.PodsOf(r)
	}
	places := placesOf(kinds, pods[0])
	for _, p := range places {
		answer.Nodes += p.Nodes
	}
	if answer.Like, err = explain.LikeOn(ctx, places, pods[0].Pod); err != nil {
		return a.outcome(err)
	}
	if err := s.Document(c.output.Value, console.FleetLargest, answer, func() string { return answer.Text(s.Style()) }); err != nil {
		return err
	}
	if answer.Like.None() {
		return &console.ExitError{Code: 2}
	}
	return nil
}

// placesOf returns the kinds of nodes as places for a pod.
func placesOf(kinds []capacity.Kind, pod fleet.Pod) (places []explain.Place) {
	ranking := fleet.NewRanking(fleet.LeastStranded, nil)
	for _, k := range kinds {
		v := ranking.View(fleet.Node{Name: k.Name, Kind: k.Name, State: k.State, Allocatable: k.Allocatable, Used: k.Used})
		takes := func(s explain.Sized) bool {
			other := pod
			other.Pod = s.Pod
			other.Asks.Milli += int64(s.CPUs) * 1000
			other.Asks.Memory += s.Bytes
			if s.Device != "" {
				other.Asks.Others = other.Asks.Others.Plus(request.Amounts{{Resource: s.Device, Value: s.Devices}})
			}
			return v.Judge(&other).Fits
		}
		places = append(places, explain.Place{Name: k.Name, State: k.State, Nodes: k.Count, Takes: takes})
	}
	return places
}
