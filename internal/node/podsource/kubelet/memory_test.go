package kubelet_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/node/podsource/kubelet"
)

// hostile has large answers, made of a beginning, a part that is repeated, and an end.
var hostile = map[string][3]string{
	"empty items":          {`{"kind":"PodList","apiVersion":"v1","items":[{}`, `,{}`, `]}`},
	"items with a UID":     {`{"kind":"PodList","apiVersion":"v1","items":[{}`, `,{"metadata":{"uid":"%d"}}`, `]}`},
	"long names":           {`{"kind":"PodList","apiVersion":"v1","items":[{}`, `,{"metadata":{"uid":"%d` + long(230) + `","name":"` + long(300) + `","namespace":"` + long(300) + `"}}`, `]}`},
	"empty containers":     {`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"uid":"a"},"spec":{"containers":[{}`, `,{}`, `]}}]}`},
	"pods of containers":   {`{"kind":"PodList","apiVersion":"v1","items":[{}`, `,{"metadata":{"uid":"%d"},"spec":{"containers":[{}` + strings.Repeat(`,{}`, 4990) + `]}}`, `]}`},
	"named containers":     {`{"kind":"PodList","apiVersion":"v1","items":[{}`, `,{"metadata":{"uid":"%d"},"spec":{"containers":[{}` + strings.Repeat(`,{"name":"`+long(63)+`"}`, 4990) + `]}}`, `]}`},
	"long containers":      {`{"kind":"PodList","apiVersion":"v1","items":[{}`, `,{"metadata":{"uid":"%d"},"spec":{"containers":[{}` + strings.Repeat(`,{"name":"`+long(300)+`"}`, 4990) + `]}}`, `]}`},
	"devices":              {`{"kind":"PodList","apiVersion":"v1","items":[{}`, `,{"metadata":{"uid":"%d"},"spec":{"containers":[` + devices(40) + `]}}`, `]}`},
	"too many claims":      {`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"uid":"a"},"spec":{"containers":[{"resources":{"claims":[{"name":"a"}`, `,{"name":"%d"}`, `]}}]}}]}`},
	"claims of pods":       {`{"kind":"PodList","apiVersion":"v1","items":[{}`, `,{"metadata":{"uid":"%d"},"spec":{"resourceClaims":[{}` + strings.Repeat(`,{}`, 1000) + `]}}`, `]}`},
	"too many pod claims":  {`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"uid":"a"},"spec":{"resourceClaims":[{"name":"a"}`, `,{"name":"%d"}`, `]}}]}`},
	"too many claim names": {`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"uid":"a"},"status":{"resourceClaimStatuses":[{"name":"a"}`, `,{"name":"%d"}`, `]}}]}`},
	"too many mappings":    {`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"uid":"a"},"status":{"extendedResourceClaimStatus":{"requestMappings":[{}`, `,{"requestName":"%d"}`, `]}}}]}`},
	"too many devices":     {`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"uid":"a"},"spec":{"containers":[{"resources":{"limits":{"a":1`, `,"%d":1`, `}}}]}}]}`},
	"a device, repeated":   {`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"uid":"a"},"spec":{"resources":{"limits":{"a":1`, `,"a":1`, `}}}}]}`},
	"an annotation":        {`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"uid":"a","annotations":{"a":"`, long(1000), `"}}}]}`},
	"annotations":          {`{"kind":"PodList","apiVersion":"v1","items":[{}`, `,{"metadata":{"uid":"%d","annotations":{"a":1` + strings.Repeat(`,"a":1`, 300_000) + `}}}`, `]}`},
	"large names":          {`{"kind":"PodList","apiVersion":"v1","items":[{}`, `,{"metadata":{"uid":"%d","name":"` + long(2_000_000) + `"}}`, `]}`},
	"a large class":        {`{"kind":"PodList","apiVersion":"v1","items":[{}`, `,{"metadata":{"uid":"%d"},"status":{"qosClass":"` + long(4_000_000) + `"}}`, `]}`},
	"a large number":       {`{"kind":"PodList","apiVersion":"v1","items":[{}`, `,{"metadata":{"uid":"%d"},"spec":{"priority":1` + strings.Repeat("1", 4_000_000) + `}}`, `]}`},
	"brackets":             {`{"kind":"PodList","apiVersion":"v1","items":[`, `[`, ``},
	"many keys":            {`{"kind":"PodList","apiVersion":"v1"`, `,"k%d":{}`, `,"items":[]}`},
	"a key":                {`{"`, long(1000), `":1}`},
	"a kind":               {`{"kind":"`, long(1000), `"}`},
	"nothing":              {``, strings.Repeat(" ", 1000), ``},
	"containers of status": {`{"kind":"PodList","apiVersion":"v1","items":[{}`, `,{"metadata":{"uid":"%d"},"status":{"containerStatuses":[{}` + strings.Repeat(`,{}`, 20_000) + `]}}`, `]}`},
}

func long(n int) string { return strings.Repeat("x", n) }

// devices returns n containers, each with nearly as many devices as a list may have.
func devices(n int) string {
	var names []string
	for i := range 127 {
		names = append(names, fmt.Sprintf(`"%s/%d":1`, long(200), i))
	}
	one := `{"resources":{"limits":{` + strings.Join(names, ",") + `}}}`
	return one + strings.Repeat(`,`+one, n-1)
}

// flood is one of the hostile answers. It measures the heap from time to time while it is read.
type flood struct {
	begin, part, end string
	left, n          int
	now              strings.Reader
	peak             uint64
	read             int
}

// most is the heap that is allowed. size is the size of the answers; with -hostile=64 they have the
// largest size that is read.
const most = 64 << 20

var size = flag.Int("hostile", 12, "the MiB of a hostile answer")

func newFlood(parts [3]string) *flood {
	f := &flood{begin: parts[0], part: parts[1], end: parts[2], left: *size<<20 - len(parts[0]) - len(parts[2])}
	f.now.Reset(f.begin)
	return f
}

// Read implements io.Reader.
func (f *flood) Read(p []byte) (int, error) {
	if f.now.Len() == 0 {
		f.next()
	}
	n, err := f.now.Read(p)
	if f.read += n; f.read >= 1<<20 {
		f.read = 0
		f.peak = max(f.peak, heap())
	}
	return n, err
}

func (f *flood) next() {
	var b strings.Builder
	numbered := strings.Contains(f.part, "%d")
	if !numbered && len(f.part) < 1000 && f.left > 64<<10 {
		f.part = strings.Repeat(f.part, 1000/len(f.part)+1)
	}
	for b.Len() < 64<<10 && f.left > 0 {
		text := f.part
		if numbered {
			f.n++
			text = strings.ReplaceAll(text, "%d", fmt.Sprint(f.n))
		}
		if f.left -= len(text); f.left >= 0 {
			b.WriteString(text)
		}
	}
	if f.left <= 0 {
		b.WriteString(f.end)
		f.end = ""
	}
	f.now.Reset(b.String())
}

// heap returns the bytes of the heap, including garbage that was not collected yet.
func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestHostileAnswersTakeLittleMemory: no form of an answer takes more than 64 MiB of heap, garbage
// included. At 64 MiB (-hostile=64, a minute) the maximum is 54 MiB, for containers without a name.
func TestHostileAnswersTakeLittleMemory(t *testing.T) {
	// On a busy machine the collector falls behind, and memory that it has not freed yet would
	// count.
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	var names []string
	for name := range hostile {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			f := newFlood(hostile[name])
			runtime.GC()
			before := heap()
			usable, list, err := kubelet.Read(f, gates)
			peak := max(f.peak, heap())
			runtime.GC()
			kept := heap()
			extra := int64(peak) - int64(before)
			t.Logf("%d usable, %d listed, %d unreadable; at most %d MiB more heap, %d MiB kept; error %.200v",
				len(usable), len(list.Pods), list.Unreadable, extra>>20, (int64(kept)-int64(before))>>20, err)
			if extra > most {
				t.Errorf("%d MiB of heap", extra>>20)
			}
			runtime.KeepAlive(usable)
			runtime.KeepAlive(list)
		})
	}
}

// FuzzRead: the result is an error or a list, never both, and has no more pods than a decoder of
// whole lists finds items.
func FuzzRead(f *testing.F) {
	for _, parts := range hostile {
		f.Add([]byte(parts[0] + parts[2]))
		if len(parts[1]) < 1000 {
			f.Add([]byte(parts[0] + parts[1] + parts[2]))
		}
	}
	for _, text := range []string{list("a 1", "b 2 Failed"), `null`, `{"items":null,"kind":"PodList","apiVersion":"v1"}`, `{"kind":"PodList","apiVersion":"v1","items":[12,null,"}",[{}],{"metadata":{"uid":"\"a"}}]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		usable, got, err := kubelet.Read(strings.NewReader(string(data)), podspec.Gates{PodLevelResources: true})
		if err != nil {
			if usable != nil || got.Pods != nil {
				t.Fatal("an error and a list")
			}
			return
		}
		if !json.Valid(data) {
			t.Fatal("a list that is no JSON")
		}
		var whole struct{ Items []json.RawMessage }
		if err := json.Unmarshal(data, &whole); err != nil {
			return // The same name occurs in another case, with another type.
		}
		for uid := range usable {
			if _, there := got.Pods[uid]; !there {
				t.Fatalf("%q is usable and not listed", uid)
			}
		}
		for uid := range got.Ended {
			if _, there := got.Pods[uid]; there {
				t.Fatalf("%q has ended and has not", uid)
			}
		}
		if n := len(got.Pods) + len(got.Ended) + got.Unreadable; n > len(whole.Items) {
			t.Fatalf("%d pods of %d items", n, len(whole.Items))
		}
	})
}

// BenchmarkRead reads 250 pods as a kubelet lists them.
func BenchmarkRead(b *testing.B) {
	answer := recordedPods(b, 250)
	b.SetBytes(int64(len(answer)))
	b.ReportAllocs()
	for b.Loop() {
		if _, list, err := kubelet.Read(strings.NewReader(answer), gates); err != nil || len(list.Pods) != 250 {
			b.Fatal(err, len(list.Pods))
		}
	}
}

// recordedPods returns the recorded list with n pods.
func recordedPods(tb testing.TB, n int) string {
	tb.Helper()
	var recorded struct{ Items []json.RawMessage }
	readJSON(tb, "testdata/pods-1.36.3.json", &recorded)
	var all []string
	for i := range n {
		item := string(recorded.Items[i%len(recorded.Items)])
		all = append(all, strings.Replace(item, `-uid"`, fmt.Sprintf(`-uid-%d"`, i), 1))
	}
	return `{"kind":"PodList","apiVersion":"v1","items":[` + strings.Join(all, ",") + `]}`
}
