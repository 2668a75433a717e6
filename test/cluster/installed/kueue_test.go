package installed

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/test/e2e/control"
)

// kueueNode is the only node. One NUMA node has 64 CPUs.
const kueueNode = "xeon-single-pod-0000"

// TestKueue runs Kueue itself, with topology-aware scheduling. A job of one pod is assigned to a
// node whose sums have room for it, and none of whose NUMA nodes has. Without the admission check,
// its pod waits there with its quota. With the check, the job waits in the queue, with the reason,
// and is admitted when the node has room.
func TestKueue(t *testing.T) {
	c := start(t, 1)
	c.build()
	c.kubectl("apply", "-k", "deploy/scheduler")
	c.kubectl("patch", "clusterrole", scheduler, "--type=json", "--patch", kueueRules)
	c.startKueue()
	c.run(strings.Replace(c.config(), "kueue: false", "kueue: true", 1))
	c.must(c.StartControllers(context.Background(), "job-controller"))
	c.kubectl("apply", "-f", "test/cluster/installed/testdata/kueue.yaml")
	c.await("the queues are active", func() bool {
		return c.kubectl("get", "clusterqueues", "-o", `jsonpath={range .items[*]}{.status.conditions[?(@.type=="Active")].status} {end}`) == "True True "
	})
	c.replicas("filler", scheduler, 2, "40")
	c.runs("filler", 2)

	c.job("plain")
	c.await("Kueue admits the job without the check", func() bool { return c.workload("plain", condition("Admitted")) == "True" })
	c.await("the scheduler does not place its pod", func() bool {
		return strings.Contains(c.kubectl("get", "pods", "-l", "job-name=plain", "-o", "jsonpath={.items[*].status.conditions[*].message}"), "40 CPUs do not fit on one NUMA node")
	})
	if got := c.kubectl("get", "pods", "-l", "job-name=plain", "-o", `jsonpath={.items[*].spec.nodeSelector.kubernetes\.io/hostname}`); got != kueueNode {
		t.Errorf("Kueue pins the pod to %q", got)
	}
	if got := c.kubectl("get", "clusterqueue", "plain", "-o", `jsonpath={.status.flavorsReservation[0].resources[?(@.name=="cpu")].total}`); got != "40" {
		t.Errorf("the quota in use is %q", got)
	}
	t.Logf("without the check: the workload is admitted, and its pod is %s", c.kubectl("get", "pods", "-l", "job-name=plain", "-o", "jsonpath={.items[*].status.phase}: {.items[*].status.conditions[*].message}"))
	c.kubectl("delete", "job", "plain")
	// Its quota is in another queue, so that its end does not make Kueue look at the other job again.
	c.await("the job without the check is gone", func() bool {
		return c.workload("plain", "{.metadata.name}") == "" && c.kubectl("get", "pods", "-l", "job-name=plain", "-o", "name") == ""
	})

	c.job("checked")
	c.await("an event with the reason", func() bool { return strings.Contains(c.judged(), "NUMA node 0: ") })
	c.await("Kueue waits before it tries again", func() bool { return c.workload("checked", "{.status.requeueState.requeueAt}") != "" })
	t.Logf("with the check: %s", c.judged())
	if got := c.kubectl("get", "pods", "-l", "job-name=checked", "-o", "name"); got != "" {
		t.Errorf("the job has pods: %s", got)
	}
	c.await("Kueue evicts the workload and tries again", func() bool {
		return c.workload("checked", `{.status.schedulingStats.evictions[?(@.reason=="AdmissionCheck")].count}`) != ""
	})
	c.kubectl("scale", "rs", "filler", "--replicas=1")
	c.await("Kueue admits the job", func() bool { return c.workload("checked", condition("Admitted")) == "True" })
	t.Logf("with room: %s", c.workload("checked", "{.status.admissionChecks[0].state}: {.status.admissionChecks[0].message}"))
	c.await("its pod runs", func() bool {
		return c.kubectl("get", "pods", "-l", "job-name=checked", "-o", "jsonpath={.items[*].status.phase}") == "Running"
	})
	for line := range strings.Lines(c.log()) {
		if strings.Contains(strings.ToLower(line), "forbidden") {
			t.Errorf("the log has: %s", line)
		}
	}
}

// kueueRules adds the rules for kueue of deploy/scheduler/rbac.yaml.
const kueueRules = `[
{"op": "add", "path": "/rules/-", "value": {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads", "resourceflavors"], "verbs": ["list", "watch"]}},
{"op": "add", "path": "/rules/-", "value": {"apiGroups": ["kueue.x-k8s.io"], "resources": ["admissionchecks"], "verbs": ["get", "list", "watch"]}},
{"op": "add", "path": "/rules/-", "value": {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads/status", "admissionchecks/status"], "verbs": ["patch"]}}]`

// startKueue builds Kueue of test/kueue, installs its CRDs and starts it. Its webhooks are not
// installed: they would need a Service.
func (c *cluster) startKueue() {
	c.Helper()
	module := filepath.Join(source, "test", "kueue")
	goTool := func(args ...string) string {
		cmd := exec.CommandContext(c.Context(), "go", args...)
		cmd.Dir, cmd.Env = module, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		out, err := cmd.Output()
		if err != nil {
			c.Fatalf("go %s: %v", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out))
	}
	program := filepath.Join(c.dir, "kueue")
	goTool("build", "-ldflags=-s -w", "-o", program, "sigs.k8s.io/kueue/cmd/kueue")
	c.kubectl("apply", "--server-side", "-k", filepath.Join(goTool("list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kueue"), "config/components/crd"))
	c.kubectl("create", "namespace", "kueue-system")
	c.kubectl("-n", "kueue-system", "create", "secret", "generic", "kueue-webhook-server-cert") // Kueue fills it.
	certs := filepath.Join(c.dir, "kueue-certs")
	c.must(os.Mkdir(certs, 0o700))
	authority, err := control.NewAuthority(certs)
	c.must(err)
	c.must(authority.Server("tls", "127.0.0.1"))
	ports, err := control.FreePorts(2)
	c.must(err)
	config, err := json.Marshal(map[string]any{
		"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "namespace": "kueue-system",
		"health": map[string]any{"healthProbeBindAddress": fmt.Sprint("127.0.0.1:", ports[0])}, "metrics": map[string]any{"bindAddress": "0"},
		"webhook": map[string]any{"host": "127.0.0.1", "port": ports[1], "certDir": certs}, "leaderElection": map[string]any{"leaderElect": false},
		"integrations": map[string]any{"frameworks": []string{"batch/job"}},
	})
	c.must(err)
	file := filepath.Join(c.dir, "kueue.json")
	c.must(os.WriteFile(file, config, 0o600))
	c.must(c.Programs.Start(context.Background(), program, "--config", file, "--kubeconfig", c.Kubeconfig("admin"), "--feature-gates", "VisibilityOnDemand=false"))
	c.await("Kueue runs", func() bool {
		client := &http.Client{Timeout: time.Second}
		defer client.CloseIdleConnections()
		request, err := http.NewRequestWithContext(c.Context(), http.MethodGet, control.LocalURL("http", ports[0])+"/readyz", http.NoBody)
		c.must(err)
		response, err := client.Do(request)
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
}

// job creates a job of one pod with 40 CPUs in the queue of its name.
func (c *cluster) job(name string) {
	c.Helper()
	file := filepath.Join(c.dir, name+".yaml")
	data, err := os.ReadFile("testdata/kueue-job.yaml")
	c.must(err)
	c.must(os.WriteFile(file, []byte(strings.ReplaceAll(string(data), "NAME", name)), 0o600))
	c.kubectl("apply", "-f", file)
	c.await("a workload of the job", func() bool { return c.workload(name, "{.metadata.name}") != "" })
}

func condition(kind string) string { return `{.status.conditions[?(@.type=="` + kind + `")].status}` }

// workload returns a part of the workload of a job. It is empty if there is none.
func (c *cluster) workload(job, path string) string {
	c.Helper()
	name := strings.TrimSpace(c.kubectl("get", "workloads", "-o", `jsonpath={.items[?(@.metadata.ownerReferences[0].name=="`+job+`")].metadata.name}`))
	if name == "" {
		return ""
	}
	return c.kubectl("get", "workload", name, "--ignore-not-found", "-o", "jsonpath="+path)
}

// judged returns the notes of the events about workloads that do not fit.
func (c *cluster) judged() string {
	c.Helper()
	return c.kubectl("get", "events.events.k8s.io", "-o", `jsonpath={.items[?(@.reason=="DoesNotFitTogether")].note}`)
}
