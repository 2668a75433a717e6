package request

import "testing"

func TestPodReadsInOneLine(t *testing.T) {
	pod := Pod{
		Identity: Identity{UID: "u", Namespace: "ns", Name: "a"}, Ask: Ask{
			QoS: Guaranteed, Kind: PodLevel,
			BudgetCPUs: 3, BudgetMemory: Amounts{{"memory", 5 << 29}}, BudgetCPUMilli: 3000, CPULimit: 3000,
			Containers: []Container{
				{Name: "x", Type: App, CPUs: 2, Memory: Amounts{{"memory", 1 << 30}}, Equivalent: true, CPURequest: 2000, CPULimit: 2000},
				{Name: "y", Type: Sidecar, Sharing: NotEquivalent, HugePages: []Resource{"hugepages-2Mi"}},
			},
		},
	}
	const want = "ns/a (u) Guaranteed pod-level: budget cpus=3 memory=2560Mi, cpu 3000m/3000m; " +
		"app x: cpus=2, pinned memory=1Gi, cpu 2000m/2000m, equivalent; " +
		"sidecar y: cpus=0, pinned none, cpu 0m/0m, uses hugepages-2Mi, " +
		"shares: its own cpu and memory requests and limits are not all set and equal (R-DEM-22)"
	if got := pod.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	estimated := Pod{Identity: Identity{UID: "u", Namespace: "ns", Name: "b"}, Ask: Ask{Estimated: true}}
	if got, want := estimated.String(), "ns/b (u) BestEffort plain: budget cpus=0 none, cpu 0m/0m, estimated"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAmountsReadInTheLargestExactUnit(t *testing.T) {
	for _, c := range []struct {
		amounts Amounts
		want    string
	}{
		{nil, "none"},
		{Amounts{{"memory", 0}}, "memory=0"},
		{Amounts{{"memory", 1025}}, "memory=1025"},
		{Amounts{{"memory", 1 << 62}}, "memory=4Ei"},
		{Amounts{{"example.com/gpu", 1024}, {"hugepages-2Mi", 4 << 20}}, "example.com/gpu=1024 hugepages-2Mi=4Mi"},
	} {
		if got := c.amounts.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestRoundedBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 256 << 30: "256 GiB", 1<<30 + 1: "1 GiB",
		6134378496: "5.7 GiB", 1025 << 30: "1025 GiB", 1536 << 30: "1.5 TiB", 15 << 40 / 2 * 3: "22.5 TiB", 1 << 62: "4 EiB", -(3 << 20): "-3 MiB",
	} {
		if got := RoundedBytes(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		of     Resource
		amount int64
		want   string
	}{
		{CPU, 1, "1 CPU"}, {CPU, 8, "8 CPUs"}, {Memory, 3 << 29, "1536Mi of memory"}, {"hugepages-2Mi", 1 << 30, "1Gi of hugepages-2Mi"}, {"example.com/gpu", 2, "2 example.com/gpu"},
	} {
		if got := Words(c.of, c.amount); got != c.want {
			t.Errorf("%q, expected %q", got, c.want)
		}
	}
}
