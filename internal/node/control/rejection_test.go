package control

import (
	"testing"

	accounts "github.com/paddock-project/paddock/internal/core/account"
	"github.com/paddock-project/paddock/internal/core/rejection"
	"github.com/paddock-project/paddock/internal/core/request"
)

// TestAccountOfCaches checks the account of the caches in the event of a rejected pod.
func TestAccountOfCaches(t *testing.T) {
	nodes := []accounts.Node{{Node: 0, Total: 9, Free: 4, Holders: []accounts.Holder{{Pod: "prod/db", Amount: 5}}}, {Node: 1, Total: 9, Free: 3}}
	for resource, want := range map[string]string{
		request.L3:        "; L3 wanted: 5 ways; NUMA node 0: 4 of 9 ways free, prod/db has 5 ways; NUMA node 1: 3 of 9 ways free",
		request.Bandwidth: "; memory bandwidth wanted: 5%; NUMA node 0: 4% of 9% free, prod/db has 5%; NUMA node 1: 3% of 9% free",
		request.CPU:       "; cpu wanted: 5; NUMA node 0: 4 of 9 free, prod/db has 5; NUMA node 1: 3 of 9 free",
	} {
		if got := account(&rejection.Rejection{Resource: resource, Wanted: 5, Nodes: nodes}, 1000); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
