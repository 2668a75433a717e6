package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paddock-project/paddock/internal/testing/clustertest"
)

// writeCluster writes cluster.json in the format of kubectl get -o json. The input has lines of
// these forms:
//
//	node NAME zone=ZONE
//	pod NAME cpus=N app=APP [on=NODE] [apart=KEY] [spread=KEY] [daemon] [space=NAMESPACE]
//
// The options apart and spread are required anti-affinity to pods of the same app, and topology
// spread of these pods, over the nodes' label KEY. Nodes have 7 CPUs for pods: 3 and 4 on their
// NUMA nodes.
func writeCluster(t *testing.T, d *datadriven.TestData) {
	k := clustertest.New(t, 4)
	items := []any{k.Object}
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		options := map[string]string{}
		for _, w := range words[2:] {
			key, value, _ := strings.Cut(w, "=")
			options[key] = value
		}
		if words[0] == "node" {
			o, p := k.Node(words[1])
			o.Labels[v1.LabelTopologyZone] = options["zone"]
			items = append(items, o, p)
			continue
		}
		items = append(items, podOf(words[1], options))
	}
	data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("cluster.json", data, 0o666); err != nil {
		t.Fatal(err)
	}
}

func podOf(name string, options map[string]string) *v1.Pod {
	pod := clustertest.Pod(name, options["on"], options["cpus"])
	if space, has := options["space"]; has {
		pod.Namespace = space
	}
	pod.Labels = map[string]string{"app": options["app"]}
	same := &metav1.LabelSelector{MatchLabels: pod.Labels}
	if key, has := options["apart"]; has {
		pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: key, LabelSelector: same}},
		}}
	}
	if key, has := options["spread"]; has {
		pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: same}}
	}
	if _, has := options["daemon"]; has {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: new(true)}}
	}
	return pod
}
