package collect

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/testing/golden/recording"
)

// secret is in every field that is not on a list of allowed fields.
const secret = "s3cr3t"

// expand returns the paths with each <a|b> replaced by a and by b.
func expand(paths ...string) []string {
	var out []string
	for _, p := range paths {
		before, rest, found := strings.Cut(p, "<")
		if !found {
			out = append(out, p)
			continue
		}
		choices, after, _ := strings.Cut(rest, ">")
		for choice := range strings.SplitSeq(choices, "|") {
			out = append(out, expand(before+choice+after)...)
		}
	}
	return out
}

// podFields are all fields of a Pod with text that may be kept. "[]" is an item of a list, and "{}"
// a key of a map.
var podFields = expand(
	"metadata.<name|namespace|uid|ownerReferences[].kind|ownerReferences[].name>",
	"spec.<nodeName|restartPolicy|overhead{}>",
	"spec.resources.<limits{}|requests{}|claims[].name|claims[].request>",
	"spec.resourceClaims[].<name|resourceClaimName|resourceClaimTemplateName>",
	"spec.<initContainers|containers>[].<name|restartPolicy>",
	"spec.<initContainers|containers>[].resources.<limits{}|requests{}|claims[].name|claims[].request>",
	"status.<phase|reason|message|qosClass|allocatedResources{}>",
	"status.resources.<limits{}|requests{}|claims[].name|claims[].request>",
	"status.conditions[].<type|status|reason|message>",
	"status.resourceClaimStatuses[].<name|resourceClaimName>",
	"status.<initContainerStatuses|containerStatuses>[].<name|allocatedResources{}>",
	"status.<initContainerStatuses|containerStatuses>[].resources.<limits{}|requests{}|claims[].name|claims[].request>",
)

// nodeFields are all fields of a Node with text that may be kept.
var nodeFields = expand(
	"metadata.name", "spec.taints[].<key|value|effect>", "status.<capacity|allocatable>{}",
	"status.nodeInfo.<kubeletVersion|containerRuntimeVersion|kernelVersion|operatingSystem|architecture>",
)

// fill sets every field of a value. Text is the path of the field if the path is allowed, and
// otherwise secret.
func fill(v reflect.Value, path string, allowed []string) {
	text := func(path string) string {
		if slices.Contains(allowed, path) {
			return "kept:" + path
		}
		return secret
	}
	switch o := v.Addr().Interface().(type) {
	case *metav1.Time:
		*o = metav1.Unix(1790000000, 0)
		return
	case *metav1.MicroTime:
		o.Time = time.Unix(1790000000, 0)
		return
	case *resource.Quantity:
		*o = resource.MustParse("1")
		return
	case *intstr.IntOrString:
		*o = intstr.FromString(secret)
		return
	case *metav1.FieldsV1:
		o.SetRawBytes([]byte(`{"` + secret + `":{}}`))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text(path))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path, allowed)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(secret))
			return
		}
		fill(v.Index(0), path+"[]", allowed)
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, path+"{}.", allowed)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(text(path+"{}")).Convert(v.Type().Key()), value)
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			fill(v.Field(i), strings.TrimPrefix(path+"."+name, "."), allowed)
		}
	default:
		panic(path + " is of kind " + v.Kind().String())
	}
}

// filtered returns what a filter makes of an object.
func filtered(t *testing.T, f Filter, object any) (string, []string) {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	notes, err := f.Copy(&out, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), notes
}

// Only the listed fields of a Pod and a Node are kept, and all of these are.
func TestNoOtherTextIsKept(t *testing.T) {
	pod, node := &v1.Pod{}, &v1.Node{}
	fill(reflect.ValueOf(pod).Elem(), "", podFields)
	fill(reflect.ValueOf(node).Elem(), "", nodeFields)
	pod.TypeMeta, node.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}
	pod.Annotations = map[string]string{secret: secret, "kubernetes.io/config.seen": secret, "kubernetes.io/config.mirror": "kept:mirror", podspec.MovesAnnotation: "kept:moves"}
	node.Labels = map[string]string{secret: secret, "topology.kubernetes.io/zone": "kept:zone", v1.LabelHostname: "kept:host", "node.kubernetes.io/" + secret: secret}
	pod.Status.Conditions[0].Type = v1.PodScheduled
	pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: secret, Message: secret}, v1.PodCondition{Type: v1.PodReady, Message: secret})
	for _, c := range []struct {
		object any
		fields []string
	}{
		{pod, append([]string{"mirror", "moves"}, podFields...)},
		{node, append([]string{"zone", "host"}, nodeFields...)},
	} {
		text, _ := filtered(t, Filter{}, c.object)
		if strings.Contains(text, secret) {
			t.Errorf("%s is kept:\n%s", secret, text)
		}
		for _, field := range c.fields {
			if field != "status.conditions[].type" && !strings.Contains(text, `"kept:`+field+`"`) {
				t.Errorf("%s is not kept:\n%s", field, text)
			}
		}
	}
}

// The controller of a pod is kept, or that it has none. What an older filter removed stays unknown.
func TestControllersAreKept(t *testing.T) {
	const stored, two = `"resourceVersion": "7"`, `"ownerReferences": [{"kind": "Set", "name": "other"}, {"kind": "ReplicaSet", "name": "web-1", "controller": true}]`
	for _, c := range []struct {
		metadata string
		want     podspec.Recreation
		name     string
	}{
		{stored + ", " + two, podspec.ByController, "web-1"},
		{two, podspec.ByController, "web-1"},
		{stored, podspec.ByHand, ""},
		{`"ownerReferences": [{"kind": "Set", "name": "other"}]`, podspec.ByHand, ""},
		{`"ownerReferences": []`, podspec.ByHand, ""},
		{`"name": "a"`, podspec.Unknown, ""},
	} {
		object := json.RawMessage(`{"kind": "Pod", "apiVersion": "v1", "metadata": {` + c.metadata + `}}`)
		text, _ := filtered(t, Filter{}, object)
		pod, err := podspec.DecodePod([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := podspec.RecreationOf(pod); got != c.want || strings.Contains(text, "other") || strings.Contains(text, "web-1") != (c.name != "") {
			t.Errorf("%s: created again %s, want %s:\n%s", c.metadata, got, c.want, text)
		}
		if hashed, _ := filtered(t, Filter{Key: testKey}, object); strings.Contains(hashed, "web-1") {
			t.Errorf("%s: the name of the controller is kept:\n%s", c.metadata, hashed)
		}
	}
}

// A pod that was filled has all texts, so that the test above can fail.
func TestFill(t *testing.T) {
	pod := &v1.Pod{}
	fill(reflect.ValueOf(pod).Elem(), "", podFields)
	if got := pod.Spec.EphemeralContainers[0].Env[0].ValueFrom.SecretKeyRef.Key; got != secret {
		t.Errorf("a key is %q", got)
	}
	if _, has := pod.Spec.Containers[0].Resources.Limits["kept:spec.containers[].resources.limits{}"]; !has {
		t.Errorf("the limits are %v", pod.Spec.Containers[0].Resources.Limits)
	}
}

// golden is the part of a recorded scenario that the test needs.
type golden struct {
	Scenario struct{ Pods []v1.Pod }
}

// Filtered pods request the same.
func TestFilteredPodsRequestTheSame(t *testing.T) {
	sources, _, err := podspec.ReadFiles([]string{"../../../examples/pods", "../../../examples/stories/1-training.yaml", "../../../examples/stories/2-gateway.yaml", "../../../examples/fragmented/pods.yaml"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var pods []*v1.Pod
	for _, s := range sources {
		pods = append(pods, s.Pod)
	}
	paths, err := filepath.Glob("../../../testdata/golden/*.jsonl.gz")
	if err != nil || len(pods) < 5 || len(paths) == 0 {
		t.Fatal(len(pods), paths, err)
	}
	for line := range recording.Values[golden](t, paths[0]) {
		for i := range line.Scenario.Pods {
			pods = append(pods, &line.Scenario.Pods[i])
		}
	}
	gates := podspec.Gates{PodLevelResources: true, PodLevelManagers: true}
	for _, pod := range pods {
		pod.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
		text, _ := filtered(t, Filter{}, pod)
		got, err := podspec.DecodePod([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got.UID = pod.UID // A recorded pod may have none, and then it follows from the whole spec.
		if pod.UID == "" {
			pod.UID, got.UID = "u", "u"
		}
		for _, g := range []podspec.Gates{{}, gates} {
			want, wantErr := podspec.Request(podspec.Default(pod, g), g)
			have, haveErr := podspec.Request(podspec.Default(got, g), g)
			if !reflect.DeepEqual(have, want) || (haveErr == nil) != (wantErr == nil) || len(podspec.Validate(got, g)) != len(podspec.Validate(pod, g)) {
				t.Errorf("%s/%s requests %v, %v, filtered %v, %v", pod.Namespace, pod.Name, want, wantErr, have, haveErr)
			}
		}
	}
}

func TestCopyNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ input, want string }{
		{"", "standard input is empty"},
		{"\n ", "standard input is empty"},
		{"{", "not a Kubernetes object"},
		{"[1]", "not a Kubernetes object"},
		{"a: {", "neither JSON nor YAML"},
		{"\x1f\x8b", "gunzip"},
		{"kind: Node\n---\nkind: Node\n", "several YAML documents"},
		{`{"kind":"Secret","apiVersion":"v1"}`, `kind "Secret": expected a Pod`},
		{`{"kind":"Pod","apiVersion":"v2"}`, `kind "Pod": expected a Pod`},
		{`{"kind":"PodList","items":[{"spec":7}]}`, "item 1: Pod: "},
		{`{"kind":"PodList","items":[7]}`, "item 1: "},
		{`{"kind":"Node","apiVersion":"v1","metadata":[]}`, "Node: "},
		{`{"kubeletconfig":7}`, "KubeletConfiguration"},
		{strings.Repeat("a", maxYAML+1), "no JSON and has more than 1 MiB"},
		{`{"kind":"Node","apiVersion":"v1","status":{"capacity":{"cpu":"secret words"}}}`, "is no quantity"},
	} {
		var out bytes.Buffer
		if notes, err := (Filter{}).Copy(&out, strings.NewReader(c.input)); err == nil || !strings.Contains(err.Error(), c.want) || out.Len() > 0 || len(notes) > 0 {
			t.Errorf("%.40q: %v, want %s", c.input, err, c.want)
		}
	}
}

func FuzzCopy(f *testing.F) {
	f.Add([]byte(`{"kind":"List","apiVersion":"v1","items":[{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"status":{"reason":"OutOfcpu","message":"a.b"}},{"kind":"x"}]}`))
	f.Add([]byte(`{"kubeletconfig":{"maxPods":1,"providerID":"x"}}`))
	f.Add([]byte("kind: Node\napiVersion: v1\nmetadata: {name: n, labels: {kubernetes.io/hostname: n}}\nstatus: {capacity: {cpu: 1.5}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, filter := range []Filter{{}, {Key: make([]byte, leastKey)}} {
			var out, again bytes.Buffer
			if _, err := filter.Copy(&out, bytes.NewReader(data)); err != nil {
				if out.Len() > 0 {
					t.Fatalf("%v, and yet %s", err, &out)
				}
				continue
			}
			if _, err := (Filter{}).Copy(&again, bytes.NewReader(out.Bytes())); err != nil || again.String() != out.String() {
				t.Fatalf("%v: filtered again\n%s\nbecomes\n%s", err, &out, &again)
			}
		}
	})
}
