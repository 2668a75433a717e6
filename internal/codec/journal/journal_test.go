package journal_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/codec/journal"
	"github.com/paddock-project/paddock/internal/core/account"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 123, time.UTC)

// example returns a journal in which every field is used.
func example() journal.Journal {
	pod := request.Pod{
		Identity: request.Identity{UID: "4cdf", Namespace: "prod", Name: "db"}, Ask: request.Ask{
			QoS: request.Guaranteed, Kind: request.PodLevel,
			BudgetCPUs: 6, BudgetCPUMilli: 6000, CPULimit: 6500, BudgetMemory: request.Amounts{{Resource: "hugepages-2Mi", Value: 8 << 20}, {Resource: "memory", Value: 4 << 30}},
			SharesIsolated: true, PoolCache: request.Cache{Ways: 2, Percent: 1, Bandwidth: 10}, CacheUnclear: "no number", Estimated: true, DevicesUnknown: "no answer",
			Containers: []request.Container{
				{Name: "log", Type: request.Sidecar, Sharing: request.FractionalCPU, CPURequest: 500, CPULimit: 1500},
				{
					Name: "main <&>", Type: request.App, CPUs: 4, Equivalent: true, HugePages: []request.Resource{"hugepages-2Mi", "hugepages-1Gi"},
					Memory: request.Amounts{{Resource: "hugepages-2Mi", Value: 0}, {Resource: "memory", Value: 3}}, Devices: request.Amounts{{Resource: "example.com/gpu", Value: 2}},
					Cache:      request.Cache{Ways: 4, Percent: 30, Bandwidth: 20},
					CPURequest: 4000, CPULimit: 4000,
					Given: []request.Given{
						{Driver: "gpu.example.com", Pool: "p", Claim: "train", Name: "gpu0", Nodes: mask.Of(1)},
						{Resource: "example.com/fpga", Name: "f"},
					},
					ContainerNotes: request.ContainerNotes{
						MemoryRequest: request.Amounts{{Resource: "memory", Value: 1}}, MemoryLimit: request.Amounts{{Resource: "memory", Value: 2}},
						Claims: []string{"train"},
					},
				},
			},
			Stock: []request.Stock{{Of: "gpu.example.com", Places: []request.Place{{Nodes: mask.Of(0, 63), Devices: 2}}}},
		}, Notes: request.Notes{Priority: -7, Created: 1_700_000_000, Moves: request.MoveMemory},
	}
	rejection := &rejection.Rejection{
		Reason: rejection.TopologyAffinityError, Rule: "R-HINT-62", Container: "main", Resource: "memory", Wanted: 4 << 30, Detail: "too much",
		Nodes: []account.Node{
			{Node: 0, Total: 8 << 30, Free: 1 << 30, Holders: []account.Holder{{Pod: "prod/a", Amount: 7 << 30, Nodes: mask.Of(0, 63)}}},
			{Node: 63, Total: 3, Unhealthy: 1, Free: 2},
		},
		Misfit: &rejection.Misfit{
			Devices: []request.Given{{Driver: "gpu.example.com", Pool: "p", Claim: "train", Resource: "r", Name: "gpu0", Nodes: mask.Of(1)}}, Nodes: mask.Of(1),
			Short: []rejection.Shortage{{Resource: "memory", Wanted: 4 << 30, Free: 1 << 30, Total: 2 << 30, Preferred: 1}}, Final: true,
		},
	}
	return journal.Journal{
		Rejections: []journal.Rejection{
			{Number: 3, Pod: pod, Revision: 9, Rejection: rejection, First: noon, Last: noon.Add(time.Hour), Times: 2},
			{Number: 8, Pod: request.Pod{Identity: request.Identity{UID: "5", Namespace: "n", Name: "m"}}, Error: "no space left on device", First: noon, Last: noon, Times: 1},
		},
		Admissions: []journal.Admission{{UID: "1", At: noon, Revision: 1}, {UID: "2", At: noon.Add(time.Minute), Revision: 7}},
	}
}

func encode(t interface {
	Helper()
	Fatal(...any)
}, j journal.Journal,
) []byte {
	t.Helper()
	data, err := journal.Encode(j)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(t interface {
	Helper()
	Fatal(...any)
}, data []byte,
) journal.Journal {
	t.Helper()
	j, err := journal.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// full fails if any field of the values, at any depth, is zero in all of them.
func full(t *testing.T, path string, values []reflect.Value) {
	t.Helper()
	first := values[0]
	if strings.HasSuffix(path, ".Notes.ResourceClaims") || strings.HasSuffix(path, ".Notes.VirtualMachine") || strings.HasSuffix(path, ".FractionalMemory") {
		return // They do not explain any admission by Paddock.
	}
	if !slices.ContainsFunc(values, func(v reflect.Value) bool { return !v.IsZero() }) {
		t.Errorf("%s is not in the example, so that nothing proves that it is kept", path)
		return
	}
	switch first.Kind() {
	case reflect.Struct:
		if first.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range first.NumField() {
			var fields []reflect.Value
			for _, v := range values {
				fields = append(fields, v.Field(i))
			}
			full(t, path+"."+first.Type().Field(i).Name, fields)
		}
	case reflect.Slice, reflect.Pointer:
		var elements []reflect.Value
		for _, v := range values {
			if v.Kind() == reflect.Pointer && !v.IsNil() {
				elements = append(elements, v.Elem())
			}
			for i := 0; v.Kind() == reflect.Slice && i < v.Len(); i++ {
				elements = append(elements, v.Index(i))
			}
		}
		full(t, path+"[]", elements)
	default:
	}
}

// TestRoundTrip checks that every field survives encoding and decoding. It fails for new fields
// that example does not set.
func TestRoundTrip(t *testing.T) {
	want := example()
	full(t, "Journal", []reflect.Value{reflect.ValueOf(want)})
	data := encode(t, want)
	if diff := cmp.Diff(want, decode(t, data)); diff != "" {
		t.Error(diff)
	}
	for _, zone := range []*time.Location{time.FixedZone("", 3600), time.FixedZone("", 1)} {
		for i := range want.Rejections {
			want.Rejections[i].First = want.Rejections[i].First.In(zone)
		}
		if got := string(encode(t, want)); got != string(data) {
			t.Errorf("the same times in another zone:\n%s", got)
		}
	}
	if diff := cmp.Diff(journal.Journal{}, decode(t, encode(t, journal.Journal{}))); diff != "" {
		t.Error(diff)
	}
}

// TestNames checks that every value of an enumeration has its own name.
func TestNames(t *testing.T) {
	var all []journal.Rejection
	add := func(p request.Pod) {
		p.UID = "u"
		all = append(all, journal.Rejection{Number: len(all) + 1, Pod: p, Error: "e", First: noon, Last: noon, Times: 1})
	}
	for _, q := range []request.QoS{request.BestEffort, request.Burstable, request.Guaranteed} {
		add(request.Pod{Ask: request.Ask{QoS: q}})
	}
	for _, k := range []request.Kind{request.Plain, request.PodLevel, request.Unmanaged} {
		add(request.Pod{Ask: request.Ask{Kind: k}})
	}
	for _, l := range []request.ContainerType{request.Init, request.Sidecar, request.App} {
		add(request.Pod{Ask: request.Ask{Containers: []request.Container{{Type: l}}}})
	}
	for s := request.NotShared; s <= request.Estimated; s++ {
		add(request.Pod{Ask: request.Ask{Containers: []request.Container{{Sharing: s}}}})
	}
	if diff := cmp.Diff(all, decode(t, encode(t, journal.Journal{Rejections: all})).Rejections); diff != "" {
		t.Error(diff)
	}
	if _, err := journal.Encode(journal.Journal{Rejections: []journal.Rejection{{Pod: request.Pod{Ask: request.Ask{QoS: 9}}}}}); err == nil {
		t.Error("a value without a name was written")
	}
}

// TestDecode checks that invalid journals are rejected with the reason, and that unknown members
// are ignored.
func TestDecode(t *testing.T) {
	good := string(encode(t, example()))
	for name, c := range map[string]struct {
		data string
		want error
		text string
	}{
		"empty":        {"", journal.ErrDamaged, "unexpected end"},
		"half":         {good[:len(good)/2], journal.ErrDamaged, "unexpected end"},
		"zeros":        {strings.Repeat("\x00", 100), journal.ErrDamaged, "invalid character"},
		"another file": {`{"format":"paddock-state","version":1}`, journal.ErrDamaged, `format "paddock-state"`},
		"newer":        {strings.Replace(good, `"version":1`, `"version":2`, 1), journal.ErrNewer, "version 2"},
		"too large":    {good + strings.Repeat(" ", journal.MaxSize), journal.ErrDamaged, "more than the 1048576 bytes"},
		"QoS":          {strings.Replace(good, `"Guaranteed"`, `"Better"`, 1), journal.ErrDamaged, `"Better" is none of`},
		"negative":     {strings.Replace(good, `"cpus":4`, `"cpus":-4`, 1), journal.ErrDamaged, "container main <&> has -4"},
		"year":         {strings.Replace(good, `"2026-`, `"1926-`, 1), journal.ErrDamaged, "time 1926-"},
		"NUMA node":    {strings.Replace(good, `"numaNode":63`, `"numaNode":64`, 1), journal.ErrDamaged, "NUMA node 64"},
		"holder's":     {strings.Replace(good, `[0,63]`, `[0,-1]`, 1), journal.ErrDamaged, "NUMA node -1"},
		"order":        {strings.Replace(good, `"number":8`, `"number":3`, 1), journal.ErrDamaged, "rejection 3 follows rejection 3"},
		"times":        {strings.Replace(good, `"times":2`, `"times":0`, 1), journal.ErrDamaged, "happened 0 times"},
		"no reason":    {strings.Replace(good, `"error":"no space left on device"`, `"error":""`, 1), journal.ErrDamaged, "wants a reason"},
		"no UID":       {strings.Replace(good, `"uid":"1"`, `"uid":""`, 1), journal.ErrDamaged, "no UID"},
	} {
		if j, err := journal.Decode([]byte(c.data)); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || len(j.Rejections) > 0 {
			t.Errorf("%s: %v, want %q", name, err, c.text)
		}
	}
	for _, old := range []string{good, strings.ReplaceAll(good, `"rejection":{`, `"refusal":{`)} { // The name before 0.1.0.
		if diff := cmp.Diff(example(), decode(t, []byte(old))); diff != "" {
			t.Error(diff)
		}
	}
	more := strings.NewReplacer(`"times":`, `"later":{"x":[1]},"times":`, `"version":1`, `"version":1,"new":true`).Replace(good)
	if diff := cmp.Diff(example(), decode(t, []byte(more))); diff != "" {
		t.Error(diff)
	}
}

// TestBounds checks that a journal of any size is encoded within the bounds and can be decoded,
// that the newest entries are kept in their order, and that no entry that fits is left out.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var j journal.Journal
		large := rapid.IntRange(0, 400_000).Draw(t, "large")
		for i := range rapid.IntRange(0, 2*journal.MaxRejections).Draw(t, "rejections") {
			detail := strings.Repeat("x", rapid.SampledFrom([]int{1, 1, 1, 1000, large}).Draw(t, "bytes"))
			j.Rejections = append(j.Rejections, journal.Rejection{
				Number: 1 + 2*i, Pod: request.Pod{Identity: request.Identity{UID: fmt.Sprint(i)}}, First: noon, Last: noon, Times: 1, Rejection: &rejection.Rejection{Detail: detail},
			})
		}
		name := strings.Repeat("u", rapid.SampledFrom([]int{1, 36, 1000}).Draw(t, "name"))
		for i := range rapid.IntRange(0, 2*journal.MaxAdmissions).Draw(t, "admissions") {
			j.Admissions = append(j.Admissions, journal.Admission{UID: fmt.Sprint(name, i), At: noon, Revision: uint64(i)})
		}
		data := encode(t, j)
		if len(data) > journal.MaxSize {
			t.Fatalf("%d bytes", len(data))
		}
		got := decode(t, data)
		isPart(t, j.Rejections, got.Rejections, journal.MaxRejections, func(a, b journal.Rejection) bool {
			return a.Number == b.Number && a.Rejection.Detail == b.Rejection.Detail
		})
		isPart(t, j.Admissions, got.Admissions, journal.MaxAdmissions, func(a, b journal.Admission) bool { return a == b })
		if len(got.Rejections) < min(len(j.Rejections), journal.MaxRejections) && len(data) < journal.MaxSize-large-1000 {
			t.Fatalf("%d rejections of %d in %d bytes", len(got.Rejections), len(j.Rejections), len(data))
		}
		if newest := len(j.Admissions); newest > 0 && got.Admissions[len(got.Admissions)-1] != j.Admissions[newest-1] {
			t.Fatal("the newest admission is left out")
		}
	})
}

// isPart fails unless part is a subsequence of all and has at most most elements.
func isPart[T any](t *rapid.T, all, part []T, most int, equal func(a, b T) bool) {
	t.Helper()
	if len(part) > most {
		t.Fatalf("%d entries", len(part))
	}
	for _, p := range part {
		i := slices.IndexFunc(all, func(a T) bool { return equal(a, p) })
		if i < 0 {
			t.Fatalf("%v was not there, or stands elsewhere", p)
		}
		all = all[i+1:]
	}
}

// FuzzDecode checks that any bytes yield a journal or an error, and that a decoded journal can be
// encoded and decoded again.
func FuzzDecode(f *testing.F) {
	good := encode(f, example())
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add(encode(f, journal.Journal{}))
	f.Add([]byte(`{"format":"paddock-history","version":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := journal.Decode(data)
		if err != nil {
			if len(j.Rejections) > 0 || len(j.Admissions) > 0 || !errors.Is(err, journal.ErrDamaged) && !errors.Is(err, journal.ErrNewer) {
				t.Fatalf("%v with %v", j, err)
			}
			return
		}
		again := encode(t, j)
		once := decode(t, again)
		if twice := encode(t, once); string(twice) != string(again) {
			t.Fatalf("written twice:\n%s\n%s", again, twice)
		}
	})
}
