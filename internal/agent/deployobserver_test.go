package agent

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestDeployedObserver checks that the observing agent accepts its configuration, that it writes
// nothing on the node and needs no runtime, and that it sees of the kubelet's directory only what
// it reads.
func TestDeployedObserver(t *testing.T) {
	files, set := object[v1.ConfigMap](t, "observe.yaml", 3), object[appsv1.DaemonSet](t, "observe.yaml", 4)
	c, err := ReadConfig("agent.yaml", []byte(files.Data["agent.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	c.NodeName = "n" // an argument of the DaemonSet
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	if c.Decides != DecidesKubelet || !c.Publish {
		t.Errorf("decides: %s, publish: %t", c.Decides, c.Publish)
	}
	same(t, "address, which kubectl paddock asks", c.Listen, DefaultConfig().Listen)
	spec := set.Spec.Template.Spec
	same(t, "arguments", fmt.Sprint(spec.Containers[0].Args), "[agent --config /etc/paddock/agent.yaml --node-name=$(NODE_NAME)]")
	for _, m := range spec.Containers[0].VolumeMounts {
		if !m.ReadOnly {
			t.Errorf("%s is writable", m.MountPath)
		}
	}
	mount, volume := mountOf(t, spec, c.Kubelet.Dir)
	same(t, "the kubelet's directory", mount.MountPath+" "+volume.HostPath.Path, DefaultConfig().Kubelet.Dir+" "+DefaultConfig().Kubelet.Dir)
	covered := map[string]bool{}
	for _, m := range spec.Containers[0].VolumeMounts {
		if m.Name == "covered" {
			covered[strings.TrimPrefix(m.MountPath, c.Kubelet.Dir+"/")] = true
		}
	}
	if !covered["pods"] || !covered["pki"] || !covered["plugins"] || len(covered) != 3 {
		t.Errorf("covered are %v", covered)
	}
	for _, name := range stateFiles() {
		if first, _, _ := strings.Cut(name, "/"); covered[first] {
			t.Errorf("%s is covered, and read", name)
		}
	}
	account, role := object[v1.ServiceAccount](t, "observe.yaml", 0), object[rbacv1.ClusterRole](t, "observe.yaml", 1)
	binding := object[rbacv1.ClusterRoleBinding](t, "observe.yaml", 2)
	same(t, "role", binding.RoleRef.Kind+" "+binding.RoleRef.Name, role.Kind+" "+role.Name)
	same(t, "subjects", fmt.Sprint(binding.Subjects), fmt.Sprint([]rbacv1.Subject{{Kind: account.Kind, Name: account.Name, Namespace: account.Namespace}}))
	same(t, "account", spec.ServiceAccountName, account.Name)
	same(t, "what it may ask a kubelet", fmt.Sprint(role.Rules[0]), fmt.Sprint(rbacv1.PolicyRule{
		Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes/pods", "nodes/configz", "nodes/metrics"},
	}))
}
