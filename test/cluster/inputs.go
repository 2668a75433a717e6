package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/codec/shapes"
	"github.com/paddock-project/paddock/internal/testing/largepods"
	"github.com/paddock-project/paddock/test/cluster/load"
)

// The values of -load.
const (
	loadTrace  = "trace"
	loadLarge  = "large"
	loadOnline = "online"
)

// largeKinds is the number of machine kinds of loadLarge.
const largeKinds = 3

// inputs returns the file of nodes and the source of pods of the run.
func (c *cluster) inputs(ctx context.Context) (nodes string, pods load.Source, err error) {
	if c.load == loadTrace {
		return filepath.Join(c.source, "test", "cluster", "fleet.yaml"), load.Source{
			File:    filepath.Join(c.source, "examples", "fleet", "openb-2023-pods.csv"),
			Columns: map[string]string{"num_gpu": "-", "gpu_milli": "-", "qos": "-"}, // These nodes have no GPUs.
			Largest: load.LargestOfTrace,
		}, nil
	}
	dir := filepath.Join(c.dir, c.load)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", pods, err
	}
	nodes, pods.File = filepath.Join(dir, largepods.NodesName), filepath.Join(dir, largepods.PodsName)
	if c.load == loadLarge {
		return nodes, pods, largepods.WriteMixed(dir, c.seed, largeKinds, max(largeKinds, c.placements, c.baseline))
	}
	if err := largepods.New(c.seed, c.placements).Write(dir); err != nil {
		return "", pods, err
	}
	if c.online, err = largestFirst(ctx, nodes, pods.File); err != nil {
		return "", pods, err
	}
	c.nodes = c.online.Nodes
	say("%d pods need %d nodes largest first, by best fit; at least %d are needed", c.online.Placed, c.nodes, c.online.LowerBound)
	return nodes, pods, nil
}

// mostNodes is how many nodes are tried for loadOnline.
const mostNodes = 5000

// largestFirst returns what paddock fleet size finds for the files with the scoring best-fit and the
// order largest-first.
func largestFirst(ctx context.Context, nodes, pods string) (*capacity.Result, error) {
	read, err := inputs.Reader{}.Fleet(nodes)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(pods)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all, wrong, err := shapes.Read(pods, file, shapes.Options{})
	if err != nil {
		return nil, err
	}
	if len(wrong) > 0 {
		return nil, wrong[0]
	}
	var items []capacity.Item
	for _, s := range all {
		pod := podspec.Default(s.Pod, read.Gates())
		pod.UID = types.UID(podspec.UID(pod))
		p, err := read.FleetPod(pod)
		if err != nil {
			return nil, err
		}
		items = append(items, capacity.Item{Name: s.Name, Pod: p, Count: s.Count})
	}
	way := capacity.Way{Scoring: fleet.BestFit, Order: capacity.LargestFirst}
	r, _, err := capacity.Fewest(ctx, read.Kinds[0], items, mostNodes, []capacity.Way{way}, capacity.Options{})
	return r, err
}

// online is the largest part of the CPUs that pods may get less as they come than largest first, in
// percent.
const online = 2

// compare prints the CPUs that the pods of loadOnline have got, and returns an error if they are
// too few.
func (c *cluster) compare(j *judgement) error {
	if c.online == nil {
		return nil
	}
	best := c.online.PlacedMilli
	less := 100 * (1 - float64(j.Milli)/float64(best))
	fmt.Printf("  as they come             %d of %d pods with %d CPUs; largest first on the same %d nodes %d pods with %d CPUs: %.2f %% fewer\n",
		j.Bound, j.Created, j.Milli/1000, c.nodes, c.online.Placed, best/1000, less)
	if less > online {
		return fmt.Errorf("the pods get %.2f %% fewer CPUs as they come than largest first: expected at most %d %%", less, online)
	}
	return nil
}
