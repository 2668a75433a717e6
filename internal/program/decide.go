package program

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/agent"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/codec/claims"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// asFlag is the flag --as. It selects whether Paddock or a kubelet decides. The zero value is
// Paddock.
type asFlag struct {
	version behavior.Version
	// auto is true if the kubelet is that of the node, which is not known yet.
	auto bool
}

// newestKubelet returns the name of the newest recorded kubelet, as an example.
func newestKubelet() string { return behavior.Names()[len(behavior.Names())-1] }

// autoKubelet is the value of --as for the kubelet that the Node object names.
const autoKubelet = "auto"

func (f *asFlag) register(cmd *cobra.Command, usage string) {
	names := behavior.Names()
	usage += ": " + strings.Join(names, ", ")
	if cmd.Flags().Lookup("state") != nil {
		names = append(names, autoKubelet)
		usage += ", or auto for the one that the Node of a kubelet's --state names"
	}
	cmd.Flags().Var(f, "as", usage)
	console.CompleteWords(cmd, "as", names...)
}

// kubelet reports whether a kubelet decides.
func (f *asFlag) kubelet() bool { return f.version != behavior.Version{} }

// String, Set and Type implement pflag.Value.
func (f *asFlag) String() string {
	switch {
	case f.kubelet():
		return "kubelet-" + f.version.String()
	case f.auto:
		return autoKubelet
	}
	return ""
}

// Set sets the kubelet by its name. Without a patch it is the newest recorded one.
func (f *asFlag) Set(value string) error {
	if value == autoKubelet {
		*f = asFlag{auto: true}
		return nil
	}
	version, err := behavior.Named(value)
	if err != nil {
		return err
	}
	*f = asFlag{version: version}
	return nil
}

// Type returns the name of the value in the help.
func (f *asFlag) Type() string { return "KUBELET" }

// decider decides about pods one after the other.
type decider struct {
	as asFlag
	// started makes the decider treat admitted pods as running, with init containers that have
	// ended.
	started bool
	// kubeNode is the name of the Kubernetes node. claims finds devices on it. allocator allocates
	// claims there, and is nil if the program has no allocator.
	kubeNode  string
	claims    *claims.Resolver
	allocator claims.Allocator
	kubelet   quirk.Kubelet
	// placements is the number of placements of devices that were planned; see wherever.
	placements int
	// stock is what the files of a kubelet's state show, or nil.
	stock *stock
	// beside is what the requests of the next pod are compared with.
	beside beside
}

// kubeNodeFlag defines --node.
func kubeNodeFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "node", "", "`NAME` of the Kubernetes node: pods of other nodes are ignored, and ResourceClaims are allocated on its devices; "+
		"by default, the node of all pods or of all ResourceSlices")
}

func (d *decider) register(cmd *cobra.Command) {
	d.as.register(cmd, "answer as this kubelet does, with its known faults; CFS quotas are then the kubelet's, and no moves of running pods are proposed")
	kubeNodeFlag(cmd, &d.kubeNode)
	cmd.Flags().BoolVar(&d.started, "started", true, "start each admitted pod before the next one is decided, so that memory of its init containers is free again")
}

// pods reads manifests for the node.
func (d *decider) pods(s console.Streams, files inputs.PodFiles) (inputs.Pods, error) {
	files.Node, files.Allocator = d.kubeNode, d.allocator
	read, err := s.Pods(files)
	if read.Unnamed != "" && d.stock == nil { // The files of a kubelet have the name otherwise.
		s.Notes([]string{read.Unnamed})
	}
	return read, err
}

// quota sets the mode of --cpu-quota for a command.
func (d *decider) quota(cmd *cobra.Command, f *quotaFlag) error {
	if !d.as.kubelet() {
		return nil
	}
	if cmd.Flags().Changed("cpu-quota") && f.mode == agent.QuotaIsolated {
		return fmt.Errorf("--cpu-quota %s and --as cannot be combined: only Paddock has this mode; remove one of them", f.mode)
	}
	f.mode = agent.QuotaKubelet
	return nil
}

// on returns the state with the behavior of the kubelet or of Paddock, whichever decides. It
// returns an error if the kubelet cannot have the policy. from is what the kubelet's files show, or
// nil.
func (d *decider) on(s *node.State, from *stock) (*node.State, error) {
	switch {
	case !d.as.kubelet():
		return s, nil
	case s.Policy().Moves.Pods > 0:
		return nil, fmt.Errorf("--as %s: cpuManagerPolicy is dynamic, which only Paddock has: no kubelet starts with it; give --kubelet-config a file with cpuManagerPolicy: static", d.as.String())
	}
	as, err := behavior.Of(d.as.version)
	if err != nil {
		return nil, err
	}
	d.kubelet = quirk.New(d.as.version)
	s = s.As(as)
	if from != nil {
		return from.shown.ForPlans(s)
	}
	return s, nil
}

// decision is the answer for one pod.
type decision struct {
	before *node.State
	plan   *node.Plan
	quirks []quirk.Quirk
	// resize is true for a pod that is on the node and requests other amounts.
	resize bool
	// doubts are the reasons why the kubelet may decide differently. pending are the names of the
	// pods about which it has not decided.
	doubts  []view.Doubt
	pending []string
	// placed has the node with each placement of devices with unknown NUMA nodes, if the answer is
	// the same for all placements.
	placed []*node.State
	// beside is what the requests of the pod were compared with. outOf is set if this comparison
	// rejected the pod, and not the managers.
	beside beside
	outOf  bool
}

// request returns the request of a pod, with notes about ResourceClaims.
func (d *decider) request(ctx context.Context, pod *v1.Pod, gates podspec.Gates) (request.Pod, []string, error) {
	asked, err := podspec.Request(pod, gates)
	if err != nil || d.claims == nil {
		return asked, nil, err
	}
	resolved := d.claims.Pod(ctx, pod)
	if !d.as.kubelet() {
		return resolved.In(asked), resolved.Notes, nil
	}
	if len(resolved.Stock) > 0 {
		resolved.Notes = append(resolved.Notes, d.as.version.Name()+" does not align CPUs and memory with devices of resource claims")
	}
	return asked, resolved.Notes, nil
}

// admit decides about a pod and returns the state after the decision.
func (d *decider) admit(ctx context.Context, state *node.State, pod *v1.Pod, gates podspec.Gates) (decision, *node.State, error) {
	asked, notes, err := d.request(ctx, pod, gates)
	if err != nil {
		return decision{}, nil, err
	}
	made, before := decision{before: state}, d.kubelet
	if _, known := state.Grant(asked.UID); known || !d.as.kubelet() {
		made.plan = state.PlanAs(node.Behavior{}, asked) // Only a restart admits a pod that is on the node again.
	} else {
		made.plan, made.quirks, d.kubelet = d.kubelet.Admit(state, asked)
		made.plan = quirk.Answer(made.plan, made.quirks)
	}
	made.plan.Trace.Notes = append(made.plan.Trace.Notes, notes...)
	d.doubt(&made)
	next, err := state.Apply(made.plan)
	if err != nil {
		return decision{}, nil, err
	}
	if err := d.wherever(&made, asked); err != nil {
		return decision{}, nil, err
	}
	if made.plan.Rejection != nil && made.before != state {
		next = state // The pod that is admitted without the places is rejected with each of them.
	}
	d.doubtUnlisted(&made, pod)
	d.doubtUnplaced(&made)
	if d.compare(&made, pod) {
		d.kubelet, next = before, state // The kubelet releases what its managers gave to the pod.
	}
	if made.plan.Grant == nil || !d.started {
		return made, next, nil
	}
	for _, c := range made.plan.Grant.Pod.Containers {
		next = next.ContainerCreated(asked.UID, c.Name)
	}
	return made, next, nil
}

// admitAll decides about the pods one after another. In the returned state, a kubelet has released
// the resources that it had assigned to a pod before it rejected the pod.
func (d *decider) admitAll(ctx context.Context, state *node.State, pods []*v1.Pod, gates podspec.Gates) ([]decision, *node.State, error) {
	all := make([]decision, 0, len(pods))
	for _, pod := range pods {
		made, next, err := d.admit(ctx, state, pod, gates)
		if err != nil {
			return nil, nil, err
		}
		all, state = append(all, made), next
	}
	return all, state.Swept(), nil
}

func plansOf(decided []decision) []*node.Plan {
	plans := make([]*node.Plan, len(decided))
	for i, made := range decided {
		plans[i] = made.plan
	}
	return plans
}

// search returns what would admit a pod that Paddock or the kubelet, whichever decides, rejects.
// left is how much more the pod can request; see explain.SearchOfKubelet.
func (d *decider) search(ctx context.Context, state *node.State, left map[string]int64, asked request.Pod, elsewhere []explain.OtherNode) (explain.Remedies, error) {
	if !d.as.kubelet() {
		return explain.Search(ctx, state, asked, elsewhere...)
	}
	return explain.SearchOfKubelet(ctx, state, asked, left, elsewhere...)
}

// restart returns the effects of a restart of the kubelet on a state, or nil if Paddock decides.
func (d *decider) restart(state *node.State) *view.Kubelet {
	if !d.as.kubelet() {
		return nil
	}
	found, _ := d.kubelet.Restart(state, state.Policy())
	return &view.Kubelet{Version: d.as.String(), Restart: d.kubelet.Again(state), NoStart: found}
}
