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
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// TestRot changes any byte of a valid file and repairs the file. In the result, no CPU may be in
// the lists of two pods, or in the lists of two containers that had no CPU in common, and every CPU
// must exist on the machine. If the content differs from the original, a remark must report that
// nothing protected it.
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
		n.noOverlap(t, now.CPU)
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
func (n *drawn) noOverlap(t *rapid.T, c *kubeletstate.CPU) {
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
	taken := list(c.Default)
	for _, uid := range slices.Sorted(maps.Keys(c.Entries)) {
		own := c.Pools[uid]
		names := slices.Sorted(maps.Keys(c.Entries[uid]))
		for i, a := range names {
			own = own.Union(list(c.Entries[uid][a]))
			for _, b := range names[i+1:] {
				if list(c.Entries[uid][a]).Intersects(list(c.Entries[uid][b])) && !before(uid, a, b) {
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
