package chaos

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

// agent kills an agent for up to 5 s.
func (c *Chaos) agent(ctx context.Context, node string) error {
	return c.Order(ctx, "/restart", map[string]string{"node": node, "away": c.between(0, 5*time.Second).String()})
}

// policy restarts the agent with another policy.
func (c *Chaos) policy(ctx context.Context, node string) error {
	return c.Order(ctx, "/policy", map[string]string{"node": node})
}

func (c *Chaos) api(context.Context, string) error { return c.RestartAPI() }

// slow delays the watches of the kubelets, or those of the scheduler, for ten seconds.
func (c *Chaos) slow(ctx context.Context, _ string) error {
	const by, how = 3 * time.Second, 10 * time.Second
	if c.float() < 0.5 {
		c.Slow(by)
		defer c.Slow(0)
		return wait(ctx, how)
	}
	if err := c.Order(ctx, "/slow", map[string]string{"by": by.String()}); err != nil {
		return err
	}
	err := wait(ctx, how)
	if fast := c.Order(ctx, "/slow", map[string]string{"by": "0s"}); fast != nil {
		return fast
	}
	return err
}

// tamper changes the annotations of the pods that are bound to a node in the next seconds.
func tamper(how string) func(*Chaos, context.Context, string) error {
	return func(c *Chaos, ctx context.Context, node string) error {
		if err := c.Order(ctx, "/tamper", map[string]string{"node": node, "how": how}); err != nil {
			return err
		}
		err := wait(ctx, c.between(time.Second, 5*time.Second))
		if honest := c.Order(ctx, "/tamper", map[string]string{"node": node}); honest != nil {
			return honest
		}
		return err
	}
}

// pod returns a pod with four exclusive CPUs on a node.
func (c *Chaos) pod(name, node string) *v1.Pod {
	amounts := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("4Gi")}
	no := false
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, c.number), Namespace: c.Namespace},
		Spec: v1.PodSpec{NodeName: node, AutomountServiceAccountToken: &no, Containers: []v1.Container{{
			Name: "main", Image: "example.invalid/chaos:1", Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts.DeepCopy()},
		}}},
	}
}

// settled is the time after which every observer knows a pod that started.
const settled = 2 * time.Second

// foreign creates a pod that another scheduler bound. The pod stays for a while. By the end of the
// fault, the scheduler knows it.
func (c *Chaos) foreign(ctx context.Context, node string) error {
	pod, err := c.Client.CoreV1().Pods(c.Namespace).Create(ctx, c.pod("foreign", node), metav1.CreateOptions{})
	if err != nil {
		return away(err)
	}
	c.later(ctx, func(ctx context.Context) error {
		return c.Client.CoreV1().Pods(c.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
	})
	return wait(ctx, settled)
}

// static starts a static pod from the node's own manifests.
func (c *Chaos) static(ctx context.Context, node string) error {
	form := map[string]string{"node": node, "name": c.pod("static", node).Name, "namespace": c.Namespace}
	if err := c.Order(ctx, "/static", form); err != nil {
		return err
	}
	c.later(ctx, func(ctx context.Context) error {
		return c.Order(ctx, "/unstatic", form)
	})
	return wait(ctx, settled)
}

// stay is how long the pods of faults run.
const stay = 20 * time.Second

// later ends the pod of a fault in the background. No one has to wait for it, because the end of
// the load removes remaining pods.
func (c *Chaos) later(ctx context.Context, do func(context.Context) error) {
	ctx = context.WithoutCancel(ctx)
	time.AfterFunc(stay, func() {
		ctx, cancel := context.WithTimeout(ctx, longest)
		defer cancel()
		_ = do(ctx)
	})
}

// drain cordons a node, evicts its pods, and uncordons it.
func (c *Chaos) drain(ctx context.Context, node string) error {
	cordon := func(yes bool) error {
		patch := fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, yes)
		for {
			_, err := c.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			if err == nil || ctx.Err() != nil {
				return err
			}
			if err := wait(ctx, time.Second); err != nil {
				return err
			}
		}
	}
	if err := cordon(true); err != nil {
		return err
	}
	pods, err := c.Client.CoreV1().Pods(v1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
	if err == nil {
		for _, pod := range pods.Items {
			err := c.Client.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}})
			if away(err) != nil {
				return err
			}
		}
	}
	if err := wait(ctx, c.between(2*time.Second, 6*time.Second)); err != nil {
		return err
	}
	return cordon(false)
}

// away returns nil if the API server does not answer, or if the pod is gone: both are the effects
// of other faults.
func away(err error) error {
	if _, status := err.(apierrors.APIStatus); !status || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
