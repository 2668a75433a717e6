package fleetcommand

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/paddock-project/paddock/internal/base/malformed"
	"github.com/paddock-project/paddock/internal/base/spelling"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/cli/inputs"
	"github.com/paddock-project/paddock/internal/cli/treatment"
	"github.com/paddock-project/paddock/internal/cluster/capacity"
	"github.com/paddock-project/paddock/internal/cluster/fleet"
	"github.com/paddock-project/paddock/internal/codec/discover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/codec/shapes"
	"github.com/paddock-project/paddock/internal/ui/view"
)

// fleetQuestion is a question with everything that was read for it.
type fleetQuestion struct {
	nodes   *inputs.FleetNodes
	items   []capacity.Item
	options capacity.Options
}

func (c *fleetCommand) scoringOf() (fleet.Scoring, error) {
	var words []string
	for _, known := range fleet.Scorings() {
		if known.String() == c.scoring {
			return known, nil
		}
		words = append(words, known.String())
	}
	return 0, fmt.Errorf("--scoring: %q is unknown: %s", c.scoring, spelling.Expected(c.scoring, words))
}

func (c *fleetCommand) orderOf() (capacity.Order, error) {
	var words []string
	for _, known := range capacity.Orders() {
		if string(known) == c.order {
			return known, nil
		}
		words = append(words, string(known))
	}
	return "", fmt.Errorf("--order: %q is unknown: %s", c.order, spelling.Expected(c.order, words))
}

// reader returns the reader of the files of a question.
func (c *fleetCommand) reader(s console.Streams) inputs.Reader {
	r := s.Reader()
	r.GPU = c.gpu
	r.KeepGoing, r.Peers, r.Stock = c.keep, c.program.Rules != nil, treatment.ReadStock
	return r
}

// read reads nodes from a file or from the cluster.
func (c *fleetCommand) read(ctx context.Context, s console.Streams, nodes string) (*inputs.FleetNodes, error) {
	if nodes == discover.LiveName {
		return c.once(ctx, s)
	}
	return c.reader(s).Fleet(nodes)
}

// question reads a question. If empty is set and the nodes are those of a cluster, the question is
// about the nodes without their pods, and these pods are placed before the others.
func (c *fleetCommand) question(ctx context.Context, s console.Streams, nodes string, empty bool) (*fleetQuestion, error) {
	q := &fleetQuestion{}
	var err error
	if q.options.Scoring, err = c.scoringOf(); err != nil {
		return nil, err
	}
	if q.options.Order, err = c.orderOf(); err != nil {
		return nil, err
	}
	if q.nodes, err = c.read(ctx, s, nodes); err != nil {
		return nil, err
	}
	s.Notes(q.nodes.Notes)
	if empty && q.nodes.Running {
		if _, err := q.nodes.Empty(); err != nil {
			return nil, err
		}
		bound, err := q.nodes.Bound()
		if err != nil {
			return nil, err
		}
		q.items = itemsOf(bound)
	}
	for _, name := range c.pods {
		read := c.manifests
		if isCSV(name) {
			read = c.shapes
		}
		items, err := read(s, q.nodes, name)
		if err != nil {
			return nil, err
		}
		q.items = append(q.items, items...)
	}
	if len(c.pods) == 0 && !q.nodes.Running && !c.podless {
		return nil, errors.New("--pods is missing: the pods to place, as manifests or as a CSV file of shapes")
	}
	if len(c.pods) == 0 && q.nodes.Running {
		waiting, err := q.nodes.Waiting()
		if err != nil {
			return nil, err
		}
		q.items = append(q.items, itemsOf(waiting)...)
	}
	if q.nodes.Running {
		s.Notes(c.unseen(nodes, q.nodes.Depending()))
	}
	c.obey(ctx, q)
	q.options.Placements = c.placements
	return q, unique(q.items)
}

// isCSV reports whether a file of pods has shapes instead of manifests.
func isCSV(name string) bool { return strings.HasSuffix(strings.ToLower(name), ".csv") }

// unique returns an error if a pod is listed twice, in one file or in two, because a node would
// treat both as one pod.
func unique(items []capacity.Item) error {
	seen := make(map[string]bool, len(items))
	for _, i := range items {
		if seen[i.Pod.UID] {
			return fmt.Errorf("--pods: pod %s is listed twice", i.Pod.ID())
		}
		seen[i.Pod.UID] = true
	}
	return nil
}

func itemsOf(pods []fleet.Pod) []capacity.Item {
	items := make([]capacity.Item, len(pods))
	for i, p := range pods {
		items[i] = capacity.Item{Name: p.ID(), Pod: p, Count: 1}
	}
	return items
}

// manifests reads the pods of manifests.
func (c *fleetCommand) manifests(s console.Streams, nodes *inputs.FleetNodes, name string) ([]capacity.Item, error) {
	files := inputs.PodFiles{Paths: []string{name}, Most: maxPods}
	pods, notes, err := c.fleetPods(c.reader(s), nodes, files)
	s.Notes(notes)
	if err != nil {
		return nil, err
	}
	return itemsOf(pods), nil
}

// maxPods is how many pods of manifests are placed. A fleet of 10,000 nodes has about 200,000.
const maxPods = 1_000_000

// fleetPods reads the pods of one file. It returns notes about what does not count.
func (c *fleetCommand) fleetPods(r inputs.Reader, nodes *inputs.FleetNodes, files inputs.PodFiles) (pods []fleet.Pod, notes []string, err error) {
	name := files.Paths[0]
	files.Gates, files.Machine, files.Strict, files.Slim, files.Ended = nodes.Gates(), nodes.Kinds[0].State.Machine(), c.strict, true, inputs.OnlyPod
	read, err := r.Pods(files)
	if err != nil {
		return nil, read.Notes, err
	}
	if len(read.Namespaces) > 0 && nodes.Namespaces == nil {
		nodes.Namespaces = map[string]map[string]string{}
	}
	maps.Copy(nodes.Namespaces, read.Namespaces)
	depending, claiming, bound, wrong := inputs.Depending{}, 0, 0, inputs.PodErrors(nil)
	for _, pod := range read.Pods {
		if pod.Spec.NodeName != "" {
			bound++
		}
		if len(pod.Spec.ResourceClaims) > 0 {
			claiming++
		}
		depending.Add(pod)
		if c.program.Check != nil {
			if err := c.program.Check(pod); err != nil {
				wrong = append(wrong, fmt.Errorf("%s: pod %s/%s: %w", name, pod.Namespace, pod.Name, err))
			}
		}
		p, err := nodes.FleetPod(pod)
		if err != nil {
			return nil, read.Notes, err
		}
		pods = append(pods, p)
	}
	if len(wrong) > 0 {
		return nil, read.Notes, wrong
	}
	all := make([]*fleet.Pod, len(pods))
	for i := range pods {
		all[i] = &pods[i]
	}
	read.Notes = append(read.Notes, nodes.DeviceNotes(all)...)
	read.Notes = append(read.Notes, c.unseen(name, depending)...)
	if bound > 0 {
		read.Notes = append(read.Notes, fmt.Sprintf("%s: %s bound to a node already: placed as if none was", name, view.Count(bound, "pod")))
	}
	if claiming > 0 {
		read.Notes = append(read.Notes, fmt.Sprintf("%s: resource claims of %s do not count here", name, view.Count(claiming, "pod")))
	}
	return pods, read.Notes, nil
}

// shapes reads a CSV file.
func (c *fleetCommand) shapes(s console.Streams, nodes *inputs.FleetNodes, name string) ([]capacity.Item, error) {
	data, err := s.Reader().File(name)
	if err != nil {
		return nil, fmt.Errorf("--pods: %w", err)
	}
	if c.gpu == "" {
		return nil, errors.New("--gpu is empty: expected the name of a resource, such as " + shapes.DefaultGPU)
	}
	o := shapes.Options{GPU: c.gpu, WholeCPUs: c.whole, Skipped: func(note string) { s.Notes([]string{note}) }}
	if len(c.pods) > 1 { // Rows of several files have the same numbers.
		o.Prefix = strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)) + "-"
	}
	if c.columns != "" {
		if o.Columns, err = c.readColumns(s); err != nil {
			return nil, fmt.Errorf("--columns: %w", err)
		}
		var ignored []string
		for name, to := range o.Columns {
			if to == "-" {
				ignored = append(ignored, name)
			}
		}
		if slices.Sort(ignored); len(ignored) > 0 {
			s.Notes([]string{fmt.Sprintf("%s: columns %s are not counted, because %s has \"-\" for them", name, strings.Join(ignored, ", "), c.columns)})
		}
	}
	all, bad, err := shapes.Read(name, bytes.NewReader(data), o)
	if err != nil {
		return nil, err
	}
	if len(bad) > 0 && !c.keep {
		return nil, fmt.Errorf("%w (%s cannot be read; --keep-going leaves them out)", bad[0], view.Count(len(bad), "row"))
	}
	for _, b := range bad {
		s.Notes([]string{fmt.Sprintf("left out: %v", b)})
	}
	var items []capacity.Item
	for _, shape := range all {
		gates := nodes.Gates()
		pod := podspec.Default(shape.Pod, gates)
		pod.UID = types.UID(podspec.UID(pod))
		if wrong := podspec.Validate(pod, gates); len(wrong) > 0 {
			return nil, fmt.Errorf("%s: %s: %w", name, shape.Name, wrong.ToAggregate())
		}
		p, err := nodes.FleetPod(pod)
		if err != nil {
			return nil, err
		}
		if shape.MaxPerNode > 0 {
			p.PerNode = fleet.PerNode{Workload: shape.Name, Most: shape.MaxPerNode}
		}
		items = append(items, capacity.Item{Name: shape.Name, Pod: p, Count: shape.Count})
	}
	pods := make([]*fleet.Pod, len(items))
	for i := range items {
		pods[i] = &items[i].Pod
	}
	s.Notes(nodes.DeviceNotes(pods))
	return items, nil
}

// readColumns reads the file of --columns.
func (c *fleetCommand) readColumns(s console.Streams) (columns map[string]string, err error) {
	data, err := s.Reader().File(c.columns)
	if err != nil {
		return nil, err
	}
	if err = malformed.CutOff(data); err == nil {
		data, err = yaml.YAMLToJSONStrict(data)
	}
	if err == nil {
		err = malformed.JSON(data, json.Unmarshal(data, &columns))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.columns, err)
	}
	return columns, nil
}

// one reads a question about one file of nodes.
func (c *fleetCommand) one(ctx context.Context, s console.Streams, empty bool) (*fleetQuestion, error) {
	if len(c.nodes) != 1 {
		return nil, fmt.Errorf("--nodes is given %d times: give it once; \"%s fleet try\" compares several", len(c.nodes), c.program.Name)
	}
	return c.question(ctx, s, c.nodes[0], empty)
}
