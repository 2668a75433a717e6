package main

import (
	"fmt"
	"os"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

const cpus = "/sys/devices/system/cpu"

// plug takes CPUs offline or online (Documentation/core-api/cpu_hotplug.rst). CPU 0 stays online:
// on x86 it has no file to take it offline.
func plug(in wire.Plug) (wire.Nothing, error) {
	word := "0"
	if in.Online {
		word = "1"
	}
	for _, id := range in.CPUs {
		if err := os.WriteFile(fmt.Sprintf("%s/cpu%d/online", cpus, id), []byte(word), 0); err != nil {
			return wire.Nothing{}, err
		}
	}
	return wire.Nothing{}, nil
}

// mask reads the list of CPUs in the file "online" or "present".
func mask(name string) (string, error) {
	data, err := os.ReadFile(cpus + "/" + name)
	return trim(data), err
}
