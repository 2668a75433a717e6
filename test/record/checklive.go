package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// CheckLive starts a live kubelet, lets it admit and reject pods and start again, and reads the
// answers that it serves.
func CheckLive(t *testing.T, minor Minor) {
	t.Helper()
	orders, in := io.Pipe()
	out, replies := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- live(minor, orders, replies) }()
	decoder := json.NewDecoder(out)
	ask := func(order string) (r reply) {
		t.Helper()
		if _, err := io.WriteString(in, order+"\n"); err != nil {
			t.Fatal(err)
		}
		if err := decoder.Decode(&r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	expect := func(what, got string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %.500s, want %s", what, got, w)
			}
		}
	}
	begun := ask(fmt.Sprintf(`{"node": "n", "begin": %s}`, liveScenario()))
	if begun.Error != "" {
		t.Fatal(begun.Error)
	}
	get := func(path string) string {
		t.Helper()
		response, err := http.Get(begun.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	expect("/configz", get("/configz"), `"cpuManagerPolicy":"static"`, `"topologyManagerScope":"container"`)
	expect("/pods of an empty node", get("/pods"), `"items":[]`)
	expect("a pod that fits", string(ask(`{"node": "n", "event": {"op": "admit", "pod": "fits"}}`).Answer), `"admitted":true`)
	expect("a pod that does not", string(ask(`{"node": "n", "event": {"op": "admit", "pod": "large"}}`).Answer), `"admitted":false`)
	expect("/pods", get("/pods"), `"phase":"Running"`, `"containerID":"containerd://fits/c"`, `"phase":"Failed","message":"Pod was rejected: `)
	expect("another start", string(ask(`{"node": "n", "event": {"op": "restart"}}`).Answer), `"fits"`)
	expect("/pods after it", get("/pods"), `"phase":"Running"`)
	expect("the end of a pod", string(ask(`{"node": "n", "event": {"op": "endPod", "pod": "fits"}}`).Answer), `"op":"endPod"`)
	expect("/pods after that", get("/pods"), `"phase":"Succeeded"`)
	expect("an order to another node", ask(`{"node": "m", "end": true}`).Error, "its first order")
	if r := ask(`{"node": "n", "end": true}`); r.Error != "" {
		t.Error(r.Error)
	}
	_ = in.Close() // It ends with its input.
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// liveScenario is a node of four CPUs with a pod that fits and one that does not.
func liveScenario() []byte {
	pod := func(name, cpus string) map[string]any {
		amounts := map[string]string{"cpu": cpus, "memory": "64Mi"}
		return map[string]any{
			"metadata": map[string]string{"name": name, "namespace": "default", "uid": name},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "resources": map[string]any{"requests": amounts, "limits": amounts}}}},
		}
	}
	text, err := json.Marshal(map[string]any{
		"name":    "live",
		"machine": shape{sockets: 1, numaPerSocket: 1, cores: 4, threads: 1, memory: 4 * gibi}.machine(),
		"kubeletConfig": map[string]any{
			"cpuManagerPolicy": "static", "topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "container", "reservedSystemCPUs": "0",
		},
		"pods": []any{pod("fits", "2"), pod("large", "3")}, "events": []any{},
	})
	if err != nil {
		panic(err)
	}
	return bytes.TrimSpace(text)
}
