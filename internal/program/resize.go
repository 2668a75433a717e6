package program

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// resizeFlag is the flag --resize. It names changed manifests of pods that are on the node.
type resizeFlag struct{ paths []string }

func (f *resizeFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.paths, "resize", nil, "check whether a resize in place is possible: a `FILE` with the changed manifest of a pod that is in --state or among PODS; may be repeated")
}

// podsOrResize checks the arguments of a command with --resize. With --resize, PODS can be left
// out.
func podsOrResize(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("resize") {
		return nil
	}
	return console.Arguments(1, 0, "PODS: files or directories of manifests, or \"-\" for standard input")(cmd, args)
}

// decideAll admits the pods of files and then resizes those of --resize. It also returns the
// manifests of the decisions.
func (f *resizeFlag) decideAll(ctx context.Context, s console.Streams, d *decider, state *node.State, files inputs.PodFiles) ([]*v1.Pod, []decision, *node.State, error) {
	var pods []*v1.Pod
	var decided []decision
	if len(files.Paths) > 0 {
		read, err := d.pods(s, files)
		if err != nil {
			return nil, nil, nil, err
		}
		d.claims, pods = read.Claims, read.Pods
		if decided, state, err = d.admitAll(ctx, state, pods, files.Gates); err != nil {
			return nil, nil, nil, err
		}
	}
	for _, path := range f.paths { // A pod may be resized several times.
		files.Paths = []string{path}
		changed, err := d.pods(s, files)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("--resize: %w", err)
		}
		var resized []decision
		if resized, state, err = d.resizeAll(ctx, state, changed.Pods, files.Gates); err != nil {
			return nil, nil, nil, err
		}
		pods, decided = append(pods, changed.Pods...), append(decided, resized...)
	}
	return pods, decided, state, nil
}

// resizeAll decides about resizes one after the other.
func (d *decider) resizeAll(ctx context.Context, state *node.State, pods []*v1.Pod, gates podspec.Gates) ([]decision, *node.State, error) {
	if d.as.kubelet() {
		return nil, nil, errors.New("--resize and --as cannot be combined: --resize shows what Paddock decides, and this kubelet resizes no Guaranteed pod under static policies")
	}
	all := make([]decision, 0, len(pods))
	for _, pod := range pods {
		asked, notes, err := d.request(ctx, pod, gates)
		if err != nil {
			return nil, nil, err
		}
		g, err := resizedPod(state, asked)
		if err != nil {
			return nil, nil, err
		}
		asked.UID = g.Pod.UID
		made := decision{before: state, plan: state.Resize(asked.UID, asked), resize: true}
		made.plan.Trace.Notes = append(made.plan.Trace.Notes, notes...)
		if made.plan.Known {
			made.plan.Trace.Notes = append(made.plan.Trace.Notes, "the pod already has these sizes")
		}
		if state, err = state.Apply(made.plan); err != nil {
			return nil, nil, err
		}
		all = append(all, made)
	}
	return all, state, nil
}

// resizedPod finds the pod of a changed manifest by its UID or, if one of them has none, by its
// name.
func resizedPod(state *node.State, asked request.Pod) (*node.Grant, error) {
	if g, there := state.Grant(asked.UID); there {
		return g, nil
	}
	var named []*node.Grant
	for _, g := range state.Grants() {
		if g.Pod.ID() == asked.ID() {
			named = append(named, g)
		}
	}
	switch {
	case len(named) == 0:
		return nil, fmt.Errorf("--resize: pod %s is not on the node: give the state that has it with --state, or its earlier manifest as PODS", asked.ID())
	case !podspec.Derived(asked.UID) && !podspec.Derived(named[0].Pod.UID):
		return nil, fmt.Errorf("--resize: pod %s has UID %s, but the pod of this name on the node has UID %s: remove metadata.uid to resize the pod on the node",
			asked.ID(), asked.UID, named[0].Pod.UID)
	case len(named) > 1:
		return nil, fmt.Errorf("--resize: %d pods on the node have the name %s: set metadata.uid to the UID of one of them", len(named), asked.ID())
	}
	return named[0], nil
}
