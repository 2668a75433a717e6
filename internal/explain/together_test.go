package explain_test

import (
	"reflect"
	"testing"

	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/explain"
)

// TestTogether checks which resources are missing together, and where the least is missing.
func TestTogether(t *testing.T) {
	const gpu = "nvidia.com/gpu"
	amounts := func(cpus, memory, gpus int64) (out []explain.Amount) {
		for _, a := range []explain.Amount{{Resource: request.CPU, Value: cpus}, {Resource: request.Memory, Value: memory}, {Resource: gpu, Value: gpus}} {
			if a.Value > 0 {
				out = append(out, a)
			}
		}
		return out
	}
	place := func(cpus, memory, gpus int64) explain.MissingPlace {
		return explain.MissingPlace{Missing: amounts(cpus, memory, gpus)}
	}
	barred := func(p explain.MissingPlace) explain.MissingPlace { p.Barred = true; return p }
	for _, test := range []struct {
		name   string
		places []explain.MissingPlace
		want   []explain.Together
	}{
		{"nothing is missing", []explain.MissingPlace{place(0, 0, 0)}, nil},
		{"a resource alone is missing on one place", []explain.MissingPlace{place(1, 1, 0), place(1, 0, 0)}, nil},
		{"no amount is missing on one place", []explain.MissingPlace{place(1, 1, 0), barred(place(0, 0, 0))}, nil},
		{"the nearest place is not the first", []explain.MissingPlace{place(8, 61, 0), place(2, 52, 0)}, []explain.Together{{amounts(2, 52, 0), 1, 2}}},
		{"the nearest place is not the last", []explain.MissingPlace{place(2, 52, 0), place(8, 61, 0)}, []explain.Together{{amounts(2, 52, 0), 0, 2}}},
		{"one place lacks more, even if less of each", []explain.MissingPlace{place(1, 1, 1), place(8, 61, 0)}, []explain.Together{{amounts(8, 61, 0), 1, 2}}},
		{"a later place lacks more", []explain.MissingPlace{place(8, 61, 0), place(1, 1, 1)}, []explain.Together{{amounts(8, 61, 0), 0, 2}}},
		{"different sets", []explain.MissingPlace{place(1, 1, 0), place(1, 0, 1)}, []explain.Together{{amounts(1, 1, 0), 0, 1}, {amounts(1, 0, 1), 1, 1}}},
		{"something else keeps the pod away", []explain.MissingPlace{barred(place(1, 1, 0)), place(8, 61, 0)}, []explain.Together{{amounts(8, 61, 0), 1, 2}}},
		{"something else keeps the pod away everywhere", []explain.MissingPlace{barred(place(1, 1, 0)), barred(place(1, 0, 0))}, nil},
	} {
		m := explain.Missing{Wanted: amounts(12, 100, 2), Places: test.places}
		if got := m.Together(); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
