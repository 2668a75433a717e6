package doctor_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/codec/statefile"
	"github.com/paddock-project/paddock/internal/kubelet/doctor"
	"github.com/paddock-project/paddock/internal/testing/classtest"
)

// TestClassesAreLost checks that the way back to the kubelet names the pods that lose their parts
// of the caches.
func TestClassesAreLost(t *testing.T) {
	s := classtest.State(t)
	_, remarks, err := doctor.FromPaddock(&statefile.File{Policy: s.Policy(), Grants: s.Grants()}, s.Machine())
	if err != nil {
		t.Fatal(err)
	}
	var pods []string
	for _, r := range remarks {
		if strings.Contains(r.What, "its parts of the caches have no place: a kubelet divides no caches") {
			pods = append(pods, r.UID)
		}
	}
	if !slices.Equal(pods, []string{"db", "packets"}) {
		t.Errorf("%q lose something: %v", pods, remarks)
	}
}
