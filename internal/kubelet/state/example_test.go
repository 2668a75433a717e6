package state_test

import (
	"strings"
	"testing"

	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

const (
	poolCPU = `{"policyName":"static","defaultCpuSet":"0,5-7","entries":{"pod-a":{"app":"1-2","log":"3-4"}},"podEntries":{"pod-a":{"cpuSet":"1-4"}},"checksum":2797171710}`
	node0   = `"machineState":{"0":{"numberOfAssignments":1,"memoryMap":{"memory":{"total":4096,"systemReserved":1024,"allocatable":3072,"reserved":512,"free":2560}},"cells":[0]}},"entries":{"pod-a":{"app":[{"numaAffinity":[0],"type":"memory","size":512}]}}`
	poolMem = `{"policyName":"Static",` + node0 + `,"podEntries":{"pod-a":{"memoryBlocks":[{"numaAffinity":[0],"type":"memory","size":512}]}},"checksum":3501883997}`
)

// examples are the worked examples of docs/rules/state.md and R-37-6.
var examples = []struct {
	name, text string
	version    kubeletstate.Version
	readers    string
}{
	{"2, CPU V2", `{"policyName":"static","defaultCpuSet":"0,3-7","entries":{"pod-b":{"c1":"1-2"}},"checksum":3078807867}`, 2, "1.35 1.36- 1.36+ 1.37- 1.37+"},
	{"1, CPU V3", poolCPU, 3, "1.36+ 1.37- 1.37+"},
	{"3, memory V2", poolMem, 2, "1.36+ 1.37- 1.37+"},
	{"3, memory V1", `{"policyName":"Static",` + node0 + `,"checksum":2783460180}`, 1, "1.35 1.36- 1.36+ 1.37- 1.37+"},
	{"4, empty CPU V3", `{"policyName":"none","defaultCpuSet":"","checksum":642675224}`, 3, "1.36+ 1.37- 1.37+"},
	{"4, empty CPU V2", `{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`, 2, "1.35 1.36- 1.36+ 1.37- 1.37+"},
	{"4, empty memory V2", `{"policyName":"None","machineState":{},"checksum":512582496}`, 2, "1.36+ 1.37- 1.37+"},
	{"5, CPU V1", `{"policyName":"static","defaultCpuSet":"0,3-7","entries":{"cid1":"1-2"},"checksum":4182151043}`, 1, "1.35 1.36- 1.36+"},
	{
		"R-37-6, CPU V4", `{"policyName":"static","defaultCpuSet":"0,5-7","entries":{"pod-a":{"app":"1-2","log":"3-4"}},"checksum":1398154947,` +
			`"data":"{\"policyName\":\"static\",\"defaultCpuSet\":\"0,5-7\",\"entries\":{\"pod-a\":{\"app\":\"1-2\",\"log\":\"3-4\"}},\"podEntries\":{\"pod-a\":{\"cpuSet\":\"1-4\"}}}","dataChecksum":3472385642}`,
		4, "1.35 1.36- 1.36+ 1.37- 1.37+",
	},
}

func names(kubelets []kubeletstate.Kubelet) string {
	var out []string
	for _, k := range kubelets {
		name, _, _ := strings.Cut(k.String(), " ")
		switch {
		case k.Minor < 36:
		case k.PodLevelManagers:
			name += "+"
		default:
			name += "-"
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

func TestWorkedExamples(t *testing.T) {
	for _, e := range examples {
		f, err := kubeletstate.Recognise([]byte(e.text))
		if err != nil {
			t.Errorf("%s: %v", e.name, err)
			continue
		}
		if f.Version != e.version || !f.Checksum.Valid() || !f.Valid() || f.Checksum.Unchecked || len(f.Unknown) > 0 {
			t.Errorf("%s: version %s, checksum %s, unknown %v; want %s", e.name, f.Version, f.Checksum, f.Unknown, e.version)
		}
		if again, err := f.Encode(f.Version); err != nil || string(again) != e.text {
			t.Errorf("%s: it is written back as\n%s (%v), and was\n%s", e.name, again, err, e.text)
		}
		if got := names(kubeletstate.Readers(f.Manager, []byte(e.text))); got != e.readers {
			t.Errorf("%s: it is read by %s, want %s", e.name, got, e.readers)
		}
	}
}

// TestOtherNames checks that a reader of V1 rejects the checksum that the writer of V1 computes.
// Only 1.36 without the gate accepts a checksum under a name with a version (R-ST-25).
func TestOtherNames(t *testing.T) {
	v1 := `{"policyName":"static","defaultCpuSet":"0,3-7","entries":{"cid1":"1-2"},"checksum":790471020}`
	if got := names(kubeletstate.Readers(kubeletstate.CPUManager, []byte(v1))); got != "" {
		t.Errorf("it is read by %s", got)
	}
}

// TestKubeletsOwnWords checks that the error is that of the kubelet's last attempt. The kubelet
// does not report the others (R-ST-31, Q-37).
func TestKubeletsOwnWords(t *testing.T) {
	for _, c := range []struct {
		manager    kubeletstate.Manager
		text, want string
	}{
		{kubeletstate.CPUManager, strings.Replace(poolCPU, "279717", "279718", 1), "json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1.entries of type string"},
		{kubeletstate.CPUManager, "[]", "json: cannot unmarshal array into Go value of type state.CPUManagerCheckpointV1"},
		{kubeletstate.MemoryManager, "[]", "json: cannot unmarshal array into Go value of type state.MemoryManagerCheckpointV1"},
		{kubeletstate.MemoryManager, strings.Replace(poolMem, "350188", "350189", 1), "checkpoint is corrupted"},
		{kubeletstate.CPUManager, "", "unexpected end of JSON input"},
	} {
		loaded, failed := kubeletstate.Kubelet{Minor: 36, PodLevelManagers: true}.Load(c.manager, []byte(c.text))
		if loaded != nil || len(failed) == 0 || failed[len(failed)-1].Err.Error() != c.want {
			t.Errorf("%s: got %v", c.want, failed)
		}
	}
}

func TestRecogniseRejects(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "damaged: it is empty",
		poolCPU[:90]:                         "damaged: it is cut off after 90 bytes",
		poolMem[:200]:                        "damaged: it is cut off after 200 bytes",
		"[]":                                 "it is no JSON object",
		strings.Repeat("\x00", 100):          "it is no JSON object",
		strings.Repeat(" ", 5<<20):           "it has 5242880 bytes",
		`{"Data":{"PodDeviceEntries":null}}`: "it is the kubelet's list of devices",
		`{"format":"paddock-state"}`:         "it is a state of Paddock",
		`{"kind":"Pod"}`:                     `a Kubernetes object of kind "Pod"`,
		`{"policyName":"none"}`:              `neither "defaultCpuSet" nor "machineState"`,
		`{"a":1}`:                            "some other JSON",
		`{"defaultCpuSet":7}`:                "damaged: defaultCpuSet: it is 7, expected a string",
		`{"defaultCpuSet":"","checksum":99999999999999999999999}`: "damaged: checksum: it is 99999999999999999999999, expected a whole number of at most 64 bits",
		`{"machineState":{},"checksum":99999999999999999999999}`:  "damaged: checksum: it is 99999999999999999999999, expected a whole number of at most 64 bits",
		`{"defaultCpuSet":"","data":"{"}`:                         `damaged: its field "data": it is cut off`,
		`{"defaultCpuSet":"","podEntries":{"a":{"cpuSet":"1-"}}}`: `"1-"`,
	} {
		f, err := kubeletstate.Recognise([]byte(text))
		if f != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: got %v and %v, want %s", text, f, err, want)
		}
	}
}

func TestUnknownFields(t *testing.T) {
	text := strings.Replace(poolMem, `{"total"`, `{"color":"red","total"`, 1)
	text = strings.Replace(text, `"size":512`, `"size":512,"share":[1]`, 1)
	f, err := kubeletstate.Recognise([]byte(strings.TrimSuffix(text, "}") + `,"future":{"a":1}}`))
	if err != nil || !f.Valid() {
		t.Fatalf("%v, %v", f, err)
	}
	want := []kubeletstate.UnknownField{
		{"entries.pod-a.app[].share", "[1]"}, {"future", `{"a":1}`}, {"machineState.0.memoryMap.memory.color", `"red"`},
	}
	if len(f.Unknown) != len(want) {
		t.Fatalf("got %v", f.Unknown)
	}
	for i, u := range f.Unknown {
		if u != want[i] {
			t.Errorf("got %v, want %v", u, want[i])
		}
	}
}
