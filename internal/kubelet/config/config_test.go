package config

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/kubelet/config/v1beta1"
)

func TestPatch(t *testing.T) {
	m := plans["pair"].machine(t)
	const base = `{"cpuManagerPolicy":"static","kubeReserved":{"cpu":"2","memory":"924Mi"},
		"memoryManagerPolicy":"Static","reservedMemory":[{"numaNode":0,"limits":{"memory":"1Gi"}}],
		"topologyManagerPolicy":"restricted","topologyManagerScope":"pod",
		"featureGates":{"PodLevelResourceManagers":true,"DisableCPUQuotaWithExclusiveCPUs":false}}`
	const described = "topology restricted, scope pod; cpu static, reserved 0-1; " +
		"memory Static, reserved 1Gi of memory on NUMA node 0; pod-level pools on; exclusive CPUs keep their CFS quota"
	for _, c := range []struct {
		name, patch string
		gates       map[string]bool
		old, now    string // the text in the description and its replacement
	}{
		{name: "nothing"},
		{name: "empty", patch: "{}", gates: map[string]bool{}},
		{name: "field", patch: `{"topologyManagerScope":"container"}`, old: "scope pod", now: "scope container"},
		{name: "whole field", patch: `{"kubeReserved":{"cpu":"4","memory":"924Mi"}}`, old: "reserved 0-1", now: "reserved 0-3"},
		{name: "null is the default", patch: `{"topologyManagerPolicy":null}`, old: "restricted, scope pod", now: "none"},
		{name: "gate beside the others", gates: map[string]bool{gatePodLevelManagers: false}, old: "pools on", now: "pools off"},
		{
			name: "gates whole, then one", patch: `{"featureGates":{"PodLevelResourceManagers":true}}`, gates: map[string]bool{gateCPUAlpha: true},
			old: "; exclusive CPUs keep their CFS quota",
		},
		{name: "no gates, then one", patch: `{"featureGates":null}`, gates: map[string]bool{gateLiftQuota: false}, old: "pools on", now: "pools off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, err := FromJSON(json.RawMessage(base))
			if err != nil {
				t.Fatal(err)
			}
			after, err := before.Patch(json.RawMessage(c.patch), c.gates)
			if err != nil {
				t.Fatal(err)
			}
			p, err := after.Resolve(m)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Replace(described, c.old, c.now, 1); Describe(p) != want {
				t.Errorf("%s\nwant %s", Describe(p), want)
			}
			if p, err := before.Resolve(m); err != nil || Describe(p) != described {
				t.Errorf("the first configuration is now %s, %v", Describe(p), err)
			}
		})
	}
}

func TestPatchRejects(t *testing.T) {
	for _, patch := range []string{`[]`, `{"cpuManagerPolice":"static"}`, `{"maxPods":"x"}`, `{"kind":"Pod"}`, `{`} {
		if c, err := (&Config{}).Patch(json.RawMessage(patch), nil); !errors.Is(err, ErrSyntax) || c != nil {
			t.Errorf("%s: %v, %v", patch, c, err)
		}
	}
	c, err := (&Config{}).Patch(nil, map[string]bool{"Nope": true})
	if err != nil {
		t.Fatal(err)
	}
	if _, problems := gatesOf(c.spec.FeatureGates); len(problems) != 1 {
		t.Errorf("an unknown gate: %v", problems)
	}
}

func TestFromJSONNothing(t *testing.T) {
	for _, raw := range []string{"", "{}", `{"kind":"KubeletConfiguration","apiVersion":"` + APIVersion + `"}`} {
		c, err := FromJSON(json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		g, problems := gatesOf(c.spec.FeatureGates)
		if want := (Gates{PodLevelResources: true, LiftQuota: true, CPUBetaOptions: true}); g != want || problems != nil {
			t.Errorf("%q: gates %+v, %v, want %+v", raw, g, problems, want)
		}
	}
}

// Every gate of the list can be set to its default, and to the other value unless it is locked. The
// gates that other gates need are exceptions.
func TestEveryGate(t *testing.T) {
	needed := map[string]bool{gatePodLevelResources: true, gateDeclaredFeatures: true}
	known := (&resolution{minor: ownMinor}).knownGates()
	if n := len(known); n != 237 {
		t.Errorf("%d gates, want 237", n)
	}
	for name, g := range known {
		if _, problems := gatesOf(map[string]bool{name: g.Default}); len(problems) > 0 {
			t.Errorf("%s at its default: %v", name, problems)
		}
		_, problems := gatesOf(map[string]bool{name: !g.Default})
		if want := g.Locked || needed[name]; want != (len(problems) > 0) {
			t.Errorf("%s moved: %v", name, problems)
		}
	}
}

// FuzzRead checks that Read returns either an error that wraps ErrSyntax or a configuration. No
// function panics on that configuration, and it is always rejected or resolved in the same way.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, block := range strings.Split(string(text), "\n\n") {
			_, input, _ := strings.Cut(block, "resolve\n")
			input, _, _ = strings.Cut(input, "----\n")
			f.Add([]byte(header + input))
		}
	}
	machines := map[string]plan{"huge": plans["huge"], "sparse": plans["sparse"], "nomemory": plans["nomemory"]}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Read("fuzz", data)
		if (c == nil) == (err == nil) || (err != nil && !errors.Is(err, ErrSyntax)) {
			t.Fatalf("%v, %v", c, err)
		}
		if err != nil {
			return
		}
		for _, p := range machines {
			m := p.machine(t)
			policy, err := c.Resolve(m)
			if err != nil && !errors.Is(err, ErrRejected) {
				t.Fatal(err)
			}
			if again, _ := c.Resolve(m); Describe(policy) != Describe(again) {
				t.Fatalf("%s\nand then %s", Describe(policy), Describe(again))
			}
		}
		if _, err := c.Patch(nil, map[string]bool{gatePodLevelManagers: true}); err != nil {
			t.Fatal(err)
		}
	})
}

// gatesOf resolves only the gates.
func gatesOf(set map[string]bool) (Gates, []Problem) {
	r := &resolution{spec: &v1beta1.KubeletConfiguration{FeatureGates: set}, minor: ownMinor}
	r.resolveGates()
	return r.gates, r.problems
}

// TestRunning checks that the gates of a running kubelet count, and which ones its configuration
// does not give.
func TestRunning(t *testing.T) {
	m := plans["pair"].machine(t)
	c, err := FromJSON([]byte(`{"featureGates":{"CPUManagerPolicyAlphaOptions":true}}`))
	if err != nil {
		t.Fatal(err)
	}
	c = c.For(36).Running(map[string]bool{"CPUManagerPolicyAlphaOptions": true, "PodLevelResourceManagers": true, "Foreign": true})
	p, err := c.Resolve(m)
	if err != nil {
		t.Fatal(err)
	}
	if unlike := c.Unlike(); !p.PodLevelManagers || len(unlike) != 1 || !unlike["PodLevelResourceManagers"] {
		t.Errorf("%v, pod-level managers %v", unlike, p.PodLevelManagers)
	}
	if unlike := c.Running(nil).Unlike(); len(unlike) != 0 {
		t.Errorf("without the gates of the kubelet: %v", unlike)
	}
}
