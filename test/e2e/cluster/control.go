package cluster

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"github.com/paddock-project/paddock/test/e2e/control"
	"github.com/paddock-project/paddock/test/e2e/parts"
)

const (
	// apiInside is the address of the API server as seen from the node.
	apiInside = "10.0.2.100:6443"
	nodeIP    = "10.0.2.15"
	nodeName  = "node1"
	// The addresses of services are in QEMU's network, so that apiService, the first one, can be
	// forwarded to the API server. Nothing listens on the others: no program of the tests uses one.
	serviceAddresses, apiService = "10.0.2.112/29", "10.0.2.113:443"
)

// plane is the control plane.
type plane struct {
	// api is the port of the API server. kubelet is the port that is forwarded to the node's
	// kubelet.
	api, kubelet int
	// config is the kubeconfig of an administrator.
	config string
	// certs are the certificates of all clusters of a run. So a node that is resumed finds a
	// control plane with the same keys.
	certs *control.Authority
	dir   string
	// apiServerPath is the path of the kube-apiserver binary.
	apiServerPath string
	programs      control.Programs
	egress        net.Listener
}

// startControl starts a control plane with its files in dir. The path of dir must be short enough
// for sockets. If dir/etcd has the data of an earlier control plane, the new one continues with
// them.
func startControl(ctx context.Context, p *parts.Cluster, certs *control.Authority, dir string) (c *plane, err error) {
	c = &plane{dir: dir, certs: certs, apiServerPath: filepath.Join(p.ControlPlane, "kube-apiserver"), programs: control.Programs{Dir: dir}, config: filepath.Join(dir, "admin.conf")}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	ports, err := control.FreePorts(4)
	if err != nil {
		return c, err
	}
	c.api, c.kubelet = ports[0], ports[1]
	if err := c.makeFiles(); err != nil {
		return c, err
	}
	if c.egress, err = listenEgress(filepath.Join(dir, "egress.sock"), net.JoinHostPort(nodeIP, "10250"), c.kubelet); err != nil {
		return c, err
	}
	store, peers := control.LocalURL("http", ports[2]), control.LocalURL("http", ports[3])
	if err := c.programs.Start(ctx, p.Etcd, "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--listen-client-urls", store, "--advertise-client-urls", store,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers); err != nil {
		return c, err
	}
	if err := c.programs.Start(ctx, c.apiServerPath, c.apiServer(store)...); err != nil {
		return c, err
	}
	if err := control.AwaitAPI(ctx, c.api, c.dir); err != nil {
		return c, err
	}
	if err := c.programs.Start(ctx, filepath.Join(p.ControlPlane, "kube-controller-manager"), "--kubeconfig", filepath.Join(dir, "controllers.conf"),
		"--secure-port=0", "--leader-elect=false", "--use-service-account-credentials", "--root-ca-file", c.certs.File("ca.crt"),
		"--service-account-private-key-file", c.certs.File("sa.key")); err != nil {
		return c, err
	}
	return c, c.programs.Start(ctx, filepath.Join(p.ControlPlane, "kube-scheduler"), "--kubeconfig", filepath.Join(dir, "scheduler.conf"), "--secure-port=0", "--leader-elect=false")
}

// newCerts creates the certificates for the clusters of a run, in a directory.
func newCerts(dir string) (*control.Authority, error) {
	certs, err := control.NewAuthority(dir)
	if err != nil {
		return nil, err
	}
	return certs, errors.Join(
		certs.Server("apiserver", "127.0.0.1", host(apiInside), host(apiService), "kubernetes.default.svc"),
		certs.Client("kubelet-client", "kube-apiserver-kubelet-client", "system:masters"),
		certs.Client("admin", "kubernetes-admin", "system:masters"),
		certs.Client("controllers", "system:kube-controller-manager"),
		certs.Client("scheduler", "system:kube-scheduler"),
		certs.Client("kubelet", "system:node:"+nodeName, "system:nodes"),
	)
}

// makeFiles writes the kubeconfigs and the configuration of the connection to the node.
func (c *plane) makeFiles() error {
	for _, name := range []string{"admin", "controllers", "scheduler"} {
		config, err := c.certs.Kubeconfig(name, control.LocalURL("https", c.api))
		if err := errors.Join(err, os.WriteFile(filepath.Join(c.dir, name+".conf"), config, 0o600)); err != nil {
			return err
		}
	}
	egress := `{"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration", "egressSelections": [{"name": "cluster",
		"connection": {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": "` + filepath.Join(c.dir, "egress.sock") + `"}}}}]}`
	return os.WriteFile(filepath.Join(c.dir, "egress.json"), []byte(egress), 0o600)
}

func (c *plane) apiServer(store string) []string {
	return []string{
		"--etcd-servers", store, "--bind-address", "127.0.0.1", "--secure-port", strconv.Itoa(c.api),
		"--advertise-address", nodeIP, "--endpoint-reconciler-type", "none", "--service-cluster-ip-range", serviceAddresses,
		"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction", "--client-ca-file", c.certs.File("ca.crt"),
		"--tls-cert-file", c.certs.File("apiserver.crt"), "--tls-private-key-file", c.certs.File("apiserver.key"),
		"--kubelet-client-certificate", c.certs.File("kubelet-client.crt"), "--kubelet-client-key", c.certs.File("kubelet-client.key"),
		"--kubelet-preferred-address-types", "InternalIP", "--egress-selector-config-file", filepath.Join(c.dir, "egress.json"),
		"--service-account-issuer", "https://kubernetes.default.svc.cluster.local", "--service-account-key-file", c.certs.File("sa.pub"),
		"--service-account-signing-key-file", c.certs.File("sa.key"),
	}
}

func host(address string) string { return netip.MustParseAddrPort(address).Addr().String() }

// stop ends all programs. It may be called again.
func (c *plane) stop() error {
	var err error
	if c.egress != nil {
		err, c.egress = c.egress.Close(), nil
	}
	return errors.Join(err, c.programs.Stop())
}
