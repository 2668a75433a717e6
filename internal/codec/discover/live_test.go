package discover

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/testing/golden"
)

// TestLive reads the machines of testdata/live. Section "sysfs" describes the file system in the
// language of fixture. Section "found" has the expected machine or error.
func TestLive(t *testing.T) {
	files, err := filepath.Glob("testdata/live/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no machines: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			root, err := fixture(string(archive.Files[0].Data))
			if err != nil {
				t.Fatal(err)
			}
			archive.Files = append(archive.Files[:1], txtar.File{Name: "found", Data: []byte(describe(Live(root)))})
			golden.Compare(t, file, string(txtar.Format(archive)))
		})
	}
}

func describe(f *Found, err error) string {
	var out bytes.Buffer
	switch {
	case f != nil && err != nil:
		return fmt.Sprintf("both a machine and an error: %v\n", err)
	case err != nil:
		return fmt.Sprintf("error: %v\n", err)
	}
	if err := f.WriteJSON(&out); err != nil {
		return fmt.Sprintf("error: %v\n", err)
	}
	fmt.Fprintf(&out, "offline: %q\n", f.Offline)
	for _, r := range f.Remarks {
		fmt.Fprintf(&out, "remark: %s\n", r)
	}
	return out.String()
}

// fixture builds a file system from lines of text:
//
//	cpu ID node=N core=C socket=S   a CPU that is online, linked into its NUMA node
//	off ID node=N                   an offline CPU, which has no topology
//	l3 ID LIST                      a level 3 cache and the CPUs that share it
//	node ID memory=KIB distance=A,B pages=KIB:COUNT,…
//	pci PLACE class=C vendor=V device=D numa=N physfn=ADDRESS
//	                                a PCI device at its place below sys/devices
//	PATH = CONTENT                  any file; "\n" in it is a line feed
//
// Comments start with '#'.
func fixture(text string) (fs.FS, error) {
	files := fstest.MapFS{}
	put := func(path, content string) { files[path] = &fstest.MapFile{Data: []byte(content + "\n"), Mode: 0o444} }
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		if path, content, ok := strings.Cut(line, " = "); ok {
			put(path, strings.ReplaceAll(content, `\n`, "\n"))
			continue
		}
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		options := map[string]string{}
		for _, w := range words[2:] {
			key, value, _ := strings.Cut(w, "=")
			options[key] = value
		}
		switch words[0] {
		case "cpu", "off":
			putCPU(files, put, words[0] == "cpu", words[1], options)
		case "node":
			putNode(put, words[1], options)
		case "pci":
			putPCI(files, put, words[1], options)
		case "l3":
			if err := putCache(put, words[1], words[2]); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("unknown fixture line %q", line)
		}
	}
	return files, nil
}

func putCPU(files fstest.MapFS, put func(path, content string), online bool, id string, options map[string]string) {
	dir := cpuDir + "/cpu" + id
	put(dir+"/uevent", "DRIVER=processor")
	if online {
		put(dir+"/topology/core_id", options["core"])
		put(dir+"/topology/physical_package_id", options["socket"])
	}
	if node, ok := options["node"]; ok {
		files[nodeDir+"/node"+node+"/cpu"+id] = &fstest.MapFile{Data: []byte("../../cpu/cpu" + id), Mode: fs.ModeSymlink}
	}
}

func putPCI(files fstest.MapFS, put func(path, content string), place string, options map[string]string) {
	dir := "sys/devices/" + place
	for file, key := range map[string]string{"class": "class", "vendor": "vendor", "device": "device", "numa_node": "numa"} {
		if content, ok := options[key]; ok {
			put(dir+"/"+file, content)
		}
	}
	link := func(name, target string) { files[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink} }
	link(pciDir+"/"+path.Base(place), "../../../devices/"+place)
	if physical, ok := options["physfn"]; ok {
		link(dir+"/physfn", "../"+physical)
	}
}

func putNode(put func(path, content string), id string, options map[string]string) {
	dir := nodeDir + "/node" + id
	put(dir+"/meminfo", "Node "+id+" MemTotal:       "+options["memory"]+" kB\nNode "+id+" MemFree:  1 kB")
	if distances := options["distance"]; distances != "" {
		put(dir+"/distance", strings.ReplaceAll(distances, ",", " "))
	}
	for _, p := range strings.Split(options["pages"], ",") {
		if size, count, ok := strings.Cut(p, ":"); ok {
			put(dir+"/hugepages/hugepages-"+size+"kB/nr_hugepages", count)
		}
	}
}

func putCache(put func(path, content string), id, list string) error {
	cpus, err := cpuset.Parse(list)
	if err != nil {
		return err
	}
	for cpu := range cpus.All() {
		dir := cpuDir + "/cpu" + strconv.Itoa(cpu) + "/cache/index3"
		put(dir+"/id", id)
		put(dir+"/level", "3")
		put(dir+"/type", "Unified")
		put(dir+"/size", "32768K")
		put(dir+"/shared_cpu_list", list)
	}
	return nil
}

func TestOnline(t *testing.T) {
	for _, c := range []struct{ text, want, problem string }{
		{"sys/devices/system/cpu/online = 0-2,5", "0-2,5", ""},
		{"sys/devices/system/cpu/online =  # nothing", "", "/sys/devices/system/cpu/online: it lists no CPU"},
		{"sys/devices/system/cpu/online = 3-1", "", "/sys/devices/system/cpu/online: "},
		{"cpu 0 node=0 core=0 socket=0", "", "file does not exist"},
	} {
		root, err := fixture(c.text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Online(root)
		if got.String() != c.want || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%q: %s, %v; want %q, %q", c.text, got, err, c.want, c.problem)
		}
	}
}
