package doctor_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// targets are the kubelets to which files are converted.
var targets = []kubeletstate.Kubelet{{Minor: 35}, {Minor: 36}, {Minor: 36, PodLevelManagers: true}, {Minor: 37, PodLevelManagers: true}}

// under returns the setup with another kubelet and the gate of that kubelet.
func under(s doctor.Setup, k kubeletstate.Kubelet) doctor.Setup {
	policy := *s.Policy
	policy.PodLevelManagers = k.PodLevelManagers
	return doctor.Setup{Kubelet: k, Machine: s.Machine, Policy: &policy}
}

// through converts a state, encodes it, verifies the files and reads them again.
func through(t *testing.T, name string, s *doctor.State, setup doctor.Setup) *doctor.State {
	t.Helper()
	now, _, err := doctor.Convert(s, setup.Kubelet, nil)
	if err != nil {
		t.Fatalf("%s to %s: %v", name, setup.Kubelet, err)
	}
	files, err := now.Encode(setup.Kubelet)
	if err != nil {
		t.Fatalf("%s to %s: %v", name, setup.Kubelet, err)
	}
	again := &doctor.State{}
	for m, data := range files {
		if d := doctor.Verify(m, data, setup); d.Answer() != doctor.Starts {
			t.Fatalf("%s to %s: %s %+v\n%s", name, setup.Kubelet, d.Answer(), d.Findings, data)
		}
		f, err := kubeletstate.Recognise(data)
		if err != nil {
			t.Fatal(err)
		}
		again.Add(f)
	}
	return again
}

// TestConvert converts every file on which the reference starts. Each kubelet must start on the
// result, and every container must keep its CPUs. Without pools, nothing may change over the
// conversions 1.35, 1.36, 1.37, 1.36, 1.35. With pools, nothing may change between 1.36 and 1.37.
func TestConvert(t *testing.T) {
	all, machines := verdicts(t), setups{}
	converted, pooled := 0, 0
	for i := range all {
		v := &all[i]
		if !v.Accepted {
			continue
		}
		setup := machines.of(t, v)
		read, _ := setup.Kubelet.Load(managerOf(v), []byte(v.Content))
		s := &doctor.State{CPU: read.CPU, Memory: read.Memory}
		for _, k := range targets {
			now := through(t, v.Name, s, under(setup, k))
			if s.CPU != nil && !equalEntries(now.CPU.Entries, s.CPU.Entries) {
				t.Fatalf("%s to %s: entries %v became %v", v.Name, k, s.CPU.Entries, now.CPU.Entries)
			}
		}
		way := []int{0, 2, 3, 2, 0}
		if len(s.Pods()) > 0 && (s.CPU != nil && len(s.CPU.Pools) > 0 || s.Memory != nil && len(s.Memory.Pools) > 0) {
			way, pooled = []int{2, 3, 2, 3, 2}, pooled+1
		}
		first := through(t, v.Name, s, under(setup, targets[way[0]]))
		now := first
		for _, to := range way[1:] {
			now = through(t, v.Name, now, under(setup, targets[to]))
		}
		if !reflect.DeepEqual(now, first) {
			t.Errorf("%s: the way changed\n%+v %+v to\n%+v %+v", v.Name, first.CPU, first.Memory, now.CPU, now.Memory)
		}
		converted++
	}
	t.Logf("%d files, %d with pools, each to %d kubelets", converted, pooled, len(targets))
}

func equalEntries(a, b map[string]map[string]string) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}

// TestRepair repairs every file that can be read. The kubelet must start on the result, unless the
// error reports that this would move a running pod. No container may have other CPUs than before.
func TestRepair(t *testing.T) {
	all, machines := verdicts(t), setups{}
	repaired, unmendable := 0, 0
	for i := range all {
		v := &all[i]
		f, err := kubeletstate.Recognise([]byte(v.Content))
		if err != nil {
			continue
		}
		setup, old := machines.of(t, v), &doctor.State{}
		old.Add(f)
		now, _, err := doctor.Repair(old, setup, doctor.Pods{})
		if errors.Is(err, doctor.ErrUnmendable) {
			unmendable++
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		files, err := now.Encode(setup.Kubelet)
		if err != nil {
			t.Fatal(err)
		}
		if err := doctor.Check(files, setup); err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		if now.CPU != nil && !equalEntries(now.CPU.Entries, old.CPU.Entries) {
			t.Fatalf("%s: %v became %v", v.Name, old.CPU.Entries, now.CPU.Entries)
		}
		if now.Memory != nil && len(old.Memory.Entries) > 0 && setup.Kubelet.PodLevelManagers && !reflect.DeepEqual(now.Memory.Entries, old.Memory.Entries) {
			t.Fatalf("%s: %v became %v", v.Name, old.Memory.Entries, now.Memory.Entries)
		}
		if v.Accepted && len(f.Unknown) == 0 && f.Data == nil {
			continue
		}
		repaired++
	}
	t.Logf("%d files repaired, %d cannot be without touching a pod", repaired, unmendable)
}

// TestRepairDropsTheDead checks that the assignments of pods that are gone become free.
func TestRepairDropsTheDead(t *testing.T) {
	all, machines := verdicts(t), setups{}
	for i := range all {
		v := &all[i]
		f, err := kubeletstate.Recognise([]byte(v.Content))
		if err != nil || !v.Accepted {
			continue
		}
		setup, old := machines.of(t, v), &doctor.State{}
		old.Add(f)
		now, remarks, err := doctor.Repair(old, setup, doctor.Pods{Alive: func(string) bool { return false }})
		if err != nil || len(now.Pods()) > 0 || len(remarks) < len(old.Pods()) {
			t.Fatalf("%s: %v, %v left, %v", v.Name, err, now.Pods(), remarks)
		}
		if now.CPU != nil && now.CPU.Default != sharable(setup.Policy, setup) {
			t.Fatalf("%s: the node shared pool is %s", v.Name, now.CPU.Default)
		}
	}
}

func sharable(p *node.Policy, s doctor.Setup) string {
	all := s.Machine.AllCPUs()
	if p.CPU.StrictReservation {
		all = all.Difference(p.ReservedCPUs)
	}
	return all.String()
}
