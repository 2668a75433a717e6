package inputs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Roster maps the UID of each pod on the node, as podspec.UID returns it and the kubelet's files
// have it, to the pod. A nil Roster means that the pods are not known.
type Roster map[string]*v1.Pod

// Roster reads pods without defaults, including those that have ended. It returns nil if there are
// no paths.
func (r Reader) Roster(paths []string) (Roster, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	sources, _, err := podspec.ReadFiles(paths, r.Stdin)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Names.Pods, err)
	}
	pods := Roster{}
	for _, s := range sources {
		pods[podspec.UID(s.Pod)] = s.Pod
	}
	return pods, nil
}

// Name returns the namespace and name of a known pod, or else its UID.
func (r Roster) Name(uid string) string {
	if p := r[uid]; p != nil {
		return p.Namespace + "/" + p.Name
	}
	return uid
}

// Alive reports whether the pod is on the node and has not ended.
func (r Roster) Alive(uid string) bool { return r[uid] != nil && !podspec.Ended(r[uid]) }

// IsInit reports whether the container is an init container that ends before the next one starts.
func (r Roster) IsInit(uid, container string) bool {
	return r[uid] != nil && slices.ContainsFunc(r[uid].Spec.InitContainers, func(c v1.Container) bool {
		return c.Name == container && (c.RestartPolicy == nil || *c.RestartPolicy != v1.ContainerRestartPolicyAlways)
	})
}

// InOrder sorts names of containers in the order of the pod's containers. Unknown ones come last,
// sorted by name.
func (r Roster) InOrder(uid string, names []string) {
	at := map[string]int{}
	if pod := r[uid]; pod != nil {
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			at[c.Name] = len(at) - len(pod.Spec.InitContainers) - len(pod.Spec.Containers)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(at[a], at[b]), cmp.Compare(a, b)) })
}

// Requests returns the requests of the pods that have not ended, in the order of their creation.
func (r Roster) Requests(gates podspec.Gates) ([]request.Pod, error) {
	uids := slices.SortedFunc(maps.Keys(r), func(a, b string) int {
		return cmp.Or(r[a].CreationTimestamp.Compare(r[b].CreationTimestamp.Time), cmp.Compare(a, b))
	})
	var asked []request.Pod
	for _, uid := range uids {
		if !r.Alive(uid) {
			continue
		}
		pod, err := podspec.Request(podspec.Default(r[uid], gates), gates)
		if err != nil {
			return nil, err
		}
		asked = append(asked, pod)
	}
	return asked, nil
}

// ReturnsAtOnce reports whether a pod that is deleted comes back to its node although the node is
// cordoned: a static pod, a pod of a DaemonSet, or one that tolerates the taint of a cordoned node.
func ReturnsAtOnce(pod *v1.Pod) bool {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == "DaemonSet" {
		return true
	}
	cordon := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	return podspec.IsStatic(pod) || corev1helpers.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, &cordon, false)
}
