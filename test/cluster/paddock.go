package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/test/cluster/hollow"
	"github.com/paddock-project/paddock/test/cluster/load"
	"github.com/paddock-project/paddock/test/cluster/plane"
	"github.com/paddock-project/paddock/test/cluster/program"
	"github.com/paddock-project/paddock/test/e2e/control"
)

// paddockScheduler is the schedulerName of pods, and the name of the program.
const paddockScheduler = "paddock-scheduler"

// install applies the manifests of the product, as deploy/README.md does. The DaemonSet controller
// does not run, because the agents are part of the hollow nodes.
func (c *cluster) install(ctx context.Context) error {
	for _, dir := range []string{"base", "scheduler"} {
		dir = filepath.Join(c.source, "deploy", dir)
		if _, err := os.Stat(filepath.Join(dir, "kustomization.yaml")); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if out, err := c.plane.Kubectl(ctx, "apply", "-k", dir).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl apply -k %s: %w: %s", dir, err, out)
		}
	}
	return nil
}

// awaitNodes waits until every agent has published. A scheduler treats a node without a PaddockNode
// as one that Paddock does not manage.
func (c *cluster) awaitNodes(ctx context.Context) error {
	const most = 2 * time.Minute
	for begin := time.Now(); ; {
		var list v1alpha1.PaddockNodeList
		err := c.objects.Get().Resource(v1alpha1.PaddockNodes).Do(ctx).Into(&list)
		if err == nil && len(list.Items) == c.nodes {
			return nil
		}
		if time.Since(begin) > most {
			return errors.Join(fmt.Errorf("%d of %d nodes have a PaddockNode after %v", len(list.Items), c.nodes, most), err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

// schedulerSource returns the directory of the scheduler's source.
func (c *cluster) schedulerSource() string { return cmp.Or(c.version, c.source) }

// buildScheduler returns the path of the scheduler's program of a version: that of the flag, one
// that "make scheduler" has built in another directory than that of this module, or one built from
// source.
func (c *cluster) buildScheduler(ctx context.Context, source string) (string, error) {
	if c.scheduler != "" && source == c.schedulerSource() {
		return filepath.Abs(c.scheduler)
	}
	if built := filepath.Join(source, "bin", paddockScheduler); source != c.source && exists(built) {
		return filepath.Abs(built)
	}
	say("building %s (minutes, once)", paddockScheduler)
	dir, err := os.MkdirTemp(c.dir, "scheduler-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, paddockScheduler)
	return file, program.Build(ctx, filepath.Join(source, "scheduler"), file, "./cmd/"+paddockScheduler)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// makeScheduler builds and configures the scheduler of a version.
func (c *cluster) makeScheduler(ctx context.Context, source string) (s scheduler, err error) {
	if s.program, err = c.buildScheduler(ctx, source); err != nil {
		return s, err
	}
	s.config, s.inspect, err = c.configure(ctx, source)
	return s, err
}

// startPaddock starts a scheduler.
func (c *cluster) startPaddock(ctx context.Context, s scheduler) error {
	c.inspect = s.inspect
	return c.plane.Programs.Start(ctx, s.program, "--config", s.config, "--secure-port=0")
}

// configure writes the configuration of a version's deploy/scheduler for this cluster.
func (c *cluster) configure(ctx context.Context, source string) (name, inspect string, err error) {
	data, err := os.ReadFile(filepath.Join(source, "deploy", "scheduler", "config.yaml"))
	if err != nil {
		return "", "", err
	}
	var config map[string]any
	if err := yaml.Unmarshal(data, &config); err != nil {
		return "", "", err
	}
	config["leaderElection"] = map[string]any{"leaderElect": false}
	kubeconfig, err := c.schedulerKubeconfig()
	if err != nil {
		return "", "", err
	}
	config["clientConnection"] = map[string]any{"kubeconfig": kubeconfig, "qps": 2000, "burst": 4000}
	if strings.Contains(string(data), "inspectAddress:") { // A version rejects arguments that its file does not have.
		ports, err := control.FreePorts(1)
		if err != nil {
			return "", "", err
		}
		inspect = net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
		if err := setArg(config, "inspectAddress", inspect); err != nil {
			return "", "", err
		}
	}
	if strings.Contains(string(data), "managedNodes:") {
		nodes := map[string]any{"matchExpressions": []any{map[string]any{"key": hollow.LabelKind, "operator": "Exists"}}}
		if err := setArg(config, "managedNodes", nodes); err != nil {
			return "", "", err
		}
	}
	if c.load == loadOnline {
		if err := setArg(config, "scoring", fleet.BestFit.String()); err != nil {
			return "", "", err
		}
	}
	if c.faults != "" { // A pod that does not fit its node after a fault would stay bound there for ever.
		if err := errors.Join(setArg(config, "evictRejectedAfter", evictRejectedAfter), c.allowEvictions(ctx)); err != nil {
			return "", "", err
		}
	}
	if data, err = yaml.Marshal(config); err != nil {
		return "", "", err
	}
	file, err := os.CreateTemp(c.dir, paddockScheduler+"-*.yaml")
	if err != nil {
		return "", "", err
	}
	_, err = file.Write(data)
	return file.Name(), inspect, errors.Join(err, file.Close())
}

// schedulerKubeconfig returns the path of the scheduler's own kubeconfig. With faults, it returns
// that of a proxy that can delay its watches.
func (c *cluster) schedulerKubeconfig() (string, error) {
	direct := c.plane.Kubeconfig(paddockScheduler)
	if c.faults == "" {
		return direct, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", direct)
	if err != nil {
		return "", err
	}
	if c.slow, err = plane.NewSlow(config); err != nil {
		return "", err
	}
	way := clientcmdapi.NewConfig()
	way.Clusters["slow"] = &clientcmdapi.Cluster{Server: c.slow.URL()}
	way.Contexts["slow"] = &clientcmdapi.Context{Cluster: "slow"}
	way.CurrentContext = "slow"
	file := filepath.Join(c.dir, paddockScheduler+"-slow.conf")
	return file, clientcmd.WriteToFile(*way, file)
}

// evictRejectedAfter is the minimum that the scheduler accepts.
const evictRejectedAfter = "30s"

// allowEvictions adds the rule that is a comment in deploy/scheduler/rbac.yaml.
func (c *cluster) allowEvictions(ctx context.Context) error {
	out, err := c.plane.Kubectl(ctx, "patch", "clusterrole", paddockScheduler, "--type=json", "--patch",
		`[{"op": "add", "path": "/rules/-", "value": {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}}]`).CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubectl patch clusterrole %s: %w: %s", paddockScheduler, err, out)
	}
	return nil
}

// setArg sets an argument of the plugin.
func setArg(config map[string]any, name string, value any) error {
	profiles, _, err := unstructured.NestedSlice(config, "profiles")
	if err != nil || len(profiles) != 1 {
		return fmt.Errorf("deploy/scheduler/config.yaml has %d profiles, expected one: %w", len(profiles), err)
	}
	profile, is := profiles[0].(map[string]any)
	plugins, _, err := unstructured.NestedSlice(profile, "pluginConfig")
	if !is || err != nil || len(plugins) != 1 {
		return fmt.Errorf("deploy/scheduler/config.yaml has the arguments of %d plugins, expected one: %w", len(plugins), err)
	}
	plugin, is := plugins[0].(map[string]any)
	if !is {
		return errors.New("deploy/scheduler/config.yaml: pluginConfig has no object")
	}
	if err := unstructured.SetNestedField(plugin, value, "args", name); err != nil {
		return err
	}
	profile["pluginConfig"] = plugins
	config["profiles"] = profiles
	return nil
}

// runPaddock runs the load under the scheduler that knows the nodes.
func (c *cluster) runPaddock(ctx context.Context) error {
	first, err := c.makeScheduler(ctx, c.schedulerSource())
	if err != nil {
		return err
	}
	if c.then != "" {
		other, err := c.makeScheduler(ctx, c.then)
		if err != nil {
			return err
		}
		c.changes = &changes{cluster: c, first: first, other: other, placements: c.placements}
	}
	if err := c.startPaddock(ctx, first); err != nil {
		return err
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	defer signal.Stop(asked)
	enough, placed := context.WithCancel(ctx)
	defer placed()
	go func() {
		select {
		case <-asked:
			placed()
		case <-enough.Done():
		}
	}()
	work := load.Config{
		Client: c.client, Namespace: "load-paddock", Scheduler: paddockScheduler, Templates: c.templates, Placements: c.placements,
		Most: c.most, Enough: enough.Done(), Capacity: c.capacity, Fill: c.fill, Seed: c.seed, Say: say,
	}
	if c.online != nil {
		work.Once = c.templates.Shuffled(rand.New(rand.NewPCG(c.seed, 2)))
	}
	j, err := c.judged(ctx, work)
	if err != nil {
		return err
	}
	fmt.Print(j)
	if c.changes != nil {
		fmt.Print(c.changes)
		err = c.changes.check()
	}
	return errors.Join(err, j.check(), j.zero(), c.compare(j), c.plane.Kill(first.program))
}

// rejections describes how many answers of nodes have been rejections in a running load.
func (c *cluster) rejections(ctx context.Context, before hollow.Status) string {
	status, err := c.hollow.status(ctx)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("; nodes rejected %d times", status.Rejected-before.Rejected)
}

// perMille is the number of placements per thousand that a fault may spoil.
const perMille = 1

// zero checks what must be true under this scheduler: no pod is rejected, except for a few that are
// rejected because of faults that the scheduler could not see.
func (j *judgement) zero() error {
	var errs []error
	for _, t := range j.unexcused {
		errs = append(errs, fmt.Errorf("%s rejected pod %s (%s): %s", t.Node, t.Pod, t.UID, t.Error))
	}
	for kind, n := range j.excused {
		if 1000*n > perMille*j.Bound {
			errs = append(errs, fmt.Errorf("%d of %d placements were rejected because of fault %s, more than %d in 1000", n, j.Bound, kind, perMille))
		}
	}
	if j.Lost > 0 {
		errs = append(errs, fmt.Errorf("%d pods are bound and do not run", j.Lost))
	}
	return errors.Join(errs...)
}
