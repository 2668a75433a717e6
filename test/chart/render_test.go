package chart

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const (
	directory = "../../deploy/chart"
	base      = "../../deploy/base"
	beside    = "../../deploy/scheduler"
	namespace = "paddock"
)

// objects maps "Kind name" to the text of the object, for a release or a kustomization.
type objects map[string][]byte

// install returns what "helm install" would send with these values.
func install(values map[string]any) (*release.Release, error) {
	loaded, err := loader.Load(directory)
	if err != nil {
		return nil, err
	}
	i := action.NewInstall(action.NewConfiguration())
	i.DryRunStrategy = action.DryRunClient
	i.ReleaseName, i.Namespace = "paddock", namespace
	if i.KubeVersion, err = common.ParseKubeVersion("v1.37.2"); err != nil { // Without a cluster, Helm knows none.
		return nil, err
	}
	made, err := i.Run(loaded, values)
	if err != nil {
		return nil, err
	}
	r, is := made.(*release.Release)
	if !is {
		return nil, fmt.Errorf("a release is a %T", made)
	}
	return r, nil
}

// rendered calls install with valid values. The objects include the hooks.
func rendered(t *testing.T, values map[string]any) (objects, *release.Release) {
	t.Helper()
	made, err := install(values)
	if err != nil {
		t.Fatal(err)
	}
	text := made.Manifest
	for _, h := range made.Hooks {
		text += "\n---\n" + h.Manifest
	}
	return read(t, text), made
}

// values reads the values of a file in testdata. If name is empty, there are none.
func values(t *testing.T, name string) map[string]any {
	t.Helper()
	v := map[string]any{}
	if name == "" {
		return v
	}
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if v, err = loader.LoadValues(bytes.NewReader(data)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// read parses a stream of YAML documents. Each is parsed strictly as the Kubernetes type of its
// kind.
func read(t *testing.T, text string) objects {
	t.Helper()
	all := objects{}
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		var head struct {
			APIVersion, Kind string
			Metadata         struct{ Name, Namespace string }
		}
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		if head.Kind == "" { // A comment.
			continue
		}
		typed := typeOf(head.APIVersion, head.Kind)
		if typed == nil {
			t.Fatalf("%s %s: the test knows no such type", head.APIVersion, head.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(document), typed); err != nil {
			t.Errorf("%s %s: %v", head.Kind, head.Metadata.Name, err)
		}
		key := head.Kind + " " + head.Metadata.Name
		if _, twice := all[key]; twice {
			t.Errorf("%s is listed twice", key)
		}
		all[key] = []byte(document)
	}
	return all
}

func typeOf(apiVersion, kind string) any {
	switch apiVersion + " " + kind {
	case "v1 Namespace":
		return &v1.Namespace{}
	case "apiextensions.k8s.io/v1 CustomResourceDefinition":
		return &apiextensionsv1.CustomResourceDefinition{}
	case "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy":
		return &admissionv1.ValidatingAdmissionPolicy{}
	case "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding":
		return &admissionv1.ValidatingAdmissionPolicyBinding{}
	case "v1 ServiceAccount":
		return &v1.ServiceAccount{}
	case "v1 ConfigMap":
		return &v1.ConfigMap{}
	case "v1 Pod":
		return &v1.Pod{}
	case "policy/v1 PodDisruptionBudget":
		return &policyv1.PodDisruptionBudget{}
	case "apps/v1 Deployment":
		return &appsv1.Deployment{}
	case "apps/v1 DaemonSet":
		return &appsv1.DaemonSet{}
	case "rbac.authorization.k8s.io/v1 ClusterRole":
		return &rbacv1.ClusterRole{}
	case "rbac.authorization.k8s.io/v1 ClusterRoleBinding":
		return &rbacv1.ClusterRoleBinding{}
	case "rbac.authorization.k8s.io/v1 Role":
		return &rbacv1.Role{}
	case "rbac.authorization.k8s.io/v1 RoleBinding":
		return &rbacv1.RoleBinding{}
	case "scheduling.k8s.io/v1 PriorityClass":
		return &schedulingv1.PriorityClass{}
	case "monitoring.coreos.com/v1 PodMonitor":
		return &monitoringv1.PodMonitor{}
	}
	return nil
}

// as returns an object of a release.
func as[T any](t *testing.T, all objects, key string) T {
	t.Helper()
	var o T
	if err := yaml.UnmarshalStrict(all[key], &o); err != nil || all[key] == nil {
		t.Fatalf("%s: %v", key, err)
	}
	return o
}

// of returns the names of the objects of a kind.
func (all objects) of(kind string) []string {
	var names []string
	for key := range all {
		if name, is := strings.CutPrefix(key, kind+" "); is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// text formats all objects in the order of their names. It parses the files in ConfigMaps, so that
// their order and their comments do not matter.
func (all objects) text(t *testing.T, without func(kind string, object map[string]any)) string {
	t.Helper()
	var out strings.Builder
	keys := make([]string, 0, len(all))
	for key := range all {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		var o map[string]any
		if err := yaml.Unmarshal(all[key], &o); err != nil {
			t.Fatal(err)
		}
		kind, _, _ := strings.Cut(key, " ")
		data := inner(o, "data")
		for name, content := range data {
			var parsed any
			if text, is := content.(string); is && strings.HasSuffix(name, ".yaml") && yaml.Unmarshal([]byte(text), &parsed) == nil {
				data[name] = parsed
			}
		}
		without(kind, o)
		made, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "--- %s\n%s", key, made)
	}
	return out.String()
}
