package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// found is a node with pods, as another kubelet left it when it ended.
type found struct {
	// Version is the version of that kubelet, such as "1.36.4".
	Version string `json:"version"`
	// Running are the running pods, in the order of their admission. Started has, for each of them,
	// the containers that were started.
	Running []string            `json:"running"`
	Started map[string][]string `json:"started"`
	// State is what the kubelet had assigned, including its state files.
	State foundState `json:"state"`
}

// foundState has the fields of an answer that a later start can depend on.
type foundState struct {
	view
	Checkpoints map[string]string `json:"checkpoints"`
}

// leave restores the node as it was found. It does not start the kubelet.
func (f *found) leave(k *kubelet) error {
	for name, text := range f.State.Checkpoints {
		dir := k.dir
		switch {
		case name == deviceFile:
			dir = filepath.Join(dir, devicePlugins)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return err
			}
		case !slices.Contains(stateFiles, name):
			return fmt.Errorf("found: checkpoint %q: expected one of %v or %s", name, stateFiles, deviceFile)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	for _, uid := range f.Running {
		if k.pods[uid] == nil {
			return fmt.Errorf("found: pod %q is none of the scenario's pods", uid)
		}
		k.active, k.started[uid] = append(k.active, uid), map[string]bool{}
		for _, name := range f.Started[uid] {
			k.started[uid][name] = true
		}
	}
	return nil
}

// handedOver returns a bare scenario that begins with the last recorded restart during which pods
// ran. It has the node at that time, and the later events. version is that of the kubelet that
// recorded the line. Without such a restart, handedOver returns nil.
func handedOver(version string, l line) ([]byte, error) {
	var s scenario
	var r result
	if err := errors.Join(json.Unmarshal(l.Scenario, &s), json.Unmarshal(l.Result, &r)); err != nil {
		return nil, err
	}
	if r.Start == nil || s.Found != nil {
		return nil, nil
	}
	past, before := newKubelet(&s, nil, ""), *r.Start
	f, at := found{Version: version}, -1
	var config map[string]any
	for i, a := range r.Events {
		if e := s.Events[i]; e.Op == "restart" {
			past.patch(e)
			if len(past.active) > 0 && before.Checkpoints != nil {
				f.take(past, &before)
				at, config = i, maps.Clone(past.config)
			}
		}
		if a.StartError != "" || a.Panic != "" || a.Endless {
			break
		}
		past.note(&a)
		before = a
	}
	if at < 0 {
		return nil, nil
	}
	return f.begin(l.Scenario, &s, at, config)
}

// note records what an answer shows about the running pods.
func (k *kubelet) note(a *answer) {
	switch {
	case a.Op == "removePod", a.Admitted != nil && !*a.Admitted:
		k.forget(a.Pod)
	case a.Op == "removeContainer":
		delete(k.started[a.Pod], a.Container)
	case a.Admitted != nil && !slices.Contains(k.active, a.Pod):
		k.active, k.started[a.Pod] = append(k.active, a.Pod), map[string]bool{}
		for name := range a.Cgroup {
			k.started[a.Pod][name] = true
		}
	}
}

// take fills in the node from the running pods and the last answer.
func (f *found) take(k *kubelet, last *answer) {
	f.Running, f.Started = slices.Clone(k.active), map[string][]string{}
	for _, uid := range f.Running {
		f.Started[uid] = slices.Sorted(maps.Keys(k.started[uid]))
	}
	f.State = foundState{last.view, last.Checkpoints}
	if f.State.Memory != nil {
		f.State.Memory = &memoryView{Entries: last.Memory.Entries, PodEntries: last.Memory.PodEntries} // The files have the account.
	}
}

// begin returns the scenario from its restart at an event on. It leaves out events for pods that
// were rejected or that ended before.
func (f *found) begin(text json.RawMessage, s *scenario, at int, config map[string]any) ([]byte, error) {
	var whole map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // Sizes are larger than a float64 keeps.
	if err := decoder.Decode(&whole); err != nil {
		return nil, err
	}
	gone := map[string]bool{}
	for _, e := range s.Events[:at] {
		if e.Pod != "" && !slices.Contains(f.Running, e.Pod) {
			gone[e.Pod] = true
		}
	}
	events, _ := whole["events"].([]any)
	pods, _ := whole["pods"].([]any)
	if len(events) != len(s.Events) || len(pods) != len(s.Pods) {
		return nil, fmt.Errorf("scenario %s has %d events and %d pods, and was read with %d and %d", s.Name, len(events), len(pods), len(s.Events), len(s.Pods))
	}
	var rest, stay []any
	for i := at; i < len(events); i++ {
		if !gone[s.Events[i].Pod] {
			rest = append(rest, events[i])
		}
	}
	for i, pod := range s.Pods {
		if !gone[string(pod.UID)] {
			stay = append(stay, pods[i])
		}
	}
	whole["name"] = fmt.Sprintf("%s/%d", s.Name, at)
	whole["kubeletConfig"], whole["found"], whole["events"], whole["pods"] = config, f, rest, stay
	return json.Marshal(whole)
}
