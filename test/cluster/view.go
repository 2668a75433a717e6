package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/internal/core/grantform"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/shown"
	"github.com/paddock-project/paddock/test/cluster/hollow"
)

// differences compares, grant by grant, what the nodes have with what the API server shows of them.
// Package fleetsource makes states of PaddockNodes and bound pods. A scheduler decides by these
// states.
func (c *cluster) differences(ctx context.Context, states []hollow.NodeState) (wrong []string, err error) {
	var published v1alpha1.PaddockNodeList
	if err := c.objects.Get().Resource(v1alpha1.PaddockNodes).Do(ctx).Into(&published); err != nil {
		return nil, err
	}
	machines, err := c.machines(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := c.client.CoreV1().Pods(v1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	byNode := map[string][]*v1.Pod{}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Namespace != "paddock" && !fleetsource.Ended(p) {
			byNode[p.Spec.NodeName] = append(byNode[p.Spec.NodeName], p)
		}
	}
	has := map[string]hollow.NodeState{}
	for _, s := range states {
		has[s.Name] = s
	}
	for i := range published.Items {
		o := &published.Items[i]
		source, err := fleetsource.Read(o, func(digest string) (*machine.Machine, error) { return machines[digest], nil })
		if err != nil {
			return nil, err
		}
		lines, err := differ(source, byNode[o.Name], has[o.Name])
		if err != nil {
			return nil, err
		}
		wrong = append(wrong, lines...)
	}
	return wrong, nil
}

// machines returns the machines of all nodes by digest.
func (c *cluster) machines(ctx context.Context) (map[string]*machine.Machine, error) {
	var list v1alpha1.PaddockMachineList
	if err := c.objects.Get().Resource(v1alpha1.PaddockMachines).Do(ctx).Into(&list); err != nil {
		return nil, err
	}
	machines := map[string]*machine.Machine{}
	for i := range list.Items {
		m, err := objects.ReadMachine(&list.Items[i])
		if err != nil {
			return nil, err
		}
		machines[list.Items[i].Name] = m
	}
	return machines, nil
}

// differ compares one node with what is shown of it.
func differ(n *fleetsource.Node, pods []*v1.Pod, has hollow.NodeState) (wrong []string, err error) {
	var bound []shown.Bound
	for _, p := range pods {
		b, err := fleetsource.ReadBound(p, n.Policy)
		if err != nil {
			return nil, err
		}
		bound = append(bound, b)
	}
	built, err := n.State(bound)
	if err != nil {
		return nil, err
	}
	for _, f := range built.Findings {
		if f.Kept && len(has.Twice) > 0 {
			continue // More is assigned than is there, and the pods keep it.
		}
		wrong = append(wrong, has.Name+": "+f.String())
	}
	lines, err := compare(has, "schedulers", built.State.Grants())
	return append(wrong, lines...), err
}

// compare compares the grants of a node with those that another component has for it.
func compare(has hollow.NodeState, who string, grants []*node.Grant) (wrong []string, err error) {
	seen := map[string]bool{}
	for _, g := range grants {
		seen[g.Pod.UID] = true
		text, there := has.Grants[g.Pod.UID]
		if !there {
			if g.OwnsAnything() {
				wrong = append(wrong, fmt.Sprintf("%s: pod %s (%s) has %s for %s, and nothing on the node", has.Name, g.Pod.ID(), g.Pod.UID, g.CPUs(), who))
			}
			continue
		}
		actual, err := grantform.Decode([]byte(text))
		if err != nil {
			return nil, err
		}
		// For a pod without exclusive resources, only the alignment may differ, after a change of
		// the policy.
		if !actual.SameAssignments(g) && (actual.OwnsAnything() || g.OwnsAnything()) {
			wrong = append(wrong, fmt.Sprintf("%s: pod %s (%s) has CPUs %s on the node, and %s for %s (or other memory)", has.Name, g.Pod.ID(), g.Pod.UID, actual.CPUs(), g.CPUs(), who))
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(has.Grants)) {
		if seen[uid] {
			continue
		}
		if g, err := grantform.Decode([]byte(has.Grants[uid])); err != nil || g.OwnsAnything() {
			wrong = append(wrong, fmt.Sprintf("%s: pod with UID %s has a grant on the node, and none for %s: %s", has.Name, uid, who, has.Grants[uid]))
		}
	}
	return wrong, nil
}

// known is what a scheduler answers to GET /paddock/nodes.
type known struct {
	Node string
	Pods []struct {
		UID   string
		Grant json.RawMessage
	}
}

// misknown compares, grant by grant, what the nodes have with what the running scheduler knows of
// them, as the scheduler shows its states. Without the scheduler's address there is nothing to
// compare.
func (c *cluster) misknown(ctx context.Context, states []hollow.NodeState) (wrong []string, err error) {
	if c.inspect == "" {
		return nil, nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.inspect+"/paddock/nodes", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the scheduler answers %s to GET /paddock/nodes", response.Status)
	}
	grants := map[string][]*node.Grant{}
	for d := json.NewDecoder(response.Body); d.More(); {
		var k known
		if err := d.Decode(&k); err != nil {
			return nil, err
		}
		grants[k.Node] = []*node.Grant{}
		for _, p := range k.Pods {
			if len(p.Grant) == 0 {
				continue
			}
			g, err := grantform.Decode(p.Grant)
			if err != nil {
				return nil, err
			}
			grants[k.Node] = append(grants[k.Node], g)
		}
	}
	for _, s := range states {
		if grants[s.Name] == nil {
			wrong = append(wrong, s.Name+": the scheduler does not know it")
		}
		lines, err := compare(s, "the scheduler", grants[s.Name])
		if err != nil {
			return nil, err
		}
		wrong = append(wrong, lines...)
	}
	return wrong, nil
}
