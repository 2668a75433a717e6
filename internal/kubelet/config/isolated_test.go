package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/paddock-project/paddock/internal/core/cpu"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	kubeletcfg "github.com/paddock-project/paddock/internal/kubelet/config"
)

// TestIsolatedOfKubelets checks that Paddock resolves the option isolated-cpus, and that the
// configuration of a kubelet of any version is rejected with the kubelet's own message.
func TestIsolatedOfKubelets(t *testing.T) {
	d := machine.Description{Nodes: []machine.NodeDescription{{Memory: 1 << 30}}, Isolation: machine.Isolation{Isolated: cpuset.Of(2, 3)}}
	for id := range 4 {
		d.Nodes[0].Cores = append(d.Nodes[0].Cores, machine.CoreDescription{Threads: []int{id}, Uncore: machine.NoUncore})
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubeletcfg.FromJSON([]byte(`{"cpuManagerPolicy":"static","reservedSystemCPUs":"0","cpuManagerPolicyOptions":{"isolated-cpus":"only"}}`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Resolve(m)
	if err != nil || p.CPU.Isolated != cpu.IsolatedOnly {
		t.Errorf("policy %+v and error %v", p.CPU, err)
	}
	const log = `new static policy error: unknown CPU Manager Policy option: "isolated-cpus"`
	if problems := c.KubeletRejects(m); len(problems) != 1 || problems[0].Kubelet != log {
		t.Errorf("problems of a kubelet: %v", problems)
	}
	for minor := 33; minor <= 37; minor++ {
		var rejected *kubeletcfg.RejectedError
		if _, err := c.For(minor).Resolve(m); !errors.As(err, &rejected) || len(rejected.Problems) != 1 || !strings.Contains(rejected.Problems[0].Kubelet, log) {
			t.Errorf("kubelet 1.%d: %v", minor, err)
		}
		if problems := c.For(minor).KubeletRejects(m); len(problems) > 0 {
			t.Errorf("kubelet 1.%d rejects it twice: %v", minor, problems)
		}
	}
}
