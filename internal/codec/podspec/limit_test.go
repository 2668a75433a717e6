package podspec_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/podspec"
)

// replicated returns a workload whose template has the given number of containers.
func replicated(kind, apiVersion, spec string, containers int) string {
	list := strings.TrimSuffix(strings.Repeat(`{name: c, image: i},`, containers), ",")
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: web}\nspec: {%s, template: {spec: {containers: [%s]}}}\n", apiVersion, kind, spec, list)
}

// TestLimits checks that manifests that ask for more pods, containers or values than allowed lead
// to an error that names both numbers, for every kind of workload. The pods must not be allocated
// before the check: with 2^31 pods the test would not end.
func TestLimits(t *testing.T) {
	deployment := func(replicas, containers int) string {
		return replicated("Deployment", "apps/v1", fmt.Sprintf("replicas: %d", replicas), containers)
	}
	item := func(text string) string {
		return "- " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
	}
	pods := "at most 100 can be read in all"
	containers := "at most 300 can be read in all"
	values := "more than 2000 fields and list items"
	for name, c := range map[string]struct {
		text string
		want string // if empty, the manifest is read
		pods int
	}{
		"as many as allowed":       {deployment(100, 3), "", 100},
		"one more":                 {deployment(101, 1), "it asks for 101 pods, and 0 were read before; " + pods, 0},
		"int32's largest":          {deployment(math.MaxInt32, 1), "it asks for 2147483647 pods", 0},
		"a negative number":        {deployment(-1, 1), "less than none", 0},
		"ReplicaSet":               {replicated("ReplicaSet", "apps/v1", "replicas: 2147483647", 1), pods, 0},
		"StatefulSet":              {replicated("StatefulSet", "apps/v1", "replicas: 2147483647, ordinals: {start: 2147483647}", 1), pods, 0},
		"a ReplicationController":  {replicated("ReplicationController", "v1", "replicas: 2147483647", 1), pods, 0},
		"Job":                      {replicated("Job", "batch/v1", "parallelism: 2147483647", 1), pods, 0},
		"Job of few":               {replicated("Job", "batch/v1", "parallelism: 2147483647, completions: 2", 1), "", 2},
		"CronJob":                  {"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: web}\nspec: {jobTemplate: {spec: {parallelism: 2147483647, template: {spec: {containers: [{name: c}]}}}}}", pods, 0},
		"an unknown kind":          {replicated("RayCluster", "ray.io/v1", "replicas: 9223372036854775807", 1), pods, 0},
		"two documents":            {deployment(60, 1) + "---\n" + strings.ReplaceAll(deployment(60, 1), "name: web", "name: db"), "it asks for 60 pods, and 60 were read before", 0},
		"a list":                   {"apiVersion: v1\nkind: List\nitems:\n" + item(deployment(60, 1)) + item(deployment(60, 1)), "it asks for 60 pods, and 60 were read before", 0},
		"wide pods":                {deployment(100, 4), "its 100 pods have 400 containers, and those before have 0; " + containers, 0},
		"many values":              {deployment(1, 2000), values, 0},
		"many values of JSON":      {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[` + strings.TrimSuffix(strings.Repeat("{},", 2000), ",") + "]}}", values, 0},
		"values in documents":      {strings.Repeat(deployment(1, 250)+"---\n", 5), values, 0},
		"a long text":              {"apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {a: " + strings.Repeat("x", 64*2000) + "}}\nspec: {containers: [{name: c}]}", values, 0},
		"references to a text":     {"a: &a " + strings.Repeat("x", 6400) + "\nb: [" + strings.Repeat("*a,", 30) + "]", values, 0},
		"references to references": {"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c]", values, 0},
		"a reference to itself":    {"a: &a [*a]", values, 0},
		"a few references":         {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, resources: {limits: &r {cpu: 1}, requests: *r}}]}", "", 1},
		"a syntax error":           {"kind: Namespace\napiVersion: v1\n---\nc: [\n", "yaml: line 4", 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := podspec.Options{MaxPods: 100, MaxContainers: 300, MaxValues: 2000}
			sources, _, err := o.ReadFrom("-", strings.NewReader(c.text))
			if len(sources) != c.pods || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d pods, %v; want %d, %q", len(sources), err, c.pods, c.want)
			}
			limit := (*podspec.LimitError)(nil)
			if is := errors.As(err, &limit); is == slices.Contains([]string{"as many as allowed", "a negative number", "Job of few", "a few references", "a syntax error"}, name) {
				t.Errorf("%v is a limit: %t", err, is)
			}
		})
	}
}
