package memory_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/hint"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/memory"
	"github.com/paddock-project/paddock/internal/core/request"
)

// twoNodes returns a machine with 512Mi on NUMA node 0, 8Mi of them huge pages, and 256Mi without
// huge pages on NUMA node 3.
func twoNodes(t *testing.T) *machine.Machine {
	t.Helper()
	m, err := machine.New(machine.Description{Nodes: []machine.NodeDescription{
		{ID: 0, Memory: 512 * mib, HugePages: []machine.HugePages{{SizeKiB: 2048, Count: 4}}, Cores: []machine.CoreDescription{{Threads: []int{0}}}},
		{ID: 3, Memory: 256 * mib},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestCapacitySetsReservationAndHugePagesApart covers R-MEM-11 and R-MEM-12.
func TestCapacitySetsReservationAndHugePagesApart(t *testing.T) {
	c, err := memory.NewCapacity(twoNodes(t), map[int]map[string]int64{0: {machine.Memory: 100 * mib, huge: 2 * mib}})
	if err != nil {
		t.Fatal(err)
	}
	want := []memory.NodeCapacity{
		{ID: 0, Types: []memory.TypeCapacity{{true, 512 * mib, 100 * mib, 404 * mib}, {true, 8 * mib, 2 * mib, 6 * mib}}},
		{ID: 3, Types: []memory.TypeCapacity{{true, 256 * mib, 0, 256 * mib}, {}}},
	}
	for i, n := range c.Nodes() {
		if n.ID != want[i].ID || n.Types[0] != want[i].Types[0] || n.Types[1] != want[i].Types[1] {
			t.Errorf("NUMA node %d: %+v, want %+v", n.ID, n.Types, want[i].Types)
		}
	}
}

// TestReservationsMustFit covers Q-19: a reservation that does not fit is an error instead of a
// number that wraps around.
func TestReservationsMustFit(t *testing.T) {
	for _, c := range []struct {
		reserved map[int]map[string]int64
		want     string
	}{
		{map[int]map[string]int64{1: {machine.Memory: 1}}, "NUMA node 1 does not exist"},
		{map[int]map[string]int64{0: {"hugepages-1Gi": 1}}, "no hugepages-1Gi"},
		{map[int]map[string]int64{0: {machine.Memory: 505 * mib}}, "reserve less"},
		{map[int]map[string]int64{0: {huge: 9 * mib}}, "reserve less"},
		{map[int]map[string]int64{3: {huge: 2 * mib}}, "reserve less"},
	} {
		_, err := memory.NewCapacity(twoNodes(t), c.reserved)
		if !errors.Is(err, memory.ErrReservation) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want one with %q", c.reserved, err, c.want)
		}
	}
}

// TestHintsThatSayNothing covers requests without hints. Huge pages of a size that the machine does
// not have are unsatisfiable. A request that fits nowhere at the moment is "don't care"
// (R-HINT-34), and so is a request for nothing.
func TestHintsThatSayNothing(t *testing.T) {
	c, err := memory.NewCapacity(twoNodes(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	u := memory.NewUsage(c)
	if f := u.Hints(request.Amounts{{Resource: "hugepages-1Gi", Value: 1}}, nil); f.Kind != hint.None || !strings.Contains(f.Why, "hugepages-1Gi") {
		t.Errorf("an unknown size: %+v", f)
	}
	for _, amounts := range []request.Amounts{nil, {{Resource: machine.Memory, Value: 761 * mib}}} {
		if f := u.Hints(amounts, nil); f.Kind != hint.Any {
			t.Errorf("%s: %+v", amounts, f)
		}
	}
}

func TestPlacementErrorsNameWhatIsShort(t *testing.T) {
	c, err := memory.NewCapacity(twoNodes(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	u := memory.NewUsage(c).Charge([]memory.Block{{Type: machine.Memory, Size: 100 * mib, Nodes: mask.Of(0)}}, nil)
	for _, x := range []struct {
		typ    string
		mib    int64
		choice hint.Choice
		cause  memory.Cause
		text   string
	}{
		{"hugepages-1Gi", 1, hint.Choice{}, memory.NoSuchType, "this machine has no hugepages-1Gi"},
		{machine.Memory, 700, hint.Choice{}, memory.NoRoom, "700Mi of memory wanted, 660Mi free on NUMA nodes 0,3"},
		{machine.Memory, 500, hint.Choice{}, memory.NoRoom, "500Mi of memory wanted, 660Mi free on NUMA nodes 0,3, but a container can get at most 404Mi of it"},
		{machine.Memory, 300, hint.Choice{Mask: mask.Of(3), HasMask: true}, memory.NoExtension, "300Mi of memory wanted, 256Mi free on NUMA node 3"},
		{machine.Memory, 200, hint.Choice{Mask: mask.Of(0, 3), HasMask: true}, memory.GroupConflict, "NUMA nodes 0,3"},
	} {
		_, err := u.Place(request.Amounts{{Resource: x.typ, Value: x.mib * mib}}, x.choice, nil)
		var short *memory.PlacementError
		if !errors.As(err, &short) || short.Cause != x.cause || !strings.Contains(err.Error(), x.text) {
			t.Errorf("%dMi of %s: error %v, want cause %d and %q", x.mib, x.typ, err, x.cause, x.text)
		}
	}
	// On an empty machine it would fit on NUMA node 0, as the alignment promised. The group has
	// room.
	group := memory.NewUsage(c).Charge([]memory.Block{{Type: machine.Memory, Size: 100 * mib, Nodes: mask.Of(0, 3)}}, nil)
	_, err = group.Place(request.Amounts{{Resource: machine.Memory, Value: 450 * mib}}, hint.Choice{Mask: mask.Of(0), HasMask: true, Preferred: true}, nil)
	var short *memory.PlacementError
	if !errors.As(err, &short) || short.Cause != memory.NotPreferred {
		t.Errorf("error %v, want NotPreferred", err)
	}
}
