package view

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// rejected are pods that were rejected with the same message.
type rejected struct {
	pods []string
	// PlanRejection is the rejection of the last pod.
	*PlanRejection
	// pending is set if no kubelet has decided about the pod.
	pending bool
	// lacks is a sentence about the resources that are missing. It may be empty.
	lacks string
	// differ is set if the other pods found different amounts on the NUMA nodes.
	differ bool
}

// rejections returns the rejections of a plan, in the order of their first pods.
func (p Plan) rejections() []*rejected {
	type sentence struct{ reason, rule, container, resource, message string }
	var all []*rejected
	known := map[sentence]*rejected{}
	for _, pod := range p.Pods {
		r := pod.Rejection
		if r == nil {
			continue
		}
		key := sentence{r.Reason, r.Rule, r.Container, r.Resource, r.Message}
		same := known[key]
		if same == nil {
			same = &rejected{PlanRejection: r}
			known[key] = same
			all = append(all, same)
		}
		same.pods = append(same.pods, pod.Pod)
		same.differ = same.differ || !reflect.DeepEqual(same.Nodes, r.Nodes)
		same.PlanRejection = r
	}
	return all
}

// AccountOf returns the explanation of a rejection if only its reason and its account are known.
func AccountOf(pod request.Pod, r *rejection.Rejection) Explanation {
	return Explanation{Devices: explain.GivenDevices(&pod), Answer: PlanPod{
		Pod: pod.ID(), UID: pod.UID, QoS: pod.QoS.String(), Estimated: pod.Estimated, Rejection: planRejection(r),
		Notes: node.UnknownDevices(&pod, ^mask.Mask(0)),
	}}
}

// maxNames is how many pods of a long list are named.
const maxNames = 3

// text formats the pods, the message and the account of the NUMA nodes. If verbose is set, it names
// the rule.
func (r *rejected) text(style terminal.Style, verbose bool) string {
	var out strings.Builder
	who := r.pods[0] + ":"
	if len(r.pods) > 1 {
		who = Number(len(r.pods)) + " pods:"
	}
	word := "rejected"
	if r.pending {
		word = "would be rejected"
	}
	out.WriteString(style.Paragraph("", "  ", terminal.Bad.Of(word), terminal.Strong.Of(who), terminal.Bad.Of(r.Reason)))
	if len(r.pods) > 1 {
		out.WriteString(style.Paragraph("  ", "  ", terminal.Plain.Of(names(r.pods))))
	}
	if r.lacks != "" {
		out.WriteString(style.Paragraph("  ", "  ", terminal.Strong.Of(r.lacks)))
	}
	message := ruled(r.Message, r.Rule, verbose)
	if r.Container != "" {
		message = "container " + r.Container + ": " + message
	}
	out.WriteString(style.Paragraph("  ", "  ", terminal.Plain.Of(message)))
	if len(r.Nodes) == 0 {
		return out.String()
	}
	if r.differ {
		out.WriteString(style.Paragraph("  ", "  ", terminal.Faint.Of("as the last of them found the NUMA nodes:")))
	}
	if r.Resource != request.CPU && !request.IsMemory(r.Resource) {
		out.WriteString(style.Paragraph("  ", "  ", terminal.Faint.Of(resourceTitle(r.Resource)+" by NUMA node:")))
	}
	t := terminal.Table{Columns: terminal.Columns(">  NUMA NODE", ">FOR PODS", ">FREE", "ASSIGNED TO")}
	for _, n := range r.Nodes {
		if n.Total > 0 {
			t.Row(strconv.Itoa(n.Node), asAsked(r.Resource, n.Total), asAsked(r.Resource, n.Free), holders(r.Resource, n.Holders))
		}
	}
	return out.String() + t.Text(style)
}

// resourceTitle returns the title of an account.
func resourceTitle(resource string) string {
	switch resource {
	case request.L3:
		return "ways of L3, in the cache with the most in a row,"
	case request.Bandwidth:
		return "percent of the memory bandwidth, in the cache with the most,"
	}
	return resource
}

// names lists pods. It shortens long lists to maxNames and the number of the others.
func names(pods []string) string {
	if len(pods) <= maxNames+1 {
		return strings.Join(pods, ", ")
	}
	return strings.Join(pods[:maxNames], ", ") + " and " + Number(len(pods)-maxNames) + " more"
}

// asAsked formats an amount in the account of a rejection so that readers can compare it with the
// request of the pod.
func asAsked(resource string, n int64) string {
	if request.IsMemory(resource) {
		return request.RoundedQuantity(n)
	}
	return strconv.FormatInt(n, 10)
}

// maxHolders is how many pods are listed for one NUMA node. The largest pods come first, because
// removing or shrinking them has the most effect.
const maxHolders = 4

func holders(resource string, all []PlanHolder) string {
	var parts []string
	for i, h := range all {
		if i == maxHolders {
			parts = append(parts, fmt.Sprintf("and %d more pods", len(all)-i))
			break
		}
		text := h.Pod + " " + asAsked(resource, h.Amount)
		if len(h.NUMANodes) > 0 {
			text += " on " + nodeList(h.NUMANodes)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// notes returns the notes on the pods, each with all the pods to which it applies.
func (p Plan) notes() [][]terminal.Cell {
	var order []string
	pods := map[string][]string{}
	for _, pod := range p.Pods {
		for _, note := range pod.Notes {
			if pods[note] == nil {
				order = append(order, note)
			}
			pods[note] = append(pods[note], pod.Pod)
		}
	}
	var notes [][]terminal.Cell
	for _, note := range order {
		notes = append(notes, []terminal.Cell{terminal.Warn.Of("note"), terminal.Strong.Of(names(pods[note]) + ":"), terminal.Plain.Of(note)})
	}
	return notes
}
