package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnswersHaveTheirSchema runs commands with -o json and compares what they print with the
// published schemas: every member has its type, required members are there, and no member is
// unknown.
func TestAnswersHaveTheirSchema(t *testing.T) {
	t.Chdir("../..")
	const epyc, xeon, node = "--machine examples/machines/epyc-2s-nps4.json", "--machine examples/machines/xeon-2s-snc2.json", "examples/stock-node"
	const gpu = "--machine examples/machines/gpu-server-8n.json --devices examples/devices/gpu-server-8n.yaml"
	for _, c := range []struct{ command, args string }{
		{"plan", epyc + " --kubelet-config examples/kubelet/pod-scope.yaml examples/pods"},
		{"plan", "examples/pods/30-web.yaml --state " + node},
		{"explain", "prod/training --state " + node},
		{"explain", "prod/web --state " + node},
		{"explain", epyc + " --kubelet-config examples/kubelet/pod-scope.yaml --pod default/inference examples/pods"},
		{"report", "--state " + node},
		{"report", epyc + " --kubelet-config examples/kubelet/pod-scope.yaml"},
		{"map", "--state " + node},
		{"defragment", xeon + " --kubelet-config examples/fragmented/kubelet.yaml examples/fragmented/pods.yaml"},
		{"check-config", epyc + " examples/kubelet/pod-scope.yaml"},
		{"check-config", gpu + " examples/gpu-server/kubelet.yaml"},
		{"plan", gpu + " --kubelet-config examples/gpu-server/kubelet.yaml examples/gpu-server/train.yaml"},
		{"report", gpu + " --kubelet-config examples/gpu-server/kubelet.yaml --like examples/gpu-server/train.yaml"},
		{"check-config", "--as kubelet-1.36 " + epyc + " examples/kubelet/dynamic.yaml"},
		{"upgrade-check", "--to 1.37 --state " + node},
		{"state show", node},
		{"state verify", node},
		{"state diff", node + "/cpu_manager_state " + node + "/cpu_manager_state"},
		{"fleet", "--nodes examples/fleet/nodes.yaml --pods examples/pods"},
		{"fleet size", "--nodes examples/fleet/nodes.yaml --pods examples/pods"},
		{"fleet try", "--nodes examples/fleet/nodes.yaml --pods examples/pods"},
		{"fleet largest", "--nodes examples/fleet/nodes.yaml --like examples/pods/10-inference.yaml"},
		{"report", epyc + " --kubelet-config examples/kubelet/pod-scope.yaml --like examples/pods/10-inference.yaml"},
		{"noise", "--cpus 0 --for 100ms"},
		{"rule", "Q-39"},
		{"version", ""},
	} {
		t.Run(c.command+" "+c.args, func(t *testing.T) {
			args := append(strings.Fields(c.command), strings.Fields(c.args)...)
			var stdout, stderr bytes.Buffer
			if code := run(append(args, "-o", "json"), strings.NewReader(""), &stdout, &stderr); code == 1 || stdout.Len() == 0 {
				t.Fatalf("exit code %d: %s", code, stderr.String())
			}
			file, err := os.ReadFile(filepath.Join("docs/schemas", strings.ReplaceAll(c.command, " ", "-")+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var schema answerSchema
			var answer any
			if err := json.Unmarshal(file, &schema); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(stdout.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
			for _, fault := range schema.faults("answer", answer) {
				t.Error(fault)
			}
		})
	}
}

// answerSchema is the part of JSON schema that the published schemas use.
type answerSchema struct {
	Type       string
	Const      any
	Required   []string
	Properties map[string]*answerSchema
	Items      *answerSchema
	// AdditionalProperties is the schema of the members of a map.
	AdditionalProperties *answerSchema
}

// faults compares a value with the schema.
func (s *answerSchema) faults(path string, value any) []string {
	if s.Const != nil {
		if s.Const != value {
			return []string{fmt.Sprintf("%s is %v, and %v in the schema", path, value, s.Const)}
		}
		return nil
	}
	var faults []string
	is := ""
	switch v := value.(type) {
	case string:
		is = "string"
	case bool:
		is = "boolean"
	case float64:
		if is = "number"; v == float64(int64(v)) && s.Type == "integer" {
			is = "integer"
		}
	case []any:
		is = "array"
		for i, item := range v {
			if s.Items != nil {
				faults = append(faults, s.Items.faults(fmt.Sprintf("%s[%d]", path, i), item)...)
			}
		}
	case map[string]any:
		is = "object"
		for _, name := range s.Required {
			if _, there := v[name]; !there {
				faults = append(faults, path+"."+name+" is required by the schema, and missing")
			}
		}
		for name, member := range v {
			of := s.AdditionalProperties
			if of == nil {
				of = s.Properties[name]
			}
			if of == nil {
				faults = append(faults, path+"."+name+" is not in the schema")
				continue
			}
			faults = append(faults, of.faults(path+"."+name, member)...)
		}
	case nil:
		if s.Type == "array" || s.Type == "object" {
			return nil // A list or an object that is empty.
		}
	}
	if is != s.Type {
		faults = append(faults, fmt.Sprintf("%s is a %s, and a %s in the schema", path, is, s.Type))
	}
	return faults
}
