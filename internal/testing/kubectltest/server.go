// Package kubectltest provides an API server on loopback, for tests of programs that query agents
// through an API server. It has pods, and users with tokens and permissions. It runs commands in
// containers by the protocols of API servers: WebSocket (v5.channel.k8s.io) and SPDY
// (v4.channel.k8s.io).
package kubectltest

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Run runs a command in a container of a pod and returns its exit code.
type Run func(pod *v1.Pod, container string, command []string, stdout, stderr io.Writer) int

// Fault is a fault that occurs when a command is run in a pod.
type Fault string

// The faults for Server.Break.
const (
	Gone         Fault = "gone"          // the pod is deleted after it was listed
	NotRunning   Fault = "not running"   // its container ended after it was listed
	KubeletAway  Fault = "kubelet away"  // the API server does not reach the kubelet
	Cut          Fault = "cut"           // the connection ends in the middle of the output
	NoWebSocket  Fault = "no websocket"  // a proxy that supports only SPDY
	NoProgram    Fault = "no program"    // the image has no such program
	NeverAnswers Fault = "never answers" // the command runs and prints nothing
)

// Server is an API server with the objects of a cluster. Its methods may be called while it serves.
type Server struct {
	server *httptest.Server
	run    Run
	ended  chan struct{}

	mu     sync.Mutex
	pods   []*v1.Pod
	users  map[string]string // by token
	denied map[string]bool   // "USER VERB RESOURCE NAMESPACE"
	faults map[string]Fault  // by the name of the pod
	readyz int               // the status of the answer to /readyz; zero is 200
}

// Start starts a server that runs until Close.
func Start(run Run) *Server {
	s := &Server{run: run, ended: make(chan struct{}), users: map[string]string{}, denied: map[string]bool{}, faults: map[string]Fault{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods", s.list)
	mux.HandleFunc("GET /api/v1/nodes", s.nodes)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		w.WriteHeader(max(s.readyz, http.StatusOK))
	})
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{name}", func(w http.ResponseWriter, r *http.Request) {
		if !s.allowed(w, r, "get", "") {
			return
		}
		if pod, _ := s.pod(w, r); pod != nil {
			object := pod.DeepCopy()
			object.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
			write(w, http.StatusOK, object)
		}
	})
	mux.HandleFunc("/api/v1/namespaces/{namespace}/pods/{name}/exec", s.exec)
	s.server = httptest.NewTLSServer(mux)
	return s
}

// Close stops the server and the commands that never answer.
func (s *Server) Close() {
	close(s.ended)
	s.server.Close()
}

// Cluster returns the address and the certificate of the server, as in a kubeconfig.
func (s *Server) Cluster() (url string, certificate []byte) {
	return s.server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
}

// Add adds pods.
func (s *Server) Add(pods ...*v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = append(s.pods, pods...)
}

// User adds a user with this token. The user has all permissions.
func (s *Server) User(name, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[token] = name
}

// Deny revokes a permission of a user.
func (s *Server) Deny(user, verb, resource, namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied[strings.Join([]string{user, verb, resource, namespace}, " ")] = true
}

// Ready sets the status of the answer to /readyz, which needs no permission.
func (s *Server) Ready(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readyz = status
}

// Break makes commands in a pod fail.
func (s *Server) Break(pod string, fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[pod] = fault
}

// allowed reports whether the user may make the request. If not, it answers the request as an API
// server does.
func (s *Server) allowed(w http.ResponseWriter, r *http.Request, verb, subresource string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	user, known := s.users[token]
	if !known {
		fail(w, apierrors.NewUnauthorized("Unauthorized"))
		return false
	}
	resource := strings.TrimSuffix("pods/"+subresource, "/")
	namespace := r.PathValue("namespace")
	if s.denied[strings.Join([]string{user, verb, resource, namespace}, " ")] {
		why := fmt.Errorf("User %q cannot %s resource %q in API group \"\" in the namespace %q", user, verb, resource, namespace)
		fail(w, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, r.PathValue("name"), why))
		return false
	}
	return true
}

// fail answers a request with a Status.
func fail(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.ErrStatus
	status.Kind, status.APIVersion = "Status", "v1"
	write(w, int(status.Code), status)
}

func write(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // An error means that the client is gone.
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	if !s.allowed(w, r, "list", "") {
		return
	}
	byLabel, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	byField, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	if err != nil {
		fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	list := v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods {
		if p.Namespace == r.PathValue("namespace") && byLabel.Matches(labels.Set(p.Labels)) && byField.Matches(fields.Set{"spec.nodeName": p.Spec.NodeName}) {
			list.Items = append(list.Items, *p)
		}
	}
	write(w, http.StatusOK, list)
}

// nodes answers with the nodes of the pods.
func (s *Server) nodes(w http.ResponseWriter, r *http.Request) {
	if !s.allowed(w, r, "list", "") {
		return
	}
	list := v1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]bool{"": true}
	for _, p := range s.pods {
		if name := p.Spec.NodeName; !seen[name] {
			seen[name] = true
			list.Items = append(list.Items, v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	}
	write(w, http.StatusOK, list)
}

// pod returns the pod that a request names. If there is none, it answers the request and returns
// nil.
func (s *Server) pod(w http.ResponseWriter, r *http.Request) (*v1.Pod, Fault) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.pods, func(p *v1.Pod) bool { return p.Namespace == namespace && p.Name == name })
	if i < 0 || s.faults[name] == Gone {
		fail(w, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name))
		return nil, ""
	}
	return s.pods[i], s.faults[name]
}
