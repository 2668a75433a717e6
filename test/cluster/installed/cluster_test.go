package installed

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/test/cluster/hollow"
	"github.com/paddock-project/paddock/test/cluster/plane"
	"github.com/paddock-project/paddock/test/cluster/program"
	"github.com/paddock-project/paddock/test/e2e/control"
	"github.com/paddock-project/paddock/test/e2e/parts"
)

const source = "../../.."

// cluster is a control plane with hollow nodes, and what is installed there.
type cluster struct {
	*testing.T
	*plane.Plane
	dir     string
	client  kubernetes.Interface
	objects rest.Interface
	// scheduler is the path of the program. port is its secure port.
	scheduler string
	port      int
}

// start starts a control plane, installs Paddock with kubectl, and starts the nodes.
func start(t *testing.T, nodes int) *cluster {
	t.Helper()
	c := &cluster{T: t, dir: t.TempDir()}
	programs, err := parts.ControlPlane(t.Context(), source, t.Logf)
	c.must(err)
	ctx, cancel := context.WithCancel(context.Background()) // t.Context() ends before the cleanup.
	c.Plane, err = plane.Start(ctx, programs, c.dir)
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		cancel()
	})
	c.must(err)
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig("admin"))
	c.must(err)
	config.QPS = -1
	c.client, err = kubernetes.NewForConfig(config)
	c.must(err)
	c.objects, err = objects.NewClient(config)
	c.must(err)
	if *release == "" {
		c.kubectl("apply", "-k", "deploy/base")
	} else {
		c.kubectl("apply", "-f", filepath.Join(*release, "manifests", "paddock.yaml"))
	}
	if nodes > 0 {
		c.startNodes(config, nodes)
	}
	return c
}

func (c *cluster) startNodes(config *rest.Config, count int) {
	c.Helper()
	kinds, err := hollow.ReadKinds("../fleet.yaml", count, nil, false)
	c.must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	c.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	fleet, err := hollow.New(ctx, config, kinds, listener.Addr().String(), nil)
	c.must(err)
	ready, ended := make(chan struct{}), make(chan error, 2)
	go func() { ended <- fleet.Serve(ctx, listener) }()
	go func() { ended <- fleet.Run(ctx, func() { close(ready) }) }()
	c.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			c.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		c.Fatal(err)
	}
	c.await("a PaddockNode of each node", func() bool {
		var list v1alpha1.PaddockNodeList
		return c.objects.Get().Resource(v1alpha1.PaddockNodes).Do(c.Context()).Into(&list) == nil && len(list.Items) == count
	})
}

// must ends the test if err is not nil.
func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// await waits until the condition is true.
func (c *cluster) await(what string, is func() bool) {
	c.Helper()
	const most = 5 * time.Minute
	for deadline := time.Now().Add(most); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.Fatalf("%s: not after %v; the scheduler: %s", what, most, c.end())
		}
	}
}

// kubectl runs kubectl as an administrator, in the repository, and returns its output.
func (c *cluster) kubectl(args ...string) string {
	c.Helper()
	cmd := c.Kubectl(c.Context(), args...)
	cmd.Dir = source
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// build builds the scheduler, or takes that of the release. The first build takes minutes.
func (c *cluster) build() {
	c.Helper()
	if *release != "" {
		c.pull()
		return
	}
	c.scheduler = filepath.Join(c.dir, "paddock-scheduler")
	c.must(program.Build(c.Context(), filepath.Join(source, "scheduler"), c.scheduler, "./cmd/paddock-scheduler"))
}

// asAccount returns the path of a kubeconfig with a token of the scheduler's service account, like
// that of the scheduler's pod.
func (c *cluster) asAccount() string {
	c.Helper()
	data, err := os.ReadFile(c.Kubeconfig("admin"))
	c.must(err)
	var config map[string]any
	c.must(json.Unmarshal(data, &config))
	token := strings.TrimSpace(c.kubectl("-n", "paddock", "create", "token", "paddock-scheduler"))
	config["users"] = []any{map[string]any{"name": "admin", "user": map[string]any{"token": token}}}
	data, err = json.Marshal(config)
	c.must(err)
	file := filepath.Join(c.dir, "account.conf")
	c.must(os.WriteFile(file, data, 0o600))
	return file
}

// run starts the scheduler like its Deployment, with a configuration and the token of its account.
func (c *cluster) run(config string) {
	c.Helper()
	account := c.asAccount()
	file := filepath.Join(c.dir, "config.yaml")
	c.must(os.WriteFile(file, []byte(config+"\nclientConnection: {kubeconfig: "+account+"}\n"), 0o600))
	ports, err := control.FreePorts(1)
	c.must(err)
	c.port = ports[0]
	c.must(c.Programs.Start(context.Background(), c.scheduler, "--config", file, "--bind-address=127.0.0.1", fmt.Sprint("--secure-port=", c.port),
		"--authentication-kubeconfig", account, "--authorization-kubeconfig", account))
	c.await("the scheduler is ready", func() bool { return c.get("/readyz", "") == http.StatusOK })
}

// get sends a request to the secure port of the scheduler.
func (c *cluster) get(path, token string) (status int) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(c.Context(), http.MethodGet, control.LocalURL("https", c.port)+path, http.NoBody)
	c.must(err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	_, err = io.Copy(io.Discard, response.Body)
	if errors.Join(err, response.Body.Close()) != nil {
		return 0
	}
	return response.StatusCode
}

// end returns the end of the scheduler's output.
func (c *cluster) end() string {
	const most = 4000
	all := c.log()
	return all[max(0, len(all)-most):]
}

// log returns the scheduler's output. It leaves out lines about the CA of proxies, which every
// kube-scheduler looks for: this API server serves no proxies.
func (c *cluster) log() string {
	data, err := os.ReadFile(filepath.Join(c.dir, "paddock-scheduler.log"))
	if err != nil {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		if !strings.Contains(line, "requestheader-client-ca-file") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// replicas creates a ReplicaSet of pods with exclusive CPUs.
func (c *cluster) replicas(name, scheduler string, count int32, cpus string) {
	c.Helper()
	labels := map[string]string{"app": name}
	has := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpus), v1.ResourceMemory: resource.MustParse("1Gi")}
	_, err := c.client.AppsV1().ReplicaSets("default").Create(c.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.ReplicaSetSpec{Replicas: &count, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: v1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: v1.PodSpec{SchedulerName: scheduler, Containers: []v1.Container{
				{Name: "app", Image: "example.invalid/app:1", Resources: v1.ResourceRequirements{Requests: has, Limits: has}},
			}},
		}},
	}, metav1.CreateOptions{})
	c.must(err)
}

// pods returns the pods of a ReplicaSet that are not being deleted.
func (c *cluster) pods(name string) []v1.Pod {
	c.Helper()
	list, err := c.client.CoreV1().Pods("default").List(c.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
	c.must(err)
	var out []v1.Pod
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			out = append(out, list.Items[i])
		}
	}
	return out
}

// bind binds a pod without a scheduler.
func (c *cluster) bind(pod, node string) {
	c.Helper()
	c.must(c.client.CoreV1().Pods("default").Bind(c.Context(), &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod}, Target: v1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{}))
}
