package hollow

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/internal/codec/handover"
)

// changePolicy implements host: it restarts the agent with the policy.
func (n *managed) changePolicy(ctx context.Context) error {
	policy := n.policy()
	policy.Topology = topologies[(slices.Index(topologies, policy.Topology)+1)%len(topologies)]
	n.mu.Lock()
	n.changed = &policy
	n.mu.Unlock()
	if err := n.restart(ctx, 0); err != nil {
		return err
	}
	return await(ctx, n.published.Load)
}

// These are the annotations that kubelets give static pods and their mirror pods.
const (
	configHash, configMirror, configSource = "kubernetes.io/config.hash", "kubernetes.io/config.mirror", "kubernetes.io/config.source"
)

// startStatic creates the mirror pod of a static pod with four exclusive CPUs, and runs the static
// pod.
func (n *Node) startStatic(ctx context.Context, namespace, name string) error {
	amounts := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("4Gi")}
	uid := hex.EncodeToString([]byte(n.Name + name))
	static := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-" + n.Name, Namespace: namespace, UID: types.UID(uid), Annotations: map[string]string{configSource: "file", configHash: uid}},
		Spec: v1.PodSpec{NodeName: n.Name, Containers: []v1.Container{{
			Name: "main", Image: "example.invalid/static:1", Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts.DeepCopy()},
		}}},
	}
	mirror := static.DeepCopy()
	mirror.UID = ""
	mirror.Annotations = map[string]string{configSource: "file", configHash: uid, configMirror: uid}
	if err := n.fleet.persist(ctx, func(ctx context.Context) error {
		_, err := n.fleet.client.CoreV1().Pods(namespace).Create(ctx, mirror, metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	n.observe(n.fleet.ctx, static)
	return nil
}

// endStatic ends a static pod, as if its manifest were removed, and its mirror pod.
func (n *Node) endStatic(ctx context.Context, namespace, name string) error {
	uid := hex.EncodeToString([]byte(n.Name + name))
	n.forget(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}})
	n.fleet.remove(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + n.Name, Namespace: namespace}})
	return nil
}

// isStatic reports whether a pod is from the node's own manifests. isMirror reports whether it is
// the mirror pod of one.
func isStatic(pod *v1.Pod) bool {
	return pod.Annotations[configSource] == "file" && pod.Annotations[configMirror] == ""
}

func isMirror(pod *v1.Pod) bool { return pod.Annotations[configMirror] != "" }

// tampered returns a pod as a kubelet passes it on, with the annotation of the grant as a fault
// left it.
func tampered(pod *v1.Pod, how string) *v1.Pod {
	text := pod.Annotations[handover.Annotation]
	if how == "" || text == "" {
		return pod
	}
	changed := pod.DeepCopy()
	switch how {
	case "lost":
		delete(changed.Annotations, handover.Annotation)
	case "corrupt":
		changed.Annotations[handover.Annotation] = text[:len(text)/2]
	case "forged":
		changed.Annotations[handover.Annotation] = forge(text)
	}
	return changed
}

// forge returns a grant with other CPUs: it swaps the digits 1 and 2, 3 and 4, 5 and 6, 7 and 8 in
// the first list of CPUs.
func forge(text string) string {
	const member = `"cpus":"`
	begin := strings.Index(text, member)
	if begin < 0 {
		return text
	}
	begin += len(member)
	end := begin + strings.IndexByte(text[begin:], '"')
	other := strings.NewReplacer("1", "2", "2", "1", "3", "4", "4", "3", "5", "6", "6", "5", "7", "8", "8", "7")
	return text[:begin] + other.Replace(text[begin:end]) + text[end:]
}

// obey carries out one order of the driver.
func (f *Fleet) obey(ctx context.Context, what string, value func(string) string) error {
	if what == "slow" {
		by, err := time.ParseDuration(value("by"))
		f.mu.Lock()
		defer f.mu.Unlock()
		f.slow = by
		return err
	}
	n := f.nodes[value("node")]
	if n == nil {
		return fmt.Errorf("there is no node %q", value("node"))
	}
	switch what {
	case "restart":
		away, err := time.ParseDuration(value("away"))
		if err != nil {
			return err
		}
		return n.host.restart(ctx, away)
	case "policy":
		return n.host.changePolicy(ctx)
	case "static":
		return n.startStatic(ctx, value("namespace"), value("name"))
	case "unstatic":
		return n.endStatic(ctx, value("namespace"), value("name"))
	case "tamper":
		n.mu.Lock()
		defer n.mu.Unlock()
		n.tamper = value("how")
		return nil
	}
	return errors.New("there is no such order")
}
