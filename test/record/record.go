package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	cadvisorapi "github.com/google/cadvisor/info/v1"
)

// inMemory is where Linux has files in memory. The managers write and sync a whole state file
// with every change, which takes ten times as long on a disk.
const inMemory = "/dev/shm"

// directory makes a directory for state files.
func directory() (string, error) {
	if dir, err := os.MkdirTemp(inMemory, "record"); err == nil {
		return dir, nil
	}
	return os.MkdirTemp("", "record")
}

// play runs a scenario once. It ends with the first event after which the kubelet is down.
func play(s *scenario, machine *cadvisorapi.MachineInfo) (result, error) {
	r := result{Name: s.Name}
	dir, err := directory()
	if err != nil {
		return r, err
	}
	k := newKubelet(s, machine, dir)
	defer k.remove()
	if refused := k.start(); refused != nil {
		r.StartError = k.public(refused)
		return r, nil
	}
	r.Start = &answer{Op: "start"}
	k.describe(r.Start)
	r.AllocatedFrom = k.cpu.GetAllocatableCPUs().String()
	for i, e := range s.Events {
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

// record runs a scenario several times and lists what differs between the runs in the first.
func record(s *scenario, machine *cadvisorapi.MachineInfo, runs int) (result, error) {
	first, err := play(s, machine)
	if err != nil {
		return first, err
	}
	plain, err := generic(first)
	if err != nil {
		return first, err
	}
	for range runs - 1 {
		next, err := play(s, machine)
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

// trim leaves out the accounts of memory and the state files, which are most of a result.
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

// verdict is what the kubelet answers when it starts on one state file.
type verdict struct {
	Accepted bool   `json:"accepted"`
	Error    string `json:"error"`
}

// judge starts a kubelet on the scenario's state file, without the other one.
func judge(s *scenario, machine *cadvisorapi.MachineInfo) (v verdict, err error) {
	if !slices.Contains(stateFiles, s.File) {
		return v, fmt.Errorf("file %q: want one of %v", s.File, stateFiles)
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
	if refused := k.start(); refused != nil {
		return verdict{Error: k.public(refused)}, nil
	}
	return verdict{Accepted: true}, nil
}

// generic is a value as JSON has it, with the contents of state files decoded: the order of
// blocks in them is random, and the checksum with it.
func generic(v any) (map[string]any, error) {
	text, ok := v.(json.RawMessage)
	if !ok {
		var err error
		if text, err = json.Marshal(v); err != nil {
			return nil, err
		}
	}
	var plain map[string]any
	if err := json.Unmarshal(text, &plain); err != nil {
		return nil, err
	}
	sortCheckpoints(plain)
	return plain, nil
}

func sortCheckpoints(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if files, ok := value.(map[string]any); ok && key == "checkpoints" {
				for name, text := range files {
					files[name] = sortedCheckpoint(text)
				}
				continue
			}
			sortCheckpoints(value)
		}
	case []any:
		for _, value := range v {
			sortCheckpoints(value)
		}
	}
}

func sortedCheckpoint(text any) any {
	s, _ := text.(string)
	var file map[string]any
	if json.Unmarshal([]byte(s), &file) != nil {
		return text
	}
	if sortBlocks(file) {
		delete(file, "checksum")
	}
	return file
}

// sortBlocks sorts lists of blocks by their type, and reports whether there was one of several.
func sortBlocks(v any) bool {
	found := false
	switch v := v.(type) {
	case map[string]any:
		for _, value := range v {
			found = sortBlocks(value) || found
		}
	case []any:
		if len(v) < 2 {
			return false
		}
		if _, ok := v[0].(map[string]any); !ok {
			return false
		}
		slices.SortFunc(v, compareText)
		return true
	}
	return found
}

func compareText(a, b any) int {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return slices.Compare(x, y)
}

// difference is one place in which two results differ. nil is a value that is not there.
type difference struct {
	path      string
	got, want any
}

func (d difference) String() string {
	return fmt.Sprintf("%s: got %s, want %s", d.path, jsonText(d.got), jsonText(d.want))
}

func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// differences compares two generic values, down to the smallest parts.
func differences(path string, got, want any) []difference {
	g, gotMap := got.(map[string]any)
	w, wantMap := want.(map[string]any)
	if gotMap && wantMap {
		keys := slices.Collect(maps.Keys(g))
		for key := range w {
			if _, both := g[key]; !both {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		var all []difference
		for _, key := range keys {
			all = append(all, differences(path+"/"+key, g[key], w[key])...)
		}
		return all
	}
	gs, gotList := got.([]any)
	ws, wantList := want.([]any)
	if gotList && wantList && len(gs) == len(ws) {
		var all []difference
		for i := range gs {
			all = append(all, differences(fmt.Sprintf("%s/%d", path, i), gs[i], ws[i])...)
		}
		return all
	}
	if reflect.DeepEqual(got, want) {
		return nil
	}
	return []difference{{path, got, want}}
}
