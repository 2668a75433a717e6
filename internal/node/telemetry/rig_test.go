package telemetry_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/node/engine"
	"github.com/paddock-project/paddock/internal/node/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDisk = errors.New("no space left on device")

// rig is an engine that telemetry observes. Its clock advances by 20 microseconds with each reading
// and by 3 milliseconds with each write.
type rig struct {
	engine    *engine.Engine
	telemetry *telemetry.Telemetry
	handler   http.Handler

	clock  time.Time
	broken bool
}

func newRig(s *node.State, checks ...telemetry.Check) *rig {
	r := &rig{clock: time.Unix(1_700_000_000, 0)}
	r.telemetry = telemetry.New(telemetry.Config{
		Policy: s.Policy(), Checks: checks,
		Snapshot: func() *engine.Snapshot { return r.engine.Snapshot() },
		Stranded: func(*node.State) map[int]float64 { return map[int]float64{0: 0.5} },
		Build:    telemetry.Build{Version: "v1.2.3", Revision: "0123abc", GoVersion: "go1.26"},
	})
	r.handler = r.telemetry.Handler(false)
	r.engine = engine.New(s, engine.Config{
		Store: r, Observer: r.telemetry, Log: slog.New(slog.DiscardHandler), Now: r.now,
		Encode: func(*node.State) ([]byte, error) { return []byte("state"), nil },
	})
	return r
}

func (r *rig) now() time.Time {
	r.clock = r.clock.Add(20 * time.Microsecond)
	return r.clock
}

// Write implements engine.Store.
func (r *rig) Write([]byte) error {
	r.clock = r.clock.Add(3 * time.Millisecond)
	if r.broken {
		return errDisk
	}
	return nil
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return w
}

// fataler is the part that *testing.T and *rapid.T have in common.
type fataler interface {
	Fatal(args ...any)
}

// scrape returns the metrics by name, without the metrics of Go, the process and the scrapes.
func scrape(t fataler, h http.Handler) map[string]*dto.MetricFamily {
	w := get(h, "/metrics")
	if w.Code != http.StatusOK {
		t.Fatal("/metrics answers", w.Code, w.Body.String())
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	hintSets, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	for name := range hintSets {
		for _, foreign := range []string{"go_", "process_", "promhttp_"} {
			if strings.HasPrefix(name, foreign) {
				delete(hintSets, name)
			}
		}
	}
	return hintSets
}

// series returns the values of metrics by name and labels. Histograms have _count and _sum.
func series(hintSets map[string]*dto.MetricFamily) map[string]float64 {
	values := map[string]float64{}
	for name, f := range hintSets {
		for _, m := range f.GetMetric() {
			labels := labelText(m)
			switch {
			case m.GetCounter() != nil:
				values[name+labels] = m.GetCounter().GetValue()
			case m.GetGauge() != nil:
				values[name+labels] = m.GetGauge().GetValue()
			case m.GetHistogram() != nil:
				values[name+"_count"+labels] = float64(m.GetHistogram().GetSampleCount())
				values[name+"_sum"+labels] = m.GetHistogram().GetSampleSum()
			}
		}
	}
	return values
}

func labelText(m *dto.Metric) string {
	if len(m.GetLabel()) == 0 {
		return ""
	}
	var pairs []string
	for _, l := range m.GetLabel() {
		pairs = append(pairs, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	slices.Sort(pairs)
	return "{" + strings.Join(pairs, ",") + "}"
}

// exposition returns the metrics as text, in ascending order of their names.
func exposition(t fataler, hintSets map[string]*dto.MetricFamily) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(hintSets)) {
		if _, err := expfmt.MetricFamilyToText(&b, hintSets[name]); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}
