package podspec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// repeated is a note that applies several times.
type repeated struct {
	first Origin
	// key is the same for all of them; text is the note about the first.
	key, text string
	times     int
}

// maxRepeated is how many different repeated notes there are at most: a file of another program can
// have one in each line.
const maxRepeated = 10

func (r *reader) repeat(at Origin, key, text string) {
	if i := slices.IndexFunc(r.repeated, func(n repeated) bool { return n.key == key }); i >= 0 {
		r.repeated[i].times++
		return
	}
	if len(r.repeated) == 100*maxRepeated { // They are compared with each other.
		r.unrepeated++
		return
	}
	r.repeated = append(r.repeated, repeated{at, key, text, 1})
}

var (
	index = regexp.MustCompile(`\[\d+\]`)
	// controlling are the objects around a pod's spec: of a manifest, of a controller, of a
	// CronJob's job.
	controlling = regexp.MustCompile(`^(spec(\.jobTemplate(\.spec)?)?(\.template)?)?$`)
	// specifying are a pod's spec, its containers, and what they request.
	specifying = regexp.MustCompile(`^spec(\.template\.spec|\.jobTemplate\.spec\.template\.spec)?(\.(initContainers|containers|ephemeralContainers))?(\.resources(\..+)?)?$`)
)

// unknownFields makes errors or notes of unknown fields. within is where the paths begin in the
// object.
//
// A field can decide what pods get if it is directly in a manifest, a spec, a template or a
// container, or anywhere in the resources of these: there it can be a mistyped "resources" or
// "replicas". In an object that the API server or the kubelet wrote it cannot: they drop fields
// that they do not know.
func (r *reader) unknownFields(at Origin, id identity, within string, paths []string) error {
	stored := id.Metadata.UID != "" && (id.Metadata.ResourceVersion != "" || id.Metadata.Annotations.ConfigSource != "")
	var bad []string
	for _, path := range paths {
		plain := index.ReplaceAllString(path, "")
		parent := plain[:max(0, strings.LastIndexByte(plain, '.'))]
		if r.Strict || !stored && (controlling.MatchString(parent) || specifying.MatchString(parent)) {
			bad = append(bad, within+path)
			continue
		}
		r.repeat(at, "field "+within+plain, fmt.Sprintf("unknown field %q is not used", within+path))
	}
	if len(bad) > 0 {
		return errors.New(strings.Join(quoted(bad), "; "))
	}
	return nil
}

// quoted are unknown fields as errors name them.
func quoted(paths []string) []string {
	texts := make([]string, len(paths))
	for i, path := range paths {
		texts[i] = "unknown field " + strconv.Quote(path)
	}
	return texts
}

// found is a pod template in an object of an unknown kind.
type found struct {
	path  string
	value map[string]any
	// replicas is the nearest number around the template, and from its path; 1 and empty if there
	// is none.
	replicas int64
	from     string
}

// unknownKind adds the pods of the templates in an object of an unknown kind. It is an error if the
// object has no kind, or is of a kind with pods in a version that does not exist.
func (r *reader) unknownKind(at Origin, id identity, raw []byte) error {
	if id.Kind == "" || id.APIVersion == "" {
		return errors.New("it is no Kubernetes object: apiVersion and kind are needed")
	}
	if version, ok := podVersion[id.Kind]; ok && !strings.Contains(groupOf(id), ".") {
		return fmt.Errorf("apiVersion %q of kind %s is not known, write %s", id.APIVersion, id.Kind, version)
	}
	kind := fmt.Sprintf("kind %s of apiVersion %q is not known", id.Kind, id.APIVersion)
	if r.Strict {
		return fmt.Errorf("%s, and so not whether it has pods; what is read: %s and lists of these",
			kind, strings.Join(slices.Sorted(maps.Keys(podVersion)), ", "))
	}
	var object struct {
		Spec any `json:"spec"`
	}
	// The syntax was checked before.
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &object); err != nil {
		return err
	}
	templates := findTemplates("spec", object.Spec, found{replicas: 1})
	if len(templates) == 0 {
		r.repeat(at, "kind "+id.APIVersion+" "+id.Kind, kind+"; left out, it has no pod template")
		return nil
	}
	if id.Metadata.Name == "" {
		return errors.New("metadata.name: the pods are named after it, give one")
	}
	var assumed []string
	var first int64
	for _, t := range templates {
		var template v1.PodTemplateSpec
		text, err := json.Marshal(t.value)
		if err != nil {
			return err
		}
		d := decoder{raw: text}
		if err := d.into(&template); err != nil {
			return fmt.Errorf("%s: %w", t.path, err)
		}
		if err := r.unknownFields(at, id, t.path+".", d.unknown); err != nil {
			return err
		}
		why := "as no replicas are given"
		if t.from != "" {
			why = "as " + t.from
		}
		assumed = append(assumed, fmt.Sprintf("%d of %s, %s", t.replicas, t.path, why))
		r.add(at, id, &workload{
			meta: &metav1.ObjectMeta{Namespace: id.Metadata.Namespace, Name: id.Metadata.Name}, template: &template, count: t.replicas, first: first,
		})
		first += t.replicas
	}
	r.notes = append(r.notes, Note{Origin: at, Text: kind + "; assumed from its pod templates: " + strings.Join(assumed, "; ")})
	return nil
}

// findTemplates finds the pod templates in a value: objects with spec.containers. around has the
// replicas around it.
func findTemplates(path string, value any, around found) []found {
	var out []found
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			out = append(out, findTemplates(fmt.Sprintf("%s[%d]", path, i), item, around)...)
		}
	case map[string]any:
		if spec, ok := value["spec"].(map[string]any); ok {
			if containers, ok := spec["containers"].([]any); ok && len(containers) > 0 {
				around.path, around.value = path, value
				return []found{around}
			}
		}
		if replicas, ok := value["replicas"].(int64); ok && replicas >= 0 {
			around.replicas, around.from = replicas, path+".replicas"
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			out = append(out, findTemplates(path+"."+name, value[name], around)...)
		}
	}
	return out
}
