package stateview

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	kubeletstate "github.com/paddock-project/paddock/internal/kubelet/state"
)

// Claim is a ResourceClaim that the kubelet has prepared.
type Claim struct {
	Name    string        `json:"name"` // namespace/name
	UID     string        `json:"uid"`
	Pods    []ClaimPod    `json:"pods"`
	Devices []ClaimDevice `json:"devices"`
}

// ClaimPod is a pod that uses a claim.
type ClaimPod struct {
	UID string `json:"uid"`
	// Name is "namespace/name", or empty if it is not known.
	Name string `json:"name,omitempty"`
}

// ClaimDevice is a device of a claim.
type ClaimDevice struct {
	Driver   string   `json:"driver"`
	Pool     string   `json:"pool"`
	Device   string   `json:"device"`
	Share    string   `json:"shareID,omitempty"`
	Requests []string `json:"requests,omitempty"`
	CDI      []string `json:"cdiDevices,omitempty"`
}

// PluginDevice is a device of a device plugin that a container has.
type PluginDevice struct {
	UID string `json:"uid"`
	// Name is the pod's "namespace/name", or empty if it is not known.
	Name      string `json:"name,omitempty"`
	Container string `json:"container"`
	Resource  string `json:"resource"`
	Device    string `json:"device"`
	NUMANodes []int  `json:"numaNodes,omitempty"`
}

// ofDevices returns the content of a file about devices.
func ofDevices(name string, f *kubeletstate.DeviceFile, pods inputs.Roster) *State {
	s := &State{
		File: name, Manager: f.Manager.String(), Valid: f.Checksum.Valid(), Checksum: f.Checksum.String(),
		ReadBy: []string{}, Pods: []Pod{}, checksum: f.Checksum,
	}
	known := func(uid string) string {
		if name := pods.Name(uid); name != uid {
			return name
		}
		return ""
	}
	for _, c := range f.Claims {
		claim := Claim{Name: c.Namespace + "/" + c.Name, UID: c.UID, Pods: []ClaimPod{}, Devices: []ClaimDevice{}}
		for _, uid := range c.Pods {
			claim.Pods = append(claim.Pods, ClaimPod{uid, known(uid)})
		}
		for _, d := range c.Devices {
			claim.Devices = append(claim.Devices, ClaimDevice(d))
		}
		s.Claims = append(s.Claims, claim)
	}
	for _, e := range f.Entries {
		nodes := e.NUMANodes()
		for _, id := range slices.Sorted(maps.Keys(nodes)) {
			s.Devices = append(s.Devices, PluginDevice{e.PodUID, known(e.PodUID), e.ContainerName, e.ResourceName, id, nodes[id]})
		}
	}
	return s
}

// deviceText formats a file about devices for reading.
func (s *State) deviceText(style terminal.Style) string {
	facts := terminal.Table{Columns: make([]terminal.Column, 2)}
	tone := terminal.Bad
	if s.Valid {
		tone = terminal.Good
	}
	facts.Cells(terminal.Cell{Text: "checksum", Tone: terminal.Faint}, terminal.Cell{Text: s.Checksum, Tone: tone})
	if len(s.Claims) == 0 && len(s.Devices) == 0 {
		facts.Cells(terminal.Cell{Text: "pods", Tone: terminal.Faint}, terminal.Cell{Text: "none has devices"})
	}
	text := facts.Text(style)
	title := func(name, uid string) terminal.Cell {
		if name == "" {
			name = uid
		}
		return terminal.Cell{Text: name, Tone: terminal.Strong}
	}
	if len(s.Claims) > 0 {
		table := terminal.Table{Columns: terminal.Columns("CLAIM", "PODS", "DEVICE", "REQUESTS", "CDI DEVICES")}
		for _, c := range s.Claims {
			var pods []string
			for _, p := range c.Pods {
				pods = append(pods, title(p.Name, p.UID).Text)
			}
			head := []terminal.Cell{{Text: c.Name, Tone: terminal.Strong}, {Text: strings.Join(pods, ", ")}}
			for _, d := range c.Devices {
				device := kubeletstate.ClaimDevice(d).String()
				if d.Share != "" {
					device += fmt.Sprintf(" (share %s)", d.Share)
				}
				table.Cells(append(head, terminal.Cell{Text: device}, terminal.Cell{Text: strings.Join(d.Requests, ", ")}, terminal.Cell{Text: strings.Join(d.CDI, ", ")})...)
				head = make([]terminal.Cell, 2)
			}
			if len(c.Devices) == 0 {
				table.Cells(append(head, terminal.Cell{Text: "none", Tone: terminal.Faint}, terminal.Cell{}, terminal.Cell{})...)
			}
		}
		text += "\n" + table.Text(style)
	}
	if len(s.Devices) > 0 {
		table := terminal.Table{Columns: terminal.Columns("POD", "CONTAINER", "RESOURCE", "DEVICE", "NUMA NODES")}
		for _, d := range s.Devices {
			table.Cells(title(d.Name, d.UID), terminal.Cell{Text: d.Container}, terminal.Cell{Text: d.Resource}, terminal.Cell{Text: d.Device}, terminal.Cell{Text: nodeList(d.NUMANodes)})
		}
		text += "\n" + table.Text(style)
	}
	return text
}
