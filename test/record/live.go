package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
)

// LiveFlag is the only argument of a process with live kubelets. Each of them has a directory with
// its state files and an address at which it answers about its pods, its configuration and its
// version, as a kubelet does. An agent can observe it. What happens to it is written to the standard
// input of the process, one order a line. The answer to each order is a line of the output. The
// process ends with its input.
//
// Feature gates belong to a process, so its kubelets must have the same ones at a time.
const LiveFlag = "-live"

// order is one thing that happens to a live kubelet. Node is any name, and exactly one of the other
// fields is set, but for Pod, which comes with an Event.
type order struct {
	Node string `json:"node"`
	// Begin is a bare scenario. A kubelet is started on its machine with its configuration. Its
	// events are not played.
	Begin json.RawMessage `json:"begin,omitempty"`
	// Event is an event of docs/rules/format.md, or "endPod": the pod ends and stays listed, and
	// the managers keep what it has until the next admission, as in a kubelet. With "unlistPod", a
	// pod that has ended is forgotten.
	Event *event `json:"event,omitempty"`
	// Pod is the pod of the event if no pod of the scenario has its UID.
	Pod *v1.Pod `json:"pod,omitempty"`
	// End stops the kubelet and removes its directory.
	End bool `json:"end,omitempty"`
}

// reply is the answer to an order: URL and Dir to Begin, and Answer to Event. Of an answer to an
// event it has what the managers have, and not how it follows for cgroups and files.
type reply struct {
	URL    string          `json:"url,omitempty"`
	Dir    string          `json:"dir,omitempty"`
	Answer json.RawMessage `json:"answer,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// live carries out orders until the input ends.
func live(minor Minor, in io.Reader, out io.Writer) error {
	nodes := map[string]*liveKubelet{}
	defer func() {
		for _, n := range nodes {
			n.end()
		}
	}()
	orders, replies := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		r, err := o.obey(minor, nodes)
		if err != nil {
			r.Error = err.Error()
		}
		if err := replies.Encode(r); err != nil {
			return err
		}
	}
}

func (o *order) obey(minor Minor, nodes map[string]*liveKubelet) (r reply, err error) {
	n := nodes[o.Node]
	if (n == nil) != (o.Begin != nil) {
		return r, fmt.Errorf("node %q: expected that its first order, and no other, begins it", o.Node)
	}
	switch {
	case o.Begin != nil:
		if n, err = beginLive(minor, o.Begin); err != nil {
			return r, err
		}
		nodes[o.Node] = n
		return reply{URL: "http://" + n.address, Dir: n.dir}, nil
	case o.End:
		n.end()
		delete(nodes, o.Node)
		return r, nil
	case o.Event == nil:
		return r, fmt.Errorf("node %q: an order without begin, event and end", o.Node)
	}
	if o.Pod != nil && n.pods[o.Event.Pod] == nil {
		n.pods[o.Event.Pod] = o.Pod
	}
	a, err := n.happens(*o.Event)
	if err == nil {
		r.Answer, err = json.Marshal(a)
	}
	return r, err
}

// liveKubelet is a kubelet that can be observed. Orders use it one at a time. mu guards what the
// server reads.
type liveKubelet struct {
	*kubelet

	address string
	server  *http.Server

	mu      sync.Mutex
	listed  []*v1.Pod
	configz []byte
	metrics []byte
}

func beginLive(minor Minor, text []byte) (*liveKubelet, error) {
	_, s, err := decodeLine(text)
	if err != nil {
		return nil, err
	}
	machine, err := readMachine(minor, "", s.Machine)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "paddock-live")
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(dir, devicePlugins), 0o755); err != nil {
		return nil, err
	}
	n := &liveKubelet{kubelet: newKubelet(&s, machine, dir), address: "127.0.0.1:0"}
	n.live = true
	if err := n.start(false); err != nil {
		n.end()
		return nil, err
	}
	if err := n.listen(); err != nil {
		n.end()
		return nil, err
	}
	return n, nil
}

// listen serves at the address of the kubelet, which is chosen at its first start.
func (n *liveKubelet) listen() error {
	config, err := decodeConfig(n.config)
	if err != nil {
		return err
	}
	if n.configz, err = configz(config); err != nil {
		return err
	}
	n.metrics = metrics()
	listener, err := net.Listen("tcp", n.address)
	if err != nil {
		return err
	}
	n.address = listener.Addr().String()
	n.server = &http.Server{Handler: n.handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = n.server.Serve(listener) }() // It ends when it is closed.
	return nil
}

// configz is the kubelet's answer about its configuration.
func configz(config *kubeletconfig.KubeletConfiguration) ([]byte, error) {
	known, _, err := scheme.NewSchemeAndCodecs()
	if err != nil {
		return nil, err
	}
	var shown kubeletv1beta1.KubeletConfiguration
	if err := known.Convert(config, &shown, nil); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"kubeletconfig": shown})
}

func (n *liveKubelet) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pods", func(rw http.ResponseWriter, _ *http.Request) {
		n.mu.Lock()
		defer n.mu.Unlock()
		list := v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []v1.Pod{}}
		for _, p := range n.listed {
			list.Items = append(list.Items, *p)
		}
		_ = json.NewEncoder(rw).Encode(list) // The client is gone if this fails.
	})
	mux.HandleFunc("GET /configz", func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(n.configz) })
	mux.HandleFunc("GET /metrics", func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(n.metrics) })
	return mux
}

// metrics are the version of the kubelet, when it was started, and its feature gates, which its start
// has set.
func metrics() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# TYPE kubernetes_build_info gauge\nkubernetes_build_info{git_version=%q,major=\"1\"} 1\n# TYPE kubernetes_feature_enabled gauge\n", version())
	fmt.Fprintf(&out, "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %g\n", float64(time.Now().UnixMilli())/1000)
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		on := 0
		if utilfeature.DefaultFeatureGate.Enabled(name) {
			on = 1
		}
		fmt.Fprintf(&out, "kubernetes_feature_enabled{name=%q,stage=%q} %d\n", name, spec.PreRelease, on)
	}
	return out.Bytes()
}

// version is the version of k8s.io/kubernetes in this program.
func version() string {
	if info, known := debug.ReadBuildInfo(); known {
		for _, m := range info.Deps {
			if m.Path == "k8s.io/kubernetes" {
				return m.Version
			}
		}
	}
	return ""
}

// happens carries out an event, and shows it in the kubelet's answers. A pod is listed before the
// kubelet decides about it. A kubelet that starts again closes its connections first, and admits
// nothing by itself: that is an event for each pod.
func (n *liveKubelet) happens(e event) (answer, error) {
	uid := types.UID(e.Pod)
	switch e.Op {
	case "admit":
		if p := n.pods[e.Pod]; p != nil && !slices.Contains(n.active, e.Pod) {
			n.list(p)
		}
	case "endPod":
		return n.endPod(e)
	case "unlistPod":
		if slices.Contains(n.active, e.Pod) {
			return answer{}, fmt.Errorf("pod %q has not ended", e.Pod)
		}
		n.unlist(uid)
		delete(n.pods, e.Pod)
		return answer{Op: e.Op, Pod: e.Pod}, nil
	case "removePod":
		n.unlist(uid)
	case "restart":
		_ = n.server.Close() // What it still answers is lost.
	}
	a, err := n.do(e)
	switch {
	case err != nil || a.Panic != "":
		return a, err
	case e.Op == "admit" && a.Admitted != nil:
		n.show(uid, n.status(e.Pod, &a))
	case e.Op == "restart" && a.StartError == "":
		err = n.listen()
	}
	return a, err
}

// endPod is the end of a pod's containers.
func (n *liveKubelet) endPod(e event) (answer, error) {
	a := answer{Op: e.Op, Pod: e.Pod}
	p := n.pods[e.Pod]
	if p == nil || !slices.Contains(n.active, e.Pod) {
		return a, fmt.Errorf("pod %q does not run", e.Pod)
	}
	status := n.status(e.Pod, &a)
	status.Phase = v1.PodSucceeded
	for i := range status.ContainerStatuses {
		status.ContainerStatuses[i].State = ended()
	}
	for _, c := range containers(p) {
		if !n.started[e.Pod][c.Name] {
			continue
		}
		if err := n.managers.StopContainer(containerID(e.Pod, c.Name)); err != nil {
			return a, err
		}
	}
	n.forget(e.Pod)
	n.show(types.UID(e.Pod), status)
	return a, nil
}

func ended() v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{FinishedAt: metav1.Now(), Reason: "Completed"}}
}

// status is what the kubelet reports of a pod about which it has decided.
func (n *liveKubelet) status(uid string, a *answer) v1.PodStatus {
	now := metav1.Now()
	if a.Admitted != nil && !*a.Admitted {
		before := v1.PodStatus{}
		n.mu.Lock()
		for _, p := range n.listed {
			if string(p.UID) == uid {
				before = *p.Status.DeepCopy()
			}
		}
		n.mu.Unlock()
		before.Phase, before.Reason, before.Message = v1.PodFailed, a.Reason, "Pod was rejected: "+a.Message
		if before.StartTime == nil {
			before.StartTime = &now
		}
		return before
	}
	s, _ := n.GetPodStatus(types.UID(uid)) // The pod is known.
	s.Phase, s.StartTime = v1.PodRunning, &now
	for i := range s.InitContainerStatuses {
		if t := &s.InitContainerStatuses[i].State; t.Terminated != nil {
			*t = ended()
		}
	}
	return s
}

// list lists a pod as one that waits, unless it is listed.
func (n *liveKubelet) list(p *v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.ContainsFunc(n.listed, func(q *v1.Pod) bool { return q.UID == p.UID }) {
		return
	}
	shown := p.DeepCopy()
	shown.Spec.NodeName, shown.CreationTimestamp = "live", metav1.Now()
	shown.Status = v1.PodStatus{Phase: v1.PodPending}
	n.listed = append(n.listed, shown)
}

// show lists a pod with another status. Pods that are listed are read without the lock once they
// are in an answer, so the old one stays as it is.
func (n *liveKubelet) show(uid types.UID, status v1.PodStatus) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, p := range n.listed {
		if p.UID == uid {
			next := *p
			next.Status = status
			n.listed[i] = &next
		}
	}
}

func (n *liveKubelet) unlist(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listed = slices.DeleteFunc(n.listed, func(p *v1.Pod) bool { return p.UID == uid })
}

func (n *liveKubelet) end() {
	if n.server != nil {
		_ = n.server.Close() // Nothing it still answers matters.
	}
	n.remove()
}
