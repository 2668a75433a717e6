package doctor_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// TestEveryDamagedByte truncates a file about devices at every byte and changes every byte. Verify
// must have a finding, or the file must have the same content. If the content differs, no kubelet
// may be reported to start on the file. The result of repair must be intact, must not give a device
// to two pods, and must come with a remark to compare it with the containers.
func TestEveryDamagedByte(t *testing.T) {
	for manager, name := range map[kubeletstate.Manager]string{
		kubeletstate.DRAManager: "claims.json", kubeletstate.DeviceManager: "plugins.json",
	} {
		whole := deviceFile(t, name)
		was, err := kubeletstate.RecogniseDevices(whole)
		if err != nil {
			t.Fatal(err)
		}
		for at := range whole {
			checkDamaged(t, manager, was, whole[:at])
			for _, b := range []byte{whole[at] ^ 1, whole[at] ^ 0x20, '0', '"', ' ', 0xff} {
				data := slices.Clone(whole)
				data[at] = b
				checkDamaged(t, manager, was, data)
			}
		}
	}
}

func checkDamaged(t *testing.T, m kubeletstate.Manager, was *kubeletstate.DeviceFile, data []byte) {
	t.Helper()
	setup := doctor.Setup{Kubelet: kubeletstate.Kubelet{Minor: 36}}
	d := doctor.Verify(m, data, setup)
	f, err := kubeletstate.RecogniseDevices(data)
	same := err == nil && f.Manager == m && reflect.DeepEqual(f.Claims, was.Claims) &&
		reflect.DeepEqual(f.Entries, was.Entries) && reflect.DeepEqual(f.Registered, was.Registered)
	if d.Answer() == doctor.Starts && !same {
		t.Fatalf("verify reports that a kubelet starts on %s", data)
	}
	now, remarks, err := doctor.RepairDevices(m, data, doctor.Pods{})
	if err != nil || now == nil {
		return
	}
	repaired := doctor.Verify(m, now, setup)
	doctor.Compare([]*doctor.Diagnosis{repaired}, setup, doctor.Pods{})
	if len(repaired.Findings) > 0 {
		t.Fatalf("%s, repaired to %s: %+v", data, now, repaired.Findings)
	}
	if !same && !slices.ContainsFunc(remarks, func(r doctor.Remark) bool { return r.Check }) {
		t.Fatalf("%s is repaired without a remark: %+v", data, remarks)
	}
}
