package chart

import (
	"os"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// everything are values that make every object of the chart.
const everything = `scheduler: {enabled: true}
quiet: {enabled: true}
requiredPlugins: {enabled: true}
rbac: {kubectl: {create: true, subjects: [{kind: Group, name: operators}]}}
priorityClass: {create: true, name: paddock}
agent: {listen: ":9925"}
podMonitor: {enabled: true}
publish: {nodeResourceTopology: true}
tests: {observe: true}
`

// TestUninstall checks that Helm removes every object of the chart, and that the page names what is
// left: directories of nodes to which a container writes, labels that choose nodes, and Leases.
func TestUninstall(t *testing.T) {
	text, err := os.ReadFile("../../deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## What an uninstall leaves\n")
	section, _, found := strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("deploy/README.md has no section about what an uninstall leaves")
	}
	var values map[string]any
	if err := yaml.Unmarshal([]byte(everything), &values); err != nil {
		t.Fatal(err)
	}
	all, _ := rendered(t, values)
	if len(all) < 35 || len(all.of("RuntimeClass")) != 0 {
		t.Errorf("%d objects: want all of the chart, and no RuntimeClass", len(all))
	}
	for key, object := range all {
		if strings.Contains(string(object), "helm.sh/resource-policy") {
			t.Errorf("%s is kept: name it on the page", key)
		}
	}
	if _, err := os.Stat(directory + "/crds"); err == nil {
		t.Error("Helm does not remove what is in crds/")
	}
	left := []string{}
	for _, name := range all.of("DaemonSet") {
		left = append(left, writable(as[appsv1.DaemonSet](t, all, "DaemonSet "+name).Spec.Template.Spec)...)
	}
	config := string(all["ConfigMap paddock-scheduler-config"])
	left = append(left, regexp.MustCompile(`resourceName: ([a-z-]+)`).FindStringSubmatch(config)[1], "paddock-duties",
		"paddock-project.github.io/mode-", "paddock-node-", "paddock-project.github.io/quiet-")
	if len(left) < 8 {
		t.Errorf("only %q can be left", left)
	}
	for _, l := range left {
		if !strings.Contains(section, l) {
			t.Errorf("the page does not name %s", l)
		}
	}
}

// kernels are directories whose files are the kernel's or the runtime's. What is written there is
// written back, or ends with the containers.
var kernels = regexp.MustCompile(`^/(proc|sys|var/run/nri|etc/default|etc/sysconfig)`)

// writable returns the directories of the node to which the containers of a pod write.
func writable(spec v1.PodSpec) (paths []string) {
	for _, v := range spec.Volumes {
		for _, m := range spec.Containers[0].VolumeMounts {
			if v.HostPath != nil && m.Name == v.Name && !m.ReadOnly && !kernels.MatchString(v.HostPath.Path) {
				paths = append(paths, v.HostPath.Path)
			}
		}
	}
	return paths
}
