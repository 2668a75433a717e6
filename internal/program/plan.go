package program

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/replacement"
	"github.com/paddock-project/paddock/internal/node/store"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// planCommand is one invocation of paddock plan.
type planCommand struct {
	node    nodeFlags
	resize  resizeFlag
	save    string
	explain bool
	decider decider
	strict  bool
	output  console.Form
}

func (c *planCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan PODS... | plan --resize FILE --state FILE",
		Short: "Show what pods would get on a machine, and why some would be rejected",
		Long: `Plan admits pods one after the other, in the order given, on a node without pods or on
a saved state, and shows which CPUs and which NUMA nodes' memory each gets. It changes no node. It
skips pods that have ended, unless there is only one pod: that one is planned as if it came now.

` + podsHelp + `

With --resize, it then resizes these pods in place to the requests of the changed manifests, and shows whether that
is possible, which CPUs and NUMA nodes the pods would have, or why not. You can leave PODS out. "Infeasible" and
"Deferred" have the same meaning as in the condition PodResizePending.

With --as, the answer is that of a kubelet with its known faults. Notes show where this kubelet differs. A pod that it
rejects is rejected here too. The end of the output shows what the kubelet's next restart does to the pods.

Where the files do not show enough to know what the kubelet does, the answer is unsure, with the reason and what to
give to be sure. It is also unsure for a pod with an extended resource, such as nvidia.com/gpu, that the node is not known
to have: without --devices and without the files of a kubelet, its devices can decide otherwise, and if the node lists
others, as for a misspelled one, the scheduler would not bind the pod to the node.

Exit codes: 0 all pods are admitted, 1 error, 2 some are rejected, or some answers are unsure.`,
		Example: `  paddock plan --machine examples/machines/epyc-2s-nps4.json \
      --kubelet-config examples/kubelet/pod-scope.yaml examples/pods/
  kubectl get pods -A -o json --field-selector spec.nodeName=node7 | paddock plan --machine node7.json -
  kubectl get pods,resourceclaims,resourceslices,deviceclasses -A -o json |
      paddock plan --node node7 --machine node7.json -
  paddock plan --machine node7.json --state node7.state --resize changed-pod.yaml`,
		Args: podsOrResize,
		RunE: c.run,
	}
	c.node.register(cmd, "start from the pods of a `FILE` that --save wrote, or of a kubelet's directory or its state files with commas, with --as and --pods, instead of an empty node")
	c.node.quota.register(cmd)
	c.resize.register(cmd)
	c.decider.register(cmd)
	console.StrictFlag(cmd, &c.strict)
	cmd.Flags().BoolVar(&c.explain, "explain", false, "explain every decision, and what would admit a pod that is rejected; see paddock explain")
	cmd.Flags().StringVar(&c.save, "save", "", "write the node with the admitted pods to a `FILE`; where a kubelet decides, with its version and what it has lost")
	c.output.Register(cmd, "text", "wide", "json", "yaml")
	return cmd
}

func (c *planCommand) run(cmd *cobra.Command, paths []string) error {
	s := console.StreamsOf(cmd)
	if err := c.decider.quota(cmd, &c.node.quota); err != nil {
		return err
	}
	c.node.as, c.node.kubeNode, c.node.whatIf = &c.decider.as, c.decider.kubeNode, true
	n, before, err := c.node.read(s)
	if err != nil {
		return err
	}
	s.Notes(c.decider.of(c.node.stock, n))
	if before, err = c.decider.on(before, c.node.stock); err != nil {
		return err
	}
	gates := podspec.GatesOf(before.Policy())
	files := inputs.PodFiles{Paths: paths, Gates: gates, Machine: n.Found.Machine, Strict: c.strict, Ended: inputs.OnlyPod}
	pods, decided, state, err := c.resize.decideAll(cmd.Context(), s, &c.decider, before, files)
	if errors.Is(err, fs.ErrNotExist) && c.node.stock != nil {
		return fmt.Errorf("%w; plan takes files of manifests: to ask about a pod of the node, use paddock explain NAMESPACE/NAME", err)
	}
	if err != nil {
		return err
	}
	if len(c.resize.paths) == 0 {
		if err := c.decider.pending(cmd.Context(), before, pods, gates, decided); err != nil {
			return err
		}
	}
	answer := view.PlanOf(n.Found.Name, n.Policy.Text, plansOf(decided), state)
	answer.Kubelet = c.decider.restart(state)
	for i, made := range decided {
		answer.Pods[i].Notes = append(answer.Pods[i].Notes, c.decider.whatIf()...)
		answer.Pods[i].Quirks, answer.Pods[i].Certainty = made.quirks, made.certainty(&c.decider)
		if !c.explain {
			continue
		}
		e, err := c.decider.explainDecision(cmd.Context(), made, pods[i], gates)
		if err != nil {
			return err
		}
		answer.Explanations = append(answer.Explanations, e)
	}
	if c.save != "" {
		if err := c.saveTo(c.save, state); err != nil {
			return fmt.Errorf("--save: %w", err)
		}
	}
	if err := s.Document(c.output.Value, console.Plan, answer, func() string { return answer.Text(s.Style(), c.output.Value == "wide") }); err != nil {
		return err
	}
	for _, made := range decided {
		if made.plan.Rejection != nil || made.isUnsure() {
			return &console.ExitError{Code: 2}
		}
	}
	return nil
}

// saveTo writes a state. A kubelet's state includes its version and what the kubelet has lost.
func (c *planCommand) saveTo(name string, state *node.State) error {
	var data []byte
	var err error
	switch from := c.decider.stock; {
	case !c.decider.as.kubelet():
		data, err = statefile.Encode(state)
	case from == nil:
		data, err = treatment.Save(state, c.decider.as.version, nil, nil)
	default:
		data, err = treatment.Save(state, c.decider.as.version, from.shown, podNames(from.waiting))
	}
	if err != nil {
		return err
	}
	return replacement.State(store.OS(), name, data)
}
