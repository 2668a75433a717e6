// Package plane runs a control plane without nodes: etcd, an API server and a controller manager on
// loopback, with their files in one directory. Schedulers are started beside it.
package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/paddock-project/paddock/test/cluster/hollow"
	"github.com/paddock-project/paddock/test/e2e/control"
	"github.com/paddock-project/paddock/test/e2e/parts"
)

// Plane is a running control plane. It must not be used by several goroutines.
type Plane struct {
	control.Programs
	ctx      context.Context //nolint:containedctx // of every program, also of one that is started again
	programs *parts.Cluster
	certs    *control.Authority
	port     int
	store    string
}

// controllers lists the controllers that a fleet of hollow nodes needs. The others would only read
// every pod.
const controllers = "namespace-controller,serviceaccount-controller,garbage-collector-controller,pod-garbage-collector-controller," +
	"node-lifecycle-controller,taint-eviction-controller,disruption-controller,replicaset-controller,clusterrole-aggregation-controller"

// users has the users and groups of the API server's clients, by the name of their kubeconfig.
var users = map[string][2]string{
	"admin": {"kubernetes-admin", "system:masters"}, "controllers": {"system:kube-controller-manager", ""}, "scheduler": {"system:kube-scheduler", ""},
	"paddock-scheduler": {"system:serviceaccount:paddock:paddock-scheduler", "system:serviceaccounts"},
}

// Start starts a control plane in dir.
func Start(ctx context.Context, programs *parts.Cluster, dir string) (p *Plane, err error) {
	p = &Plane{Programs: control.Programs{Dir: dir}, ctx: ctx, programs: programs}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Stop())
		}
	}()
	ports, err := control.FreePorts(3)
	if err != nil {
		return p, err
	}
	p.port, p.store = ports[0], control.LocalURL("http", ports[1])
	if err := p.makeFiles(); err != nil {
		return p, err
	}
	peers := control.LocalURL("http", ports[2])
	if err := p.Programs.Start(ctx, programs.Etcd, "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--quota-backend-bytes", strconv.Itoa(4<<30),
		"--auto-compaction-retention", "2m", "--listen-client-urls", p.store, "--advertise-client-urls", p.store,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers); err != nil {
		return p, err
	}
	if err := p.startAPI(ctx); err != nil {
		return p, err
	}
	return p, p.StartControllers(ctx, controllers)
}

// StartControllers starts a controller manager with these controllers, beside the one of Start.
func (p *Plane) StartControllers(ctx context.Context, controllers string) error {
	return p.Programs.Start(ctx, p.program("kube-controller-manager"), "--kubeconfig", p.Kubeconfig("controllers"), "--controllers", controllers,
		"--secure-port=0", "--leader-elect=false", "--use-service-account-credentials", "--root-ca-file", p.certs.File("ca.crt"),
		"--service-account-private-key-file", p.certs.File("sa.key"), "--node-monitor-grace-period", hollow.GracePeriod.String(),
		"--kube-api-qps", "500", "--kube-api-burst", "1000", "--concurrent-gc-syncs", "4")
}

// Kubeconfig returns the path of a client's kubeconfig: admin, controllers, scheduler or
// paddock-scheduler.
func (p *Plane) Kubeconfig(user string) string { return filepath.Join(p.Dir, user+".conf") }

// Kubectl returns a command that runs kubectl as an administrator.
func (p *Plane) Kubectl(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, p.program("kubectl"), append([]string{"--kubeconfig", p.Kubeconfig("admin")}, args...)...)
}

// RestartAPI kills the API server, starts it again, and waits until it is ready.
func (p *Plane) RestartAPI() error {
	if err := p.Kill(p.program("kube-apiserver")); err != nil {
		return err
	}
	return p.startAPI(p.ctx)
}

// StartScheduler starts Kubernetes' own scheduler with a configuration.
func (p *Plane) StartScheduler(ctx context.Context, config string) error {
	return p.Programs.Start(ctx, p.program("kube-scheduler"), "--config", config, "--secure-port=0")
}

// KillScheduler kills Kubernetes' own scheduler.
func (p *Plane) KillScheduler() error { return p.Kill(p.program("kube-scheduler")) }

func (p *Plane) program(name string) string { return filepath.Join(p.programs.ControlPlane, name) }

func (p *Plane) makeFiles() (err error) {
	if p.certs, err = control.NewAuthority(p.Dir); err != nil {
		return err
	}
	if err := p.certs.Server("apiserver", "127.0.0.1", "kubernetes.default.svc"); err != nil {
		return err
	}
	for name, who := range users {
		var groups []string
		if who[1] != "" {
			groups = []string{who[1]}
		}
		if err := p.certs.Client(name, who[0], groups...); err != nil {
			return err
		}
		config, err := p.certs.Kubeconfig(name, control.LocalURL("https", p.port))
		if err := errors.Join(err, os.WriteFile(p.Kubeconfig(name), config, 0o600)); err != nil {
			return fmt.Errorf("kubeconfig of %s: %w", name, err)
		}
	}
	return nil
}

func (p *Plane) startAPI(ctx context.Context) error {
	if err := p.Programs.Start(ctx, p.program("kube-apiserver"),
		"--etcd-servers", p.store, "--bind-address", "127.0.0.1", "--secure-port", strconv.Itoa(p.port),
		"--advertise-address", "10.0.2.15", "--endpoint-reconciler-type", "none", "--service-cluster-ip-range", "10.96.0.0/16",
		"--authorization-mode", "RBAC", "--client-ca-file", p.certs.File("ca.crt"),
		"--tls-cert-file", p.certs.File("apiserver.crt"), "--tls-private-key-file", p.certs.File("apiserver.key"),
		"--service-account-issuer", "https://kubernetes.default.svc.cluster.local", "--service-account-key-file", p.certs.File("sa.pub"),
		"--service-account-signing-key-file", p.certs.File("sa.key"), "--event-ttl", "10m",
		// The clients are the load, so none of them must wait for its share.
		"--enable-priority-and-fairness=false", "--max-requests-inflight", "3000", "--max-mutating-requests-inflight", "2000",
	); err != nil {
		return err
	}
	return control.AwaitAPI(ctx, p.port, p.Dir)
}
