package predict_test

import (
	"fmt"

	"github.com/paddock-project/paddock/predict"
)

// pod returns a Guaranteed pod of one container.
func pod(uid string, cpus, bytes int64) predict.Pod {
	amounts := predict.Amounts{CPUMilli: cpus * 1000, Memory: bytes}
	return predict.Pod{
		UID: uid, Namespace: "prod", Name: uid,
		Containers: []predict.Container{{Name: "main", Resources: predict.Resources{Limits: amounts}}},
	}
}

// template returns a new node of a kind with two sockets of 16 cores, under the policy
// single-numa-node.
func template() (*predict.Policy, *predict.Node) {
	m, err := predict.Facts{Sockets: 2, CoresPerSocket: 16, ThreadsPerCore: 1, Memory: 128 << 30}.Machine()
	if err != nil {
		panic(err)
	}
	p, err := predict.NewPolicy(m, predict.PolicySpec{
		DecidedBy: "kubelet-1.36", TopologyManagerPolicy: "single-numa-node",
		CPUManagerPolicy: "static", ReservedCPUs: "0,16",
		MemoryManagerPolicy: "Static", ReservedMemory: map[int]map[string]int64{0: {"memory": 1 << 30}},
	})
	if err != nil {
		panic(err)
	}
	n, err := predict.NewNode(p, nil)
	if err != nil {
		panic(err)
	}
	return p, n
}

// A pod of 12 CPUs fits on each of the NUMA nodes once. The sums of the requests would have room
// for a pod of 6 CPUs beside them; no NUMA node has.
func Example() {
	p, n := template()
	for _, pod := range []predict.Pod{pod("a", 12, 8<<30), pod("b", 12, 8<<30), pod("c", 6, 1<<30)} {
		r, err := predict.NewRequest(pod, p)
		if err != nil {
			panic(err)
		}
		var v predict.Verdict
		if n, v = n.With(r); !v.Fits {
			fmt.Printf("%s: %s: %s\n", pod.Name, v.Reason, v.Message)
			continue
		}
		c := v.Assignment.Containers[0]
		fmt.Printf("%s: CPUs %s, memory of NUMA nodes %v, %s\n", pod.Name, c.CPUs, c.NUMANodes, v.Certainty)
	}
	fmt.Println("free:", n.FreeCPUs())
	// Output:
	// a: CPUs 1-12, memory of NUMA nodes [0], predicted
	// b: CPUs 17-28, memory of NUMA nodes [1], predicted
	// c: TopologyAffinityError: 6 CPUs wanted, but no single NUMA node has that much free
	// free: 13-15,29-31
}

// An autoscaler asks how many of the pending pods a new node of a kind takes, and how many nodes
// it has to add: it fills a template node, and begins another one with the pods that are left.
func ExampleNode_Fill() {
	p, empty := template()
	var pending []*predict.Request
	for i := range 10 {
		r, err := predict.NewRequest(pod(fmt.Sprint("pod-", i), 5, 4<<30), p)
		if err != nil {
			panic(err)
		}
		pending = append(pending, r)
	}
	for nodes := 1; len(pending) > 0; nodes++ {
		node, verdicts := empty.Fill(pending)
		var left []*predict.Request
		for i, v := range verdicts {
			if !v.Fits {
				left = append(left, pending[i])
			}
		}
		fmt.Printf("node %d takes %d of %d pods\n", nodes, node.Len(), len(pending))
		if node.Len() == 0 {
			fmt.Println("no new node takes the others:", verdicts[0].Reason)
			return
		}
		pending = left
	}
	// Output:
	// node 1 takes 6 of 10 pods
	// node 2 takes 4 of 4 pods
}

// A simulation removes a pod, asks, and drops the copy: the node itself never changes.
func ExampleNode_Without() {
	p, n := template()
	for _, name := range []string{"a", "b"} {
		r, err := predict.NewRequest(pod(name, 12, 8<<30), p)
		if err != nil {
			panic(err)
		}
		n, _ = n.With(r)
	}
	r, err := predict.NewRequest(pod("c", 10, 8<<30), p)
	if err != nil {
		panic(err)
	}
	fmt.Println("beside a and b:", n.Admits(r).Fits)
	fmt.Println("in the place of a:", n.Without("a").Admits(r).Fits)
	fmt.Println("pods:", n.UIDs())
	// Output:
	// beside a and b: false
	// in the place of a: true
	// pods: [a b]
}
