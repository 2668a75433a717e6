package record

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
)

// generic decodes a value as JSON, including the contents of state files. It removes what is random
// the order of blocks in state files and of devices, and therefore the checksum, and also
// which resource a rejection names if a container asks for too many devices of several resources.
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

// lackedDevices names one of the resources of which there are too few devices.
var lackedDevices = regexp.MustCompile(`devices unavailable for \S+ Requested: \d+, Available: \d+`)

func sortCheckpoints(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if text, is := value.(string); is && key == "message" {
				v[key] = lackedDevices.ReplaceAllString(text, "devices unavailable")
				continue
			}
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
	if data, is := file["data"].(string); is { // The newest versions have the whole content as text, too.
		file["data"] = sortedCheckpoint(data)
	}
	if sortBlocks(file) {
		for _, sum := range []string{"checksum", "Checksum", "dataChecksum"} {
			delete(file, sum)
		}
	}
	return file
}

// sortBlocks sorts lists of blocks by their type, and lists of devices. It reports whether any list
// has more than one element.
func sortBlocks(v any) bool {
	found := false
	switch v := v.(type) {
	case map[string]any:
		for _, value := range v {
			found = sortBlocks(value) || found
		}
	case []any:
		for _, value := range v {
			found = sortBlocks(value) || found
		}
		if len(v) < 2 {
			return found
		}
		switch v[0].(type) {
		case map[string]any, string:
			slices.SortFunc(v, compareText)
			return true
		}
	}
	return found
}

func compareText(a, b any) int {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return slices.Compare(x, y)
}

// difference is one place in which two results differ. A nil value is absent.
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
