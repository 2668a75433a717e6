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

// LiveFlag is the only argument of a process with live kubelets. Each of these has a directory with
// its state files, and an address at which it answers about its pods, its configuration and its
// version, as a kubelet does. An agent can observe it. The standard input of the process has
// orders, one on each line, which describe what happens to the kubelets. The output has the reply
// to each order on a line. The process ends when its input ends.
//
// Feature gates belong to a process, so all its kubelets must have the same gates at any time.
const LiveFlag = "-live"

// order is one thing that happens to a live kubelet. Node is any name. Exactly one of the other
// fields is set, except that Pod comes with an Event.
type order struct {
	Node string `json:"node"`
	// Begin is a bare scenario. A kubelet is started on its machine with its configuration. The
	// events of the scenario are not played.
	Begin json.RawMessage `json:"begin,omitempty"`
	// Event is an event of docs/rules/format.md, or "endPod" or "unlistPod". With "endPod", the pod
	// ends and stays listed, and the managers keep what it has until the next admission, as in a
	// kubelet. With "unlistPod", a pod that has ended is forgotten.
	Event *event `json:"event,omitempty"`
	// Pod is the pod of the event if no pod of the scenario has its UID.
	Pod *v1.Pod `json:"pod,omitempty"`
	// End stops the kubelet and removes its directory.
	End bool `json:"end,omitempty"`
}

// reply is the answer to an order: URL and Dir for Begin, and Answer for Event. The answer to an
// event has only what the managers have, and not what follows from it for cgroups and files.
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

// liveKubelet is a kubelet that can be observed. It carries out orders one at a time. mu guards the
// fields that the server reads.
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

// metrics returns the version of the kubelet, its start time, and the feature gates that its start
// has set, as metrics.
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

// version returns the version of k8s.io/kubernetes in this program.
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

// happens carries out an event, and shows the result in the kubelet's answers. It lists a pod
// before the kubelet decides about it. A kubelet that starts again first closes its connections. It
// admits nothing by itself, because each admission is an event of its own.
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

// endPod ends the containers of a pod.
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

// status returns the status that the kubelet reports for a pod about which it has decided.
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

// list lists a pod as waiting, unless it is already listed.
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

// show lists a pod with another status. Once a listed pod is in an answer, readers read it without
// the lock, so show does not modify the old pod.
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
