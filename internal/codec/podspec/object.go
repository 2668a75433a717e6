package podspec

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/paddock-project/paddock/internal/base/malformed"
)

// workload describes the pods of an object: either one pod, or a template and the number of pods
// that run at once.
type workload struct {
	pod *v1.Pod

	meta     *metav1.ObjectMeta
	template *v1.PodTemplateSpec
	count    int64
	first    int64 // the number in the name of the first pod
}

// decodeWorkload decodes an object of a kind that has pods. For any other kind it returns nil
// without an error.
func decodeWorkload(id identity, d *decoder) (*workload, error) {
	switch id.APIVersion + " " + id.Kind {
	case "v1 Pod":
		pod := new(v1.Pod)
		return &workload{pod: pod}, d.into(pod)
	case "v1 ReplicationController":
		var o v1.ReplicationController
		err := d.into(&o)
		return controller(&o.ObjectMeta, o.Spec.Template, o.Spec.Replicas), err
	case "apps/v1 Deployment":
		var o appsv1.Deployment
		err := d.into(&o)
		return controller(&o.ObjectMeta, &o.Spec.Template, o.Spec.Replicas), err
	case "apps/v1 ReplicaSet":
		var o appsv1.ReplicaSet
		err := d.into(&o)
		return controller(&o.ObjectMeta, &o.Spec.Template, o.Spec.Replicas), err
	case "apps/v1 StatefulSet":
		var o appsv1.StatefulSet
		err := d.into(&o)
		w := controller(&o.ObjectMeta, &o.Spec.Template, o.Spec.Replicas)
		if o.Spec.Ordinals != nil {
			w.first = int64(o.Spec.Ordinals.Start)
		}
		return w, err
	case "apps/v1 DaemonSet":
		var o appsv1.DaemonSet
		err := d.into(&o)
		return controller(&o.ObjectMeta, &o.Spec.Template, nil), err
	case "batch/v1 Job":
		var o batchv1.Job
		err := d.into(&o)
		return job(&o.ObjectMeta, &o.Spec), err
	case "batch/v1 CronJob":
		var o batchv1.CronJob
		err := d.into(&o)
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
		w.count = min(w.count, int64(*spec.Completions)) // no more pods run than have to complete
	}
	return w
}

// check returns an error if the workload cannot become pods.
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

// size returns the number of pods.
func (w *workload) size() int64 {
	if w.pod != nil {
		return 1
	}
	return w.count
}

// pods returns the pods. The pods of a controller are named "web-0", "web-1", and so on, as those
// of a StatefulSet. These names are more readable than the names that other controllers generate.
func (w *workload) pods(kind string) []*v1.Pod {
	if pod := w.pod; pod != nil { // Fill in what the API server would set.
		pod.Namespace = orDefault(pod.Namespace)
		if pod.Name == "" {
			pod.Name = pod.GenerateName + digest(pod.Namespace, pod.GenerateName, pod.Spec)[:5]
		}
		pod.UID = types.UID(UID(pod))
		return []*v1.Pod{pod}
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

func orDefault(namespace string) string { return cmp.Or(namespace, metav1.NamespaceDefault) }

// decoder decodes an object.
type decoder struct {
	raw []byte
	// unknown has the paths of the fields that the type does not have, such as
	// "spec.containers[0].resorces".
	unknown []string
}

// into decodes the object into o. A repeated field is an error.
func (d *decoder) into(o any) error {
	strict, err := kjson.UnmarshalStrict(d.raw, o)
	if err != nil {
		if at := wrongQuantity(d.raw); at != nil {
			return at
		}
		var moment *time.ParseError
		if errors.As(err, &moment) {
			return fmt.Errorf("%q is not a time: expected one such as 2027-01-31T18:00:00Z", moment.Value)
		}
		var mismatch *json.UnmarshalTypeError
		if errors.As(err, &mismatch) {
			found, digits, _ := strings.Cut(mismatch.Value, " ") // the value of a number may include its digits
			found = cmp.Or(digits, map[string]string{"array": "a list", "object": "an object"}[found], "a "+found)
			return fmt.Errorf("%s: it is %s and should be %s", mismatch.Field, found, jsonType(mismatch.Type))
		}
		return err
	}
	var repeated []string
	for _, e := range strict {
		var field kjson.FieldError
		if errors.As(e, &field) && strings.HasPrefix(e.Error(), "unknown field ") {
			d.unknown = append(d.unknown, field.FieldPath())
		} else {
			repeated = append(repeated, e.Error())
		}
	}
	const all = 100 // the maximum number of errors that the decoder reports
	if len(repeated) > 0 || len(strict) >= all {
		return errors.New(strings.Join(append(repeated, quoted(d.unknown)...), "; "))
	}
	return nil
}

// jsonType describes the JSON form that a Go type requires.
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
		return malformed.Wanted(t, "")
	}
}

// podVersion maps every kind that has pods to its API version.
var podVersion = map[string]string{
	"Pod": "v1", "ReplicationController": "v1",
	"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1",
	"Job": "batch/v1", "CronJob": "batch/v1",
}

// groupOf returns the API group of an object. It is empty for the core group.
func groupOf(id identity) string {
	group, _, found := strings.Cut(id.APIVersion, "/")
	if !found {
		return ""
	}
	return group
}

// hasNoPods reports whether an object is of a built-in Kubernetes kind that runs no pods and is
// often in one file with kinds that do. It cannot know this for custom resources.
func hasNoPods(id identity) bool {
	group := groupOf(id)
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
