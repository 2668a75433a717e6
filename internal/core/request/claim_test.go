package request

import (
	"fmt"
	"testing"
)

func TestOrdered(t *testing.T) {
	d := func(name, share string, requests ...string) ClaimDevice {
		return ClaimDevice{Driver: "d", Pool: "p", Name: name, ShareID: share, Requests: requests}
	}
	got := Ordered([]Claim{
		{Name: "b", Uses: []ClaimUse{{"y", ""}, {"x", "r"}, {"x", "r"}}, Devices: []ClaimDevice{d("2", ""), d("1", "b"), d("1", "a", "r/large"), d("1", "b")}},
		{Name: "a", Uses: []ClaimUse{{"x", ""}}, Devices: []ClaimDevice{d("1", "")}},
		{Name: "b", Uses: []ClaimUse{{"x", ""}}},
	})
	if want := "[{a [{x }] [{d p 1  [] []}]} {b [{x } {x r} {y }] [{d p 1 a [r/large] []} {d p 1 b [] []} {d p 2  [] []}]}]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	b := &got[1]
	for container, want := range map[string]string{"x": "true true true true", "y": "true true true true", "z": "false false false false"} {
		if text := fmt.Sprint(b.UsedBy(container), b.Has(container, &b.Devices[0]), b.Has(container, &b.Devices[1]), b.Has(container, &b.Devices[2])); text != want {
			t.Errorf("%s: %s, want %s", container, text, want)
		}
	}
	if b.Complete() || !got[0].Complete() || (&Claim{}).Complete() {
		t.Error("a claim is complete without devices, or without the requests that a container names")
	}
	large, known := d("1", "", "r/large"), d("1", "", "s")
	if !large.For("r") || !large.For("r/large") || !large.For("") || large.For("r/small") || known.For("r") {
		t.Error("a request is for another device")
	}
	if !SameClaims(got, Ordered(got)) || SameClaims(got, got[:1]) || SameClaims(got, Ordered(append([]Claim{{Name: "b", Uses: []ClaimUse{{"z", ""}}}}, got...))) {
		t.Error("the same claims differ, or others are the same")
	}
}
