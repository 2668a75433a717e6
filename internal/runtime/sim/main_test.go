package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setting is that of CPUs "0-3", of NUMA node 0.
func setting(cpus string) converge.Setting {
	set, err := cpuset.Parse(cpus)
	if err != nil {
		panic(err)
	}
	return converge.Setting{CPUs: set, Mems: mask.Of(0)}
}

// always answers every creation with one setting.
func always(cpus string) func(string, string) (converge.Setting, error) {
	return func(string, string) (converge.Setting, error) { return setting(cpus), nil }
}

// containers are those of "init:i sidecar:s app".
func containers(text string) []request.Container {
	var list []request.Container
	for word := range strings.FieldsSeq(text) {
		c := request.Container{Name: word, Lane: request.App}
		if lane, name, found := strings.Cut(word, ":"); found {
			c.Name, c.Lane = name, map[string]request.Lane{"init": request.Init, "sidecar": request.Sidecar}[lane]
		}
		list = append(list, c)
	}
	return list
}

// running is what runs: "pod/container cpus, …".
func running(r *Runtime) string {
	var words []string
	for _, o := range r.Observe() {
		words = append(words, fmt.Sprintf("%s/%s %s", o.Pod, o.Container, o.CPUs))
	}
	return strings.Join(words, ", ")
}

// story is what happened to all containers of a pod: "created i, stopped i, …".
func story(r *Runtime, uid string, list []request.Container) string {
	type line struct {
		Event
		name string
	}
	var lines []line
	for _, c := range list {
		for _, e := range r.History(uid, c.Name) {
			lines = append(lines, line{e, c.Name})
		}
	}
	slices.SortFunc(lines, func(a, b line) int { return int(a.Sequence) - int(b.Sequence) })
	words := make([]string, len(lines))
	for i, l := range lines {
		words[i] = l.Kind.String() + " " + l.name
	}
	return strings.Join(words, ", ")
}

// same fails unless both are the same.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got  %s\n want %s", what, got, want)
	}
}
