package claims_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/claims"
	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
)

// pci represents a machine with one GPU.
type pci struct{}

func (pci) Function(address string) mask.Mask {
	if address == "0000:17:00.0" {
		return mask.Of(1)
	}
	return 0
}

func (pci) Root(name string) mask.Mask {
	if name == "pci0000:16" {
		return mask.Of(0, 1)
	}
	return 0
}

const slice = `{"driver":"gpu.example.com","nodeName":"n","pool":{"name":"p","generation":1,"resourceSliceCount":1},"devices":[
 {"name":"attribute","attributes":{"resource.kubernetes.io/numaNode":{"int":3},"resource.kubernetes.io/pciBusID":{"string":"0000:17:00.0"}}},
 {"name":"list","attributes":{"resource.kubernetes.io/numaNode":{"ints":[2,3]}},"capacity":{"memory":{"value":"80Gi"}}},
 {"name":"address","attributes":{"resource.kubernetes.io/pciBusID":{"string":"0000:17:00.0"},"resource.kubernetes.io/pcieRoot":{"string":"pci0000:16"}}},
 {"name":"root","attributes":{"resource.kubernetes.io/pciBusID":{"string":"../../etc"},"resource.kubernetes.io/pcieRoot":{"string":"pci0000:16"}},"consumesCounters":[{"counterSet":"c"}]},
 {"name":"nothing","attributes":{"model":{"string":"x"},"driverVersion":{"version":"1.0.0"},"ecc":{"bool":true}}}]}`

const metadataFile = `{"kind":"DeviceMetadata","apiVersion":"metadata.resource.k8s.io/v1beta1","metadata":{"name":"c","namespace":"n"},"podClaimName":"g","requests":[
 {"name":"gpu","devices":[{"driver":"gpu.example.com","pool":"p","name":"gpu0","attributes":{"resource.kubernetes.io/numaNode":{"int":1}}},
 {"driver":"gpu.example.com","pool":"p","name":"gpu1","attributes":{"resource.kubernetes.io/pciBusID":{"string":"0000:17:00.0"}},"networkData":{"interfaceName":"eth0"}}]},
 {"name":"nic/fast","devices":[{"driver":"gpu.example.com","pool":"p","name":"nic0"}]}]}
{"kind":"DeviceMetadata","apiVersion":"metadata.resource.k8s.io/v1alpha1","metadata":{"name":"c"},"requests":[]}`

// TestReadSlice checks that an attribute takes precedence over the PCI address, and the PCI address
// over the PCIe root.
func TestReadSlice(t *testing.T) {
	for _, machine := range []claims.PCI{pci{}, nil} {
		read, err := claims.ReadSlice([]byte(slice), machine)
		if err != nil {
			t.Fatal(err)
		}
		places := claims.PlacesOf([]*claims.Slice{read}, "n")
		got := ""
		for _, name := range []string{"attribute", "list", "address", "root", "nothing", "absent"} {
			nodes, listed := places.Nodes("gpu.example.com", "p", name)
			got += fmt.Sprintf("%s %s %t, ", name, nodes, listed)
		}
		want := "attribute {3} true, list {2-3} true, address {1} true, root {0-1} true, nothing {} true, absent {} false, "
		if machine == nil {
			want = "attribute {3} true, list {2-3} true, address {} true, root {} true, nothing {} true, absent {} false, "
		}
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	var none *claims.Places
	if nodes, listed := none.Nodes("a", "b", "c"); !nodes.IsEmpty() || listed || none.Stock([]request.Given{{Driver: "a"}}) != nil {
		t.Error("a nil value has places")
	}
}

// TestReadMetadata checks that the first known version in a file with several versions is used.
func TestReadMetadata(t *testing.T) {
	for _, before := range []string{"", `{"kind":"DeviceMetadata","apiVersion":"metadata.resource.k8s.io/v9","x":[]}`} {
		got, err := claims.ReadMetadata([]byte(before+metadataFile), pci{})
		want := "[{gpu.example.com p gpu0 gpu {1}} {gpu.example.com p gpu1 gpu {1}} {gpu.example.com p nic0 nic/fast {}}]"
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%v, %v, want %s", got, err, want)
		}
	}
}

// TestTooLarge checks that input beyond the limits is an error, and that reading it takes no memory
// for data that is not kept.
func TestTooLarge(t *testing.T) {
	const million = 1 << 20
	for name, text := range map[string]string{
		"devices":      `{"driver":"d","devices":[` + strings.Repeat(`{"name":"x"},`, million) + `{"name":"x"}]}`,
		"null devices": `{"driver":"d","devices":[` + strings.Repeat(`null,`, million) + `null]}`,
		"a device":     `{"driver":"d","devices":[{"name":"x","attributes":{` + strings.Repeat(`"a":{},`, million) + `"b":{}}}]}`,
		"a name":       `{"driver":"d","devices":[{"name":"` + strings.Repeat("x", million) + `"}]}`,
		"a driver":     `{"driver":"` + strings.Repeat("x", million) + `"}`,
		"a pool":       `{"driver":"d","pool":{"name":"` + strings.Repeat("x", million) + `"}}`,
		"nesting":      `{"driver":"d","devices":` + strings.Repeat(`[`, million),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := claims.ReadSlice([]byte(text), nil)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, claims.ErrSlice) {
			t.Errorf("%s: %v", name, err)
		}
		if most := uint64(8*len(text)) + 8<<20; after.TotalAlloc-before.TotalAlloc > most {
			t.Errorf("%s of %d MiB took %d MiB", name, len(text)>>20, (after.TotalAlloc-before.TotalAlloc)>>20)
		}
	}
	if _, err := claims.ReadMetadata(make([]byte, claims.MaxMetadata+1), nil); !errors.Is(err, claims.ErrMetadata) {
		t.Error(err)
	}
}

// mutate changes a text in up to eight places. It changes, removes and repeats bytes, and inserts
// pieces of JSON.
func mutate(r *rand.Rand, text string) string {
	pieces := []string{"{", "}", "[", "]", ",", `"`, "null", "-1", "9223372036854775808", "1e999", `""`, `{"a":`, "[[[[", "\x00", "\xff", `\ud800`, "true", `"int":64`}
	data := []byte(text)
	for range 1 + r.IntN(8) {
		at := r.IntN(len(data) + 1)
		end := min(len(data), at+r.IntN(40))
		part := string(data[at:end])
		switch r.IntN(4) {
		case 0:
			data = append(data[:at:at], data[end:]...)
		case 1:
			data = append(data[:at:at], strings.Repeat(part, 1+r.IntN(50))+string(data[at:])...)
		case 2:
			data = append(data[:at:at], pieces[r.IntN(len(pieces))]+string(data[at:])...)
		default:
			if at < len(data) {
				data[at] = byte(r.IntN(256))
			}
		}
	}
	return string(data)
}

// TestMutated reads 10,000 mutated slices, metadata files and claims. Each read must return either
// an error or a value, and NUMA nodes only for devices with a name.
func TestMutated(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 10_000))
	for range 10_000 {
		checkSlice(t, mutate(r, slice))
		checkMetadata(t, mutate(r, metadataFile))
		checkAllocation(t, mutate(r, allocatedClaim))
	}
}

func checkSlice(t *testing.T, text string) {
	read, err := claims.ReadSlice([]byte(text), pci{})
	if (err == nil) == (read == nil) || err != nil && !errors.Is(err, claims.ErrSlice) {
		t.Fatalf("%s: %v, %v", text, read, err)
	}
	if err != nil {
		return
	}
	places := claims.PlacesOf([]*claims.Slice{read, read}, "n")
	if nodes, listed := places.Nodes("gpu.example.com", "p", "attribute"); !listed && !nodes.IsEmpty() {
		t.Fatalf("%s: %s", text, nodes)
	}
	places.Stock([]request.Given{{Driver: "gpu.example.com", Pool: "p", Name: "list"}, {Driver: "gpu.example.com", Pool: "p", Name: "root"}})
}

func checkMetadata(t *testing.T, text string) {
	devices, err := claims.ReadMetadata([]byte(text), pci{})
	if err != nil && (devices != nil || !errors.Is(err, claims.ErrMetadata)) {
		t.Fatalf("%s: %v, %v", text, devices, err)
	}
	for _, d := range devices {
		if d.Driver == "" || d.Device == "" {
			t.Fatalf("%s: %v", text, d)
		}
	}
}

const allocatedClaim = `{"kind":"ResourceClaim","apiVersion":"resource.k8s.io/v1","metadata":{"name":"c","uid":"u"},"spec":{"devices":{"requests":[{"name":"gpu"}]}},
 "status":{"allocation":{"devices":{"results":[{"request":"gpu/large","driver":"gpu.example.com","pool":"p","device":"gpu0","shareID":"8d5f","adminAccess":true},
 {"request":"nic","driver":"nic.example.com","pool":"p","device":"nic0"}],"config":[]}},"reservedFor":[{"resource":"pods","name":"p","uid":"v"}]}}`

// TestReadAllocation checks that the result is nil for a claim without an allocation, and empty but
// not nil for an allocation without devices.
func TestReadAllocation(t *testing.T) {
	for text, want := range map[string]string{
		allocatedClaim:             "[{gpu.example.com p gpu0 8d5f gpu/large} {nic.example.com p nic0  nic}] false <nil>",
		`{"kind":"ResourceClaim"}`: "[] true <nil>",
		`{"kind":"ResourceClaim","status":{"allocation":{}}}`:                                                                             "[] false <nil>",
		`{"kind":"ResourceClaim","status":{"allocation":{"devices":{"results":{}}}}}`:                                                     "expected a list",
		`{"kind":"ResourceClaim","status":{"allocation":{"devices":{"results":[{"driver":"d"}]}}}}`:                                       "expected a request, a driver and a device",
		`{"kind":"Status","apiVersion":"v1"}`:                                                                                             `its kind is "Status"`,
		strings.Replace(allocatedClaim, `{"request"`, strings.Repeat(`{"request":"r","driver":"d","device":"x"},`, 5000)+`{"request"`, 1): "more than 4096 devices",
	} {
		got, err := claims.ReadAllocation([]byte(text))
		if shown := fmt.Sprint(got, got == nil, err); !strings.Contains(shown, want) || err != nil && !errors.Is(err, claims.ErrClaim) {
			t.Errorf("%.80s: %s, want %s", text, shown, want)
		}
	}
}

func checkAllocation(t *testing.T, text string) {
	devices, err := claims.ReadAllocation([]byte(text))
	if err != nil && (devices != nil || !errors.Is(err, claims.ErrClaim)) {
		t.Fatalf("%s: %v, %v", text, devices, err)
	}
	for _, d := range devices {
		if d.Driver == "" || d.Device == "" || d.Request == "" {
			t.Fatalf("%s: %v", text, d)
		}
	}
}

func FuzzReadAllocation(f *testing.F) {
	f.Add(allocatedClaim)
	f.Fuzz(checkAllocation)
}

func FuzzReadSlice(f *testing.F) {
	f.Add(slice)
	f.Add(`{"driver":"d","devices":null}`)
	f.Fuzz(checkSlice)
}

func FuzzReadMetadata(f *testing.F) {
	f.Add(metadataFile)
	f.Add(`{"kind":"DeviceMetadata","apiVersion":"metadata.resource.k8s.io/v1alpha1"}`)
	f.Fuzz(checkMetadata)
}

// TestSliceIsTheObject checks that a slice read with limits gives the same result as the whole
// object.
func TestSliceIsTheObject(t *testing.T) {
	read, err := claims.ReadSlice([]byte(slice), nil)
	if err != nil {
		t.Fatal(err)
	}
	objects := &claims.Objects{}
	object := fmt.Sprintf(`{"metadata":{"name":"s"},"spec":%s}`, slice)
	if err := objects.Add("ResourceSlice", "resource.k8s.io/v1", []byte(object)); err != nil || !json.Valid([]byte(object)) {
		t.Fatal(err)
	}
	var given []request.Given
	for _, name := range []string{"attribute", "address", "nothing", "list"} {
		given = append(given, request.Given{Driver: "gpu.example.com", Pool: "p", Name: name})
		one, other := claims.PlacesOf([]*claims.Slice{read}, "n").Stock(given), claims.PlacesOf(claims.SlicesOf(objects), "n").Stock(given)
		if fmt.Sprint(one) != fmt.Sprint(other) {
			t.Errorf("%v: %v and %v", given, one, other)
		}
	}
}
