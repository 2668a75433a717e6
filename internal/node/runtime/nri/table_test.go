package nri

import (
	"testing"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
)

// A creation is reported after the reply to a later request whose outcome is open: the updates
// beside the creation are made, and the later ones may have been made after them.
func TestMadeBeforeADoubt(t *testing.T) {
	creation, later := &operation{number: 1, creates: "other"}, &operation{number: 2}
	c := &container{id: "c"}
	c.send(creation, converge.Setting{CPUs: cpuset.Of(1, 2, 3)}, true)
	c.send(later, converge.Setting{CPUs: cpuset.Of(0, 1, 2, 3, 4, 5)}, false)
	c.doubt(later)
	c.made(creation)
	if may := c.everything().CPUs; c.phase != unknown || !may.IsEmpty() && !may.Contains(cpuset.Of(0, 1, 2, 3, 4, 5)) {
		t.Errorf("%s, on %s: it may run on 0-5", c.phase, may)
	}
	c.see(converge.Setting{CPUs: cpuset.Of(0, 1, 2, 3, 4, 5)}, true)
	if c.phase != settled || !c.everything().CPUs.Equal(cpuset.Of(0, 1, 2, 3, 4, 5)) {
		t.Errorf("%s, on %s: its cgroup has 0-5", c.phase, c.everything().CPUs)
	}
}
