package kubectl

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// selector matches the pods of agents by the labels in deploy/base and deploy/chart.
const selector = "app.kubernetes.io/name=paddock"

// modeLabel is "observe" on the pods of agents that observe their kubelet.
const modeLabel, modeObserve = "paddock-project.github.io/mode", "observe"

// NodeOf returns the node to which a pod is bound.
func (c *Cluster) NodeOf(ctx context.Context, namespace, name string) (string, error) {
	var pod v1.Pod
	err := c.core.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(&pod)
	if err != nil {
		return "", c.explained(ctx, permission{"get", "pods", namespace}, err)
	}
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName, nil
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodScheduled && condition.Message != "" {
			return "", fmt.Errorf("pod %s/%s is not bound to a node, so no node has decided about it; the scheduler reports: %s", namespace, name, condition.Message)
		}
	}
	return "", fmt.Errorf("pod %s/%s is not bound to a node yet, so no node has decided about it: try again when it is", namespace, name)
}

// Nodes returns the names of all nodes, ascending.
func (c *Cluster) Nodes(ctx context.Context) ([]string, error) {
	var list v1.NodeList
	if err := c.core.Get().Resource("nodes").Do(ctx).Into(&list); err != nil {
		return nil, c.explained(ctx, permission{"list", "nodes", "all"}, err)
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	slices.Sort(names)
	return names, nil
}

// Agent is a container in which the agent of a node runs.
type Agent struct {
	Node string
	// Observes is set if the kubelet decides on the node, by the label of the pods in deploy/base
	// and deploy/chart.
	Observes bool

	namespace, pod, container string
	program                   string   // its path in the image
	args                      []string // of the agent, without the command's name
}

// NoAgentError is returned for a node without an agent, or, if Node is empty, for a cluster without
// one. The kubelet decides there. An agent is not the answer to a question about such a node: it
// would be a second manager.
type NoAgentError struct {
	Node      string
	Namespace string // where agents were looked for
}

func (e *NoAgentError) Error() string {
	where := "namespace " + e.Namespace + " has no Paddock agent"
	if e.Node != "" {
		where = fmt.Sprintf("node %s has no Paddock agent in namespace %s", e.Node, e.Namespace)
	}
	return fmt.Sprintf("%s (a pod with the label %s): if agents run elsewhere, give their namespace with --agent-namespace", where, selector)
}

// Agents returns the agents of these nodes, or of all nodes if none is named, in the order of nodes
// or, for all nodes, of their names. It returns a NoAgentError if there is none.
func (c *Cluster) Agents(ctx context.Context, namespace string, nodes ...string) ([]Agent, error) {
	request := c.core.Get().Namespace(namespace).Resource("pods").Param("labelSelector", selector)
	if len(nodes) == 1 {
		request.Param("fieldSelector", "spec.nodeName="+nodes[0])
	}
	var list v1.PodList
	if err := request.Do(ctx).Into(&list); err != nil {
		return nil, c.explained(ctx, permission{"list", "pods", namespace}, err)
	}
	byNode := map[string]*v1.Pod{}
	for i := range list.Items {
		pod := &list.Items[i]
		if other := byNode[pod.Spec.NodeName]; pod.Spec.NodeName != "" && (other == nil || running(pod) && !running(other)) {
			byNode[pod.Spec.NodeName] = pod
		}
	}
	if len(nodes) == 0 {
		nodes = slices.Sorted(maps.Keys(byNode))
	}
	if len(nodes) == 0 {
		return nil, &NoAgentError{Namespace: namespace}
	}
	var agents []Agent
	for _, node := range nodes {
		pod := byNode[node]
		if pod == nil {
			return nil, &NoAgentError{Node: node, Namespace: namespace}
		}
		agent, err := agentOf(pod)
		if err != nil {
			return nil, err
		}
		agents = append(agents, agent)
	}
	return agents, nil
}

// running reports whether a command can run in the pod's first container.
func running(pod *v1.Pod) bool {
	return pod.DeletionTimestamp == nil && len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Running != nil
}

// reference matches a reference to a variable of the container in an argument.
var reference = regexp.MustCompile(`\$\(([^()]+)\)`)

// agentOf returns the agent in a pod: its container "agent", or its first container if none has
// that name.
func agentOf(pod *v1.Pod) (Agent, error) {
	id := pod.Namespace + "/" + pod.Name
	if !running(pod) {
		return Agent{}, fmt.Errorf("the agent of node %s does not run: pod %s is %s; see kubectl -n %s describe pod %s",
			pod.Spec.NodeName, id, condition(pod), pod.Namespace, pod.Name)
	}
	i := max(0, slices.IndexFunc(pod.Spec.Containers, func(c v1.Container) bool { return c.Name == "agent" }))
	container := pod.Spec.Containers[i]
	command := append(slices.Clone(container.Command), container.Args...)
	program := "/paddock" // the entry point of the image
	if len(container.Command) > 0 {
		program, command = command[0], command[1:]
	}
	if len(command) == 0 || command[0] != "agent" {
		return Agent{}, fmt.Errorf("pod %s has the label %s, and its container %s runs %q: expected paddock agent; give the agents' namespace with --agent-namespace",
			id, selector, container.Name, strings.Join(command, " "))
	}
	a := Agent{Node: pod.Spec.NodeName, Observes: pod.Labels[modeLabel] == modeObserve, namespace: pod.Namespace, pod: pod.Name, container: container.Name, program: program}
	// The kubelet replaced $(NAME) when it started the container. A command that runs in the
	// container later gets its arguments unchanged.
	for _, arg := range command[1:] {
		a.args = append(a.args, reference.ReplaceAllStringFunc(arg, func(text string) string {
			i := slices.IndexFunc(container.Env, func(e v1.EnvVar) bool { return "$("+e.Name+")" == text })
			if i < 0 {
				return text
			}
			env := container.Env[i]
			if env.ValueFrom == nil || env.ValueFrom.FieldRef == nil {
				return env.Value
			}
			switch env.ValueFrom.FieldRef.FieldPath {
			case "status.hostIP":
				return pod.Status.HostIP
			case "status.podIP":
				return pod.Status.PodIP
			case "spec.nodeName":
				return pod.Spec.NodeName
			}
			return text
		}))
	}
	return a, nil
}

// condition returns what keeps a pod from running, in the words of its status.
func condition(pod *v1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "ending"
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Waiting != nil && s.State.Waiting.Reason != "" {
			return string(pod.Status.Phase) + ", " + s.State.Waiting.Reason
		}
	}
	return string(pod.Status.Phase)
}
