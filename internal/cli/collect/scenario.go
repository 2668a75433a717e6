package collect

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"

	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// AnonymousScenarios returns a function that hashes the names of the pods and namespaces in a
// scenario, which is one line of paddock trust --scenarios. Equal names have equal hashes in all
// lines. UIDs and the names of containers remain, because the kubelet's state files have them as
// keys. The checkpoint of the Device Manager is removed: it has what plugins put into containers.
func AnonymousScenarios() func(line []byte) ([]byte, error) {
	key := make([]byte, leastKey)
	_, _ = rand.Read(key) // It never fails.
	n := newNames([]byte(hex.EncodeToString(key)))
	return func(line []byte) ([]byte, error) {
		var all map[string]any
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.UseNumber() // Bytes of memory stay exact.
		if err := decoder.Decode(&all); err != nil {
			return nil, fmt.Errorf("not a scenario: %w", err)
		}
		scenario := objectIn(all, "scenario")
		for _, pod := range objectsIn(scenario, "pods") {
			metadata := objectIn(pod, "metadata")
			for _, field := range []string{"name", "namespace"} {
				if name, is := metadata[field].(string); is {
					n.hash(&name)
					metadata[field] = name
				}
			}
		}
		delete(objectIn(objectIn(objectIn(scenario, "found"), "state"), "checkpoints"), kubeletstate.DeviceManager.FileName())
		for _, event := range objectsIn(objectIn(all, "result"), "events") {
			reason, _ := event["reason"].(string)
			if message, is := event["message"].(string); is {
				n.message(reason, &message)
				event["message"] = message
			}
		}
		return json.Marshal(all)
	}
}

// objectIn returns an object in a JSON object, which is nil if there is none.
func objectIn(in any, name string) map[string]any {
	outer, _ := in.(map[string]any)
	inner, _ := outer[name].(map[string]any)
	return inner
}

// objectsIn returns the objects of a list in a JSON object.
func objectsIn(in any, name string) (all []map[string]any) {
	outer, _ := in.(map[string]any)
	values, _ := outer[name].([]any)
	for _, v := range values {
		if o, is := v.(map[string]any); is {
			all = append(all, o)
		}
	}
	return all
}
