package doctor_test

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
	nodes "github.com/paddock-project/paddock/internal/testing/scenario"
)

// TestRot changes any byte of a valid file and repairs the file. In the result, no CPU may be in
// the lists of two pods, and every CPU must exist on the machine. If a CPU is in the lists of two
// containers that had no CPU in common, a remark must name both. If the content differs from the
// original, a remark must report that nothing protected it.
func TestRot(t *testing.T) {
	repaired, rejected, noted := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n := drawNode(t, drawKubelet(t, "kubelet"))
		files := n.encoded(t, n.whole)
		for range 8 {
			m := rapid.SampledFrom([]kubeletstate.Manager{kubeletstate.CPUManager, kubeletstate.CPUManager, kubeletstate.MemoryManager}).Draw(t, "manager")
			switch n.rotten(t, m, files[m]) {
			case rotRepaired:
				repaired++
			case rotNoted:
				repaired, noted = repaired+1, noted+1
			case rotRejected:
				rejected++
			}
		}
	})
	t.Logf("%d repaired, of %d of them the content had changed; %d refused", repaired, noted, rejected)
}

// The possible outcomes for a damaged file.
const (
	rotUnread = iota
	rotRepaired
	rotNoted // repaired, but with other content than was written
	rotRejected
)

// rotten changes one byte of a file and repairs the file.
func (n *drawn) rotten(t *rapid.T, m kubeletstate.Manager, data []byte) int {
	was, err := kubeletstate.Recognise(data)
	if err != nil {
		t.Fatal(err)
	}
	data = rot(t, data)
	f, err := kubeletstate.Recognise(data)
	if err != nil || f.Manager != m {
		return rotUnread
	}
	old := &doctor.State{}
	old.Add(f)
	pods := doctor.Pods{}
	if rapid.Bool().Draw(t, "pods are named") {
		pods.Init = func(_, container string) bool { return container == "init" }
		pods.Alive = func(uid string) bool { return slices.Contains(n.whole.Pods(), uid) }
	}
	now, remarks, err := doctor.Repair(old, n.setup, pods)
	if errors.Is(err, doctor.ErrUnmendable) {
		if text := err.Error(); f.Unprotected() != "" && !(strings.Contains(text, "is not protected (it") && strings.Contains(text, "compare")) {
			t.Fatalf("%q says not that its content is not protected, or not what to do: %s", err, data)
		}
		return rotRejected
	}
	if err != nil {
		if f.CPU == nil || len(f.CPU.ByID) == 0 { // containers by id have no known pod here
			t.Fatalf("%v: %s", err, data)
		}
		return rotUnread
	}
	if now.CPU != nil {
		n.noOverlap(t, now.CPU, remarks)
	}
	if reflect.DeepEqual(f.CPU, was.CPU) && reflect.DeepEqual(f.Memory, was.Memory) {
		return rotRepaired
	}
	if !slices.ContainsFunc(remarks, func(r doctor.Remark) bool { return r.Check && strings.Contains(r.What, "is not protected (it") }) {
		t.Fatalf("%s: the remarks do not say that the content is not protected: %+v", data, remarks)
	}
	return rotNoted
}

// noOverlap checks the repaired file against the machine and for overlaps.
func (n *drawn) noOverlap(t *rapid.T, c *kubeletstate.CPU, remarks []doctor.Remark) {
	list := func(text string) cpuset.Set {
		set, err := cpuset.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if absent := set.Difference(n.setup.Machine.AllCPUs()); !absent.IsEmpty() {
			t.Fatalf("%s: the machine has no CPU %s", text, absent)
		}
		return set
	}
	before := func(uid, a, b string) bool {
		x, _ := cpuset.Parse(n.whole.CPU.Entries[uid][a])
		y, _ := cpuset.Parse(n.whole.CPU.Entries[uid][b])
		// An init container may share CPUs with an app container.
		return a == "init" || b == "init" || x.Intersects(y) || n.whole.CPU.Entries[uid][a] == "" || n.whole.CPU.Entries[uid][b] == ""
	}
	named := func(uid, a, b string) bool {
		return slices.ContainsFunc(remarks, func(r doctor.Remark) bool {
			names, _, are := strings.Cut(strings.TrimPrefix(r.What, "containers "), " have the same list, ")
			return r.Check && r.UID == uid && are && slices.Contains(strings.Split(names, ", "), a) && slices.Contains(strings.Split(names, ", "), b)
		})
	}
	taken := list(c.Default)
	for _, uid := range slices.Sorted(maps.Keys(c.Entries)) {
		own := c.Pools[uid]
		names := slices.Sorted(maps.Keys(c.Entries[uid]))
		for i, a := range names {
			own = own.Union(list(c.Entries[uid][a]))
			for _, b := range names[i+1:] {
				if list(c.Entries[uid][a]).Intersects(list(c.Entries[uid][b])) && !before(uid, a, b) && !named(uid, a, b) {
					t.Fatalf("containers %s and %s of pod %s: %+v", a, b, uid, c)
				}
			}
		}
		if taken.Intersects(own) {
			t.Fatalf("pod %s shares CPUs with another, or with the node shared pool: %+v", uid, c)
		}
		taken = taken.Union(own)
	}
}

// TestEqualLists checks what is reported about lists that a wrong byte may have made equal. In a
// file without checksum, c0 and c2 shared CPU 3, and c1 had CPU 2 alone.
func TestEqualLists(t *testing.T) {
	pools := map[string]cpuset.Set{"u": cpuset.Of(2, 3)}
	for _, c := range []struct {
		name    string
		entries map[string]string
		pools   map[string]cpuset.Set
		names   string // of the containers in the remark
		fails   bool
	}{
		{"as it was", map[string]string{"c0": "3", "c1": "2", "c2": "3"}, nil, "c0, c2", false},
		{"c2 on the CPU of c1", map[string]string{"c0": "3", "c1": "2", "c2": "2"}, nil, "c1, c2", false},
		{"c2 on the CPU of c1, with a pool", map[string]string{"c0": "3", "c1": "2", "c2": "2"}, pools, "c1, c2", false},
		{"all the same", map[string]string{"c0": "2-3", "c2": "2-3"}, pools, "", false},
		{"an init container", map[string]string{"init": "2", "c1": "2", "c2": "3"}, nil, "", false},
		{"no container left on CPU 3", map[string]string{"c1": "2", "c2": "2"}, nil, "", true},
	} {
		m := nodes.Machine("cores=4 memory=4Gi")
		old := &doctor.State{
			CPU:         &kubeletstate.CPU{Policy: "static", Default: "0-1", Entries: map[string]map[string]string{"u": c.entries}, Pools: c.pools},
			Unprotected: map[kubeletstate.Manager]string{kubeletstate.CPUManager: "its checksum is wrong"},
		}
		setup := doctor.Setup{Kubelet: kubeletstate.Kubelet{Minor: 36}, Machine: m, Policy: &node.Policy{StaticCPU: true, ReservedCPUs: cpuset.Of(0)}}
		now, remarks, err := doctor.Repair(old, setup, doctor.Pods{Init: func(_, container string) bool { return container == "init" }})
		if c.fails != errors.Is(err, doctor.ErrUnmendable) || (now == nil) != c.fails {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var texts []string
		for _, r := range remarks {
			if r.UID == "u" && r.Check {
				texts = append(texts, r.What)
			}
		}
		switch {
		case c.names == "" && len(texts) > 0, c.names != "" && (len(texts) != 1 || !strings.HasPrefix(texts[0], "containers "+c.names+" have the same list, ")):
			t.Errorf("%s: the remarks about the pod are %q", c.name, texts)
		case c.names != "" && !slices.ContainsFunc(remarks, func(r doctor.Remark) bool {
			return r.UID == "" && strings.Contains(r.What, "may be wrong (see the pods)")
		}):
			t.Errorf("%s: the remarks are %+v", c.name, remarks)
		}
	}
}
