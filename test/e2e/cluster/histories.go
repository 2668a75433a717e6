package cluster

import (
	"math/rand/v2"
	"strconv"
)

// history is a random history of pods under one configuration of a kubelet, while an agent
// observes.
type history struct {
	minor string
	// seed determines the configuration and the pods.
	seed uint64
	// decisions is how many decisions it has at least.
	decisions int
}

// These are the policies and scopes of a stock kubelet. With the CPU Manager's
// policy none and the Memory Manager's policy None, there would be nothing to predict.
var (
	topologies = []string{"single-numa-node", "restricted", "best-effort", "none"}
	scopes     = []string{"container", "pod"}
	memories   = []string{"None", "Static"}
)

// configuration returns the configuration of a history. Sixteen seeds in a row have all of them,
// and any four in a row have every value.
func (h history) configuration() (topology, scope, memory string) {
	a, b, c := h.seed%4, h.seed/4%2, h.seed/8%2
	return topologies[a], scopes[(a+b)%2], memories[(a/2+a+c)%2]
}

// changes returns what the configuration has in addition to files/kubelet.yaml. The kubelet reserves
// 1 GiB there. It remembers for as long as by default what the API server answers about the token of
// the agent: otherwise each of the agent's questions is one for the API server, too, which takes
// seconds in a busy emulator.
func (h history) changes() map[string]any {
	topology, scope, memory := h.configuration()
	changes := map[string]any{
		"cpuManagerPolicy": "static", "topologyManagerPolicy": topology, "topologyManagerScope": scope, "memoryManagerPolicy": memory,
		"authentication": map[string]any{"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true}, "x509": map[string]any{"clientCAFile": "/etc/kubernetes/ca.crt"}},
		"authorization":  map[string]any{"mode": "Webhook"},
	}
	if memory == "Static" {
		var reserved []any
		for numaNode := range 2 {
			reserved = append(reserved, map[string]any{"numaNode": numaNode, "limits": map[string]any{"memory": "512Mi"}})
		}
		changes["reservedMemory"] = reserved
	}
	return changes
}

// observedPod is a pod of a history.
type observedPod struct {
	name string
	spec map[string]any
	// guaranteed is set if the QoS class is Guaranteed, and exclusive if a container has CPUs of its
	// own then. ends is set if the pod ends when its first container does.
	guaranteed, exclusive, ends bool
}

// own reports whether a kubelet that admits the pod assigns something to it alone.
func (p *observedPod) own(memory string) bool {
	return p.exclusive || p.guaranteed && memory == "Static"
}

// randomPod returns a pod for a node with two NUMA nodes of four CPUs and 1.4 GiB for pods each.
func randomPod(r *rand.Rand, name string) observedPod {
	p := observedPod{name: name, guaranteed: true, exclusive: true, spec: map[string]any{"restartPolicy": "Never"}}
	container := func(name, cpu, memory string, more ...string) map[string]any {
		limits := map[string]any{"cpu": cpu, "memory": memory}
		for i := 0; i+1 < len(more); i += 2 {
			limits[more[i]] = more[i+1]
		}
		return map[string]any{"name": name, "resources": map[string]any{"limits": limits}, "command": []any{"sh", "-c", "until [ -e /end ]; do sleep 1; done"}}
	}
	cpus := func(from, to int) string { return strconv.Itoa(from + r.IntN(to-from+1)) }
	mebibytes := func(from, to int) string { return strconv.Itoa(from+r.IntN(to-from+1)) + "Mi" }
	containers := func(list ...any) { p.spec["containers"] = list }
	switch r.IntN(12) {
	case 0, 1:
		p.ends = true
		containers(container("main", cpus(1, 4), "64Mi"))
	case 2:
		containers(container("main", cpus(1, 3), "64Mi"), container("helper", cpus(1, 2), "64Mi"))
	case 3:
		containers(container("main", cpus(1, 3), "64Mi"), container("helper", "500m", "64Mi"))
	case 4, 5:
		start := container("start", cpus(1, 4), "64Mi")
		start["command"] = []any{"true"}
		p.spec["initContainers"] = []any{start}
		containers(container("main", cpus(1, 3), "64Mi"))
	case 6, 7:
		log := container("log", cpus(1, 2), "64Mi")
		log["restartPolicy"] = "Always"
		p.spec["initContainers"] = []any{log}
		containers(container("main", cpus(1, 3), "64Mi"))
	case 8:
		containers(container("main", cpus(5, 8), "64Mi"))
	case 9:
		p.ends = true
		containers(container("main", cpus(1, 2), mebibytes(700, 1600)))
	case 10:
		containers(container("main", cpus(1, 2), "64Mi", "hugepages-2Mi", strconv.Itoa(16*(1+r.IntN(6)))+"Mi"))
	default:
		p.exclusive, p.ends = false, true
		main := container("main", "1500m", mebibytes(64, 800))
		if r.IntN(2) == 0 {
			p.guaranteed = false
			main["resources"] = map[string]any{"requests": map[string]any{"cpu": cpus(1, 3), "memory": "64Mi"}}
		}
		containers(main)
	}
	return p
}
