package noderesourcetopology

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"

	topologyv1alpha2 "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/config"
	plugin "sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/verdicts.txt")

// TestVerdicts compares the plugin's verdicts about what is published with those of
// testdata/verdicts.txt. With published objects, it checks that Filter does not crash, and agrees
// with the planner where it says no, and that Score crashes only on pods that crash it on every
// machine.
func TestVerdicts(t *testing.T) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	row := func(cells ...string) {
		if _, err := fmt.Fprintln(w, strings.Join(cells, "\t")); err != nil {
			t.Fatal(err)
		}
	}
	row("node", "zones", "pod", "planner", "Filter", "LeastAllocated", "LeastNUMANodes")
	crashes := map[string]map[string]bool{} // of published objects: the nodes by pod
	nodes := read(t)
	for _, p := range nodes {
		forms := []*topologyv1alpha2.NodeResourceTopology{&p.Object}
		if raw, differs := kernelIDs(&p.Object); differs {
			forms = append(forms, raw)
		}
		for i, o := range forms {
			least, numa := load(t, o, config.LeastAllocated), load(t, o, config.LeastNUMANodes)
			for _, asked := range p.Asked {
				planner, _, _ := strings.Cut(asked.Planner, ":")
				filter, score := filters(t.Context(), least, &asked.Pod, o), scores(t.Context(), least, &asked.Pod, o)
				row(p.Node, names(o), asked.Pod.Name, planner, filter, score, scores(t.Context(), numa, &asked.Pod, o))
				if i > 0 {
					continue
				}
				if strings.HasPrefix(filter, "crash") || filter != "yes" && planner == "admitted" {
					t.Errorf("%s: about pod %s, Filter answers %q, and the planner %q", p.Node, asked.Pod.Name, filter, asked.Planner)
				}
				if strings.HasPrefix(score, "crash") {
					if crashes[asked.Pod.Name] == nil {
						crashes[asked.Pod.Name] = map[string]bool{}
					}
					crashes[asked.Pod.Name][scopeOf(o)+" "+p.Node] = true
				}
			}
		}
	}
	for pod, on := range crashes {
		for _, p := range nodes {
			if scope := scopeOf(&p.Object); some(on, scope+" ") && !on[scope+" "+p.Node] {
				t.Errorf("pod %s crashes Score on %v, and not on %s: it depends on what is published", pod, on, p.Node)
			}
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	const file = "testdata/verdicts.txt"
	if *rewrite {
		if err := os.WriteFile(file, []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != table.String() {
		t.Errorf("the verdicts are not those of %s; if they are right: go test . -rewrite\n%s", file, table.String())
	}
}

func some(set map[string]bool, prefix string) bool {
	for s := range set {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}

// load returns the plugin, which asks a server for the object.
func load(t *testing.T, o *topologyv1alpha2.NodeResourceTopology, strategy config.ScoringStrategyType) *plugin.TopologyMatch {
	t.Helper()
	args := &config.NodeResourceTopologyMatchArgs{ScoringStrategy: config.ScoringStrategy{Type: strategy}}
	p, err := plugin.New(klog.NewContext(t.Context(), klog.Logger{}), args, handle{config: serve(t, o)})
	if err != nil {
		t.Fatal(err)
	}
	match, is := p.(*plugin.TopologyMatch)
	if !is {
		t.Fatalf("the plugin is a %T", p)
	}
	return match
}

// filters returns Filter's verdict about a pod.
func filters(ctx context.Context, p *plugin.TopologyMatch, pod *v1.Pod, o *topologyv1alpha2.NodeResourceTopology) string {
	return caught(func() string {
		if status := p.Filter(ctx, framework.NewCycleState(), pod, nodeInfo(o)); !status.IsSuccess() {
			return status.Message()
		}
		return "yes"
	})
}

// scores returns the score of a node for a pod.
func scores(ctx context.Context, p *plugin.TopologyMatch, pod *v1.Pod, o *topologyv1alpha2.NodeResourceTopology) string {
	return caught(func() string {
		score, status := p.Score(ctx, framework.NewCycleState(), pod, nodeInfo(o))
		if !status.IsSuccess() {
			return status.Message()
		}
		return fmt.Sprint(score)
	})
}

// caught returns the answer of ask, or how it crashed.
func caught(ask func() string) (answer string) {
	defer func() {
		if crash := recover(); crash != nil {
			answer = fmt.Sprintf("crash: %v", crash)
		}
	}()
	return ask()
}

func names(o *topologyv1alpha2.NodeResourceTopology) string {
	var all []string
	for _, z := range o.Zones {
		all = append(all, z.Name)
	}
	return strings.Join(all, ",")
}

func scopeOf(o *topologyv1alpha2.NodeResourceTopology) string {
	for _, a := range o.Attributes {
		if a.Name == "topologyManagerScope" {
			return a.Value
		}
	}
	return ""
}
