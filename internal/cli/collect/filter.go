package collect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/base/bounded"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

const (
	// maxInput is the maximum size of the input, in bytes. The pods of a node have a few MiB.
	maxInput = podspec.MaxFileSize
	// maxYAML is the maximum size of a YAML document, in bytes. Only the kubelet's configuration is
	// YAML, and a YAML document takes many times its size while it is parsed.
	maxYAML = 1 << 20
)

// Filter reduces objects to the fields that decide. The zero value keeps all names.
type Filter struct {
	// Key, if it is not empty, is the key with which names are hashed. Filters with the same key
	// give a name the same hash.
	Key []byte
}

// Copy reads one Pod, Node or KubeletConfiguration, the answer of a kubelet's /configz, a List of
// Pods and Nodes, or kubelet_internal_checkpoint. It writes the same object or a v1 List, as JSON,
// with only the fields that decide. The notes name the objects that are left out and, with a key,
// the hashes of rejected pods. If there is an error, nothing is written.
func (f Filter) Copy(to io.Writer, from io.Reader) (notes []string, err error) {
	data, err := read(from)
	if err != nil {
		return nil, err
	}
	var d struct {
		metav1.TypeMeta `json:",inline"`
		Items           *[]json.RawMessage `json:"items"`
		Kubelet         json.RawMessage    `json:"kubeletconfig"`
		Data            json.RawMessage    `json:"Data"` // of the kubelet's files about devices
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &d); err != nil {
		return nil, fmt.Errorf("standard input is not a Kubernetes object: %w", err)
	}
	var reduced any
	switch {
	case len(d.Data) > 0 && d.Kind == "":
		if data, err = devicesOf(data); err == nil {
			_, err = to.Write(append(data, '\n'))
		}
		return nil, err
	case len(d.Kubelet) > 0:
		settings, err := SettingsOf(d.Kubelet)
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		reduced = map[string]any{"kubeletconfig": settings}
	case d.Kind == "KubeletConfiguration":
		if reduced, err = SettingsOf(data); err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
	case d.Items != nil && strings.HasSuffix(d.Kind, "List"):
		items, notes, err := f.objects(*d.Items, strings.TrimSuffix(d.Kind, "List"))
		if err != nil {
			return nil, err
		}
		return notes, write(to, list{Kind: "List", APIVersion: "v1", Items: items})
	default:
		var items []any
		if items, notes, err = f.objects([]json.RawMessage{data}, ""); err != nil {
			return nil, err
		}
		if len(items) == 0 {
			return nil, fmt.Errorf("standard input is an object of kind %q: expected a Pod, a Node, a List of them, or a KubeletConfiguration", d.Kind)
		}
		reduced = items[0]
	}
	return notes, write(to, reduced)
}

// devicesOf removes from kubelet_internal_checkpoint what device plugins answered, which can have
// environment variables. A right checksum is one of the new content, and a wrong one stays wrong.
func devicesOf(data []byte) ([]byte, error) {
	file, err := kubeletstate.RecogniseDevices(data)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	if file.Manager != kubeletstate.DeviceManager {
		return nil, errors.New("standard input is dra_manager_state, which has names of claims: expected kubelet_internal_checkpoint")
	}
	for i := range file.Entries {
		file.Entries[i].AllocResp = nil
	}
	reduced, err := file.Encode()
	if err != nil || file.Checksum.Valid() {
		return reduced, err
	}
	sum := []byte(`"Checksum":`)
	return append(reduced[:bytes.LastIndex(reduced, sum)+len(sum)], "0}"...), nil
}

// list is a v1 List.
type list struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Items      []any  `json:"items"`
}

// read returns the JSON of the input.
func read(from io.Reader) ([]byte, error) {
	data, err := bounded.Read("standard input", from, maxInput)
	if err == nil {
		err = bounded.Unpacked("standard input", data)
	}
	if err != nil {
		return nil, err
	}
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
		return nil, errors.New("standard input is empty: the command before this one printed nothing; see its own message")
	case data[0] == '{':
		return data, nil
	case len(data) > maxYAML:
		return nil, fmt.Errorf("standard input is no JSON and has more than %d MiB: expected the output of kubectl get -o json", maxYAML>>20)
	case bytes.Contains(data, []byte("\n---")):
		return nil, errors.New("standard input has several YAML documents: expected one, or the output of kubectl get -o json")
	}
	object, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("standard input is neither JSON nor YAML: %w", err)
	}
	return object, nil
}

func write(to io.Writer, object any) error {
	data, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		return err
	}
	_, err = to.Write(append(data, '\n'))
	return err
}

// objects reduces Pods and Nodes. assumed is the kind of objects that do not state their own.
func (f Filter) objects(raws []json.RawMessage, assumed string) ([]any, []string, error) {
	n := newNames(f.Key)
	items, notes := []any{}, []string(nil)
	left := map[string]int{}
	var pods []*pod
	for i, raw := range raws {
		meta := metav1.TypeMeta{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &meta); err != nil {
			return nil, nil, fmt.Errorf("standard input: item %d: %w", i+1, err)
		}
		if meta.Kind == "" {
			meta = metav1.TypeMeta{Kind: assumed, APIVersion: "v1"}
		}
		var err error
		switch meta {
		case metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}:
			p := new(pod)
			if err = kjson.UnmarshalCaseSensitivePreserveInts(raw, p); err == nil {
				p.TypeMeta = meta
				p.reduce()
				name := p.Metadata.Namespace + "/" + p.Metadata.Name
				n.pod(p)
				if len(f.Key) > 0 && rejects(p.Status.Reason) {
					notes = append(notes, fmt.Sprintf("pod %s (%s) is %s/%s", name, p.Status.Reason, p.Metadata.Namespace, p.Metadata.Name))
				}
				pods = append(pods, p)
				items = append(items, p)
			}
		case metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}:
			o := new(node)
			if err = kjson.UnmarshalCaseSensitivePreserveInts(raw, o); err == nil {
				o.TypeMeta = meta
				o.reduce()
				n.node(o)
				items = append(items, o)
			}
		default:
			left[meta.Kind]++
		}
		if err != nil {
			return nil, nil, fmt.Errorf("standard input: item %d: %s: %w", i+1, meta.Kind, err)
		}
	}
	for _, p := range pods { // A message can have the name of any object.
		n.messages(p)
	}
	for _, kind := range slices.Sorted(maps.Keys(left)) {
		notes = append(notes, fmt.Sprintf("objects of kind %q are left out, %d in all: only Pods and Nodes decide", kind, left[kind]))
	}
	return items, notes, nil
}

// settings are the fields of a KubeletConfiguration that decide, or that other settings depend on.
var settings = []string{
	"apiVersion", "kind",
	"cpuManagerPolicy", "cpuManagerPolicyOptions", "cpuManagerReconcilePeriod", "cpuCFSQuota", "cpuCFSQuotaPeriod",
	"memoryManagerPolicy", "reservedMemory", "memorySwap", "failSwapOn", "memoryThrottlingFactor",
	"topologyManagerPolicy", "topologyManagerPolicyOptions", "topologyManagerScope",
	"reservedSystemCPUs", "systemReserved", "kubeReserved", "systemReservedCgroup", "kubeReservedCgroup", "enforceNodeAllocatable", "qosReserved",
	"evictionHard", "evictionSoft", "evictionMinimumReclaim", "mergeDefaultEvictionSettings",
	"maxPods", "podsPerCore", "localStorageCapacityIsolation",
	"cgroupDriver", "cgroupRoot", "cgroupsPerQOS", "featureGates",
}

// SettingsOf returns the fields of a KubeletConfiguration, in JSON, that decide. Other fields can
// have addresses, tokens of headers and names of files.
func SettingsOf(raw []byte) (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("the KubeletConfiguration: %w", err)
	}
	maps.DeleteFunc(all, func(field string, _ json.RawMessage) bool { return !slices.Contains(settings, field) })
	return all, nil
}
