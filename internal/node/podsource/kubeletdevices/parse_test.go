package kubeletdevices

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	"pgregory.net/rapid"
)

func everyPod(*Pod) bool { return true }

func encoded(t testing.TB, pods ...*podresourcesv1.PodResources) []byte {
	t.Helper()
	data, err := proto.Marshal(&podresourcesv1.ListPodResourcesResponse{PodResources: pods})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// kept returns the memory that parse counts for pods. It never exceeds maxKept.
func kept(pods []Pod) int {
	n := 0
	for _, p := range pods {
		n += entrySize + len(p.Namespace) + len(p.Name)
		for _, c := range p.Containers {
			n += entrySize + len(c.Name)
			for _, d := range c.Devices {
				n += entrySize + len(d.ID)
			}
			for _, claim := range c.Claims {
				n += entrySize + len(claim.Namespace) + len(claim.Name)
				for _, d := range claim.Devices {
					n += entrySize + len(d.Driver) + len(d.Pool) + len(d.Device) + len(d.ShareID)
					for _, name := range d.CDI {
						n += entrySize + len(name)
					}
				}
			}
		}
	}
	return n
}

// TestMalformedAnswers: an answer that was damaged anywhere is an error or a value, never a panic,
// and the memory that is kept is bounded. With -rapid.checks the test runs 10,000 answers and more.
func TestMalformedAnswers(t *testing.T) {
	valid := encoded(t, train(), &podresourcesv1.PodResources{Namespace: "a", Name: "b"})
	var fine, bad int
	check := func(answer []byte) {
		if devices, err := parseAllocatable(answer); err != nil && devices != nil || entrySize*len(devices) > maxKept {
			t.Fatalf("%x gives %d devices and %v", answer, len(devices), err)
		}
		pods, err := parse(answer, everyPod)
		switch {
		case err != nil && pods != nil:
			t.Fatalf("%x gives both %v and %v", answer, pods, err)
		case err != nil && !errors.Is(err, errMalformed) && !errors.Is(err, errTooMuch):
			t.Fatalf("%x: %v", answer, err)
		case kept(pods) > maxKept:
			t.Fatalf("%x keeps %d bytes", answer, kept(pods))
		case err != nil:
			bad++
		default:
			fine++
		}
	}
	for n := range valid {
		check(valid[:n])
	}
	rapid.Check(t, func(t *rapid.T) {
		for range 100 {
			answer := slices.Clone(valid)
			for range rapid.IntRange(1, 4).Draw(t, "changes") {
				at := rapid.IntRange(0, len(answer)-1).Draw(t, "at")
				switch rapid.IntRange(0, 3).Draw(t, "how") {
				case 0:
					answer[at] = rapid.Byte().Draw(t, "byte")
				case 1:
					answer = slices.Delete(answer, at, min(len(answer), at+rapid.IntRange(1, 8).Draw(t, "many")))
				case 2:
					answer = slices.Insert(answer, at, rapid.SliceOfN(rapid.Byte(), 1, 8).Draw(t, "more")...)
				case 3:
					answer = append(answer, answer[at:]...)
				}
				if len(answer) == 0 {
					answer = []byte{0}
				}
			}
			check(answer)
		}
	})
	if fine == 0 || bad == 0 {
		t.Errorf("%d answers were read, %d were errors", fine, bad)
	}
}

// nested returns n copies of a message that is nested in messages by the field numbers.
func nested(n int, numbers ...protowire.Number) []byte {
	var message []byte
	for _, number := range slices.Backward(numbers) {
		message = protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), message)
	}
	return slices.Repeat(message, n)
}

// inside returns a message nested in others by the field numbers.
func inside(message []byte, numbers ...protowire.Number) []byte {
	for _, number := range slices.Backward(numbers) {
		message = protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), message)
	}
	return message
}

// TestManyEmptyMessages: an answer of the largest size may have nothing but empty messages, of any
// kind. Afterwards the heap has no more than a few times the bytes that are kept.
func TestManyEmptyMessages(t *testing.T) {
	const n = maxAnswer / 4
	for name, answer := range map[string][]byte{
		"pods":          nested(n, responsePods),
		"containers":    inside(nested(n, podContainers), responsePods),
		"ids":           inside(nested(n, devicesIDs), responsePods, podContainers, containerDevices),
		"NUMA nodes":    inside(nested(n, topologyNodes), responsePods, podContainers, containerDevices, devicesTopology),
		"claims":        inside(nested(n, containerDynamic), responsePods, podContainers),
		"claim devices": inside(nested(n, dynamicResources), responsePods, podContainers, containerDynamic),
		"CDI devices":   inside(nested(n, resourceCDI), responsePods, podContainers, containerDynamic, dynamicResources),
		"of no pod":     nested(n/2, responsePods, podContainers),
	} {
		var before, after runtime.MemStats
		runtime.GC() // Garbage would count as used, on a busy machine most of it.
		runtime.ReadMemStats(&before)
		pods, err := parse(answer, func(*Pod) bool { return name != "of no pod" })
		runtime.GC()
		runtime.ReadMemStats(&after)
		if live := after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc); kept(pods) > maxKept || live > 8*maxKept {
			t.Errorf("%s: %d bytes are kept, the heap grew by %d MiB: %v", name, kept(pods), live>>20, err)
		}
	}
}

// TestRepeatedEntries: kubernetes#141335 repeats the entries of a claim without a limit, up to 17.8
// MB and more.
func TestRepeatedEntries(t *testing.T) {
	pod := train()
	claim := pod.GetContainers()[1].GetDynamicResources()[0]
	claim.ClaimResources = slices.Repeat(claim.GetClaimResources(), 50_000)
	answer := encoded(t, pod)
	pods, err := parse(answer, everyPod)
	if diff := cmp.Diff([]Pod{trained}, pods); err != nil || diff != "" {
		t.Errorf("%d bytes: %v\n%s", len(answer), err, diff)
	}
}

// FuzzParse compares the pods, containers, devices and claims of answers that both this decoder and
// the API's own accept.
func FuzzParse(f *testing.F) {
	f.Add(encoded(f, train()))
	f.Add(nested(3, responsePods, podContainers, containerDynamic, dynamicResources, resourceCDI))
	f.Fuzz(func(t *testing.T, answer []byte) {
		pods, err := parse(answer, everyPod)
		if err != nil && pods != nil || kept(pods) > maxKept {
			t.Fatalf("%d pods, %d bytes, %v", len(pods), kept(pods), err)
		}
		if want, ok := decoded(answer); ok && err == nil && names(pods) != want {
			t.Fatalf("%x: %s\nwant %s", answer, names(pods), want)
		}
	})
}

// decoded returns the names that the API's own decoder reads, and whether it accepts the answer.
func decoded(data []byte) (string, bool) {
	var response podresourcesv1.ListPodResourcesResponse
	if proto.Unmarshal(data, &response) != nil {
		return "", false
	}
	var pods []Pod
	for _, p := range response.GetPodResources() {
		pod := Pod{Namespace: p.GetNamespace(), Name: p.GetName()}
		for _, c := range p.GetContainers() {
			container := Container{Name: c.GetName()}
			for _, devices := range c.GetDevices() {
				for _, id := range devices.GetDeviceIds() {
					container.Devices = append(container.Devices, Device{Resource: devices.GetResourceName(), ID: id})
				}
			}
			for _, r := range c.GetDynamicResources() {
				container.Claims = append(container.Claims, Claim{Namespace: r.GetClaimNamespace(), Name: r.GetClaimName()})
			}
			pod.Containers = append(pod.Containers, container)
		}
		pods = append(pods, pod)
	}
	return names(pods), true
}

// names returns the pods with their containers, devices and claims as text, each device and claim
// once.
func names(pods []Pod) string {
	var out strings.Builder
	for _, p := range pods {
		fmt.Fprintf(&out, "pod %q %q\n", p.Namespace, p.Name)
		for _, c := range p.Containers {
			fmt.Fprintf(&out, " container %q\n", c.Name)
			var lines []string
			for _, d := range c.Devices {
				lines = append(lines, fmt.Sprintf("  device %q %q\n", d.Resource, d.ID))
			}
			for _, claim := range c.Claims {
				lines = append(lines, fmt.Sprintf("  claim %q %q\n", claim.Namespace, claim.Name))
			}
			slices.Sort(lines)
			out.WriteString(strings.Join(slices.Compact(lines), ""))
		}
	}
	return out.String()
}
