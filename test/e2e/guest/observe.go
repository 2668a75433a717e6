package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/paddock-project/paddock/test/e2e/wire"
)

const cgroups = "/sys/fs/cgroup"

// cgroupFiles are the files that are read in every cgroup. Files that do not exist are left out.
var cgroupFiles = []string{
	"cpuset.cpus", "cpuset.mems", "cpuset.cpus.effective", "cpuset.mems.effective", "cpu.max", "cpu.weight",
	"memory.max", "memory.numa_stat", "hugetlb." + hugePage + ".max",
}

func readFiles(dir string) (map[string]string, error) {
	files := map[string]string{}
	for _, name := range cgroupFiles {
		data, err := readCgroup(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files[name] = trim(data)
	}
	return files, nil
}

// readCgroup reads a file of a cgroup. If the cgroup is removed during the read, the error wraps
// fs.ErrNotExist.
func readCgroup(dir, name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, syscall.ENODEV) {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return data, err
}

// errNoCgroup is wrapped if a container that runs according to CRI has no cgroup.
var errNoCgroup = errors.New("no cgroup")

// observe reads every running container and every pod's cgroup. A container that ends during the
// read is left out. Its cgroup is removed before CRI reports the end.
func (k *kubelet) observe(wire.Nothing) (wire.Observation, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		o, err := k.observeOnce(ctx)
		if !errors.Is(err, errNoCgroup) || time.Since(begin) > time.Minute {
			return o, err
		}
	}
}

func (k *kubelet) observeOnce(ctx context.Context) (wire.Observation, error) {
	var o wire.Observation
	var err error
	if o.Online, err = mask("online"); err != nil {
		return o, err
	}
	if o.Present, err = mask("present"); err != nil {
		return o, err
	}
	listed, err := k.runtime.ListContainers(ctx, &runtimev1.ListContainersRequest{Filter: &runtimev1.ContainerFilter{
		State: &runtimev1.ContainerStateValue{State: runtimev1.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		return o, err
	}
	dirs, err := containerDirs()
	if err != nil {
		return o, err
	}
	for _, c := range listed.Containers {
		dir := dirs[k.cri.prefix+c.Id]
		if dir == "" {
			return o, fmt.Errorf("container %s: %w below %s/kubepods", c.Id, errNoCgroup, cgroups)
		}
		seen, err := readContainer(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return o, err
		}
		seen.Pod = c.Labels["io.kubernetes.pod.namespace"] + "/" + c.Labels["io.kubernetes.pod.name"]
		seen.UID, seen.Name, seen.ID, seen.Path = c.Labels[labelUID], c.Labels[labelContainer], c.Id, strings.TrimPrefix(dir, cgroups)
		o.Containers = append(o.Containers, *seen)
	}
	for id, dir := range dirs {
		uid, ok := strings.CutPrefix(id, "pod")
		if !ok {
			continue
		}
		files, err := readFiles(dir)
		if err != nil {
			return o, err
		}
		p := wire.PodCgroup{UID: uid, Path: strings.TrimPrefix(dir, cgroups), CPUMax: files["cpu.max"], Files: files}
		if p.Throttling, err = readThrottling(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return o, err
		}
		o.Pods = append(o.Pods, p)
	}
	return o, nil
}

// containerDirs maps the last name of each directory below kubepods to its path.
func containerDirs() (map[string]string, error) {
	dirs := map[string]string{}
	err := filepath.WalkDir(filepath.Join(cgroups, "kubepods"), func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			dirs[filepath.Base(name)] = name
		}
		return err
	})
	return dirs, err
}

// readContainer reads a container's cgroup and the status of its first process.
func readContainer(dir string) (*wire.Container, error) {
	files, err := readFiles(dir)
	if err != nil {
		return nil, err
	}
	c := &wire.Container{Files: files}
	procs, err := readCgroup(dir, "cgroup.procs")
	if err != nil {
		return nil, err
	}
	pid, _, _ := strings.Cut(trim(procs), "\n")
	if pid == "" {
		return nil, fmt.Errorf("%s: no process: %w", dir, fs.ErrNotExist)
	}
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "Cpus_allowed_list":
			c.AllowedCPUs = strings.TrimSpace(value)
		case "Mems_allowed_list":
			c.AllowedMems = strings.TrimSpace(value)
		}
	}
	c.Throttling, err = readThrottling(dir)
	return c, err
}

// readThrottling reads cpu.stat of a cgroup.
func readThrottling(dir string) (wire.Throttling, error) {
	var t wire.Throttling
	stat, err := readCgroup(dir, "cpu.stat")
	if err != nil {
		return t, err
	}
	fields := map[string]*uint64{"nr_periods": &t.Periods, "nr_throttled": &t.Throttled}
	for line := range strings.Lines(string(stat)) {
		name, value, _ := strings.Cut(line, " ")
		if field := fields[name]; field != nil {
			if _, err := fmt.Sscan(value, field); err != nil {
				return t, fmt.Errorf("%s: cpu.stat: %w", dir, err)
			}
		}
	}
	return t, nil
}

func podResources(in wire.PodResources) ([]wire.Assigned, error) {
	conn, err := dial(in.Socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	listed, err := podresourcesv1.NewPodResourcesListerClient(conn).List(ctx, &podresourcesv1.ListPodResourcesRequest{})
	if err != nil {
		return nil, err
	}
	assigned := []wire.Assigned{}
	for _, pod := range listed.PodResources {
		for _, c := range pod.Containers {
			a := wire.Assigned{Namespace: pod.Namespace, Pod: pod.Name, Container: c.Name, CPUs: c.CpuIds}
			for _, m := range c.Memory {
				a.Memory = append(a.Memory, wire.AssignedBytes{Type: m.MemoryType, Bytes: m.Size, Nodes: nodesOf(m.Topology)})
			}
			for _, d := range c.Devices {
				a.Devices = append(a.Devices, wire.AssignedDevice{Resource: d.ResourceName, IDs: d.DeviceIds, Nodes: nodesOf(d.Topology)})
			}
			for _, r := range c.DynamicResources {
				for _, d := range r.ClaimResources {
					claim := wire.AssignedClaim{Claim: r.ClaimName, Driver: d.DriverName, Pool: d.PoolName, Device: d.DeviceName}
					for _, name := range d.CdiDevices {
						claim.CDI = append(claim.CDI, name.Name)
					}
					a.Claims = append(a.Claims, claim)
				}
			}
			assigned = append(assigned, a)
		}
	}
	return assigned, nil
}

func nodesOf(topology *podresourcesv1.TopologyInfo) (ids []int64) {
	for _, n := range topology.GetNodes() {
		ids = append(ids, n.ID)
	}
	return ids
}

func dial(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
}
