package chart

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// profiles are the strictest profiles of the Pod Security Standards under which the pods of each
// workload are admitted. The agents mount directories of the host and use its network, paddock-quiet
// writes files of the kernel, and the test of the chart asks the agent through a socket of the host.
var profiles = map[string]api.Level{
	"DaemonSet paddock":            api.LevelPrivileged,
	"DaemonSet paddock-observe":    api.LevelPrivileged,
	"DaemonSet paddock-quiet":      api.LevelPrivileged,
	"Deployment paddock-scheduler": api.LevelRestricted,
	"Deployment paddock-fleet":     api.LevelRestricted,
	"Pod paddock-test":             api.LevelPrivileged,
}

// TestPodSecurity checks the profile of every workload that is installed, with the checks of the
// admission plugin of Kubernetes 1.37, and that the namespace allows what runs in it.
func TestPodSecurity(t *testing.T) {
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := rendered(t, map[string]any{"scheduler": map[string]any{"enabled": true}, "quiet": map[string]any{"enabled": true}})
	found := map[string]bool{}
	for _, some := range []objects{kustomized(t, base), kustomized(t, beside), kustomized(t, "../../deploy/quiet"), kustomized(t, "../../deploy/fleet"), all} {
		for key, pod := range pods(t, some) {
			want, known := profiles[key]
			if !known {
				t.Errorf("%s: profiles has no such workload", key)
			}
			found[key] = true
			if got, why := strictest(checks, pod); got != want {
				t.Errorf("%s is admitted under %s, want %s: %s", key, got, want, why)
			}
		}
	}
	if len(found) != len(profiles) {
		t.Errorf("%d workloads, and profiles has %d", len(found), len(profiles))
	}
	namespace := as[v1.Namespace](t, kustomized(t, base), "Namespace "+namespace)
	if got := namespace.Labels[api.EnforceLevelLabel]; got != string(api.LevelPrivileged) {
		t.Errorf("the namespace enforces %q: the agents are admitted under %s", got, api.LevelPrivileged)
	}
}

// pods returns the pods of all workloads.
func pods(t *testing.T, all objects) map[string]v1.PodTemplateSpec {
	t.Helper()
	found := map[string]v1.PodTemplateSpec{}
	for key := range all {
		switch {
		case strings.HasPrefix(key, "DaemonSet "):
			found[key] = as[appsv1.DaemonSet](t, all, key).Spec.Template
		case strings.HasPrefix(key, "Deployment "):
			found[key] = as[appsv1.Deployment](t, all, key).Spec.Template
		case strings.HasPrefix(key, "Pod "):
			pod := as[v1.Pod](t, all, key)
			found[key] = v1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
		}
	}
	return found
}

// strictest returns the strictest profile that admits a pod, and what stricter ones have against it.
func strictest(checks policy.Evaluator, pod v1.PodTemplateSpec) (api.Level, string) {
	var why []string
	for _, level := range []api.Level{api.LevelRestricted, api.LevelBaseline} {
		result := policy.AggregateCheckResults(checks.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec))
		if result.Allowed {
			slices.Reverse(why)
			return level, strings.Join(why, "; ")
		}
		why = append(why, string(level)+": "+result.ForbiddenDetail())
	}
	return api.LevelPrivileged, strings.Join(why, "; ")
}
