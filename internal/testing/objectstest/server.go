// Package objectstest provides an API server in memory, for tests of programs that read and write
// Nodes, Pods, PaddockNodes and PaddockMachines. It implements resource versions, conflicts,
// watches and the garbage collector.
package objectstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Server is an API server. It has no schemas, and accepts every token.
type Server struct {
	http *httptest.Server
	done chan struct{}

	mu      sync.Mutex
	version int
	objects map[string]*unstructured.Unstructured // by resource/name
	events  []event
	changed chan struct{} // closed at the next event
	fail    func(*http.Request) int
	writes  int
}

type event struct {
	version  int
	kind     string
	resource string
	object   *unstructured.Unstructured
}

// New starts a server that stops at the end of the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{objects: map[string]*unstructured.Unstructured{}, changed: make(chan struct{}), done: make(chan struct{})}
	s.http = httptest.NewServer(s)
	t.Cleanup(func() {
		close(s.done)
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// Config returns the configuration for clients.
func (s *Server) Config() *rest.Config { return &rest.Config{Host: s.http.URL, QPS: -1} }

// Fail makes each request fail with the status that f returns. If f is nil or returns 0, requests
// do not fail. f may block.
func (s *Server) Fail(f func(*http.Request) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

// Writes returns the number of objects that requests have created or changed.
func (s *Server) Writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// AddNode creates a Node.
func (s *Server) AddNode(name, uid string) {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node"}}
	o.SetName(name)
	o.SetUID(types.UID(uid))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put("ADDED", "nodes", o)
}

// Set creates or replaces an object. The object must have its name, namespace and UID.
func (s *Server) Set(t testing.TB, resource string, object any) {
	t.Helper()
	data, err := json.Marshal(object)
	o := &unstructured.Unstructured{}
	if err == nil {
		err = json.Unmarshal(data, &o.Object)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := "ADDED"
	if s.objects[key(resource, o)] != nil {
		kind = "MODIFIED"
	}
	s.put(kind, resource, o)
}

// key returns the key under which an object is stored: resource/name, or resource/namespace/name
// for a pod.
func key(resource string, o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return resource + "/" + o.GetName()
	}
	return resource + "/" + o.GetNamespace() + "/" + o.GetName()
}

// Break closes every connection.
func (s *Server) Break() { s.http.CloseClientConnections() }

// Delete deletes an object and the objects that it owns.
func (s *Server) Delete(resource, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(resource, name)
}

// Get decodes an object into into, and reports whether the object exists.
func (s *Server) Get(t testing.TB, resource, name string, into any) bool {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	o, there := s.objects[resource+"/"+name]
	if there {
		data, err := json.Marshal(o)
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return there
}

func (s *Server) put(kind, resource string, o *unstructured.Unstructured) {
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[key(resource, o)] = o
	s.tell(kind, resource, o)
}

func (s *Server) tell(kind, resource string, o *unstructured.Unstructured) {
	s.events = append(s.events, event{s.version, kind, resource, o.DeepCopy()})
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Server) drop(resource, name string) bool {
	o := s.objects[resource+"/"+name]
	if o == nil {
		return false
	}
	delete(s.objects, resource+"/"+name)
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
	s.tell("DELETED", resource, o)
	for key, owned := range s.objects {
		if slices.ContainsFunc(owned.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == o.GetUID() }) {
			resource, name, _ := strings.Cut(key, "/")
			s.drop(resource, name)
		}
	}
	return true
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	fail := s.fail
	s.mu.Unlock()
	if fail != nil {
		if code := fail(r); code != 0 {
			reason := metav1.StatusReasonInternalError
			if known := map[int]metav1.StatusReason{
				http.StatusUnauthorized: metav1.StatusReasonUnauthorized, http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
			}[code]; known != "" {
				reason = known
			}
			answer(w, code, reason, "as the test wants it")
			return
		}
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts = parts[slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, "v1") })+1:]; len(parts) == 0 {
		answer(w, http.StatusNotFound, metav1.StatusReasonNotFound, "no resource")
		return
	}
	resource, name := parts[0], strings.Join(parts[1:], "/")
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		s.watch(w, r, resource)
	case r.Method == http.MethodGet && name == "":
		s.list(w, r, resource, nameIn(r))
	case r.Method == http.MethodGet:
		s.get(w, resource, name)
	case r.Method == http.MethodPost, r.Method == http.MethodPut:
		s.write(w, r, resource)
	case r.Method == http.MethodDelete:
		s.remove(w, r, resource, name)
	default:
		answer(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, r.Method)
	}
}

func answer(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

// nameIn returns the name in the field selector, or "" if there is none.
func nameIn(r *http.Request) string {
	_, name, _ := strings.Cut(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	return name
}

func (s *Server) get(w http.ResponseWriter, resource, name string) {
	s.mu.Lock()
	o := s.objects[resource+"/"+name].DeepCopy()
	s.mu.Unlock()
	if o == nil {
		answer(w, http.StatusNotFound, metav1.StatusReasonNotFound, resource+" "+name)
		return
	}
	if resource == "nodes" {
		o.SetAPIVersion("meta.k8s.io/v1")
		o.SetKind("PartialObjectMetadata")
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o)
}

// list answers with the objects in the order of their names. With a limit it answers in pages, and
// the continue token is the name of the last object.
func (s *Server) list(w http.ResponseWriter, r *http.Request, resource, only string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items, next := []any{}, ""
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		is, name, _ := strings.Cut(key, "/")
		if is != resource || only != "" && only != name || name <= r.URL.Query().Get("continue") {
			continue
		}
		if limit > 0 && len(items) == limit {
			break
		}
		items, next = append(items, s.objects[key].DeepCopy().Object), name
	}
	if limit == 0 || len(items) < limit {
		next = ""
	}
	kind := map[string]string{"paddocknodes": "PaddockNodeList", "paddockmachines": "PaddockMachineList", "nodes": "NodeList", "pods": "PodList"}[resource]
	version := "paddock-project.github.io/v1alpha1"
	if resource == "nodes" || resource == "pods" {
		version = "v1"
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": version, "kind": kind, "items": items, "metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version), "continue": next},
	})
}

func (s *Server) remove(w http.ResponseWriter, r *http.Request, resource, name string) {
	var options metav1.DeleteOptions
	if err := json.NewDecoder(r.Body).Decode(&options); err != nil && !errors.Is(err, io.EOF) {
		answer(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[resource+"/"+name]
	switch p := options.Preconditions; {
	case o == nil:
		answer(w, http.StatusNotFound, metav1.StatusReasonNotFound, name)
	case p != nil && p.UID != nil && *p.UID != o.GetUID():
		answer(w, http.StatusConflict, metav1.StatusReasonConflict, name)
	default:
		s.drop(resource, name)
		answer(w, http.StatusOK, "", name)
	}
}

func (s *Server) write(w http.ResponseWriter, r *http.Request, resource string) {
	o := &unstructured.Unstructured{}
	if err := json.NewDecoder(r.Body).Decode(&o.Object); err != nil {
		answer(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, kind := s.objects[resource+"/"+o.GetName()], "MODIFIED"
	switch {
	case r.Method == http.MethodPost && before != nil:
		answer(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, o.GetName())
		return
	case r.Method == http.MethodPut && before == nil:
		answer(w, http.StatusNotFound, metav1.StatusReasonNotFound, o.GetName())
		return
	case r.Method == http.MethodPut && before.GetResourceVersion() != o.GetResourceVersion():
		answer(w, http.StatusConflict, metav1.StatusReasonConflict, o.GetName())
		return
	case before == nil:
		o.SetUID(types.UID(fmt.Sprint("uid-", s.version)))
		kind = "ADDED"
	}
	s.writes++
	s.put(kind, resource, o)
	w.Header().Set("Content-Type", "application/json")
	if kind == "ADDED" {
		w.WriteHeader(http.StatusCreated)
	}
	_ = json.NewEncoder(w).Encode(o)
}

// watch streams the events after a resource version. A client that requests initial events in the
// stream gets an error, so that it lists instead.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, resource string) {
	if r.URL.Query().Get("sendInitialEvents") != "" {
		answer(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is not served")
		return
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	only := nameIn(r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	encoder := json.NewEncoder(w)
	for {
		s.mu.Lock()
		for _, e := range s.events {
			if e.version > from && e.resource == resource && (only == "" || only == e.object.GetName()) {
				_ = encoder.Encode(map[string]any{"type": e.kind, "object": e.object})
			}
		}
		from = s.version
		changed := s.changed
		s.mu.Unlock()
		_ = http.NewResponseController(w).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-s.done:
			return
		}
	}
}
