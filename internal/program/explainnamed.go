package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/base/spelling"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/kubelet/quirk"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// name finds the pod that the argument names, if the argument is not a file and --state is a
// kubelet's. It reads the objects that include the pod: those of --pods, or of the folder of
// --state.
func (c *explainCommand) name(s console.Streams, args []string) error {
	if len(args) != 1 || args[0] == "-" || len(c.states) == 0 || len(c.resize.paths) > 0 {
		return nil
	}
	if _, err := os.Stat(args[0]); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if kubelets, err := treatment.OfKubelet(s.Reader(), c.states[0]); err != nil {
		return fmt.Errorf("--state: %w", err)
	} else if !kubelets {
		return nil
	}
	if err := treatment.Usable(c.states[0]); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(args[0])) {
		return nil // Reading the manifest shows the error.
	}
	namespace, name, err := podName(args[0], c.namespace)
	if err != nil {
		return fmt.Errorf("%w; no file has that name either%s", err, c.qualified(s, args[0]))
	}
	folder, err := treatment.FolderOf(c.states[0])
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	if len(c.pods) == 0 && folder.Pods == "" {
		return fmt.Errorf("%s has no pods.json, so it is not known which pods run: collect it again, add --pods FILE, or pipe the pods and the Node in: kubectl get nodes,pods -A -o json | paddock explain %s --state %s --pods -",
			folder.Path, args[0], c.states[0])
	}
	paths, err := folder.Objects(inputs.Flags, c.pods)
	if err != nil {
		return err
	}
	if c.objects, err = s.Reader().Objects(paths); err != nil {
		return err
	}
	if c.named = c.objects.Pod(namespace, name); c.named == nil && len(c.pods) == 0 && folder.Pending != "" {
		pending, err := s.Reader().Objects([]string{folder.Pending})
		if err != nil {
			return err
		}
		paths, c.named = append(paths, folder.Pending), pending.Pod(namespace, name)
	}
	if c.named == nil {
		similar := meant(c.objects, name)
		if len(c.pods) == 0 && folder.Pods != "" {
			if similar == "" {
				similar = "."
			}
			similar += " To ask about a pod of another node: kubectl get nodes,pods -A -o json | paddock explain POD --state DIR --pods -"
		}
		for i, path := range paths {
			if path == "-" {
				paths[i] = "standard input"
			}
		}
		return fmt.Errorf("%s is not one of the %d pods in %s%s", args[0], len(c.objects.Pods), strings.Join(paths, ", "), similar)
	}
	return c.bind()
}

// meant asks whether the user meant one of the pods with similar names. It returns "" if there are
// none.
func meant(o *inputs.Objects, name string) string {
	const few = 5
	if names := o.Similar(name, few); len(names) > 0 {
		return "; did you mean " + spelling.Or(names) + "?"
	}
	return ""
}

// qualified asks whether the user meant a pod whose name was given without a namespace. It returns
// "" if that is unknown. Because the text is for an error, qualified reads no standard input and
// returns no error of its own.
func (c *explainCommand) qualified(s console.Streams, name string) string {
	folder, err := treatment.FolderOf(c.states[0])
	if name == "" || strings.Contains(name, "/") || err != nil {
		return ""
	}
	paths, err := folder.Objects(inputs.Flags, c.pods)
	if err != nil || slices.Contains(paths, "-") {
		return ""
	}
	if len(c.pods) == 0 && folder.Pending != "" {
		paths = append(paths, folder.Pending)
	}
	objects, err := s.Reader().Objects(paths)
	if err != nil {
		return ""
	}
	return meant(objects, name)
}

// bind finds the node of the pod, and verifies that it is the node of the objects.
func (c *explainCommand) bind() error {
	at := c.named.Spec.NodeName
	switch {
	case at == "":
		return nil // What --node or the objects name is used.
	case c.decider.kubeNode != "" && c.decider.kubeNode != at:
		return fmt.Errorf("--node %s: the pod is on node %s: leave out --node, and give the --state of that node", c.decider.kubeNode, at)
	case len(c.objects.Nodes) > 0 && c.objects.Nodes[at] == nil:
		return fmt.Errorf("the pod is on node %s, and the Node objects do not have it: give the --state and the Node of %s", at, at)
	}
	c.decider.kubeNode = at
	return nil
}

// explainNamed explains a pod of the cluster: its status, and the answer that its kubelet would
// give now.
func (c *explainCommand) explainNamed(ctx context.Context, s console.Streams, candidates []candidate) (view.Explanation, error) {
	at := candidates[0]
	pod := podspec.Default(c.named, at.gates)
	if note := inputs.FreshQoS(pod, at.gates); note != "" {
		s.Notes([]string{note})
	}
	explained, err := c.decider.explain(ctx, at.state, pod, at.gates, candidates[1:])
	if err != nil {
		return view.Explanation{}, err
	}
	pods := c.objects.On(c.decider.kubeNode)
	status := treatment.PodStatusOf(c.named, pods)
	if status.AtStart {
		return c.explainStart(s, explained, &status), nil
	}
	if podspec.Ended(c.named) && !status.Rejected {
		explained.Now = fmt.Sprintf("has ended (%s). If a pod like it came now:", c.named.Status.Phase)
	}
	if explained.Answer.Rejection == nil && c.keep(explained.Answer.Certainty) == "" {
		status.Why = c.then(ctx, s, &status, pod, at.gates)
	}
	c.doubtRecord(&explained, &status)
	status.Remarks = c.remarks(&status, explained.Answer.Rejection, explained.Answer.Certainty)
	explained.PodStatus = &status
	return explained, nil
}

// then returns why the kubelet rejected a pod that fits now, or "" if the files do not show the
// reason. They show it if they still have what the pods that ended since then had, if no other pod
// came, and if the answer with these pods equals the recorded one.
func (c *explainCommand) then(ctx context.Context, s console.Streams, status *view.PodStatus, pod *v1.Pod, gates podspec.Gates) string {
	k := c.decider.stock
	if !status.Rejected || status.At == nil || len(status.Ended) == 0 || len(status.Started) > 0 || k == nil || k.node == nil {
		return ""
	}
	shown, err := k.node.Before(s.Reader(), *status.At)
	if err != nil {
		return "" // The present state, which is from the same files, was readable.
	}
	before := decider{as: c.decider.as, claims: c.decider.claims}
	state, err := before.on(shown.State, &stock{shown: shown, node: k.node})
	if err != nil {
		return ""
	}
	made, _, err := before.admit(ctx, state, pod, gates)
	if err != nil || made.plan.Rejection == nil {
		return ""
	}
	r := view.PodOf(made.plan, state).Rejection
	if r.Reason != status.Reason && !sameRejection(r, status) {
		return ""
	}
	message := r.Message
	if r.Container != "" {
		message = "container " + r.Container + ": " + message
	}
	names := make([]string, len(status.Ended))
	for i, e := range status.Ended {
		names[i] = e.Pod
	}
	return fmt.Sprintf("with what %s had, %s", strings.Join(names, ", "), message)
}

// explainStart explains a pod that ran until its kubelet started again and rejected it. asNew is
// the answer about a new pod like it.
func (c *explainCommand) explainStart(s console.Streams, asNew view.Explanation, status *view.PodStatus) view.Explanation {
	const what = "the kubelet started again while the pod ran: it admits every pod again then, and rejected this one"
	why := "the files do not show why any more"
	var start *quirk.Readmission
	if k := c.decider.stock; k != nil && k.node != nil {
		var err error
		if start, err = k.node.AtStart(s.Reader(), c.named); err != nil {
			why = "the files do not show why: " + err.Error()
		}
	}
	if start == nil || start.Plan.Rejection == nil {
		status.Remarks = append(c.remarks(status, asNew.Answer.Rejection, asNew.Answer.Certainty),
			what+"; "+why+"; this answer is about a new pod")
		asNew.PodStatus = status
		return asNew
	}
	out := view.ExplanationOf(start.On, quirk.Answer(start.Plan, start.Quirks), nil)
	out.Repair = asNew.Repair
	out.Answer.Quirks, out.Answer.Certainty = start.Quirks, asNew.Answer.Certainty
	out.Answer.Notes = append(out.Answer.Notes, c.decider.whatIf()...)
	like := []string{"a new pod like it is admitted now", c.replace()}
	if why := c.keep(asNew.Answer.Certainty); why != "" {
		like = []string{"a new pod like it can be admitted now", why}
	}
	if r := asNew.Answer.Rejection; r != nil {
		like = []string{fmt.Sprintf("a new pod like it is rejected now, too (%s)", r.Reason)}
	}
	status.Remarks = slices.Concat([]string{what}, like, unlike(status, out.Answer.Rejection))
	status.Remarks = append(status.Remarks, fmt.Sprintf(`"paddock upgrade-check --to %s --state %s" shows which pods the next start rejects`, c.decider.as.version, c.states[0]))
	out.PodStatus = status
	return out
}

// explains reports whether one of the other answers that the doubts name is the recorded rejection.
func explains(sure *view.Certainty, f *view.PodStatus) bool {
	recorded := "rejected (" + f.Reason + ")" // as verdict returns it
	return sure.IsUnsure() && slices.ContainsFunc(sure.Doubts, func(d view.Doubt) bool { return strings.Contains(d.Reason, recorded) })
}

// remarks returns additional sentences about an answer and the pod's status. sure is the certainty
// of the answer.
func (c *explainCommand) remarks(f *view.PodStatus, now *view.PlanRejection, sure *view.Certainty) []string {
	var out []string
	keep := c.keep(sure)
	const never = "the kubelet does not try a rejected pod again"
	switch {
	case f.Node == "" && now == nil:
		out = append(out, "it has no node yet, and this node would admit it")
	case f.Node == "" || !f.Rejected:
	case now == nil && explains(sure, f):
		out = append(out, "the recorded rejection is one of the possible answers above, so a new pod can be rejected in the same way: be sure before you delete it")
	case now == nil && keep != "":
		out = append(out, "it can fit now; "+never, keep)
	case now == nil && len(f.Ended) > 0:
		last := f.Ended[len(f.Ended)-1]
		out = append(out, fmt.Sprintf("it fits now, and has since %s ended at %s or earlier; %s", last.Pod, view.Clock(last.At), never), c.replace())
		if f.Why == "" {
			out = append(out, "the files do not show why it was rejected then")
		}
	case now == nil:
		out = append(out, "it fits now; "+never, c.replace())
		if c.deleted() {
			out = append(out, "no listed pod has ended since the rejection, but pods were deleted: the files still list them")
		} else {
			out = append(out, "no listed pod has ended since the rejection: a pod was deleted, or the node was changed since then")
		}
	default:
		out = append(out, unlike(f, now)...)
	}
	return out
}

// keep returns the reason why the user should not delete the pod although the answer admits a new
// one: the answer is unsure, or is not about the node as it is. It returns "" if there is no such
// reason.
func (c *explainCommand) keep(sure *view.Certainty) string {
	switch {
	case len(c.decider.whatIf()) > 0:
		return "the answer is not about the node as it is: ask without --as and --kubelet-config before you delete the pod"
	case sure.IsUnsure():
		return view.KeepPods
	}
	return ""
}

// deleted reports whether the files still list pods that were deleted.
func (c *explainCommand) deleted() bool {
	k := c.decider.stock
	return k != nil && k.shown.Deleted
}

// doubtRecord makes a rejection unsure if it differs from the recorded one and nothing shows that
// the node has changed since then. With a configuration or a kubelet other than the folder's, the
// question is about another node.
func (c *explainCommand) doubtRecord(e *view.Explanation, f *view.PodStatus) {
	now := e.Answer.Rejection
	if now == nil || !f.Rejected || len(c.configs) > 0 || len(c.decider.whatIf()) > 0 || len(f.Ended)+len(f.Started) > 0 || c.deleted() || e.Answer.Certainty == nil || e.Answer.Certainty.IsUnsure() {
		return
	}
	if len(unlike(f, now)) == 0 {
		return
	}
	e.Answer.Certainty = view.CertaintyOf(append(slices.Clone(e.Answer.Certainty.Doubts), view.Doubt{
		Reason: fmt.Sprintf("the kubelet recorded %s, and nothing shows that the node has changed since then: a pod was deleted, or these files do not show what the kubelet saw", cmp.Or(f.Reason, f.Phase)),
		Give:   "collect the node at the next rejection",
	}), e.Answer.Certainty.Pods)
}

// replace returns how to replace the pod with a new one.
func (c *explainCommand) replace() string {
	return view.Replace(c.named.Namespace+"/"+c.named.Name, podspec.RecreationOf(c.named))
}

// unlike returns a sentence if a rejection is not the one in the pod's status.
func unlike(f *view.PodStatus, now *view.PlanRejection) []string {
	if now.Reason == f.Reason || f.Reason == "" || sameRejection(now, f) {
		return nil
	}
	return []string{fmt.Sprintf("the kubelet recorded %s, and would answer %s now", f.Reason, now.Reason)}
}

// sameRejection reports whether the two reasons are the same rejection: a kubelet names the
// error of a device or of a manager, which Paddock names by its cause.
func sameRejection(now *view.PlanRejection, f *view.PodStatus) bool {
	return f.Reason == string(rejection.UnexpectedAdmissionError) && strings.Contains(f.Message, now.Reason)
}
