package podspec

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"
)

// workload is what an object has to say about pods: one pod, or a template and how many
// pods of it run at once.
type workload struct {
	pod *v1.Pod

	meta     *metav1.ObjectMeta
	template *v1.PodTemplateSpec
	count    int64
	first    int64 // the number in the first pod's name
}

// decodeWorkload decodes an object of a kind that has pods, strictly. It returns nil
// and no error for every other kind.
func decodeWorkload(id identity, raw []byte) (*workload, error) {
	switch id.APIVersion + " " + id.Kind {
	case "v1 Pod":
		pod := new(v1.Pod)
		return &workload{pod: pod}, strict(raw, pod)
	case "v1 ReplicationController":
		var o v1.ReplicationController
		err := strict(raw, &o)
		return controller(&o.ObjectMeta, o.Spec.Template, o.Spec.Replicas), err
	case "apps/v1 Deployment":
		var o appsv1.Deployment
		err := strict(raw, &o)
		return controller(&o.ObjectMeta, &o.Spec.Template, o.Spec.Replicas), err
	case "apps/v1 ReplicaSet":
		var o appsv1.ReplicaSet
		err := strict(raw, &o)
		return controller(&o.ObjectMeta, &o.Spec.Template, o.Spec.Replicas), err
	case "apps/v1 StatefulSet":
		var o appsv1.StatefulSet
		err := strict(raw, &o)
		w := controller(&o.ObjectMeta, &o.Spec.Template, o.Spec.Replicas)
		if o.Spec.Ordinals != nil {
			w.first = int64(o.Spec.Ordinals.Start)
		}
		return w, err
	case "apps/v1 DaemonSet":
		var o appsv1.DaemonSet
		err := strict(raw, &o)
		return controller(&o.ObjectMeta, &o.Spec.Template, nil), err
	case "batch/v1 Job":
		var o batchv1.Job
		err := strict(raw, &o)
		return job(&o.ObjectMeta, &o.Spec), err
	case "batch/v1 CronJob":
		var o batchv1.CronJob
		err := strict(raw, &o)
		return job(&o.ObjectMeta, &o.Spec.JobTemplate.Spec), err
	}
	return nil, nil
}

func controller(meta *metav1.ObjectMeta, template *v1.PodTemplateSpec, replicas *int32) *workload {
	w := &workload{meta: meta, template: template, count: 1}
	if replicas != nil {
		w.count = int64(*replicas)
	}
	return w
}

func job(meta *metav1.ObjectMeta, spec *batchv1.JobSpec) *workload {
	w := controller(meta, &spec.Template, spec.Parallelism)
	if spec.Completions != nil {
		w.count = min(w.count, int64(*spec.Completions)) // no more run than have to complete
	}
	return w
}

// check says what keeps the workload from being pods.
func (w *workload) check() error {
	switch {
	case w.pod != nil && w.pod.Name == "" && w.pod.GenerateName == "":
		return errors.New("metadata.name: a pod needs a name")
	case w.pod != nil:
		return nil
	case w.meta.Name == "":
		return errors.New("metadata.name: the pods are named after it, give one")
	case w.template == nil:
		return errors.New("spec.template: there is no pod template")
	case w.count < 0:
		return fmt.Errorf("it asks for %d pods, which is less than none", w.count)
	case w.first < 0:
		return fmt.Errorf("spec.ordinals.start: %d is negative", w.first)
	}
	return nil
}

// size is how many pods there are.
func (w *workload) size() int64 {
	if w.pod != nil {
		return 1
	}
	return w.count
}

// pods makes the pods. Those of a controller get the names "web-0", "web-1", …: as a
// StatefulSet's are, and more readable than the others' would be.
func (w *workload) pods(kind string) []*v1.Pod {
	if w.pod != nil {
		return []*v1.Pod{finish(w.pod)}
	}
	namespace := orDefault(w.meta.Namespace)
	content := digest(kind, namespace, w.meta.Name, w.template)
	pods := make([]*v1.Pod, 0, w.count)
	for i := range w.count {
		pod := &v1.Pod{
			ObjectMeta: *w.template.ObjectMeta.DeepCopy(),
			Spec:       w.template.Spec,
		}
		pod.Namespace = namespace
		pod.Name = fmt.Sprintf("%s-%d", w.meta.Name, w.first+i)
		pod.UID = types.UID(digest(content, pod.Name))
		pods = append(pods, pod)
	}
	return pods
}

// finish gives a pod the namespace, the name and the UID that the API server would
// have given it.
func finish(pod *v1.Pod) *v1.Pod {
	pod.Namespace = orDefault(pod.Namespace)
	if pod.Name == "" {
		pod.Name = pod.GenerateName + digest(pod.Namespace, pod.GenerateName, pod.Spec)[:5]
	}
	pod.UID = types.UID(UID(pod))
	return pod
}

func orDefault(namespace string) string {
	if namespace == "" {
		return metav1.NamespaceDefault
	}
	return namespace
}

// strict decodes JSON that has to have exactly the fields that the object has.
func strict(raw []byte, into any) error {
	unknown, err := kjson.UnmarshalStrict(raw, into)
	if err != nil {
		if at := findQuantity(raw, parseError); at != nil {
			return at
		}
		var mismatch *json.UnmarshalTypeError
		if errors.As(err, &mismatch) {
			return fmt.Errorf("%s: it is %s and should be %s", mismatch.Field, withArticle(mismatch.Value), jsonType(mismatch.Type))
		}
		return err
	}
	if len(unknown) == 0 {
		return nil
	}
	texts := make([]string, len(unknown))
	for i, u := range unknown {
		texts[i] = u.Error()
	}
	return errors.New(strings.Join(texts, "; "))
}

func withArticle(value string) string {
	kind, _, _ := strings.Cut(value, " ") // a number may come with its digits
	switch kind {
	case "array":
		return "a list"
	case "object":
		return "an object"
	}
	return "a " + kind
}

// jsonType is what is to be written for a Go type.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.String:
		return "a string; write it in quotes"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return "a number in the range of " + t.String()
	}
}

// podVersion is the version of every kind that has pods.
var podVersion = map[string]string{
	"Pod": "v1", "ReplicationController": "v1",
	"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1",
	"Job": "batch/v1", "CronJob": "batch/v1",
}

// hasNoPods tells of the kinds of Kubernetes itself that run no pods and often stand
// in a file beside those that do. Of custom resources that cannot be known.
func hasNoPods(id identity) bool {
	group, _, found := strings.Cut(id.APIVersion, "/")
	if !found {
		group = ""
	}
	switch group {
	case "":
		return slices.Contains([]string{
			"ConfigMap", "Endpoints", "Event", "LimitRange", "Namespace", "Node", "PersistentVolume",
			"PersistentVolumeClaim", "PodTemplate", "ResourceQuota", "Secret", "Service", "ServiceAccount",
		}, id.Kind)
	case "apps":
		return id.Kind == "ControllerRevision"
	case "policy", "autoscaling":
		return true
	}
	return strings.HasSuffix(group, ".k8s.io") && !strings.Contains(group, ".x-k8s.io")
}

func unknownKind(id identity) error {
	if id.Kind == "" || id.APIVersion == "" {
		return errors.New("it is no Kubernetes object: apiVersion and kind are needed")
	}
	if version, ok := podVersion[id.Kind]; ok {
		return fmt.Errorf("apiVersion %q of kind %s is not known, write %s", id.APIVersion, id.Kind, version)
	}
	kinds := make([]string, 0, len(podVersion))
	for kind := range podVersion {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return fmt.Errorf("kind %s of apiVersion %q is not known, and so not whether it has pods; what is read: %s and lists of these",
		id.Kind, id.APIVersion, strings.Join(kinds, ", "))
}
