package podspec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// The cases are in the files under testdata. The input of request, default and validate is the spec
// of a pod named p. The arguments are plr=off and managers=off for the gates, qos=X for the class
// in the status, and raw to skip the defaults.
func TestData(t *testing.T) {
	for _, dir := range []string{"request", "default", "validate", "read"} {
		datadriven.Walk(t, "testdata/"+dir, func(t *testing.T, path string) {
			datadriven.RunTest(t, path, runData)
		})
	}
}

func runData(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "request":
		return dataRequest(t, d)
	case "default":
		return dataDefault(t, d)
	case "validate":
		return dataValidate(t, d)
	case "read":
		return dataRead(d)
	}
	t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	return ""
}

func dataPod(t *testing.T, d *datadriven.TestData) (*v1.Pod, Gates) {
	t.Helper()
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "p", "u"
	if err := yaml.UnmarshalStrict([]byte(d.Input), &pod.Spec); err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	g := Gates{PodLevelResources: true, PodLevelManagers: true}
	raw := false
	for _, arg := range d.CmdArgs {
		switch arg.String() {
		case "plr=off":
			g.PodLevelResources = false
		case "managers=off":
			g.PodLevelManagers = false
		case "raw":
			raw = true
		default:
			pod.Status.QOSClass = v1.PodQOSClass(arg.FirstVal(t))
		}
	}
	if !raw {
		pod = Default(pod, g)
	}
	return pod, g
}

func dataRequest(t *testing.T, d *datadriven.TestData) string {
	pod, g := dataPod(t, d)
	r, err := Request(pod, g)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	return strings.ReplaceAll(r.String(), "; ", "\n  ") + "\n"
}

func dataValidate(t *testing.T, d *datadriven.TestData) string {
	errs := Validate(dataPod(t, d))
	if len(errs) == 0 {
		return "valid\n"
	}
	var b strings.Builder
	for _, err := range errs {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}

func dataDefault(t *testing.T, d *datadriven.TestData) string {
	pod, _ := dataPod(t, d)
	list := func(l v1.ResourceList) string {
		parts := make([]string, 0, len(l))
		for _, name := range sortedNames(l) {
			q := l[name]
			parts = append(parts, string(name)+"="+q.String())
		}
		return "{" + strings.Join(parts, " ") + "}"
	}
	var b strings.Builder
	line := func(who string, r *v1.ResourceRequirements) {
		fmt.Fprintf(&b, "%s: requests %s limits %s\n", who, list(r.Requests), list(r.Limits))
	}
	if pod.Spec.Resources != nil {
		line("pod", pod.Spec.Resources)
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			line(list[i].Name, &list[i].Resources)
		}
	}
	return b.String()
}

func dataRead(d *datadriven.TestData) string {
	// An empty line would end the input, so the files use a placeholder.
	text := strings.ReplaceAll(d.Input, "<empty line>", "")
	name := "f.yaml"
	if d.HasArg("json") {
		name = "f.json"
	}
	r := reader{Options: Options{Strict: d.HasArg("strict")}}
	r.read(name, []byte(text))
	sources, notes, err := r.result()
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	for i, s := range sources {
		if i == 5 && len(sources) > 6 {
			fmt.Fprintf(&b, "... %d pods in all\n", len(sources))
			break
		}
		fmt.Fprintf(&b, "%s/%s %s from %s\n", s.Pod.Namespace, s.Pod.Name, s.Pod.UID, s.Origin)
	}
	for _, n := range notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}
