package record

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// inMemory is a directory in which Linux keeps files in memory. The managers write and sync a whole
// state file with every change, which takes ten times as long on a disk.
const inMemory = "/dev/shm"

// directory makes a directory for state files.
func directory() (string, error) {
	if dir, err := os.MkdirTemp(inMemory, "record"); err == nil {
		return dir, nil
	}
	return os.MkdirTemp("", "record")
}

// play runs a scenario once. It ends after the first event that takes the kubelet down. It calls
// begun with the position of each event before it carries out the event, and with -1 before the
// start.
func play(s *scenario, machine Machine, begun func(int)) (result, error) {
	r := result{Name: s.Name}
	dir, err := directory()
	if err != nil {
		return r, err
	}
	k := newKubelet(s, machine, dir)
	defer k.remove()
	begun(-1)
	if s.Found != nil {
		if err := s.Found.leave(k); err != nil {
			return r, err
		}
	} else if rejected := k.start(false); rejected != nil {
		r.StartError = k.public(rejected)
		return r, nil
	} else {
		r.Start = &answer{Op: "start"}
		k.describe(r.Start)
		r.AllocatedFrom = k.managers.AllocatableCPUs().String()
	}
	for i, e := range s.Events {
		begun(i)
		a, err := k.do(e)
		if err != nil {
			return r, fmt.Errorf("event %d: %w", i, err)
		}
		r.Events = append(r.Events, a)
		if a.StartError != "" || a.Panic != "" {
			break
		}
	}
	return r, nil
}

// record runs a scenario several times and returns the first result with a list of what differs
// between the runs.
func record(s *scenario, machine Machine, runs int, begun func(int)) (result, error) {
	first, err := play(s, machine, begun)
	if err != nil {
		return first, err
	}
	plain, err := generic(first)
	if err != nil {
		return first, err
	}
	for range runs - 1 {
		next, err := play(s, machine, begun)
		if err != nil {
			return first, err
		}
		other, err := generic(next)
		if err != nil {
			return first, err
		}
		for _, d := range differences("", plain, other) {
			if !slices.Contains(first.Differs, d.path) {
				first.Differs = append(first.Differs, d.path)
			}
		}
	}
	slices.Sort(first.Differs)
	return first, nil
}

// trim leaves out the memory accounting and the state files, which make up most of a result.
func (r *result) trim() {
	answers := make([]*answer, 0, len(r.Events)+1)
	if r.Start != nil {
		answers = append(answers, r.Start)
	}
	for i := range r.Events {
		answers = append(answers, &r.Events[i])
	}
	for _, a := range answers {
		if a.StartError == "" {
			a.Checkpoints = nil
		}
		for _, v := range []*view{&a.view, a.AtAdmit} {
			if v != nil && v.Memory != nil {
				v.Memory.MachineState = nil
			}
		}
	}
	r.Trimmed = true
}

// verdict is the kubelet's answer when it starts on one state file.
type verdict struct {
	Accepted bool   `json:"accepted"`
	Error    string `json:"error"`
}

// judge starts a kubelet on the scenario's state file, without the other state file.
func judge(s *scenario, machine Machine) (v verdict, err error) {
	if !slices.Contains(stateFiles, s.File) {
		return v, fmt.Errorf("file %q: expected one of %v", s.File, stateFiles)
	}
	dir, err := directory()
	if err != nil {
		return v, err
	}
	k := newKubelet(s, machine, dir)
	defer k.remove()
	if err := os.WriteFile(filepath.Join(dir, s.File), []byte(s.Content), 0o600); err != nil {
		return v, err
	}
	defer func() {
		if problem := recover(); problem != nil {
			v = verdict{Error: fmt.Sprintf("panic: %v", problem)}
		}
	}()
	if rejected := k.start(false); rejected != nil {
		return verdict{Error: k.public(rejected)}, nil
	}
	return verdict{Accepted: true}, nil
}
