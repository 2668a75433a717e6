package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/paddock-project/paddock/api/v1alpha1"
	"github.com/paddock-project/paddock/internal/cluster/fleetsource"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/behavior"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/core/shown"
	"github.com/paddock-project/paddock/scheduler/cluster"
	"github.com/paddock-project/paddock/scheduler/duties"
)

// schedulerName is the name of the profile in deploy/scheduler/config.yaml.
const schedulerName = "paddock-scheduler"

// world is a scheduler with the plugin, configured as in deploy/scheduler, on a fake API.
type world struct {
	t    testing.TB
	args string
	// backoff and longest are in seconds.
	backoff, longest int64
	client           *fake.Clientset
	plugin           *Plugin
	profile          framework.Framework
	sink             Sink
	pods             int

	mu       sync.Mutex
	outcomes map[string]chan string
	sources  map[string]*fleetsource.Node
}

// start starts the scheduler if it does not run yet. The scheduler stops with the test.
func (w *world) start() {
	if w.client != nil {
		return
	}
	t := w.t
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	w.outcomes, w.sources = map[string]chan string{}, map[string]*fleetsource.Node{}
	w.client = fake.NewClientset()
	w.client.PrependReactor("create", "pods", w.bind)
	w.client.PrependReactor("*", "resourceclaims", version())
	feed := func(_ context.Context, _ fwk.Handle, sink Sink) error {
		w.sink = sink
		sink.Synced()
		return nil
	}
	newPlugin := Factory(feed, func(context.Context, fwk.Handle, duties.Settings) error { return nil })
	registry := frameworkruntime.Registry{Name: func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		made, err := newPlugin(ctx, args, handle)
		if p, ok := made.(*Plugin); ok {
			w.plugin = p
		}
		return made, err
	}}
	config, err := options.LoadConfigFromFile(klog.Background(), w.config())
	if err != nil {
		t.Fatal(err)
	}
	metrics.Register()
	factory := scheduler.NewInformerFactory(w.client, 0, nil)
	recorder := func(string) events.EventRecorderLogger { return &recorder{w: w} }
	s, err := scheduler.New(ctx, w.client, factory, nil, recorder, scheduler.WithProfiles(config.Profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(registry), scheduler.WithPodInitialBackoffSeconds(w.backoff), scheduler.WithPodMaxBackoffSeconds(w.longest))
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := s.WaitForHandlersSync(ctx); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	w.profile = s.Profiles[schedulerName]
	running.Go(func() { s.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// config returns the deployed configuration, with the arguments of the test if it has any.
func (w *world) config() string {
	const deployed = "../../deploy/scheduler/config.yaml"
	text, err := os.ReadFile(deployed)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.args != "" {
		before, _, _ := strings.Cut(string(text), "        args:\n")
		text = []byte(before + "        args: {" + strings.TrimSpace(w.args) + "}\n")
	}
	name := filepath.Join(w.t.TempDir(), "config.yaml")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return name
}

// bind does what the API server does with a Binding.
func (w *world) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	create, ok := action.(clienttesting.CreateAction)
	if !ok {
		return false, nil, nil
	}
	b, ok := create.GetObject().(*v1.Binding)
	if !ok {
		return false, nil, nil
	}
	resource := v1.SchemeGroupVersion.WithResource("pods")
	object, err := w.client.Tracker().Get(resource, b.Namespace, b.Name)
	if err != nil {
		return true, nil, err
	}
	found, ok := object.(*v1.Pod)
	if !ok {
		return false, nil, nil
	}
	pod := found.DeepCopy()
	pod.Spec.NodeName = b.Target.Name
	text := "nothing of its own"
	for key, value := range b.Annotations {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
		decoded, err := handover.Decode(value)
		if err != nil {
			w.t.Error(err)
			continue
		}
		text = "CPUs " + decoded.Grant.CPUs().String()
		if key == podspec.PredictionAnnotation {
			text = "predicted " + text
		}
	}
	if err := w.client.Tracker().Update(resource, pod, pod.Namespace); err != nil {
		return true, nil, err
	}
	w.report(pod.Name, fmt.Sprintf("%s: bound to %s, %s", pod.Name, pod.Spec.NodeName, text))
	return true, b, nil
}

// recorder reports failed attempts.
type recorder struct {
	events.EventRecorderLogger
	w *world
}

func (r *recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }

func (r *recorder) Eventf(object, _ runtime.Object, _, reason, _, note string, args ...any) {
	if pod, ok := object.(*v1.Pod); ok && reason == "FailedScheduling" {
		text := fmt.Sprintf(note, args...)
		if len(text) > validation.NoteLengthLimit {
			r.w.t.Errorf("the event of pod %s has %d bytes, more than events allow: %s", pod.Name, len(text), text)
		}
		r.w.report(pod.Name, pod.Name+": "+text)
	}
}

func (w *world) report(pod, outcome string) { w.of(pod) <- outcome }

func (w *world) of(pod string) chan string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.outcomes[pod] == nil {
		w.outcomes[pod] = make(chan string, 1000)
	}
	return w.outcomes[pod]
}

// outcome waits for the next outcome of a pod and returns it.
func (w *world) outcome(pod string) string {
	select {
	case text := <-w.of(pod):
		return text
	case <-time.After(5 * time.Minute):
		w.t.Errorf("pod %s: the scheduler did not try it within 20 s", pod)
		return pod + ": nothing"
	}
}

// settle waits until the scheduler has handled all earlier events. It does so with a pod of the
// lowest priority that only the given node takes, and waits until it is bound.
func (w *world) settle(node string) {
	barrier := fmt.Sprint("barrier-", w.pods)
	w.pod(barrier, map[string]string{"priority": "-1000", "only": node})
	for !strings.Contains(w.outcome(barrier), "bound") {
		continue
	}
	w.delete(barrier)
}

// attempts returns how often the scheduler has tried a pod since the last outcome that was awaited.
func (w *world) attempts(pod string) int {
	w.settle("")
	return len(w.of(pod))
}

// node creates a node.
func (w *world) node(name string, args map[string]string) {
	if _, unmanaged := args["unmanaged"]; !unmanaged {
		w.manage(name, args)
	}
	w.object(name, args)
	w.settle(name)
}

// object creates the Node of a node.
func (w *world) object(name string, args map[string]string) {
	nodes, cpus := number(w.t, args["numa"], 2), number(w.t, args["cpus"], 8)
	capacity := v1.ResourceList{
		// Twice what the machine has, so that the planner decides.
		v1.ResourceCPU: *resource.NewQuantity(int64(2*nodes*cpus), resource.DecimalSI), v1.ResourceMemory: resource.MustParse("512Gi"),
		v1.ResourcePods: resource.MustParse("110"), "example.com/gpu": resource.MustParse("8"),
	}
	if cpus := number(w.t, args["allocatable"], 0); cpus > 0 {
		capacity[v1.ResourceCPU] = *resource.NewQuantity(int64(cpus), resource.DecimalSI)
	}
	object := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}, Status: v1.NodeStatus{Capacity: capacity, Allocatable: capacity}}
	if _, err := w.client.CoreV1().Nodes().Create(w.t.Context(), object, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// manage reports the objects of a node to the plugin.
func (w *world) manage(name string, args map[string]string) {
	m := hardware(w.t, number(w.t, args["numa"], 2), number(w.t, args["cpus"], 8))
	policy := node.Policy{
		Scope: node.PodScope, StaticCPU: true, ReservedCPUs: cpuset.Of(0), StaticMemory: true, PodLevelResources: true, PodLevelManagers: true,
		ReservedMemory: map[int]map[string]int64{0: {request.Memory: 1 << 30}},
	}
	policy.Topology = map[string]node.TopologyPolicy{
		"": node.TopologySingleNUMANode, "restricted": node.TopologyRestricted, "best-effort": node.TopologyBestEffort, "none": node.TopologyNone,
	}[args["policy"]]
	if _, whole := args["whole-cores"]; whole {
		policy.CPU.FullPCPUsOnly = true
	}
	m, policy.CPU.Isolated = isolate(w.t, m, args["isolated"])
	if pods := number(w.t, args["moves"], 0); pods > 0 {
		policy.Moves = node.MovePolicy{Pods: pods, Bytes: 1 << 40}
	}
	w.sources[name] = &fleetsource.Node{
		Here: handover.Here{Node: name, Machine: "m", Policy: "p" + args["policy"]}, Machine: m, Policy: policy, Managing: true, Complete: true,
	}
	if _, observed := args["kubelet"]; observed {
		w.observe(w.sources[name])
	}
	w.sink.Update(name, &cluster.Source{Node: w.sources[name]})
	if args["ready"] != "false" {
		w.agent(name, true)
	}
}

// observe makes a kubelet decide on a node, which has no pods yet.
func (w *world) observe(n *fleetsource.Node) {
	version, err := behavior.Named("kubelet-1.36")
	if err != nil {
		w.t.Fatal(err)
	}
	rules, err := behavior.Of(version)
	if err != nil {
		w.t.Fatal(err)
	}
	n.Managing, n.Policy = false, n.Policy.As(rules)
	n.Kubelet = &fleetsource.Kubelet{Version: version, Kubelet: shown.Kubelet{Shared: n.Machine.AllCPUs()}, Certainty: v1alpha1.Certainty{Answer: v1alpha1.CertaintyExact}}
}

// hardware returns a machine with a number of NUMA nodes of cpus CPUs each, two threads per core.
func hardware(t testing.TB, nodes, cpus int) *machine.Machine {
	t.Helper()
	var d machine.Description
	for id := range nodes {
		n := machine.NodeDescription{ID: id, Memory: 256 << 30 / int64(nodes)}
		for k := id * cpus; k < (id+1)*cpus; k += 2 {
			n.Cores = append(n.Cores, machine.CoreDescription{Socket: id, Threads: []int{k, k + 1}})
		}
		d.Nodes = append(d.Nodes, n)
	}
	m, err := machine.New(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func number(t testing.TB, text string, otherwise int) int {
	t.Helper()
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// guaranteed returns a pod of the scheduler with a number of CPUs. Zero means that it requests
// nothing.
func guaranteed(name string, cpus int) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)},
		Spec:       v1.PodSpec{SchedulerName: schedulerName, Containers: []v1.Container{{Name: "main", Image: "none"}}},
		Status:     v1.PodStatus{Phase: v1.PodPending},
	}
	if cpus > 0 {
		amounts := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(cpus), resource.DecimalSI), v1.ResourceMemory: resource.MustParse("1Gi")}
		pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: amounts, Limits: amounts}
	}
	return pod
}

func (w *world) pod(name string, args map[string]string) {
	pod := guaranteed(name, number(w.t, args["cpus"], 0))
	w.pods++
	pod.CreationTimestamp = metav1.Unix(int64(1000+w.pods), 0)
	if priority := int32(number(w.t, args["priority"], 0)); priority != 0 {
		pod.Spec.Priority = &priority
	}
	if memory := args["memory"]; memory != "" {
		pod.Spec.Containers[0].Resources.Limits[v1.ResourceMemory] = resource.MustParse(memory) // The requests are the same list.
	}
	if consent := args["moves"]; consent != "" {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, podspec.MovesAnnotation, consent)
	}
	_, shared := args["shared"]
	pool(pod, args["pool"], shared)
	if only := args["only"]; only != "" {
		pod.Spec.NodeSelector = map[string]string{v1.LabelHostname: only}
	}
	if _, device := args["device"]; device {
		c := &pod.Spec.Containers[0].Resources
		c.Requests["example.com/gpu"], c.Limits["example.com/gpu"] = resource.MustParse("1"), resource.MustParse("1")
	}
	join(pod, args["group"])
	if claim := args["claim"]; claim != "" {
		pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "devices", ResourceClaimName: &claim}}
		pod.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "devices"}}
	}
	if on := args["on"]; on != "" {
		pod.Spec.NodeName, pod.Spec.SchedulerName = on, "other"
		if hand := args["hand"]; hand != "" {
			source := w.sources[on]
			text, err := handover.Encode(on, source.Here.Machine, source.Here.Policy, w.grant(pod, source, hand))
			if err != nil {
				w.t.Fatal(err)
			}
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, handover.Annotation, text)
		}
	}
	if _, err := w.client.CoreV1().Pods(pod.Namespace).Create(w.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// grant returns a grant that assigns these CPUs, and memory, to the container of a pod.
func (w *world) grant(pod *v1.Pod, source *fleetsource.Node, cpus string) *node.Grant {
	bound, err := fleetsource.ReadBound(pod, source.Policy)
	if err != nil {
		w.t.Fatal(err)
	}
	empty, err := node.New(source.Machine, source.Policy)
	if err != nil {
		w.t.Fatal(err)
	}
	set, err := cpuset.Parse(cpus)
	if err != nil {
		w.t.Fatal(err)
	}
	// A node on which only these CPUs are free assigns them.
	filler := source.Policy
	filler.ReservedCPUs = empty.Machine().AllCPUs().Difference(set)
	only, err := node.New(source.Machine, filler)
	if err != nil {
		w.t.Fatal(err)
	}
	plan := only.Plan(bound.Pod)
	if plan.Grant == nil {
		w.t.Fatalf("pod %s cannot have CPUs %s: %v", pod.Name, cpus, plan.Rejection)
	}
	return plan.Grant
}

// publish publishes the next revision of the node's object.
func (w *world) publish(name string, args map[string]string) {
	next := *w.sources[name]
	next.Published = map[string]*node.Grant{}
	next.Revision++
	if next.Kubelet != nil {
		kubelet := fleetsource.Kubelet{Version: next.Kubelet.Version, Kubelet: shown.Kubelet{Shared: next.Machine.AllCPUs()}, Certainty: v1alpha1.Certainty{Answer: v1alpha1.CertaintyExact}}
		next.Kubelet = &kubelet
	}
	for pod, cpus := range args {
		if pod == "unsure" {
			next.Kubelet.Certainty = v1alpha1.Certainty{Answer: v1alpha1.CertaintyUnsure, Reasons: []string{"predictions differ"}}
			continue
		}
		set, err := cpuset.Parse(cpus)
		if err != nil {
			w.t.Fatal(err)
		}
		if next.Kubelet != nil {
			next.Kubelet.Shared = next.Kubelet.Shared.Difference(set)
		}
		if pod == "lost" {
			continue
		}
		g := w.grant(guaranteed(pod, set.Len()), &next, cpus)
		next.Published[g.Pod.UID] = g
	}
	w.sources[name] = &next
	w.sink.Update(name, &cluster.Source{Node: &next})
}

// agent creates the pod of an agent, or changes its condition.
func (w *world) agent(name string, ready bool) {
	status := v1.ConditionFalse
	if ready {
		status = v1.ConditionTrue
	}
	pod := guaranteed("agent-"+name, 0)
	pod.Namespace, pod.Labels, pod.Spec.NodeName = "paddock", map[string]string{"app.kubernetes.io/name": "paddock"}, name
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: status}}
	pods := w.client.CoreV1().Pods(pod.Namespace)
	_, err := pods.Update(w.t.Context(), pod, metav1.UpdateOptions{})
	if err != nil {
		_, err = pods.Create(w.t.Context(), pod, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete(name string) {
	if err := w.client.CoreV1().Pods("default").Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// state returns what the scheduler knows of a node.
func (w *world) state(name string) string {
	w.settle("")
	at := w.plugin.cluster.After(name)
	if at == nil {
		return "not managed\n"
	}
	var lines []string
	for _, g := range at.View.State.Grants() {
		if g.OwnsAnything() {
			lines = append(lines, fmt.Sprintf("%s: CPUs %s\n", g.Pod.Name, g.CPUs()))
		}
	}
	if at.Problem != "" {
		lines = append(lines, "problem: "+at.Problem+"\n")
	}
	if at.Unsure != "" {
		lines = append(lines, "unsure: "+at.Unsure+"\n")
	}
	if err := at.View.State.Check(); err != nil {
		lines = append(lines, err.Error()+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
