package podres

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	corecache "github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

var division = machine.Caches{Classes: 4, Ways: 12, LeastWays: 1, LeastBandwidth: 10, BandwidthStep: 10}

// dividing returns a node with two caches that can be divided, and one pod with a class.
func dividing(t *testing.T) (*node.State, request.Pod) {
	t.Helper()
	d := machine.Description{Caches: division}
	for n := range 2 {
		described := machine.NodeDescription{ID: n, Memory: 64 * gib}
		for core := range 4 {
			described.Cores = append(described.Cores, machine.CoreDescription{Threads: []int{4*n + core}, Socket: n, Uncore: 8 * n})
		}
		d.Nodes = append(d.Nodes, described)
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	p := policy(node.PodScope)
	p.StaticMemory, p.ReservedMemory, p.CPU.DividesCaches = false, nil, true
	s, err := node.New(m, p)
	if err != nil {
		t.Fatal(err)
	}
	asking := exclusive("app", request.App, 2, gib)
	asking.Cache = request.Cache{Ways: 4, Bandwidth: 20}
	pod := plain("train", asking, exclusive("plain", request.App, 1, gib))
	return admit(t, s, pod), pod
}

// TestCaches checks that a client that asks for all pods gets the classes of the caches, with the
// containers that are in the default class beside them.
func TestCaches(t *testing.T) {
	s, pod := dividing(t)
	g, _ := s.Grant(pod.UID)
	if len(g.Containers[0].Cache) != 1 {
		t.Fatalf("the grant has %+v", g.Containers[0])
	}
	client := dial(t, start(t, publish(s), unlimited))
	var all, one Extras
	if _, err := client.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	want := &Caches{Rules: division, Rest: s.Caches().Rest(), Containers: []ContainerClass{
		{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Container: "app", Group: "paddock-uid-train.app", Class: g.Containers[0].Cache, CPUs: g.Containers[0].CPUs},
		{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Container: "plain", CPUs: g.Containers[1].CPUs},
	}}
	if !reflect.DeepEqual(all.Caches, want) {
		t.Errorf("got %+v, want %+v", all.Caches, want)
	}
	if _, err := client.Get(t.Context(), pod.Namespace, pod.Name, &one); err != nil || one.Caches != nil {
		t.Errorf("of one pod: %+v, %v", one.Caches, err)
	}
	var trailer metadata.MD
	if _, err := client.lister.List(t.Context(), &podresourcesv1.ListPodResourcesRequest{}, grpc.Trailer(&trailer)); err != nil || len(trailer) > 0 {
		t.Errorf("a client that does not ask gets %v, %v", trailer, err)
	}
	if c := CachesOf(emptyNode(t, hardware{1, 2}, policy(node.PodScope))); c != nil {
		t.Errorf("a machine that divides nothing has %+v", c)
	}
}

// TestForeignCaches checks that what is no answer is not taken for a node without classes.
func TestForeignCaches(t *testing.T) {
	for text, wrong := range map[string]bool{"": true, "[": true, "null": false, "{}": false, `{"classes":1}`: false, `{"classes":4,"containers":[{"cpus":"x"}]}`: true, "\xff": true} {
		var e Extras
		fill([]*Extras{&e}, &metadata.MD{answerCaches: []string{text}})
		if e.Caches != nil || (e.CachesError != nil) != wrong {
			t.Errorf("%q: %+v, %v", text, e.Caches, e.CachesError)
		}
	}
	var e Extras
	fill([]*Extras{&e}, &metadata.MD{answerCaches: []string{`{"classes":4,"new in 2030":1,"containers":[{"group":"g","class":[{"cache":8,"ways":3}],"cpus":"1-2"}]}`}})
	want := &Caches{Rules: machine.Caches{Classes: 4}, Containers: []ContainerClass{{Group: "g", Class: corecache.Class{{Cache: 8, Ways: 3}}, CPUs: cpuset.Of(1, 2)}}}
	if !reflect.DeepEqual(e.Caches, want) {
		t.Errorf("got %+v, want %+v", e.Caches, want)
	}
	if _, err := json.Marshal(want); err != nil {
		t.Error(err)
	}
}

// TestImpossibleCaches checks that classes are not believed that have a way in common or leave none
// for the default class.
func TestImpossibleCaches(t *testing.T) {
	class := func(uid, group string, class ...corecache.Share) ContainerClass {
		return ContainerClass{Namespace: "prod", Pod: uid, UID: uid, Container: "c", Group: group, Class: class}
	}
	part := func(id int, ways corecache.Ways, percent int) corecache.Share {
		return corecache.Share{Cache: id, Ways: ways, Bandwidth: percent}
	}
	rest := []corecache.Share{part(0, 0xff0, 80), part(8, 0xfff, 100)}
	a := class("a", "paddock-a.c", part(0, 3, 10))
	pool := class("b", "paddock-b", part(0, 0xc, 0))
	pool.Pool = true
	for want, c := range map[string]Caches{
		"": {Rest: rest, Containers: []ContainerClass{a, a, pool, class("x", "others", part(0, 3, 900))}},
		"prod/a/c and prod/b/c both have ways 1 of cache 0":                                                    {Rest: rest, Containers: []ContainerClass{a, class("b", "paddock-b.c", part(0, 6, 0))}},
		"prod/a/c and the default class both have ways 4 of cache 0":                                           {Rest: rest, Containers: []ContainerClass{class("a", "paddock-a.c", part(0, 0x1f, 0))}},
		"the default class has no way of cache 0":                                                              {Rest: []corecache.Share{part(0, 0, 0)}, Containers: []ContainerClass{a}},
		"the default class has two shares of cache 0":                                                          {Rest: []corecache.Share{rest[0], rest[0]}},
		"the default class has ways 0-12 and 0% of the memory bandwidth of cache 0, and the cache has 12 ways": {Rest: []corecache.Share{part(0, 0x1fff, 0)}},
		"prod/a/c has ways 12 and 0% of the memory bandwidth of cache 0, and the cache has 12 ways":            {Rest: rest, Containers: []ContainerClass{class("a", "paddock-a.c", part(0, 0x1000, 0))}},
		"prod/a/c has ways none and 101% of the memory bandwidth of cache 0, and the cache has 12 ways":        {Rest: rest, Containers: []ContainerClass{class("a", "paddock-a.c", part(0, 0, 101))}},
		"the shares of prod/a/c are not in the order of the caches":                                            {Rest: rest, Containers: []ContainerClass{class("a", "paddock-a.c", part(0, 1, 0), part(0, 2, 0))}},
		"prod/a/c and prod/a/c are in the group paddock-a.c, and have different classes":                       {Rest: rest, Containers: []ContainerClass{a, class("a", "paddock-a.c", part(0, 1, 0))}},
		"prod/a/c has the group paddock-b.c, which has the name of another one":                                {Rest: rest, Containers: []ContainerClass{class("a", "paddock-b.c", part(0, 1, 0))}},
	} {
		c.Rules = division
		text, err := json.Marshal(&c)
		if err != nil {
			t.Fatal(err)
		}
		var e Extras
		fill([]*Extras{&e}, &metadata.MD{answerCaches: []string{string(text)}})
		got := ""
		if e.CachesError != nil {
			got = e.CachesError.Error()
		}
		if got != want || (e.Caches == nil) != (want != "") {
			t.Errorf("%q, want %q: %+v", got, want, e.Caches)
		}
	}
}

// TestTooManyClasses checks that an answer that is too large is not taken for a node without
// classes.
func TestTooManyClasses(t *testing.T) {
	c := &Caches{Rules: division, Containers: make([]ContainerClass, 40_000)}
	text, err := json.Marshal(sendable(c))
	if err != nil || len(text) > maxExtra {
		t.Fatalf("%d bytes, error %v", len(text), err)
	}
	var e Extras
	fill([]*Extras{&e}, &metadata.MD{answerCaches: []string{string(text)}})
	if e.Caches != nil || e.CachesError == nil || !strings.Contains(e.CachesError.Error(), "40000 containers do not fit") {
		t.Errorf("%+v, %v", e.Caches, e.CachesError)
	}
}
