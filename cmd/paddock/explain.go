package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/agent"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/discover"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/podspec"
	"github.com/paddock-project/paddock/internal/view"
)

// explainCommand is one call of paddock explain. The n-th machine, state, configuration and
// inventory are one node.
type explainCommand struct {
	machines, states, configs, devices []string
	pod                                string
	agent                              string
	verbose                            bool
	quota                              quotaFlag
	output                             outputFlag
	stdin                              io.Reader
	stdout                             io.Writer
	stderr                             io.Writer
}

func newExplainCommand() *cobra.Command {
	var x explainCommand
	cmd := &cobra.Command{
		Use:   "explain PODS... | explain NAMESPACE/NAME --agent",
		Short: "Show why a pod gets what it gets, or what would admit it",
		Long: `Explain shows the way of one decision: what the pod asks for and by which rules, how its pool is
divided, where each resource fits, what the Topology Manager chose and why the nearest other
sets of NUMA nodes lost, which CPUs were picked and why. For a pod that is rejected it shows first
what would admit it: less of something, the absence of other pods, another node, another
setting. Each proposal has been planned.

PODS are as for paddock plan. Where there are several, --pod says which one; those before
it are admitted first, as paddock plan does. A pod that is in --state already is explained as
if it were new.

To ask several nodes, give --machine several times, and --state, --kubelet-config and --devices either
once for all or once for each machine, in the same order; "" is an empty state. The first
machine is the one that is explained.

With --agent it asks the agent of a running node, about one pod by its name: since when it has its
assignments, and the decision that admitted it; or when it was rejected, and what would admit it on the
node as it is now. The agent answers on its listen address, to those who are on the node.

Exit codes: 0 the pod is admitted, 1 error, 2 it is rejected.`,
		Example: `  paddock explain --machine examples/machines/epyc-2s-nps4.json \
      --kubelet-config examples/kubelet/pod-scope.yaml examples/pods/ --pod default/analytics
  kubectl get pod database -o json | paddock explain --machine node7.json --state node7.state -
  paddock explain pod.yaml --machine node7.json --state node7.state --machine node8.json --state node8.state
  paddock explain default/database --agent`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			x.stdin, x.stdout, x.stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			if cmd.Flags().Changed("agent") {
				return x.askAgent(cmd, args)
			}
			return x.run(cmd.Context(), args)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&x.machines, "machine", []string{discover.LiveName}, `"live" for this machine, or a `+"`FILE`"+` written by "paddock topology -o json"; several: the others are asked too`)
	flags.StringArrayVar(&x.states, "state", nil, "the pods that are there: a `FILE` that plan --save or the agent wrote")
	flags.StringArrayVar(&x.configs, "kubelet-config", nil, "how the node decides: a KubeletConfiguration `FILE`; without it a usual one")
	flags.StringArrayVar(&x.devices, "devices", nil, "the node's devices: an inventory `FILE`")
	flags.StringVar(&x.pod, "pod", "", "which pod, as `NAMESPACE/NAME`; needed where there are several")
	flags.StringVar(&x.agent, "agent", "", "ask the agent that listens on `HOST:PORT` about the pod NAMESPACE/NAME")
	flags.Lookup("agent").NoOptDefVal = agent.DefaultConfig().Listen
	flags.BoolVarP(&x.verbose, "verbose", "v", false, "leave nothing out")
	x.quota.register(cmd)
	x.output.register(cmd, "text", "json", "yaml")
	return cmd
}

// candidate is one node that is asked.
type candidate struct {
	name  string
	said  string
	state *node.State
	gates podspec.Gates
}

func (x *explainCommand) run(ctx context.Context, paths []string) error {
	candidates, err := x.candidates()
	if err != nil {
		return err
	}
	at := candidates[0]
	reading := planCommand{stdin: x.stdin, stderr: x.stderr}
	pods, err := reading.pods(paths, at.gates, at.state.Machine())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; manifests are read here: --pod NAMESPACE/NAME says which pod of them, and --agent asks a running node about a pod by its name", err)
	}
	if err != nil {
		return err
	}
	pods, err = x.upTo(pods)
	if err != nil {
		return err
	}
	last := len(pods) - 1
	_, state, err := admitAll(at.state, pods[:last], at.gates)
	if err != nil {
		return err
	}
	explained, err := explainOne(ctx, state, pods[last], at.gates, func() ([]explain.Place, error) { return places(candidates[1:], pods[last]) })
	if err != nil {
		return err
	}
	explained.Machine, explained.Policy = at.name, at.said
	if err := x.print(explained); err != nil {
		return err
	}
	if explained.Answer.Refusal != nil {
		return &exitError{code: 2}
	}
	return nil
}

// upTo are the pods to and with the one that is meant.
func (x *explainCommand) upTo(pods []*v1.Pod) ([]*v1.Pod, error) {
	if x.pod == "" && len(pods) == 1 {
		return pods, nil
	}
	names := make([]string, len(pods))
	for i, p := range pods {
		names[i] = p.Namespace + "/" + p.Name
	}
	if i := slices.Index(names, x.pod); i >= 0 {
		return pods[:i+1], nil
	}
	const few = 10
	text := strings.Join(names[:min(few, len(names))], ", ")
	if len(names) > few {
		text += fmt.Sprintf(" and %d more", len(names)-few)
	}
	if x.pod == "" {
		return nil, fmt.Errorf("%d pods are there: say with --pod which one to explain: %s", len(pods), text)
	}
	return nil, fmt.Errorf("--pod %s is not among the pods there: %s", x.pod, text)
}

// explainOne plans and explains a pod. Other nodes are read only when the pod is refused.
func explainOne(ctx context.Context, state *node.State, pod *v1.Pod, gates podspec.Gates, others func() ([]explain.Place, error)) (view.Explanation, error) {
	asked, err := podspec.Request(pod, gates)
	if err != nil {
		return view.Explanation{}, err
	}
	var again string
	if g, known := state.Grant(asked.UID); known {
		again = "the pod is on the node since revision " + fmt.Sprint(g.Sequence) + " and keeps what it has; this is how it would be decided now"
		state = state.Release(asked.UID)
	}
	plan := state.Plan(asked)
	if again != "" {
		plan.Trace.Notes = append(plan.Trace.Notes, again)
	}
	if plan.Refusal == nil {
		return view.ExplanationOf(state, plan, nil), nil
	}
	elsewhere, err := others()
	if err != nil {
		return view.Explanation{}, err
	}
	remedies, err := explain.Search(ctx, state, asked, elsewhere...)
	if err != nil {
		return view.Explanation{}, err
	}
	return view.ExplanationOf(state, plan, &remedies), nil
}

// explainAll explains plans that were made one after the other.
func explainAll(ctx context.Context, state *node.State, plans []*node.Plan, pods []*v1.Pod, gates podspec.Gates) ([]view.Explanation, error) {
	var out []view.Explanation
	for i, plan := range plans {
		e, err := explainOne(ctx, state, pods[i], gates, func() ([]explain.Place, error) { return nil, nil })
		if err != nil {
			return nil, err
		}
		out = append(out, e)
		if state, err = state.Apply(plan); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// places are the other nodes with the pod as each of them sees it.
func places(candidates []candidate, pod *v1.Pod) ([]explain.Place, error) {
	var out []explain.Place
	for _, c := range candidates {
		asked, err := podspec.Request(pod, c.gates)
		if err != nil {
			return nil, err
		}
		out = append(out, explain.Place{Name: c.name, State: c.state, Pod: asked})
	}
	return out, nil
}

// candidates reads the nodes.
func (x *explainCommand) candidates() ([]candidate, error) {
	for _, f := range []struct {
		name   string
		values []string
	}{{"state", x.states}, {"kubelet-config", x.configs}, {"devices", x.devices}} {
		if n := len(f.values); n > 1 && n != len(x.machines) {
			return nil, fmt.Errorf("--%s is given %d times and --machine %d times: give it once for all, or once for each machine", f.name, n, len(x.machines))
		}
	}
	if len(x.states) == 1 && len(x.machines) > 1 {
		return nil, errors.New(`--state is given once for several machines: give one for each, in the order of --machine; "" is an empty node`)
	}
	var out []candidate
	for i, from := range x.machines {
		p := planCommand{
			machine: machineFlag{from}, quota: x.quota, state: nth(x.states, i), config: nth(x.configs, i), devices: nth(x.devices, i),
			stdin: x.stdin, stderr: x.stderr,
		}
		found, state, said, err := p.node()
		if err != nil {
			return nil, err
		}
		name := found.Name
		if p.state != "" {
			name += " with " + p.state
		}
		out = append(out, candidate{name, said, state, podspec.GatesOf(state.Policy())})
	}
	return out, nil
}

// nth is the i-th value, or the only one.
func nth(values []string, i int) string {
	switch {
	case len(values) == 0:
		return ""
	case len(values) == 1:
		return values[0]
	}
	return values[i]
}

func (x *explainCommand) print(e view.Explanation) error {
	return printAs(x.stdout, x.output.value, e, func() string { return e.Text(styleFor(x.stdout), x.verbose) })
}

// printAs writes a document as json, yaml or text.
func printAs(out io.Writer, form string, document any, text func() string) error {
	var data []byte
	var err error
	switch form {
	case "json":
		data, err = json.MarshalIndent(document, "", "  ")
		data = append(data, '\n')
	case "yaml":
		data, err = yaml.Marshal(document)
	default:
		data = []byte(text())
	}
	if err != nil {
		return err
	}
	_, err = out.Write(data)
	return err
}
