package silencer

import (
	"bytes"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/node/quiet"
)

func manifest(t *testing.T, name string, to any) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/quiet/" + name)
	must(t, err)
	must(t, yaml.UnmarshalStrict(bytes.TrimSpace(text), to))
}

// TestDeploy checks that the configuration of deploy/quiet is valid, that everything it names is
// mounted, and that the files of the kernel that are written are in writable mounts, each of them
// in the smallest directory.
func TestDeploy(t *testing.T) {
	var config v1.ConfigMap
	var set appsv1.DaemonSet
	manifest(t, "configmap.yaml", &config)
	manifest(t, "daemonset.yaml", &set)
	c, err := ReadConfig("quiet.yaml", []byte(config.Data["quiet.yaml"]))
	must(t, err)
	must(t, c.Check())
	container := set.Spec.Template.Spec.Containers[0]
	mounted := func(name string) *v1.VolumeMount {
		var found *v1.VolumeMount
		for i := range container.VolumeMounts {
			if m := &container.VolumeMounts[i]; strings.HasPrefix(name, m.MountPath+"/") && (found == nil || len(m.MountPath) > len(found.MountPath)) {
				found = m
			}
		}
		return found
	}
	for _, name := range slices.Concat(c.PodResources, []string{c.State, c.Kubelet.TokenFile, c.APIServer.CAFile, c.Irqbalance.Sockets + "/x"}) {
		if m := mounted(name); m == nil || m.ReadOnly != (name != c.State) {
			t.Errorf("%s: in the mount %+v", name, m)
		}
	}
	for _, name := range []string{
		"proc/irq/24/smp_affinity_list", quiet.NewInterruptsFile, quiet.NewQueuesFile, quiet.WorkqueuesFile, quiet.LatencyFile(1),
		quiet.FrequencyFile("policy0", quiet.Governor), "sys/fs/cgroup/kubepods.slice/cpuset.cpus.exclusive",
	} {
		if m := mounted(path.Join(c.Root, name)); m == nil || m.ReadOnly {
			t.Errorf("%s: in the mount %+v", name, m)
		}
	}
	for _, name := range []string{"proc/sys/kernel/random/boot_id", "sys/class/net/eth0/queues"} {
		if m := mounted(path.Join(c.Root, name)); m == nil || !m.ReadOnly {
			t.Errorf("%s: in the mount %+v", name, m)
		}
	}
	// Read-only does not apply to resctrl, which is mounted below.
	if m := mounted(path.Join(c.Root, "sys/fs/resctrl/schemata")); m == nil || m.MountPath != "/host/sys/fs" || m.RecursiveReadOnly != nil || !set.Spec.Template.Spec.HostPID {
		t.Errorf("resctrl: in the mount %+v", m)
	}
	security := container.SecurityContext
	if got := security.Capabilities.Add; !slices.Equal(got, []v1.Capability{"DAC_OVERRIDE", "NET_ADMIN", "SYS_ADMIN"}) || *security.Privileged || !slices.Equal(security.Capabilities.Drop, []v1.Capability{"ALL"}) {
		t.Errorf("capabilities %v, privileged %v", got, *security.Privileged)
	}
	if probe := container.LivenessProbe.HTTPGet; "127.0.0.1:"+probe.Port.String() != c.Listen {
		t.Errorf("the probe asks %s, and it listens on %s", probe.Port.String(), c.Listen)
	}
}
