package installed

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scheduler is the name of the scheduler and of all objects of deploy/scheduler.
const scheduler = "paddock-scheduler"

// TestScheduler checks that the permissions of deploy/scheduler are sufficient to schedule, to
// evict, to serve metrics, and to replace kube-scheduler, also while the objects of the nodes get
// another version. Nothing of deploy/scheduler is left afterwards.
func TestScheduler(t *testing.T) {
	c := start(t, 3)
	c.installScheduler()
	c.build()
	c.kubectl("patch", "clusterrole", scheduler, "--type=json", "--patch",
		`[{"op": "add", "path": "/rules/-", "value": {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}}]`)
	config := strings.Replace(c.config(), "evictRejectedAfter: 0s", "evictRejectedAfter: 30s", 1)

	c.run(config)
	stuck, alone := c.reject()
	c.schedules()
	c.evicts(stuck, alone)
	c.serves()
	c.versions()
	c.must(c.Kill(c.scheduler))

	only := strings.NewReplacer("resourceNamespace: paddock", "resourceNamespace: kube-system", "resourceName: paddock-scheduler",
		"resourceName: kube-scheduler", "schedulerName: paddock-scheduler", "schedulerName: default-scheduler").Replace(config)
	c.run(only)
	c.replicas("replaced", "default-scheduler", 1, "2")
	c.runs("replaced", 1)
	for line := range strings.Lines(c.log()) {
		if strings.Contains(strings.ToLower(line), "forbidden") || strings.Contains(line, "unauthorized") {
			t.Errorf("the log has: %s", line)
		}
	}
	c.must(c.Kill(c.scheduler))
	c.alone()
	c.removed()
}

// installScheduler installs deploy/scheduler with the documented command, or all that a release has.
func (c *cluster) installScheduler() {
	c.Helper()
	if *release != "" {
		c.applyRelease()
		return
	}
	c.kubectl(c.documented("kubectl apply -k deploy/scheduler")...)
}

// documented returns the arguments of a command of the page.
func (c *cluster) documented(command string) []string {
	c.Helper()
	page, err := os.ReadFile(filepath.Join(source, "deploy", "scheduler", "README.md"))
	c.must(err)
	if !strings.Contains(string(page), "\n    "+command+"\n") {
		c.Errorf("deploy/scheduler/README.md does not have the command %q", command)
	}
	return strings.Fields(command)[1:]
}

// config returns the configuration of the pods of the Deployment.
func (c *cluster) config() string {
	c.Helper()
	deployment, err := c.client.AppsV1().Deployments("paddock").Get(c.Context(), scheduler, metav1.GetOptions{})
	c.must(err)
	pod := deployment.Spec.Template.Spec
	files, err := c.client.CoreV1().ConfigMaps("paddock").Get(c.Context(), pod.Volumes[0].ConfigMap.Name, metav1.GetOptions{})
	c.must(err)
	if args := pod.Containers[0].Args; !slices.Equal(args, []string{"--config=" + pod.Containers[0].VolumeMounts[0].MountPath + "/config.yaml"}) {
		c.Errorf("the arguments are %q", args)
	}
	return files.Data["config.yaml"]
}

// runs waits until the pods of a ReplicaSet run with the grants of the scheduler.
func (c *cluster) runs(name string, count int) {
	c.Helper()
	c.await("pods with grants run", func() bool {
		running := 0
		for _, pod := range c.pods(name) {
			if pod.Status.Phase == v1.PodRunning && pod.Annotations["paddock-project.github.io/grant"] != "" {
				running++
			}
		}
		return running == count
	})
}

// schedules checks that pods run with the grants that the scheduler handed over, and that their
// events and the Lease have its name.
func (c *cluster) schedules() {
	c.Helper()
	c.replicas("some", scheduler, 6, "4")
	c.runs("some", 6)
	c.await("events of the scheduler", func() bool {
		return strings.Count(c.kubectl("get", "events.events.k8s.io", "-o", "jsonpath={range .items[*]}{.reportingController} {.reason}{'\\n'}{end}"),
			scheduler+" Scheduled\n") >= 6
	})
	for _, lease := range []string{scheduler, "paddock-duties"} {
		if holder := c.kubectl("-n", "paddock", "get", "lease", lease, "-o", "jsonpath={.spec.holderIdentity}"); holder == "" {
			c.Errorf("no one has the Lease %s", lease)
		}
	}
	// The deletion itself happens only after an hour, so its permission is checked.
	c.kubectl("auth", "can-i", "delete", "paddockmachines.paddock-project.github.io", "--as=system:serviceaccount:paddock:"+scheduler)
}

// reject binds two pods to a node that rejects both: one of a ReplicaSet, and one without an owner.
func (c *cluster) reject() (stuck, alone v1.Pod) {
	c.Helper()
	const node, cpus = "xeon-single-pod-0000", "80" // One NUMA node has 64.
	c.replicas("stuck", "other", 1, cpus)
	c.await("the pod is created", func() bool { return len(c.pods("stuck")) == 1 })
	stuck = c.pods("stuck")[0]
	containers := slices.Clone(stuck.Spec.Containers)
	containers[0].VolumeMounts = nil // They are for the token of that pod.
	made, err := c.client.CoreV1().Pods("default").Create(c.Context(), &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "alone", Labels: map[string]string{"app": "alone"}},
		Spec:       v1.PodSpec{SchedulerName: "other", Containers: containers},
	}, metav1.CreateOptions{})
	c.must(err)
	c.bind(stuck.Name, node)
	c.bind(made.Name, node)
	return stuck, *made
}

// evicts checks that the pod of the ReplicaSet is replaced by another one, with an event. The pod
// without an owner stays.
func (c *cluster) evicts(stuck, alone v1.Pod) {
	c.Helper()
	begin := time.Now()
	c.await("the pod is evicted", func() bool {
		pods := c.pods("stuck")
		return len(pods) == 1 && pods[0].UID != stuck.UID && pods[0].Spec.NodeName == ""
	})
	c.Logf("evicted after %v more", time.Since(begin).Round(time.Second))
	c.await("an event of the eviction", func() bool {
		return strings.Contains(c.kubectl("get", "events.events.k8s.io", "-o", "jsonpath={range .items[*]}{.regarding.uid} {.reason}{'\\n'}{end}"),
			string(stuck.UID)+" EvictedByPaddock\n")
	})
	if left := c.pods("alone"); len(left) != 1 || left[0].UID != alone.UID {
		c.Error("a pod without an owner is evicted")
	}
}

// serves checks that the metrics require a token that may get them.
func (c *cluster) serves() {
	c.Helper()
	c.kubectl("create", "clusterrole", "metrics", "--verb=get", "--non-resource-url=/metrics")
	c.kubectl("create", "clusterrolebinding", "metrics", "--clusterrole=metrics", "--serviceaccount=default:default")
	token := strings.TrimSpace(c.kubectl("create", "token", "default"))
	if with, without := c.get("/metrics", token), c.get("/metrics", ""); with != http.StatusOK || without != http.StatusForbidden {
		c.Errorf("metrics: %d with a token, %d without", with, without)
	}
	if live := c.get("/livez", ""); live != http.StatusOK {
		c.Errorf("/livez: %d", live)
	}
}

// removed checks that the documented command leaves nothing of deploy/scheduler.
func (c *cluster) removed() {
	c.Helper()
	c.kubectl(c.documented("kubectl delete -k deploy/scheduler")...)
	left := c.kubectl("get", "--all-namespaces", "-o", "name", "deployments,configmaps,serviceaccounts,poddisruptionbudgets,roles,rolebindings,clusterroles,clusterrolebindings")
	for line := range strings.Lines(left) {
		if strings.Contains(line, scheduler) {
			c.Errorf("%s is left", strings.TrimSpace(line))
		}
	}
}
