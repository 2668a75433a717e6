package prediction

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	api "github.com/paddock-project/paddock/api/predict/v1alpha1"
)

// claimed and chosen return a device of a claim and one that a kubelet chose.
func claimed(at ...int32) *api.GivenDevice {
	return &api.GivenDevice{Driver: "gpu.example.com", Pool: "node-0000", Claim: "gpu", Name: "gpu0", NumaNodes: at}
}

func chosen(at ...int32) *api.GivenDevice {
	return &api.GivenDevice{Resource: "example.com/nic", Name: "nic0", NumaNodes: at}
}

func serverOfOne(t *testing.T) *Server {
	t.Helper()
	w := &world{moment: nodes(t, 1), now: time.Unix(1000, 0)}
	return New(w, Options{MaxAge: time.Minute, Now: w.clock, After: time.After})
}

// TestGiven asks about pods with devices that others chose. CPUs are aligned with them. If their
// NUMA nodes are not known, or not those of the machine, the answer is unsure.
func TestGiven(t *testing.T) {
	s := serverOfOne(t)
	for name, c := range map[string]struct {
		given     []*api.GivenDevice
		cpus      string // "" if the pod is rejected
		certainty api.Answer_Certainty
		doubt     string
	}{
		"none":              {nil, "1-3", api.Answer_CERTAIN, ""},
		"a claim's":         {[]*api.GivenDevice{claimed(1)}, "4-6", api.Answer_CERTAIN, ""},
		"of a kubelet":      {[]*api.GivenDevice{chosen(1)}, "4-6", api.Answer_CERTAIN, ""},
		"near both":         {[]*api.GivenDevice{claimed(0, 1), chosen(1)}, "4-6", api.Answer_CERTAIN, ""},
		"apart":             {[]*api.GivenDevice{claimed(0), chosen(1)}, "", api.Answer_CERTAIN, ""},
		"not known":         {[]*api.GivenDevice{claimed()}, "1-3", api.Answer_UNSURE, "gpu0"},
		"of another server": {[]*api.GivenDevice{chosen(7)}, "1-3", api.Answer_UNSURE, "nic0"},
	} {
		p := pod("a", 3)
		p.Containers[0].Given = c.given
		p.Containers[0].Resources.Limits["example.com/nic"] = 0
		for _, g := range c.given {
			if g.GetResource() != "" {
				p.Containers[0].Resources.Limits[g.GetResource()]++
			}
		}
		out, err := s.Ask(t.Context(), &api.AskRequest{Node: "node-0000", Pod: p})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		a, cpus := out.GetAnswer(), ""
		for _, got := range a.GetAssignment().GetContainers() {
			cpus = got.GetCpus()
		}
		if doubts := strings.Join(a.GetDoubts(), "; "); cpus != c.cpus || a.GetFits() != (c.cpus != "") || a.GetCertainty() != c.certainty ||
			!strings.Contains(doubts, c.doubt) || (doubts == "") != (c.doubt == "") {
			t.Errorf("%s: got %v", name, a)
		}
		short, err := s.AskBatch(t.Context(), &api.AskBatchRequest{Pods: []*api.Pod{p}})
		if err != nil || short.GetAnswers()[0].GetFits() != a.GetFits() || short.GetAnswers()[0].GetCertainty() != a.GetCertainty() {
			t.Errorf("%s: without detail %v, %v", name, short, err)
		}
	}
}

// TestGivenErrors asks about devices that are not usable, and about too many.
func TestGivenErrors(t *testing.T) {
	s := serverOfOne(t)
	for want, g := range map[string]*api.GivenDevice{
		"NUMA node 64 is outside 0 to 63": claimed(64),
		"NUMA node -1 is outside 0 to 63": claimed(-1),
		"container main":                  {Name: "both", Resource: "example.com/nic", Driver: "gpu.example.com"},
		"pod 0":                           {Resource: "example.com/nic"},
	} {
		p := pod("a", 3)
		p.Containers[0].Given = []*api.GivenDevice{g}
		_, err := s.Ask(t.Context(), &api.AskRequest{Node: "node-0000", Pod: p})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", g, err, want)
		}
	}
	p, many := pod("a", 3), make([]*api.GivenDevice, 1025)
	for i := range many {
		many[i] = &api.GivenDevice{Resource: "example.com/nic", Name: fmt.Sprint("nic", i)}
	}
	p.Containers[0].Given = many
	if _, err := s.Ask(t.Context(), &api.AskRequest{Node: "node-0000", Pod: p}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("%d devices: %v", len(many), err)
	}
}
