package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// explainCommand is one invocation of paddock explain. The n-th machine, state, configuration and
// inventory describe one node.
type explainCommand struct {
	machines, states, configs, devices []string
	pods                               []string
	// given is the flag --machine.
	given           *pflag.Flag
	pod, namespace  string
	resize          resizeFlag
	agent           agentFlag
	verbose, strict bool
	// objects are those of --pods or of the folder of a kubelet's state. named is the pod among
	// them to explain, or nil if PODS are manifests.
	objects *inputs.Objects
	named   *v1.Pod
	decider decider
	quota   quotaFlag
	output  console.Form
}

func (c *explainCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain PODS... | explain NAMESPACE/NAME --state DIR | explain NAMESPACE/NAME --agent",
		Short: "Show why a pod gets what it gets, or what would admit it",
		Long: `Explain shows how one decision was made: what the pod requests and by which rules, how its pool is
divided, where each resource fits, what the Topology Manager chose and why the nearest other
sets of NUMA nodes lost, and which CPUs were picked and why. For a rejected pod, it first shows
what would admit the pod: a smaller request, under restricted also a larger one, moves of running pods, the
absence of other pods, another node, or another setting. The planner has checked each proposal.

PODS are as for paddock plan. If there are several, select one with --pod; the pods before
it are admitted first, as by paddock plan. A pod that is already in --state is explained as
if it were new. So is a pod that has ended, for example one that the kubelet rejected, if it is
named or the only one. Other pods that have ended take no room.

With NAMESPACE/NAME and the --state of a kubelet, it explains a pod of the cluster that has failed, waits or runs:
what the kubelet recorded about it, what that kubelet would answer now, and what ended and started since. The pods
and the Node come from the folder of --state (pods.json and node.json), or from --pods, as "kubectl get nodes,pods -A
-o json" prints them; --pods - is standard input.

To ask several nodes, repeat --machine. Give --state, --kubelet-config and --devices either
once for all or once for each machine, in the same order; "" is an empty state. The explanation is
for the first machine. ResourceClaims get devices only there, and the output shows what a plan on
another machine assumes about them.

With --agent, it asks the agent of a running node about one pod by its name. For an admitted pod, the
answer has the decision and its time. For a rejected pod, it has the time of the rejection, and what would
admit the pod on the node as it is now. The agent answers on its listen address, only on the node.

With --resize, it explains whether a pod that is in --state, or among PODS, can be resized in place to what the
changed manifest requests. You can leave PODS out.

With --as, the answer is that of a kubelet with its known faults. It proposes only what this kubelet admits, and no
moves, because a kubelet moves no running pod.

Where the files do not show enough to know what the kubelet does, the answer is unsure, with the reason and what to
give to be sure. It is also unsure for a pod with an extended resource, such as nvidia.com/gpu, that the node is not known
to have: without --devices and without the files of a kubelet, its devices can decide otherwise, and if the node lists
others, as for a misspelled one, the scheduler would not bind the pod to the node.

Exit codes: 0 the pod is admitted, 1 error, 2 it is rejected, or the answer is unsure.`,
		Example: `  paddock explain --machine examples/machines/epyc-2s-nps4.json \
      --kubelet-config examples/kubelet/pod-scope.yaml examples/pods/ --pod default/analytics
  kubectl get pod database -o json | paddock explain --machine node7.json --state node7.state -
  paddock explain pod.yaml --machine node7.json --state node7.state --machine node8.json --state node8.state
  paddock explain --machine node7.json --state node7.state --resize changed-pod.yaml
  kubectl get nodes,pods -A -o json | paddock explain default/database --state /var/lib/kubelet --pods -
  paddock explain default/database --agent`,
		Args: podsOrResize,
		RunE: c.run,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			switch {
			case !cmd.Flags().Changed("agent"):
				return nil, cobra.ShellCompDirectiveDefault
			case len(args) > 0:
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return c.agent.podsOfAgent(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&c.machines, "machine", []string{discover.LiveName}, machineUsage+"; if repeated, the other machines are asked too")
	c.given = flags.Lookup("machine")
	flags.StringArrayVar(&c.states, "state", nil, "the pods on the node: a `FILE` that plan --save or the agent wrote, or a kubelet's directory or its state files with commas, with --as and --pods")
	podsFlag(cmd, &c.pods, ofStateUsage)
	flags.StringArrayVar(&c.configs, "kubelet-config", nil, kubeletConfigUsage)
	flags.StringArrayVar(&c.devices, "devices", nil, "the node's devices: an inventory `FILE`")
	flags.StringVar(&c.pod, "pod", "", "the pod to explain, as `NAMESPACE/NAME`; required if there are several")
	flags.StringVarP(&c.namespace, "namespace", "n", "", "the `NAMESPACE` of a pod that is named without one")
	c.agent.register(cmd, "ask the agent that listens on `HOST:PORT` about the pod NAMESPACE/NAME")
	flags.BoolVarP(&c.verbose, "verbose", "v", false, "show everything")
	c.quota.register(cmd)
	c.resize.register(cmd)
	c.decider.register(cmd)
	console.StrictFlag(cmd, &c.strict)
	if err := cmd.RegisterFlagCompletionFunc("pod", podsOfFiles); err != nil {
		panic(err) // The flag was defined above.
	}
	c.output.Register(cmd, "text", "json", "yaml")
	return cmd
}

func (c *explainCommand) run(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("agent") {
		return c.askAgent(cmd, args)
	}
	if c.pod != "" {
		namespace, name, err := podName(c.pod, c.namespace)
		if err != nil {
			return fmt.Errorf("--pod %w", err)
		}
		c.pod = namespace + "/" + name
	}
	s := console.StreamsOf(cmd)
	if err := c.decider.quota(cmd, &c.quota); err != nil {
		return err
	}
	if err := c.name(s, args); err != nil {
		return err
	}
	if c.named != nil {
		if err := console.NoEffect(cmd, "with the name of a pod: the answer is about "+args[0], "pod"); err != nil {
			return err
		}
	}
	if c.named == nil && c.pod == "" {
		if err := console.NoEffect(cmd, "without the name of a pod", "namespace"); err != nil {
			return err
		}
	}
	candidates, err := c.candidates(s)
	if err != nil {
		return err
	}
	at := candidates[0]
	var explained view.Explanation
	if c.named != nil {
		explained, err = c.explainNamed(cmd.Context(), s, candidates)
	} else {
		explained, err = c.explain(cmd.Context(), s, candidates, args)
	}
	if err != nil {
		return err
	}
	explained.Machine, explained.Policy, explained.Kubelet = at.name, at.policy, c.decider.as.String()
	if err := s.Document(c.output.Value, console.Explanation, explained, func() string { return explained.Text(s.Style(), c.verbose) }); err != nil {
		return err
	}
	if explained.Answer.Rejection != nil || explained.Answer.Certainty.IsUnsure() {
		return &console.ExitError{Code: 2}
	}
	return nil
}

// explain explains the decision about the pod that the arguments and flags select, on the first of
// the nodes.
func (c *explainCommand) explain(ctx context.Context, s console.Streams, candidates []candidate, args []string) (view.Explanation, error) {
	at := candidates[0]
	files := inputs.PodFiles{Paths: args, Gates: at.gates, Machine: at.state.Machine(), Strict: c.strict}
	if len(c.resize.paths) > 0 {
		return c.explainResize(ctx, s, at.state, files)
	}
	files.Ended = func(pod *v1.Pod, only bool) bool { return only && c.pod == "" || c.pod == pod.Namespace+"/"+pod.Name }
	read, err := c.decider.pods(s, files)
	if errors.Is(err, fs.ErrNotExist) {
		return view.Explanation{}, fmt.Errorf("%w; arguments are files of manifests: choose one of their pods with --pod NAMESPACE/NAME. About a pod of a node, give what the script of \"paddock collect --print\" brought with --state FOLDER, or ask the node's agent with --agent", err)
	}
	if err != nil {
		return view.Explanation{}, err
	}
	pods := read.Pods
	last, err := c.selected(pods)
	if err != nil {
		return view.Explanation{}, err
	}
	c.decider.claims = read.Claims
	_, state, err := c.decider.admitAll(ctx, at.state, pods[:last], at.gates)
	if err != nil {
		return view.Explanation{}, err
	}
	return c.decider.explain(ctx, state, pods[last], at.gates, candidates[1:])
}

// explainResize explains one resize, after the resizes of the manifests before it.
func (c *explainCommand) explainResize(ctx context.Context, s console.Streams, state *node.State, files inputs.PodFiles) (view.Explanation, error) {
	pods, decided, _, err := c.resize.decideAll(ctx, s, &c.decider, state, files)
	if err != nil {
		return view.Explanation{}, err
	}
	first := slices.IndexFunc(decided, func(d decision) bool { return d.resize })
	pods, decided = pods[first:], decided[first:]
	at, err := c.selected(pods)
	if err != nil {
		return view.Explanation{}, fmt.Errorf("--resize: %w", err)
	}
	return view.ExplanationOf(decided[at].before, decided[at].plan, nil), nil
}

// selected returns the index of the pod to explain.
func (c *explainCommand) selected(pods []*v1.Pod) (int, error) {
	if c.pod == "" && len(pods) == 1 {
		return 0, nil
	}
	names := make([]string, len(pods))
	for i, p := range pods {
		names[i] = p.Namespace + "/" + p.Name
	}
	if i := slices.Index(names, c.pod); i >= 0 {
		return i, nil
	}
	const few = 10 // names fit in an error
	text := strings.Join(names[:min(few, len(names))], ", ")
	if len(names) > few {
		text += fmt.Sprintf(" and %d more", len(names)-few)
	}
	if c.pod == "" {
		return 0, fmt.Errorf("there are %d pods: choose the one to explain with --pod: %s", len(pods), text)
	}
	return 0, fmt.Errorf("--pod %s: expected one of the pods in the manifests: %s", c.pod, text)
}

// candidate is a node on which the pod is planned.
type candidate struct {
	name, policy string
	state        *node.State
	gates        podspec.Gates
}

// candidates reads the nodes.
func (c *explainCommand) candidates(s console.Streams) ([]candidate, error) {
	for _, f := range []struct {
		name   string
		values []string
	}{{"state", c.states}, {"kubelet-config", c.configs}, {"devices", c.devices}} {
		if n := len(f.values); n > 1 && n != len(c.machines) {
			return nil, fmt.Errorf("--%s is given %d times and --machine %d times: give it once for all, or once for each machine", f.name, n, len(c.machines))
		}
	}
	if len(c.states) == 1 && len(c.machines) > 1 {
		return nil, errors.New(`--state is given once for several machines: give one for each, in the order of --machine; "" is an empty node`)
	}
	var out []candidate
	noted := false
	for i, machine := range c.machines {
		flags := nodeFlags{
			machine: machine, quota: c.quota, state: nth(c.states, i), config: nth(c.configs, i), devices: nth(c.devices, i),
			as: &c.decider.as, pods: c.pods, noted: noted, given: c.given, repairs: i == 0, whatIf: i == 0,
		}
		if i == 0 {
			flags.kubeNode, flags.objects = c.decider.kubeNode, c.objects
		}
		n, state, err := flags.read(s)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			c.decider.kubeNode, c.objects = cmp.Or(c.decider.kubeNode, flags.kubeNode), flags.objects
		}
		if noted = flags.noted; i == 0 {
			s.Notes(c.decider.of(flags.stock, n))
		}
		if state, err = c.decider.on(state, flags.stock); err != nil {
			return nil, err
		}
		name := n.Found.Name
		if flags.state != "" && flags.state != name {
			name += " with " + flags.state
		}
		out = append(out, candidate{name, n.Policy.Text, state, podspec.GatesOf(state.Policy())})
	}
	return out, nil
}

// nth returns the i-th value, the only value, or "" if there are none.
func nth(values []string, i int) string {
	switch {
	case len(values) == 0:
		return ""
	case len(values) == 1:
		return values[0]
	}
	return values[i]
}

// explainDecision explains a decision that was already made.
func (d *decider) explainDecision(ctx context.Context, made decision, pod *v1.Pod, gates podspec.Gates) (view.Explanation, error) {
	if made.resize {
		return view.ExplanationOf(made.before, made.plan, nil), nil
	}
	then := *d
	then.beside = made.beside
	return then.explain(ctx, made.before, pod, gates, nil)
}

// explain makes and explains the decision about a pod. If the pod is rejected, it also tries the
// other nodes.
func (d *decider) explain(ctx context.Context, state *node.State, pod *v1.Pod, gates podspec.Gates, others []candidate) (view.Explanation, error) {
	asked, _, err := d.request(ctx, pod, gates)
	if err != nil {
		return view.Explanation{}, err
	}
	g, known := state.Grant(asked.UID)
	if known {
		state = state.Release(asked.UID)
	}
	fresh := decider{as: d.as, claims: d.claims, kubelet: quirk.New(d.as.version), stock: d.stock, beside: d.beside}
	made, _, err := fresh.admit(ctx, state, pod, gates)
	if err != nil {
		return view.Explanation{}, err
	}
	decided := []decision{made}
	if err := fresh.pending(ctx, state, []*v1.Pod{pod}, gates, decided); err != nil {
		return view.Explanation{}, err
	}
	made = decided[0]
	explained, err := d.explained(ctx, &made, pod, asked, gates, others)
	if err != nil {
		return view.Explanation{}, err
	}
	explained.Answer.Quirks, explained.Answer.Certainty = made.quirks, made.certainty(d)
	if explained.Repair, err = d.repair(state, asked); err != nil {
		return view.Explanation{}, err
	}
	explained.Answer.Notes = append(explained.Answer.Notes, d.whatIf()...)
	if note := d.untilStart(state); note != "" {
		explained.Answer.Notes = append(explained.Answer.Notes, note)
	}
	if known {
		explained.Now = fmt.Sprintf("has %s, since revision %d, and keeps it. If it came now:", view.HasOn(state, g), g.Sequence)
		if d.as.kubelet() {
			explained.Now = fmt.Sprintf("has %s, and keeps it. If it came now:", view.HasOn(state, g))
		}
	}
	return explained, nil
}

// explained explains a decision about a new pod. If the pod is rejected, it also finds what would
// admit it.
func (d *decider) explained(ctx context.Context, made *decision, pod *v1.Pod, asked request.Pod, gates podspec.Gates, others []candidate) (view.Explanation, error) {
	switch {
	case made.outOf:
		return d.room(ctx, made, pod, gates)
	case made.plan.Rejection == nil:
		return view.ExplanationOf(made.before, made.plan, nil), nil
	}
	remedies, err := d.remedies(ctx, made.before, made.beside.left(pod), pod, asked, others)
	if err != nil {
		return view.Explanation{}, err
	}
	if err := d.everywhere(remedies, asked, made.placed); err != nil {
		return view.Explanation{}, err
	}
	return view.ExplanationOf(made.before, made.plan, remedies), nil
}

// remedies returns what would admit a pod, here and on the other nodes.
func (d *decider) remedies(ctx context.Context, state *node.State, left map[string]int64, pod *v1.Pod, asked request.Pod, others []candidate) (*explain.Remedies, error) {
	var elsewhere []explain.OtherNode
	for _, other := range others {
		there, err := podspec.Request(pod, other.gates)
		if err != nil {
			return nil, err
		}
		elsewhere = append(elsewhere, explain.OtherNode{Name: other.name, State: other.state, Pod: there, Assumed: d.assumed(there)})
	}
	remedies, err := d.search(ctx, state, left, asked, elsewhere)
	return &remedies, err
}

// assumed describes what the plan of a pod on another machine assumes. ResourceClaims are resolved
// for only one Kubernetes node, so the devices that a claim would get on another one are unknown.
func (d *decider) assumed(pod request.Pod) string {
	var claims []string
	for _, c := range pod.Containers {
		claims = append(claims, c.Claims...)
	}
	slices.Sort(claims)
	claims = slices.Compact(claims)
	if len(claims) == 0 || d.as.kubelet() { // A kubelet does not align with the devices of claims.
		return ""
	}
	return "devices for claim " + strings.Join(claims, ", ") + " are free there, on NUMA nodes with room for the pod"
}

// podsOfFiles returns the names of the pods in the manifests of a command line, for completion. It
// returns none if they cannot be read.
func podsOfFiles(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	sources, _, err := podspec.ReadFiles(args, nil)
	if err == nil {
		for _, s := range sources {
			names = append(names, s.Pod.Namespace+"/"+s.Pod.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
