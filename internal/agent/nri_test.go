package agent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/quota"
	"github.com/paddock-project/paddock/internal/node/cgroup"
	"github.com/paddock-project/paddock/internal/node/podsource/kubelet"
)

// TestNodeWithoutRuntime checks that an agent without a runtime and a kubelet logs that, is not
// ready, and ends on request.
func TestNodeWithoutRuntime(t *testing.T) {
	b := newBench(t)
	b.config.Runtime, b.config.Pods = RuntimeNRI, nil
	b.config.NRI.Socket = filepath.Join(t.TempDir(), "nri.sock")
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	b.config.Kubelet.URL = server.URL
	a, err := b.try(b.disk)
	if err != nil {
		t.Fatal(err)
	}
	if a.runtime != nil || a.Ready() == nil {
		t.Error("it drives a simulated runtime, or is ready without one")
	}
	said := b.log.when("no connection to the runtime")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	<-said
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestCgroupsOfSystemd reads a cgroup and removes its quota by the names that a runtime with the
// systemd driver uses.
func TestCgroupsOfSystemd(t *testing.T) {
	c := verifying(t, map[string]string{
		"kubepods.slice/kubepods-podu1.slice/cpu.max":                              "300000 100000",
		"kubepods.slice/kubepods-podu1.slice/cri-containerd-aaa.scope/cpu.max":     "max 100000",
		"kubepods.slice/kubepods-podu1.slice/cri-containerd-aaa.scope/cpuset.cpus": "1-2",
		"kubepods.slice/kubepods-podu1.slice/cri-containerd-aaa.scope/cpuset.mems": "0",
	})
	files := cgroups{cgroup.FS{Root: c.CgroupRoot}}
	s, err := files.Read("kubepods-podu1.slice:cri-containerd:aaa")
	if err != nil || s.CPUs.String() != "1-2" || s.Mems.String() != "{0}" || s.Quota != quota.None {
		t.Errorf("read %+v, %v", s, err)
	}
	if changed, err := files.SetQuota("kubepods-podu1.slice", quota.None); !changed || err != nil {
		t.Errorf("lifted %v, %v", changed, err)
	}
	if _, err := files.Read("/none"); err == nil {
		t.Error("a cgroup that is not there was read")
	}
}

// TestWhatIsEstimated checks that nothing is estimated unless the configuration asks for it. Then
// pods are estimated that the kubelet does not list or cannot be asked about, but not pods that it
// lists and that cannot be used. If the policy has no pools, the start logs a warning.
func TestWhatIsEstimated(t *testing.T) {
	for _, c := range []struct {
		estimate bool
		policy   string
		warns    bool
	}{
		{false, usualPolicy, false},
		{true, usualPolicy, true},
		{true, usualPolicy + "topologyManagerScope: pod\nfeatureGates: {PodLevelResourceManagers: true}\n", false},
	} {
		b := newBench(t)
		b.config.Runtime, b.config.Pods, b.config.Estimate = RuntimeNRI, nil, c.estimate
		b.policy(c.policy)
		a := b.start()
		said := b.log.take()
		if got := strings.Contains(said, "estimate: the policy has no pools"); got != c.warns {
			t.Errorf("%+v: it warns is %v: %s", c, got, said)
		}
		estimates := a.estimate(t.Context())
		if (estimates != nil) != c.estimate {
			t.Errorf("%+v: it estimates is %v", c, !c.estimate)
		}
		if estimates != nil && (!estimates(kubelet.ErrUnknownPod) || !estimates(io.ErrUnexpectedEOF) || estimates(fmt.Errorf("pod: %w", kubelet.ErrUnusablePod))) {
			t.Errorf("%+v: the wrong errors lead to an estimate", c)
		}
	}
}
