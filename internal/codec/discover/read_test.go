package discover

import (
	"errors"
	"strings"
	"testing"
)

const small = `{"num_cores":2,"num_sockets":1,"topology":[{"node_id":0,"memory":1024,
"cores":[{"core_id":0,"thread_ids":[0,1],"socket_id":0}]}]}`

func TestReadRejects(t *testing.T) {
	for _, c := range []struct{ name, data, want string }{
		{"empty", " \n", "the file is empty"},
		{"XML of hwloc", `<?xml version="1.0"?><topology/>`, "it looks like XML"},
		{"array", `[{"topology":[]}]`, "it is a JSON array"},
		{"text", "Architecture: x86_64\n", "it is no JSON object"},
		{"truncated", small[:60], "the JSON is cut off"},
		{"broken", `{"topology":[}`, "JSON syntax error at byte 14"},
		{"two objects", small + small, "invalid character '{' after top-level value"},
		{"lscpu -J", `{"lscpu":[{"field":"CPU(s):","data":"2"}]}`, "it is the output of lscpu"},
		{"kubectl get node", `{"apiVersion":"v1","kind":"Node"}`, `it is a Kubernetes object of kind "Node"`},
		{"without topology", `{"num_cores":2,"num_sockets":1}`, `it has no "topology"`},
		{"topology is an object", `{"topology":{"nodes":[]}}`, "its topology is not a list of NUMA nodes: it is an object, expected a list"},
		{"node without id", `{"num_cores":2,"topology":[{"id":0}]}`, `entry 0 of its topology has no "node_id"`},
		{"wrong type", strings.Replace(small, "[0,1]", `"0-1"`, 1), `topology[0].cores[0].thread_ids: it is "0-1", expected a list`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Read("m.json", []byte(c.data))
			if f != nil || !errors.Is(err, ErrNotMachineInfo) {
				t.Fatalf("got %v, %v; want ErrNotMachineInfo", f, err)
			}
			for _, want := range []string{"m.json: ", c.want, expected} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestReadRejectsUnusableMachines(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"no CPUs reported", `"num_cores":2`, `"num_cores":0`, "num_cores is 0"},
		{"negative sockets", `"num_sockets":1`, `"num_sockets":-1`, "num_sockets is -1"},
		{"no nodes", `"topology":[`, `"topology":[],"x":[`, "topology lists no NUMA node"},
		{"too much memory", "1024", "18446744073709551615", "NUMA node 0: memory of 18446744073709551615 bytes"},
		{"no threads", "[0,1]", "[]", "NUMA node 0 lists a core without threads"},
		{"thread twice", "[0,1]", "[0,0]", "thread 0 is listed twice"},
		{"uncore cache -1", `"core_id":0`, `"uncore_caches":[{"id":-1}]`, "uncore cache with id -1"},
		{"distance", `"memory"`, `"distances":[99999999999],"memory"`, "distance of 99999999999"},
		{"pages", `"memory"`, `"hugepages":[{"page_size":2048,"num_pages":18446744073709551615}],"memory"`, "huge pages of 2048 KiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Read("m.json", []byte(strings.Replace(small, c.from, c.to, 1)))
			if f != nil || err == nil {
				t.Fatalf("got %v, %v; want an error alone", f, err)
			}
			if got := err.Error(); !strings.HasPrefix(got, "m.json: ") || !strings.Contains(got, c.want) {
				t.Errorf("error %q does not say %q", got, c.want)
			}
		})
	}
}
