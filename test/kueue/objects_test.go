package kueue

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/util/tas"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/workloads.json")

const workloadsFile = "testdata/workloads.json"

// recorded is a workload in one version, with the numbers of pods by domain of its pod set.
type recorded struct {
	Name    string
	Domains map[string]int64
	Object  json.RawMessage
}

// workload returns a workload with reserved quota, a pending check, and a topology assignment.
func workload(levels []string, domains ...tas.TopologyDomainAssignment) *v1beta2.Workload {
	now, count := metav1.NewTime(time.Unix(1e9, 0).UTC()), int32(0)
	for _, d := range domains {
		count += d.Count
	}
	amounts, usage := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("1Gi")}, corev1.ResourceList{}
	for name, q := range amounts {
		q.Mul(int64(count))
		usage[name] = q
	}
	a := v1beta2.PodSetAssignment{
		Name: "main", Count: &count, Flavors: map[corev1.ResourceName]v1beta2.ResourceFlavorReference{"cpu": "default", "memory": "default"}, ResourceUsage: usage,
		TopologyAssignment: tas.V1Beta2From(&tas.TopologyAssignment{Levels: levels, Domains: domains}),
	}
	return &v1beta2.Workload{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: "Workload"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "job", UID: "uid-job", ResourceVersion: "7", Generation: 1, CreationTimestamp: now},
		Spec: v1beta2.WorkloadSpec{Active: ptr.To(true), QueueName: "queue", PodSets: []v1beta2.PodSet{{
			Name: "main", Count: count, TopologyRequest: &v1beta2.PodSetTopologyRequest{Required: ptr.To(levels[len(levels)-1])},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{
				{Name: "main", Image: "example.invalid/app:1", Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts}},
			}}},
		}}},
		Status: v1beta2.WorkloadStatus{
			Conditions: []metav1.Condition{{Type: v1beta2.WorkloadQuotaReserved, Status: metav1.ConditionTrue, Reason: "QuotaReserved", Message: "Quota reserved", LastTransitionTime: now}},
			Admission:  &v1beta2.Admission{ClusterQueue: "queue", PodSetAssignments: []v1beta2.PodSetAssignment{a}},
			AdmissionChecks: []v1beta2.AdmissionCheckState{
				{Name: "fleet", State: v1beta2.CheckStatePending, LastTransitionTime: now, Message: "Reset to Pending after eviction. Previously: Retry", RetryCount: ptr.To[int32](1)},
				{Name: "other", State: v1beta2.CheckStateReady, LastTransitionTime: now, Message: "done", PodSetUpdates: []v1beta2.PodSetUpdate{{Name: "main", Labels: map[string]string{"a": "b"}}}},
			},
		},
	}
}

// workloads returns the workloads of the file, as Kueue makes them now.
func workloads(t *testing.T) (all []recorded) {
	t.Helper()
	domain := func(count int32, values ...string) tas.TopologyDomainAssignment {
		return tas.TopologyDomainAssignment{Values: values, Count: count}
	}
	for name, w := range map[string]*v1beta2.Workload{
		"one node":      workload([]string{corev1.LabelHostname}, domain(2, "node-1")),
		"several nodes": workload([]string{corev1.LabelHostname}, domain(2, "node-1.rack"), domain(2, "node-2.rack"), domain(1, "node-30.rack")),
		"racks":         workload([]string{"block", "rack"}, domain(3, "b1", "r1"), domain(1, "b1", "r2")),
	} {
		domains := map[string]int64{}
		for d := range tas.InternalSeqFrom(w.Status.Admission.PodSetAssignments[0].TopologyAssignment) {
			domains[fmt.Sprint(d.Values)] = int64(d.Count)
		}
		var old v1beta1.Workload
		if err := old.ConvertFrom(w); err != nil {
			t.Fatal(err)
		}
		old.TypeMeta = metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "Workload"}
		for version, object := range map[string]any{"v1beta2": w, "v1beta1": &old} {
			data, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, recorded{Name: name + ", " + version, Domains: domains, Object: data})
		}
	}
	return all
}

// TestRecorded checks that Paddock's tests read workloads in the form that Kueue gives them.
func TestRecorded(t *testing.T) {
	byName := map[string]recorded{}
	for _, r := range workloads(t) {
		byName[r.Name] = r
	}
	data, err := json.MarshalIndent(byName, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	data = append(data, '\n')
	if *rewrite {
		if err := os.WriteFile(workloadsFile, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(workloadsFile); err != nil || !bytes.Equal(old, data) {
		t.Errorf("%s is not what Kueue makes now (%v): go test . -run TestRecorded -rewrite, and then go test ./kueue -run TestKueue -rewrite in scheduler", workloadsFile, err)
	}
}
