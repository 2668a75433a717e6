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
	// key is equal for notes that are merged. text is the text of the first of them.
	key, text string
	times     int
}

// maxRepeated is the maximum number of different repeated notes. A file of another program can have
// one in each line.
const maxRepeated = 10

func (r *reader) repeat(at Origin, key, text string) {
	if i := slices.IndexFunc(r.repeated, func(n repeated) bool { return n.key == key }); i >= 0 {
		r.repeated[i].times++
		return
	}
	if len(r.repeated) == 100*maxRepeated { // The search above is linear, so the list must stay short.
		r.unrepeated++
		return
	}
	r.repeated = append(r.repeated, repeated{at, key, text, 1})
}

var (
	index = regexp.MustCompile(`\[\d+\]`)
	// controlling matches the paths of the objects around a pod's spec: a manifest, a controller,
	// and the job of a CronJob.
	controlling = regexp.MustCompile(`^(spec(\.jobTemplate(\.spec)?)?(\.template)?)?$`)
	// specifying matches the paths of a pod's spec, its containers, and their resources.
	specifying = regexp.MustCompile(`^spec(\.template\.spec|\.jobTemplate\.spec\.template\.spec)?(\.(initContainers|containers|ephemeralContainers))?(\.resources(\..+)?)?$`)
)

// unknownFields reports unknown fields as errors or notes. within is the path of the object to
// which the paths are relative.
//
// An unknown field can influence what pods get if it is directly in a manifest, a spec, a template
// or a container, or anywhere in their resources. There it may be a misspelled "resources" or
// "replicas". In an object that the API server or the kubelet wrote it cannot, because they drop
// unknown fields.
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

// quoted returns the texts by which errors name unknown fields.
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
	// replicas is the nearest enclosing number of replicas, and from is its path. If there is none,
	// replicas is 1 and from is empty.
	replicas int64
	from     string
}

// unknownKind adds the pods of the templates in an object of an unknown kind. It is an error if the
// object has no kind, or is of a kind with pods in a version that does not exist.
func (r *reader) unknownKind(at Origin, id identity, raw []byte) error {
	if id.Kind == "" || id.APIVersion == "" {
		return errors.New("it is not a Kubernetes object: apiVersion or kind is missing")
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
	// The syntax has already been checked.
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

// findTemplates returns the pod templates in a value, which are objects with spec.containers.
// around has the nearest enclosing replicas.
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
