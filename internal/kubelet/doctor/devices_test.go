package doctor_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// deviceFile returns a file that Kubernetes 1.36.3 wrote, with replacements.
func deviceFile(t testing.TB, name string, changes ...string) []byte {
	t.Helper()
	data, err := os.ReadFile("../state/testdata/devices/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.NewReplacer(changes...).Replace(strings.TrimSpace(string(data))))
}

// summed returns the file with the correct checksum for its content.
func summed(t testing.TB, data []byte) []byte {
	t.Helper()
	f, err := kubeletstate.RecogniseDevices(data)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = f.Encode(); err != nil {
		t.Fatal(err)
	}
	return data
}

// alive returns Pods in which only these pods exist.
func alive(uids ...string) doctor.Pods {
	return doctor.Pods{Alive: func(uid string) bool { return slices.Contains(uids, uid) }}
}

func TestVerifyDevices(t *testing.T) {
	const dra, plugins = kubeletstate.DRAManager, kubeletstate.DeviceManager
	claims, devices := deviceFile(t, "claims.json"), deviceFile(t, "plugins.json")
	for _, c := range []struct {
		name   string
		m      kubeletstate.Manager
		data   []byte
		answer doctor.Answer
		want   string
	}{
		{"claims", dra, claims, doctor.Starts, ""},
		{"no claims", dra, deviceFile(t, "no-claims.json"), doctor.Starts, ""},
		{"devices", plugins, devices, doctor.Starts, ""},
		{"no devices", plugins, deviceFile(t, "plugins-nothing-2.json"), doctor.Starts, ""},
		{"claims, a changed name", dra, deviceFile(t, "claims.json", "train-gpu", "train-gpx"), doctor.Rejects, "its checksum is 3259537784, but the content has"},
		{"devices, a changed id", plugins, deviceFile(t, "plugins.json", "gpu0", "gpu9"), doctor.StartsWithout, "gives the devices of running pods to others"},
		{"no devices, a changed name", plugins, deviceFile(t, "plugins-nothing-2.json", "Checksum\":", "Checksum\":1"), doctor.StartsWithout, "its checksum is"},
		{"claims, cut off", dra, claims[:100], doctor.Rejects, "damaged: it is cut off after 100 bytes"},
		{"devices, cut off", plugins, devices[:100], doctor.StartsWithout, "damaged: it is cut off after 100 bytes: the kubelet starts without it"},
		{"claims, empty", dra, nil, doctor.Rejects, "it is empty"},
		{"claims under the other name", plugins, claims, doctor.StartsWithout, "the file is a file of the DRA manager"},
		{"a CPU state", dra, cpuFile(t, 2, "0-3", "", nil), doctor.Rejects, `no field "Data"`},
	} {
		d := doctor.Verify(c.m, c.data, doctor.Setup{Kubelet: kubeletstate.Kubelet{Minor: 36}})
		checkFindings(t, c.name, d, c.answer, c.want)
	}
	d := doctor.Verify(dra, claims, doctor.Setup{Kubelet: kubeletstate.Kubelet{Minor: 31}})
	checkFindings(t, "before ResourceClaims were stable", d, doctor.Unsure, "is known from 1.34 on")
}

func checkFindings(t *testing.T, name string, d *doctor.Diagnosis, answer doctor.Answer, want string) {
	t.Helper()
	var text strings.Builder
	for _, f := range d.Findings {
		text.WriteString(f.What + "\n")
		if f.Do == "" || f.Rule == "" {
			t.Errorf("%s: a finding has no advice or no rule: %+v", name, f)
		}
	}
	if d.Answer() != answer || !strings.Contains(text.String(), want) || want == "" && text.Len() > 0 {
		t.Errorf("%s: %s, %s; want %s, %s", name, d.Answer(), text.String(), answer, want)
	}
}

// TestCompare covers findings that only a comparison with the other files and the pods can show.
// The small machine has CPUs 0-1 on NUMA node 0 and CPUs 2-3 on NUMA node 1. The sample has gpu0 on
// NUMA node 0, and gpu2 and gpu3 on NUMA node 1, for pod 6a1f.
func TestCompare(t *testing.T) {
	plugins := deviceFile(t, "plugins.json")
	for _, c := range []struct {
		name, cpus string
		plugins    []byte
		pods       doctor.Pods
		want       []string
	}{
		{"all agree", "1-2", plugins, alive("6a1f", "9c2e"), nil},
		{"apart", "1", plugins, alive("6a1f", "9c2e"), []string{
			"container db of pod 6a1f: device gpu2 of nvidia.com/gpu is on NUMA node 1, its CPUs 1 are on NUMA node 0",
			"container db of pod 6a1f: device gpu3 of nvidia.com/gpu is on NUMA node 1, its CPUs 1 are on NUMA node 0",
		}},
		{"gone", "1-2", plugins, alive("6a1f"), []string{"pod 9c2e is gone; the kubelet drops its devices with the next allocation"}},
		{"all gone", "1-2", plugins, alive(), []string{
			"pod 6a1f is gone; what it has is free again",
			"pods 6a1f, 9c2e are gone; for each, the kubelet drops its devices",
		}},
		{"pods not known", "1-2", plugins, doctor.Pods{}, []string{"pods with devices that are not in the CPU and memory files: 9c2e"}},
		{
			"one device for two pods", "1-2", summed(t, deviceFile(t, "plugins.json", "fuse7\"]},\"All", "fuse7\"],\"0\":[\"gpu0\"]},\"All", "example.com/fuse\",\"Dev", "nvidia.com/gpu\",\"Dev")),
			alive("6a1f", "9c2e"),
			[]string{"device gpu0 of nvidia.com/gpu is assigned to pods 6a1f and 9c2e"},
		},
		{
			"the same, and one is gone", "1-2", summed(t, deviceFile(t, "plugins.json", "fuse7\"]},\"All", "fuse7\"],\"0\":[\"gpu0\"]},\"All", "example.com/fuse\",\"Dev", "nvidia.com/gpu\",\"Dev")),
			alive("6a1f"),
			[]string{"pod 9c2e is gone"},
		},
	} {
		state, err := kubeletstate.EncodeCPU(&kubeletstate.CPU{
			Policy: "static", Default: small(t).AllCPUs().Difference(parse(t, c.cpus)).String(),
			Entries: map[string]map[string]string{"6a1f": {"db": c.cpus}},
		}, 2)
		if err != nil {
			t.Fatal(err)
		}
		s := doctor.Setup{Kubelet: kubeletstate.Kubelet{Minor: 36}, Machine: small(t), Policy: static(false)}
		all := []*doctor.Diagnosis{
			doctor.Verify(kubeletstate.CPUManager, state, s), doctor.Verify(kubeletstate.DeviceManager, c.plugins, s),
		}
		doctor.Compare(all, s, c.pods)
		var got []string
		for _, d := range all {
			for _, f := range d.Findings {
				got = append(got, f.What)
			}
			if d.Answer() != doctor.Starts {
				t.Errorf("%s: %s", c.name, d.Answer())
			}
		}
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

func parse(t *testing.T, list string) cpuset.Set {
	t.Helper()
	set, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestRepairDevices(t *testing.T) {
	const dra, plugins = kubeletstate.DRAManager, kubeletstate.DeviceManager
	for _, c := range []struct {
		name    string
		m       kubeletstate.Manager
		data    []byte
		pods    doctor.Pods
		changed bool
		want    string // expected in the remarks
	}{
		{"whole claims", dra, deviceFile(t, "claims.json"), doctor.Pods{}, false, ""},
		{"claims of a pod that is gone stay", dra, deviceFile(t, "claims.json"), alive("6a1f"), false, ""},
		{"a changed claim", dra, deviceFile(t, "claims.json", "train-gpu", "train-gpx"), doctor.Pods{}, true, "the content of dra_manager_state is not protected"},
		{"whole devices", plugins, deviceFile(t, "plugins.json"), alive("6a1f", "9c2e"), false, ""},
		{"devices of a pod that is gone", plugins, deviceFile(t, "plugins.json"), alive("9c2e"), true, "devices gpu0, gpu2, gpu3 of nvidia.com/gpu, which its container db had, are free again"},
		{"a changed device", plugins, deviceFile(t, "plugins.json", "gpu0", "gpu9"), doctor.Pods{}, true, "the content of kubelet_internal_checkpoint is not protected"},
		{"a changed device that nothing registered", plugins, deviceFile(t, "plugins.json", "[\"gpu0\"]", "[\"gpu9\"]"), doctor.Pods{}, true, "device gpu9 of nvidia.com/gpu, which container db has in kubelet_internal_checkpoint, is not among"},
	} {
		now, remarks, err := doctor.RepairDevices(c.m, c.data, c.pods)
		if err != nil || (now != nil) != c.changed {
			t.Errorf("%s: %s, %v", c.name, now, err)
			continue
		}
		var text strings.Builder
		for _, r := range remarks {
			text.WriteString(r.What + "\n")
		}
		if !strings.Contains(text.String(), c.want) || c.want == "" && text.Len() > 0 {
			t.Errorf("%s: %s", c.name, text.String())
		}
		if !c.changed {
			continue
		}
		if d := doctor.Verify(c.m, now, doctor.Setup{Kubelet: kubeletstate.Kubelet{Minor: 36}}); len(d.Findings) > 0 {
			t.Errorf("%s: %+v", c.name, d.Findings)
		}
		if again, remarks, err := doctor.RepairDevices(c.m, now, c.pods); again != nil || len(remarks) > 0 || err != nil {
			t.Errorf("%s, again: %s, %v, %v", c.name, again, remarks, err)
		}
	}
	const ofTwo = "fuse7\"]},\"All"
	shared := deviceFile(t, "plugins.json", ofTwo, "fuse7\"],\"0\":[\"gpu0\"]},\"All", "example.com/fuse\",\"Dev", "nvidia.com/gpu\",\"Dev")
	if _, _, err := doctor.RepairDevices(plugins, shared, alive("6a1f", "9c2e")); !errors.Is(err, doctor.ErrUnmendable) ||
		!strings.Contains(err.Error(), "device gpu0 of nvidia.com/gpu is assigned to pods 6a1f and 9c2e") {
		t.Errorf("one device for two pods: %v", err)
	}
	if now, _, err := doctor.RepairDevices(plugins, shared, alive("9c2e")); err != nil || now == nil {
		t.Errorf("one device for a pod and one that is gone: %s, %v", now, err)
	}
	for name, data := range map[string][]byte{"without pods, changed": deviceFile(t, "plugins.json", "PodDevice", "QodDevice"), "cut off": deviceFile(t, "plugins.json")[:90], "of the DRA manager": deviceFile(t, "claims.json"), "empty": {}} {
		if _, _, err := doctor.RepairDevices(plugins, data, doctor.Pods{}); !errors.Is(err, doctor.ErrUnmendable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzDevices checks, for any content of a file, that nothing panics, that every finding has
// advice, and that a repaired file is intact.
func FuzzDevices(f *testing.F) {
	f.Add(deviceFile(f, "claims.json"), "6a1f")
	f.Add(deviceFile(f, "plugins.json"), "9c2e")
	f.Add(deviceFile(f, "plugins-nulls.json"), "")
	m := small(f)
	f.Fuzz(func(t *testing.T, data []byte, uid string) {
		for _, manager := range []kubeletstate.Manager{kubeletstate.DRAManager, kubeletstate.DeviceManager} {
			s := doctor.Setup{Kubelet: kubeletstate.Kubelet{Minor: 36}, Machine: m}
			d := doctor.Verify(manager, data, s)
			doctor.Compare([]*doctor.Diagnosis{d}, s, alive(uid))
			for _, finding := range d.Findings {
				if finding.Do == "" || finding.What == "" {
					t.Fatalf("%+v", finding)
				}
			}
			now, _, err := doctor.RepairDevices(manager, data, alive(uid))
			if err != nil || now == nil {
				continue
			}
			if again, _, err := doctor.RepairDevices(manager, now, alive(uid)); err != nil || again != nil {
				t.Fatalf("%s, repaired to %s, is repaired again to %s, %v", data, now, again, err)
			}
			if bytes.Equal(now, data) {
				t.Fatalf("%s is repaired to itself", data)
			}
		}
	})
}
