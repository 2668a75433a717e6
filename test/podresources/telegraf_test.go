//go:build telegraf

package podresources

import (
	"testing"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/plugins/inputs/prometheus"
	"github.com/influxdata/telegraf/testutil"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// TestTelegraf checks that inputs.prometheus, configured as for a kubelet, reads the number of
// calls of another client.
func TestTelegraf(t *testing.T) {
	s := agent(t)
	c := client(t, s.socket)
	for range 3 {
		if _, err := c.List(t.Context(), &podresourcesv1.ListPodResourcesRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	plugin := &prometheus.Prometheus{URLs: []string{"http://" + s.address + "/metrics"}, MetricVersion: 2, Log: testutil.Logger{Quiet: true}}
	if err := plugin.Init(); err != nil {
		t.Fatal(err)
	}
	var read testutil.Accumulator
	if err := plugin.Start(&read); err != nil {
		t.Fatal(err)
	}
	defer plugin.Stop()
	if err := read.GatherError(plugin.Gather); err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	for _, m := range read.GetTelegrafMetrics() {
		if version, has := m.GetTag("server_api_version"); has && version != "v1" {
			continue
		}
		for _, f := range m.FieldList() {
			fields[f.Key] = f.Value
		}
		if m.Type() == telegraf.Untyped {
			t.Errorf("%s has no type", m.Name())
		}
	}
	for name, want := range map[string]float64{
		"kubelet_pod_resources_endpoint_requests_total":      3,
		"kubelet_pod_resources_endpoint_requests_list":       3,
		"kubelet_cpu_manager_shared_pool_size_millicores":    (256 - 2 - 8 - 4) * 1000,
		"kubelet_cpu_manager_exclusive_cpu_allocation_count": 12,
		"kubelet_topology_manager_admission_requests_total":  3,
		"kubelet_topology_manager_admission_errors_total":    0,
	} {
		if got, has := fields[name]; !has || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}
