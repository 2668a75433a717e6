package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/test/cluster/chaos"
	"github.com/paddock-project/paddock/test/cluster/hollow"
	"github.com/paddock-project/paddock/test/cluster/load"
	"github.com/paddock-project/paddock/test/cluster/plane"
	"github.com/paddock-project/paddock/test/cluster/stock"
	"github.com/paddock-project/paddock/test/e2e/parts"
)

// options are the flags of a run.
type options struct {
	nodes, placements, baseline int
	fill                        float64
	seed                        uint64
	limit, evict, most          time.Duration
	source, keep                string
	faults, scheduler, version  string
	kubelets, agents, then      string
	load                        string
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.IntVar(&o.nodes, "nodes", 200, "how many hollow nodes")
	flags.IntVar(&o.placements, "placements", 5000, "how many pods are placed")
	flags.IntVar(&o.baseline, "baseline", -1, "how many pods the default scheduler places; -1: as many, 0: none")
	flags.Float64Var(&o.fill, "fill", 0.9, "the part of the nodes' CPUs that pods request")
	flags.Uint64Var(&o.seed, "seed", 1, "of everything random")
	flags.DurationVar(&o.limit, "limit", 20*time.Minute, "the longest time for everything")
	flags.DurationVar(&o.most, "for", 0, "the longest time for placing pods under paddock-scheduler: then those that were placed are judged; 0: until all are")
	flags.DurationVar(&o.evict, "evict", 5*time.Second, "with the default scheduler, a pod that does not run that long after it was bound is evicted, and comes back; 0: never")
	flags.StringVar(&o.load, "load", loadTrace, "which nodes and pods: "+loadTrace+", the nodes of fleet.yaml and pods of a trace with up to 32 CPUs; or "+loadLarge+", NUMA nodes with 62 to 96 CPUs and pods with 8 to 96 CPUs and up to 8 GPUs; or "+loadOnline+": such pods come in a random order to as many nodes as they need largest first, none ends, and the scoring is best-fit")
	flags.StringVar(&o.faults, "chaos", "", chaosHelp())
	flags.StringVar(&o.kubelets, "kubelets", "", kubeletsHelp)
	flags.StringVar(&o.scheduler, "scheduler", "", "a paddock-scheduler that is built; default: it is built of -scheduler-source")
	flags.StringVar(&o.version, "scheduler-source", "", "the directory of Paddock's module in the version of the scheduler, to have it one version apart from the agents; default: -source")
	flags.StringVar(&o.then, "scheduler-then", "", "the directory of Paddock's module in the version of a scheduler that takes the place of the first one after a third of the placements, and gives it back after two thirds")
	flags.StringVar(&o.agents, "nodes-source", "", "the directory of Paddock's module in the version of the nodes; default: this program's")
	flags.StringVar(&o.source, "source", "../..", "the directory of Paddock's module")
	flags.StringVar(&o.keep, "logs", filepath.Join(os.TempDir(), "paddock-cluster-logs"), "the directory for logs of a run that fails")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("%q: expected only flags", flags.Arg(0))
	}
	if o.baseline < 0 {
		o.baseline = o.placements
	}
	if o.load != loadTrace && o.load != loadLarge && o.load != loadOnline {
		return o, fmt.Errorf("-load: %q: expected %s, %s or %s", o.load, loadTrace, loadLarge, loadOnline)
	}
	if o.load == loadOnline && (o.kubelets != "" || o.faults != "") {
		return o, fmt.Errorf("-load %s: leave out -kubelets and -chaos", loadOnline)
	}
	if o.nodes < 1 || o.placements < 0 || o.fill <= 0 || o.fill > 1 {
		return o, errors.New("expected at least one node, no negative number of placements, and -fill above 0 and up to 1")
	}
	return o, nil
}

// chaosHelp lists the faults.
func chaosHelp() string {
	names, what := chaos.Kinds()
	text := "faults to inject while pods come and go, separated by commas, or all:"
	for _, name := range names {
		text += "\n" + name + ": " + what[name]
	}
	return text
}

// cluster is everything that runs.
type cluster struct {
	options
	dir       string
	plane     *plane.Plane
	hollow    *hollowProcess
	client    kubernetes.Interface
	objects   rest.Interface // for PaddockNodes and PaddockMachines
	templates *load.Templates
	// online is what the pods of loadOnline are compared with. It is nil for other loads.
	online   *capacity.Result
	kinds    []*hollow.Kind
	capacity int64
	// slow is the proxy between paddock-scheduler and the API server. Nil means that there is none.
	slow *plane.Slow
	// inspect is the address at which the running scheduler shows its states. If empty, it does
	// not.
	inspect string
	// changes are the changes of the scheduler. Nil means that there are none.
	changes *changes
}

func runCluster(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("-limit %v is over", o.limit))
	defer cancel()
	dir, err := os.MkdirTemp("", "paddock-cluster")
	if err != nil {
		return err
	}
	c := &cluster{options: o, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.keepLogs())
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.start(ctx); err != nil {
		return err
	}
	return c.runs(ctx)
}

// start starts the control plane and the nodes.
func (c *cluster) start(ctx context.Context) error {
	programsOfKubelets, err := stock.Programs(c.kubelets)
	if err != nil {
		return err
	}
	programs, err := parts.ControlPlane(ctx, c.source, say)
	if err != nil {
		return err
	}
	begin := time.Now()
	if c.plane, err = plane.Start(ctx, programs, c.dir); err != nil {
		return err
	}
	say("the control plane is up after %.0f s", time.Since(begin).Seconds())
	admin := c.plane.Kubeconfig("admin")
	config, err := newConfig(admin)
	if err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if c.objects, err = objects.NewClient(config); err != nil {
		return err
	}
	fleet, pods, err := c.inputs(ctx)
	if err != nil {
		return err
	}
	if c.kinds, err = hollow.ReadKinds(fleet, c.nodes, stock.Minors(programsOfKubelets), c.load == loadOnline); err != nil {
		return err
	}
	for _, k := range c.kinds {
		c.capacity += k.Allocatable.Milli
	}
	if c.templates, err = load.ReadTemplates(pods); err != nil {
		return err
	}
	if err := c.install(ctx); err != nil {
		return err
	}
	begin = time.Now()
	program, err := c.nodesProgram(ctx)
	if err != nil {
		return err
	}
	if c.hollow, err = startHollow(ctx, c.dir, program, admin, fleet, c.load == loadOnline, c.nodes, c.kubelets); err != nil {
		return err
	}
	if err := c.awaitNodes(ctx); err != nil {
		return err
	}
	say("%d hollow nodes with %d CPUs are up after %.0f s", c.nodes, c.capacity/1000, time.Since(begin).Seconds())
	return nil
}

// stop ends everything.
func (c *cluster) stop() error {
	var errs []error
	if c.hollow != nil {
		errs = append(errs, c.hollow.stop())
	}
	if c.slow != nil {
		errs = append(errs, c.slow.Close())
	}
	if c.plane != nil {
		errs = append(errs, c.plane.Stop())
	}
	return errors.Join(errs...)
}

// keepLogs copies the logs of a run that failed.
func (c *cluster) keepLogs() error {
	logs, err := filepath.Glob(filepath.Join(c.dir, "*.log"))
	if err != nil || len(logs) == 0 {
		return err
	}
	if err := os.MkdirAll(c.keep, 0o755); err != nil {
		return err
	}
	for _, name := range logs {
		data, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(c.keep, filepath.Base(name)), data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	say("the logs are in %s", c.keep)
	return nil
}

// runs runs the load under each scheduler, and prints the results.
func (c *cluster) runs(ctx context.Context) error {
	if c.baseline > 0 {
		if err := c.runDefault(ctx); err != nil {
			return fmt.Errorf("under the default scheduler: %w", err)
		}
	}
	if c.placements > 0 {
		if err := c.runPaddock(ctx); err != nil {
			return fmt.Errorf("under %s: %w", paddockScheduler, err)
		}
	}
	return nil
}

const defaultScheduler = "default-scheduler"

// runDefault runs the load under Kubernetes' own scheduler.
func (c *cluster) runDefault(ctx context.Context) error {
	config := filepath.Join(c.dir, "scheduler.yaml")
	if err := os.WriteFile(config, []byte(schedulerConfig(c.plane.Kubeconfig("scheduler"))), 0o600); err != nil {
		return err
	}
	if err := c.plane.StartScheduler(ctx, config); err != nil {
		return err
	}
	j, err := c.judged(ctx, load.Config{
		Client: c.client, Namespace: "load-default", Scheduler: defaultScheduler, Templates: c.templates, Placements: c.baseline,
		Capacity: c.capacity, Fill: c.fill, Seed: c.seed, Evict: c.evict, Say: say,
	})
	if err != nil {
		return err
	}
	fmt.Print(j)
	return errors.Join(j.check(), c.plane.KillScheduler())
}

// schedulerConfig returns a configuration with which Kubernetes' scheduler is hardly rate limited.
func schedulerConfig(kubeconfig string) string {
	return fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 2000, burst: 4000}
leaderElection: {leaderElect: false}
`, kubeconfig)
}
