package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

// step is one step of a history of pods on a node. Exactly one of Create, Delete, End, Await and
// Restart is set.
type step struct {
	// Create is the name of a pod to create with the spec Spec, on the node unless Unbound is set.
	// The step ends when the pod is as in Until: Admitted, which is the default, Decided, Ready, or a
	// phase. An admitted pod has its CPUs, memory and devices, even if its containers do not run yet.
	// A decided pod is admitted or rejected.
	Create  string         `json:"create,omitempty"`
	Spec    map[string]any `json:"spec,omitempty"`
	Unbound bool           `json:"unbound,omitempty"`
	Until   string         `json:"until,omitempty"`
	// Delete is the name of a pod to delete. The step ends when the pod is gone.
	Delete string `json:"delete,omitempty"`
	// End is the name of a pod whose container waits for the file /end. The step makes that file,
	// and ends when the pod has succeeded.
	End string `json:"end,omitempty"`
	// Await is the name of a pod. The step ends when the pod is as in Until.
	Await string `json:"await,omitempty"`
	// Restart restarts the kubelet.
	Restart bool `json:"restart,omitempty"`
}

// renewKubelet starts the kubelet without pods and without state files. Its configuration is
// files/kubelet.yaml with changes.
func (n *node) renewKubelet(ctx context.Context, changes map[string]any) error {
	if _, err := n.kubectl(ctx, "", "delete", "pods", "--all", "--now"); err != nil {
		return err
	}
	config, err := n.kubeletConfig(changes)
	if err != nil {
		return err
	}
	_ = n.stopUnit(ctx, "kubelet") // It may not run.
	// A kubelet that starts compares pods with the Node that the one before it wrote.
	if _, err := n.kubectl(ctx, "", "delete", "node", nodeName, "--ignore-not-found"); err != nil {
		return err
	}
	errs := []error{
		n.must(ctx, "cd /var/lib/kubelet && rm -rf *_state device-plugins/*"),
		n.mustWith(ctx, "cat > /var/lib/kubelet/config.yaml", config),
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := n.startUnit(ctx, "kubelet"); err != nil {
		return err
	}
	_, err = n.kubectl(ctx, "", "wait", "node", nodeName, "--for", "create", "--timeout", "10m")
	if err == nil {
		_, err = n.kubectl(ctx, "", "wait", "node", nodeName, "--for", "condition=Ready", "--timeout", "10m")
	}
	return err
}

// kubeletConfig returns a KubeletConfiguration: files/kubelet.yaml with changes.
func (n *node) kubeletConfig(changes map[string]any) ([]byte, error) {
	data, err := files.ReadFile("files/kubelet.yaml")
	if err != nil {
		return nil, err
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, err
	}
	if n.runtime == crio {
		config["containerRuntimeEndpoint"] = "unix://" + wire.CRIOSocket
	}
	maps.Copy(config, changes)
	return yaml.Marshal(config)
}

// step makes one step and waits for its effect.
func (n *node) step(ctx context.Context, s step) error {
	switch {
	case s.Create != "":
		pod, err := s.pod()
		if err != nil {
			return err
		}
		if _, err := n.kubectl(ctx, pod, "create", "-f", "-"); err != nil {
			return err
		}
		return n.await(ctx, s.Create, s.Until)
	case s.Delete != "":
		_, err := n.kubectl(ctx, "", "delete", "pod", "--now", s.Delete)
		return err
	case s.End != "":
		if _, err := n.kubectl(ctx, "", "exec", s.End, "--", "touch", "/end"); err != nil {
			return err
		}
		return n.await(ctx, s.End, "Succeeded")
	case s.Await != "":
		return n.await(ctx, s.Await, s.Until)
	case s.Restart:
		if err := n.stopUnit(ctx, "kubelet"); err != nil {
			return err
		}
		return n.startUnit(ctx, "kubelet")
	}
	return errors.New("it is empty")
}

// pod returns the manifest of the pod of a step. Containers without a command run until they are
// stopped, and init containers end.
func (s step) pod() (string, error) {
	spec := maps.Clone(s.Spec)
	spec["terminationGracePeriodSeconds"], spec["automountServiceAccountToken"], spec["enableServiceLinks"] = 1, false, false
	if !s.Unbound {
		spec["nodeName"] = nodeName
	}
	for _, list := range []string{"initContainers", "containers"} {
		containers, _ := spec[list].([]any)
		for _, c := range containers {
			container, is := c.(map[string]any)
			if !is {
				return "", fmt.Errorf("pod %s: %s has an item that is no container", s.Create, list)
			}
			container["image"] = "busybox:1.37"
			switch {
			case container["command"] != nil:
			case list == "initContainers" && container["restartPolicy"] == nil:
				container["command"] = []string{"true"}
			default:
				container["command"] = []string{"sleep", "1000000"}
			}
		}
	}
	data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": s.Create}, "spec": spec})
	return string(data), err
}

// podPatience is longer than a kubelet takes to start or to reject a pod, even on a busy machine.
const podPatience = 8 * time.Minute

// await waits until a pod is Admitted, which is the default, Decided, Ready, or in a phase.
func (n *node) await(ctx context.Context, pod, until string) error {
	until = cmp.Or(until, "Admitted")
	ctx, cancel := context.WithTimeout(ctx, podPatience)
	defer cancel()
	for {
		p, err := n.status(ctx, pod)
		ended := p.Status.Phase == "Failed" || p.Status.Phase == "Succeeded"
		switch {
		case err != nil:
			return err
		case p.is(until):
			return nil
		case ended:
			return fmt.Errorf("pod %s is %+v, expected %s", pod, p.Status, until)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("pod %s is %+v, expected %s: %w", pod, p.Status, until, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// status returns the status of a pod.
func (n *node) status(ctx context.Context, pod string) (p podStatus, err error) {
	out, err := n.kubectl(ctx, "", "get", "pod", "-o", "json", pod)
	if err == nil {
		err = json.Unmarshal(out, &p)
	}
	return p, err
}

// podStatus has the status of a pod.
type podStatus struct {
	Status struct {
		Phase, Reason, Message, StartTime string
		Conditions                        []struct{ Type, Status, Reason, Message string }
	}
}

// is reports whether a pod is Admitted, Decided, Ready or in a phase. A pod is Pending if the scheduler has
// rejected it.
func (p podStatus) is(until string) bool {
	condition := map[string]string{}
	for _, c := range p.Status.Conditions {
		condition[c.Type] = c.Status
	}
	switch until {
	case "Admitted":
		return p.Status.StartTime != "" && p.Status.Phase != "Failed"
	case "Decided":
		return p.Status.StartTime != "" || p.Status.Phase == "Failed"
	case "Ready":
		return condition["Ready"] == "True"
	case "Pending":
		return condition["PodScheduled"] == "False"
	}
	return p.Status.Phase == until
}

// kubectl runs kubectl as an administrator. It returns the standard output.
func (n *node) kubectl(ctx context.Context, stdin string, words ...string) ([]byte, error) {
	var out, messages strings.Builder
	cmd := exec.CommandContext(ctx, filepath.Join(n.parts.Cluster.ControlPlane, "kubectl"), append([]string{"--kubeconfig", n.plane.config}, words...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = strings.NewReader(stdin), &out, &messages, 5*time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("kubectl %s: %w\n%s%s", strings.Join(words, " "), err, out.String(), messages.String())
	}
	return []byte(out.String()), nil
}
