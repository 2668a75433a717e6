package podres

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	"pgregory.net/rapid"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// dynamicText prints dynamic resources, one line for each claim and device:
//
//	namespace/claim
//	  driver/pool/device share=id cdi,cdi
func dynamicText(list []*podresourcesv1.DynamicResource) string {
	var out strings.Builder
	for _, r := range list {
		fmt.Fprintf(&out, "%s/%s\n", r.GetClaimNamespace(), r.GetClaimName())
		for _, d := range r.GetClaimResources() {
			fmt.Fprintf(&out, "  %s/%s/%s", d.GetDriverName(), d.GetPoolName(), d.GetDeviceName())
			if d.ShareId != nil {
				fmt.Fprintf(&out, " share=%s", d.GetShareId())
			}
			var names []string
			for _, c := range d.GetCdiDevices() {
				names = append(names, c.GetName())
			}
			if names != nil {
				out.WriteString(" " + strings.Join(names, ","))
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}

// training returns a claim with two GPUs of one driver for one request, a NIC for another request,
// and two shares of a third GPU.
func training(uses ...request.ClaimUse) request.Claim {
	return request.Claim{Name: "training", Uses: uses, Devices: []request.ClaimDevice{
		{Requests: []string{"gpus"}, Driver: "gpu.example.com", Pool: "node7", Name: "gpu-1", CDI: []string{"example.com/gpu=1"}},
		{Requests: []string{"gpus"}, Driver: "gpu.example.com", Pool: "node7", Name: "gpu-0", CDI: []string{"example.com/gpu=0", "example.com/uvm=0"}},
		{Requests: []string{"nic/fast"}, Driver: "nic.example.com", Pool: "node7", Name: "nic-0"},
		{Requests: []string{"part"}, Driver: "gpu.example.com", Pool: "node7", Name: "gpu-2", ShareID: "b"},
		{Requests: []string{"part"}, Driver: "gpu.example.com", Pool: "node7", Name: "gpu-2", ShareID: "a"},
	}}
}

const allOfTraining = `default/training
  gpu.example.com/node7/gpu-0 example.com/gpu=0,example.com/uvm=0
  gpu.example.com/node7/gpu-1 example.com/gpu=1
  gpu.example.com/node7/gpu-2 share=a
  gpu.example.com/node7/gpu-2 share=b
  nic.example.com/node7/nic-0
`

func TestDynamicResources(t *testing.T) {
	use := func(container, of string) request.ClaimUse {
		return request.ClaimUse{Container: container, Request: of}
	}
	other := func(uses ...request.ClaimUse) request.Claim {
		return request.Claim{Name: "other", Uses: uses, Devices: []request.ClaimDevice{{Driver: "d", Pool: "p", Name: "x"}}}
	}
	const gpus = "default/training\n  gpu.example.com/node7/gpu-0 example.com/gpu=0,example.com/uvm=0\n  gpu.example.com/node7/gpu-1 example.com/gpu=1\n"
	for name, c := range map[string]struct {
		claims []request.Claim
		want   string
	}{
		"no claim":                        {nil, ""},
		"another container's":             {[]request.Claim{training(use("b", ""))}, ""},
		"the whole claim":                 {[]request.Claim{training(use("a", ""))}, allOfTraining},
		"one request":                     {[]request.Claim{training(use("a", "gpus"), use("b", ""))}, gpus},
		"an alternative of a request":     {[]request.Claim{training(use("a", "nic"))}, "default/training\n  nic.example.com/node7/nic-0\n"},
		"two requests are one claim":      {[]request.Claim{training(use("a", "nic")), training(use("a", "part"))}, "default/training\n  gpu.example.com/node7/gpu-2 share=a\n  gpu.example.com/node7/gpu-2 share=b\n  nic.example.com/node7/nic-0\n"},
		"a request and the whole claim":   {[]request.Claim{training(use("a", "nic"), use("a", ""))}, allOfTraining},
		"a request without devices":       {[]request.Claim{training(use("a", "none"))}, "default/training\n"},
		"requests that are not known":     {[]request.Claim{other(use("a", "any"))}, "default/other\n  d/p/x\n"},
		"devices that are not known":      {[]request.Claim{{Name: "later", Uses: []request.ClaimUse{use("a", "")}}}, ""},
		"claims in the order of the name": {[]request.Claim{training(use("a", "nic")), other(use("a", ""))}, "default/other\n  d/p/x\ndefault/training\n  nic.example.com/node7/nic-0\n"},
	} {
		pod := &request.Pod{Identity: request.Identity{Namespace: "default"}, Notes: request.Notes{ResourceClaims: request.Ordered(c.claims)}}
		if got := dynamicText(dynamicResources(pod, "a")); got != c.want {
			t.Errorf("%s:\n%swant\n%s", name, got, c.want)
		}
	}
}

// TestClaimsInAnswers checks that List and Get show the claims of sidecars and apps, and that a
// change of the claims alone changes the answer.
func TestClaimsInAnswers(t *testing.T) {
	pod := plain("train", sharing("init", request.Init), sharing("proxy", request.Sidecar), sharing("app", request.App))
	pod.ResourceClaims = request.Ordered([]request.Claim{training(request.ClaimUse{Container: "init", Request: "nic"},
		request.ClaimUse{Container: "proxy", Request: "nic"}, request.ClaimUse{Container: "app"})})
	state := small(t, node.PodScope, pod, dns())
	snapshots := publish(state)
	client := dial(t, start(t, snapshots, unlimited))
	read := func() (containers string) {
		t.Helper()
		listed, err := client.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range listed.GetPodResources() {
			got, err := client.Get(t.Context(), p.GetNamespace(), p.GetName())
			if err != nil || !proto.Equal(got.GetPodResources(), p) {
				t.Errorf("Get has %v, %v, List %v", got, err, p)
			}
			for _, c := range p.GetContainers() {
				if text := dynamicText(c.GetDynamicResources()); text != "" {
					containers += c.GetName() + ": " + text
				}
			}
		}
		return containers
	}
	if got, want := read(), "proxy: default/training\n  nic.example.com/node7/nic-0\napp: "+allOfTraining; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	snapshots.state.Store(state.WithClaims(pod.UID, nil))
	if got := read(); got != "" {
		t.Errorf("without claims: %s", got)
	}
}

// TestGivenDevices checks that List shows the devices of device plugins that the kubelet chose,
// with their NUMA nodes. Devices of claims are dynamic resources instead.
func TestGivenDevices(t *testing.T) {
	c := exclusive("app", request.App, 1, gib)
	c.Given = []request.Given{
		{Driver: "gpu.example.com", Pool: "p", Name: "gpu0", Claim: "gpus"},
		{Resource: "a.example/nic", Name: "x", Nodes: mask.Of(0)},
		{Resource: "b.example/fuse", Name: "y"},
	}
	want := "default/p:\n  app: 1 memory=1Gi{0} b.example/fuse=y a.example/nic=x{0}\n"
	if got := text(list(small(t, node.PodScope, plain("p", c))).GetPodResources()); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestDynamicResourcesOfAnyClaims checks that each device occurs once, with its own CDI devices,
// however often claims and devices are listed, and that equal claims in another order give equal
// bytes.
func TestDynamicResourcesOfAnyClaims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var claims []request.Claim
		for range rapid.IntRange(0, 5).Draw(t, "uses") {
			claim := request.Claim{Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "claim"), Uses: []request.ClaimUse{{Container: "c"}}}
			for _, driver := range []string{"x", "y"} {
				for range rapid.IntRange(0, 2).Draw(t, "devices") {
					claim.Devices = append(claim.Devices, request.ClaimDevice{Driver: driver, Name: "0", CDI: []string{driver + "=0"}})
				}
			}
			claims = append(claims, claim)
		}
		list := dynamicResources(&request.Pod{Notes: request.Notes{ResourceClaims: request.Ordered(claims)}}, "c")
		for _, r := range list {
			seen := map[string]bool{}
			for _, d := range r.GetClaimResources() {
				of := d.GetDriverName() + "=" + d.GetDeviceName()
				if seen[of] || len(d.GetCdiDevices()) != 1 || d.GetCdiDevices()[0].GetName() != of {
					t.Fatalf("%s is there again, or with %v", of, d.GetCdiDevices())
				}
				seen[of] = true
			}
		}
	})
}

// claimed gives each pod of crowd two claims with the given number of devices each: 500 claims for
// 250 pods. The app uses all of one claim and one request of the other. The sidecar uses the other
// request.
func claimed(state *node.State, devices int) *node.State {
	for _, g := range state.Grants() {
		claims := []request.Claim{
			{Name: g.Pod.Name + "-gpu", Uses: []request.ClaimUse{{Container: "server"}}, Devices: []request.ClaimDevice{}},
			{Name: g.Pod.Name + "-net", Uses: []request.ClaimUse{{Container: "server", Request: "r0"}, {Container: "proxy", Request: "r1"}}, Devices: []request.ClaimDevice{}},
		}
		for i := range claims {
			for k := range devices {
				name := fmt.Sprintf("dev-%d-%d", i, k)
				claims[i].Devices = append(claims[i].Devices, request.ClaimDevice{
					Requests: []string{fmt.Sprint("r", k%2)}, Driver: "driver.example.com", Pool: "node7", Name: name, CDI: []string{"example.com/class=" + name},
				})
			}
		}
		state = state.WithClaims(g.Pod.UID, request.Ordered(claims))
	}
	return state
}

// TestAnswerIsLinearInClaims checks that twice the devices take about twice the bytes.
func TestAnswerIsLinearInClaims(t *testing.T) {
	state := crowd(t)
	size := func(devices int) int { return proto.Size(list(claimed(state, devices))) }
	none := size(0)
	once := size(2) - none
	for _, times := range []int{2, 4, 16} {
		if more := size(2*times) - none; more > times*once*11/10 {
			t.Errorf("%d devices for each claim take %d bytes, 2 take %d", 2*times, more, once)
		}
	}
}
