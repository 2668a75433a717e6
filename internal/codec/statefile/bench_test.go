package statefile_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/testing/classtest"
)

// FuzzDecode checks that Decode returns either a file or an error and never panics, and that a
// decoded file is encoded to the same bytes. It corrects the checksum first, because otherwise
// Decode would reject almost every input.
func FuzzDecode(f *testing.F) {
	good, err := os.ReadFile(form)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(encoded(f, classtest.State(f)))
	f.Add([]byte(`{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`))
	f.Add([]byte(`{"format":"paddock-state","version":1,"generation":1,` + "\n" + `"machine":{"cpus":"0-65535","nodes":[]},"policy":{},"grants":null,` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, data := range [][]byte{data, sealed(data)} {
			file, err := statefile.Decode("f", data)
			if (file == nil) == (err == nil) {
				t.Fatalf("file %v and error %v", file != nil, err)
			}
			if err != nil {
				if !errors.Is(err, statefile.ErrDamaged) && !errors.Is(err, statefile.ErrForeign) && !errors.Is(err, statefile.ErrNewer) {
					t.Fatalf("error %v is of no kind", err)
				}
				continue
			}
			again, err := statefile.EncodeFile(file)
			if err != nil || !bytes.Equal(again, data) {
				t.Fatalf("%v, read\n%s, wrote\n%s", err, data, again)
			}
			file.Changes(hardware(t, 1, 1), podScope())
		}
	})
}

// full returns a node with the given number of pods. Each pod has four containers, two of which are
// exclusive.
func full(tb testing.TB, pods int) *node.State {
	s, err := node.New(hardware(tb, 8, 96), podScope())
	if err != nil {
		tb.Fatal(err)
	}
	for i := range pods {
		pod := request.Pod{
			Identity: request.Identity{UID: fmt.Sprintf("%08d-0000-4000-8000-000000000000", i), Namespace: "production", Name: fmt.Sprintf("database-%d-abcde", i)},
			Ask: request.Ask{
				QoS: request.Guaranteed, Kind: request.PodLevel, BudgetCPUs: 5, BudgetCPUMilli: 5000, CPULimit: 5000, BudgetMemory: memory(4),
			},
		}
		for k, name := range []string{"proxy", "log-shipper", "main", "cache"} {
			c := request.Container{Name: name, Type: request.App, Sharing: request.FractionalCPU, CPURequest: 500, CPULimit: 500}
			if k >= 2 {
				c = request.Container{Name: name, Type: request.App, CPUs: 2, Memory: memory(1), Equivalent: true, CPURequest: 2000, CPULimit: 2000}
			}
			pod.Containers = append(pod.Containers, c)
		}
		if s, err = s.Apply(s.Plan(pod)); err != nil {
			tb.Fatal(err)
		}
	}
	if len(s.Grants()) != pods {
		tb.Fatalf("%d of %d pods were admitted", len(s.Grants()), pods)
	}
	return s
}

func BenchmarkEncode(b *testing.B) {
	s := full(b, 250)
	b.SetBytes(int64(len(encoded(b, s))))
	b.ReportAllocs()
	for b.Loop() {
		encoded(b, s)
	}
}

// BenchmarkAdmission measures the time to encode the file for an admission if the other pods have
// been encoded before.
func BenchmarkAdmission(b *testing.B) {
	s := full(b, 249)
	pod := full(b, 250).Grants()[249].Pod
	next, err := s.Apply(s.Plan(pod))
	if err != nil {
		b.Fatal(err)
	}
	var e statefile.Encoder
	b.ReportAllocs()
	for b.Loop() {
		for _, state := range []*node.State{s, next} { // one release, one admission
			if _, err := e.Encode(state); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	data := encoded(b, full(b, 250))
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := statefile.Decode("state", data); err != nil {
			b.Fatal(err)
		}
	}
}
