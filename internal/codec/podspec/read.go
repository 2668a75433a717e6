package podspec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/paddock-project/paddock/internal/base/bounded"
)

// MaxFileSize is the maximum size of a file, in bytes. A YAML document takes ten times its size
// while it is parsed. JSON files can be larger, because they are read object by object, and lists
// item by item.
const MaxFileSize = 64 << 20

// maxErrors is the maximum number of errors that are reported at once. A file that is not a
// manifest at all can have one in each line.
const maxErrors = 20

// Read returns the pods of a YAML or JSON file, in the order of the file. The file may have any
// number of documents with pods, controllers, and lists of these. A controller yields one pod for
// each replica that runs at once, and a DaemonSet one pod. Objects that cannot have pods are left
// out with a note. A file whose name ends in .json is JSON; otherwise the name is used only in
// messages.
//
// An unknown field that can influence a decision (see unknownFields) is an error, because it may be
// a typing error. If the API server stored the object, the field belongs to a newer Kubernetes and
// is not an error. Every other unknown field leads to a note, and so does an object of an unknown
// kind. Such an object yields the pods of the pod templates in it, each as often as the nearest
// enclosing field "replicas" requests. A repeated field is an error.
//
// Errors name the file, the document, the object and the field. Read checks all documents unless
// the syntax is wrong, and returns no pods if there is an error. It is an error if two pods have
// one UID, if there are two manifests for one pod, or if the file asks for more than MaxPods pods.
func Read(name string, data []byte) ([]Source, []Note, error) {
	var r reader
	r.read(name, data)
	return r.result()
}

// ReadFiles reads several files like Read. It returns the pods of all of them, in the order of
// paths. For a directory it reads the files *.yaml, *.yml and *.json in the order of their names.
// It does not read hidden files and subdirectories, and it adds a note about the subdirectories.
// "-" is the standard input.
func ReadFiles(paths []string, stdin io.Reader) ([]Source, []Note, error) {
	return Options{}.ReadFiles(paths, stdin)
}

// Options control how manifests are read.
type Options struct {
	// Strict makes every unknown field and kind an error.
	Strict bool
	// Others is called with each object that is not a workload, as JSON. It reports whether it
	// accepts the object. Other objects are left out with a note, or searched for pod templates.
	Others func(kind, apiVersion string, data []byte) (bool, error)
	// MaxPods is the maximum number of pods. If zero, the constant MaxPods is used.
	MaxPods int
	// MaxContainers is the maximum number of containers in all pods. MaxValues is the maximum
	// number of fields and list items in the manifests; every 64 bytes of text count as another
	// value. Zero means no limit. Set them for manifests from untrusted sources. If one of them, or
	// MaxPods, is exceeded, the error is a LimitError.
	MaxContainers, MaxValues int
	// Slim reduces pods to the parts that influence decisions (see Slim).
	Slim bool
	// Each is called with each pod, in order. The pods are then not kept. It may have been called
	// for some pods when an error is found later.
	Each func(Source) error
}

// ReadFrom reads an open file like ReadFiles. name is used in messages. If it ends in .json, the
// file is JSON.
func (o Options) ReadFrom(name string, from io.Reader) ([]Source, []Note, error) {
	r := reader{Options: o, budget: newBudget(o.MaxValues)}
	r.readFrom(name, from)
	return r.result()
}

// ReadFiles is like the function ReadFiles, but uses the options.
func (o Options) ReadFiles(paths []string, stdin io.Reader) ([]Source, []Note, error) {
	r := reader{Options: o, budget: newBudget(o.MaxValues)}
	for _, path := range paths {
		if path == "-" && stdin != nil {
			r.readFrom(path, stdin)
			stdin = nil // it can be read only once
			continue
		} else if path == "-" {
			r.fail(errors.New("-: the standard input is not there, or named twice"))
			continue
		}
		switch info, err := os.Stat(path); {
		case err != nil:
			r.fail(err)
		case info.IsDir():
			r.readDir(path)
		default:
			r.readFile(path)
		}
	}
	return r.result()
}

// reader collects the results of reading.
type reader struct {
	Options
	sources []Source
	notes   []Note
	errs    []error
	// repeated has notes that are reported once, with the number of times that they apply.
	repeated []repeated
	// unrepeated is the number of notes of other kinds.
	unrepeated int
	// containers is the number of containers of all pods so far. budget is what remains of
	// MaxValues.
	containers int
	budget     *budget
	// taken is the number of pods that were passed to Each. seen has their UIDs and names.
	taken int
	seen  map[string]bool
}

func (r *reader) result() ([]Source, []Note, error) {
	for i, n := range r.repeated {
		if i == maxRepeated {
			r.notes = append(r.notes, Note{Origin: n.first, Text: fmt.Sprintf("and %d more notes of this kind", len(r.repeated)-maxRepeated+r.unrepeated)})
			break
		}
		if n.times > 1 {
			n.text += fmt.Sprintf("; so %d times", n.times)
		}
		r.notes = append(r.notes, Note{Origin: n.first, Text: n.text})
	}
	if len(r.errs) == 0 {
		r.checkUnique()
	}
	if more := len(r.errs) - maxErrors; more > 0 {
		r.errs = append(r.errs[:maxErrors], fmt.Errorf("and %d errors more", more))
	}
	if len(r.errs) > 0 {
		return nil, nil, errors.Join(r.errs...)
	}
	return r.sources, r.notes, nil
}

func (r *reader) fail(err error) { r.errs = append(r.errs, err) }

func (r *reader) readDir(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		r.fail(err)
		return
	}
	var subdirectories []string
	for _, e := range entries { // sorted by name
		ext := strings.ToLower(filepath.Ext(e.Name()))
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			subdirectories = append(subdirectories, e.Name())
		}
		if strings.HasPrefix(e.Name(), ".") || !slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if info, err := os.Stat(path); err != nil || info.IsDir() { // a link may point anywhere
			if err != nil {
				r.fail(err)
			}
			continue
		}
		r.readFile(path)
	}
	if n := len(subdirectories); n > 0 {
		const few = 5 // fit in a line
		r.notes = append(r.notes, Note{Origin: Origin{File: dir}, Text: fmt.Sprintf("subdirectories are not read, %d in all: %s; name those that have manifests",
			n, strings.Join(subdirectories[:min(few, n)], ", "))})
	}
}

func (r *reader) readFile(path string) {
	f, err := os.Open(path)
	if err != nil {
		r.fail(err)
		return
	}
	r.readFrom(path, f)
	_ = f.Close() // it was only read
}

func (r *reader) readFrom(name string, from io.Reader) {
	first, all, err := bounded.Begin(from, MaxFileSize+1)
	if len(first) > MaxFileSize && (isJSON(name) || bytes.HasPrefix(bytes.TrimSpace(first[:1<<10]), []byte("{"))) {
		if bytes.HasPrefix(first, byteOrderMark) {
			_, err = io.CopyN(io.Discard, all, int64(len(byteOrderMark)))
		}
		if err == nil {
			err = r.budget.take(MaxFileSize / valueBytes)
		}
		if err == nil {
			r.stream(name, all)
			return
		}
	}
	var data []byte
	if err == nil {
		data, err = bounded.Read("it", all, MaxFileSize)
	}
	if err == nil {
		err = bounded.Unpacked("it", data)
	}
	if err != nil {
		r.fail(fmt.Errorf("%s: %w", name, err))
		return
	}
	r.read(name, data)
}

func (r *reader) read(name string, data []byte) {
	docs, err := split(name, data, r.budget)
	if err != nil {
		r.fail(fmt.Errorf("%s: %w", name, err))
		return
	}
	for i, d := range docs {
		r.object(Origin{File: name, Document: i + 1, Line: d.line}, d.json, identity{})
	}
}

// identity has the fields of an object that determine what it is.
type identity struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name         string `json:"name"`
		Namespace    string `json:"namespace"`
		GenerateName string `json:"generateName"`
		UID          string `json:"uid"`
		// ResourceVersion and ConfigSource show that the object comes from the API server or the
		// kubelet.
		ResourceVersion string `json:"resourceVersion"`
		Annotations     struct {
			ConfigSource string `json:"kubernetes.io/config.source"`
		} `json:"annotations"`
	} `json:"metadata"`
	HasItems present `json:"items"`
	HasSpec  present `json:"spec"`
}

// present reports whether a field is set, whatever its value.
type present bool

// UnmarshalJSON accepts any value. Null counts as not set.
func (p *present) UnmarshalJSON(data []byte) error {
	*p = string(data) != "null"
	return nil
}

func (id identity) String() string {
	name := cmp.Or(id.Metadata.Name, id.Metadata.GenerateName)
	if name == "" {
		return id.Kind
	}
	return fmt.Sprintf("%s %s/%s", id.Kind, orDefault(id.Metadata.Namespace), name)
}

// object reads one object. assumed is the kind of a list item that does not state its own.
func (r *reader) object(at Origin, raw []byte, assumed identity) {
	var id identity
	_ = kjson.UnmarshalCaseSensitivePreserveInts(raw, &id) // A field of the wrong type is reported when the whole object is decoded.
	id.Kind, id.APIVersion = cmp.Or(id.Kind, assumed.Kind), cmp.Or(id.APIVersion, assumed.APIVersion)
	at.Object = id.String()
	if strings.HasSuffix(id.Kind, "List") && bool(id.HasItems || !id.HasSpec) {
		r.list(at, id, raw)
		return
	}
	if err := findQuantity(raw, outOfRange); err != nil {
		r.fail(fmt.Errorf("%s: %w", at, err))
		return
	}
	d := decoder{raw: raw}
	w, err := decodeWorkload(id, &d)
	switch {
	case err != nil:
	case w != nil:
		if err = r.unknownFields(at, id, "", d.unknown); err == nil {
			err = w.check()
		}
	default:
		err = r.other(at, id, raw)
	}
	if err != nil {
		r.fail(fmt.Errorf("%s: %w", at, err))
		return
	}
	if w != nil {
		r.add(at, id, w)
	}
}

// other reads an object that is not a workload.
func (r *reader) other(at Origin, id identity, raw []byte) error {
	if r.Others != nil {
		if taken, err := r.Others(id.Kind, id.APIVersion, raw); taken || err != nil {
			return err
		}
	}
	if hasNoPods(id) {
		r.notes = append(r.notes, Note{Origin: at, Text: "left out, it has no pods"})
		return nil
	}
	return r.unknownKind(at, id, raw)
}

func (r *reader) add(at Origin, id identity, w *workload) {
	if err := r.room(at, w, cmp.Or(r.MaxPods, MaxPods)); err != nil {
		r.fail(err)
		return
	}
	pods := w.pods(id.Kind)
	if len(pods) == 0 {
		r.notes = append(r.notes, Note{Origin: at, Text: "it asks for no pods"})
	}
	if r.Slim && len(pods) > 0 { // The pods of a controller share one slim pod.
		slim := Slim(pods[0])
		for _, pod := range pods {
			pod.Spec, pod.Status, pod.Annotations, pod.ManagedFields = slim.Spec, slim.Status, slim.Annotations, nil
		}
	}
	for _, pod := range pods {
		source := Source{Origin: at, Pod: pod}
		if r.Each == nil {
			r.sources = append(r.sources, source)
			continue
		}
		r.taken++
		var err error
		if strings.HasPrefix(source.Object, "Pod ") { // As in checkUnique.
			err = r.unique(source)
		}
		if err == nil {
			err = r.Each(source)
		}
		if err != nil {
			r.fail(fmt.Errorf("%s: %w", at, err))
			return
		}
	}
}

// unique rejects a pod that was already read.
func (r *reader) unique(s Source) error {
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	for _, key := range []string{string(s.Pod.UID), s.Pod.Namespace + "/" + s.Pod.Name} {
		if r.seen[key] {
			return fmt.Errorf("the pod %s/%s is there already, or another one with its uid %s", s.Pod.Namespace, s.Pod.Name, s.Pod.UID)
		}
		r.seen[key] = true
	}
	return nil
}

// list reads the items of a list. The items of a v1 List state their kind. The items of a list of a
// single kind, as the API server returns it, need not.
func (r *reader) list(at Origin, id identity, raw []byte) {
	var l struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	if at.Item > 0 {
		r.fail(fmt.Errorf("%s: a list within a list is not read, put its items in the outer one", at))
		return
	}
	d := decoder{raw: raw}
	err := d.into(&l)
	if err == nil {
		err = r.unknownFields(at, id, "", d.unknown)
	}
	if err != nil {
		r.fail(fmt.Errorf("%s: %w", at, err))
		return
	}
	assumed := identity{}
	if id.Kind != "List" {
		assumed.TypeMeta = metav1.TypeMeta{APIVersion: id.APIVersion, Kind: strings.TrimSuffix(id.Kind, "List")}
	}
	for i, item := range l.Items {
		at.Item, at.Object = i+1, ""
		r.object(at, item, assumed)
	}
}

// checkUnique rejects a pod that is listed twice, because the second would be mistaken for the
// first.
func (r *reader) checkUnique() {
	uids, names := map[string]Source{}, map[string]Origin{}
	for _, s := range r.sources {
		uid := string(s.Pod.UID)
		if first, ok := uids[uid]; ok {
			twice := fmt.Sprintf("the pod %s/%s is there already", s.Pod.Namespace, s.Pod.Name)
			if first.Pod.Namespace != s.Pod.Namespace || first.Pod.Name != s.Pod.Name {
				twice = fmt.Sprintf("pod %s/%s has the uid %s of another pod", s.Pod.Namespace, s.Pod.Name, uid)
			}
			r.fail(fmt.Errorf("%s: %s: %s", s.Origin, twice, first.Origin))
			return
		}
		uids[uid] = s
		if !strings.HasPrefix(s.Object, "Pod ") {
			continue // "web-0" of two controllers that are both named web is two pods
		}
		id := s.Pod.Namespace + "/" + s.Pod.Name
		if first, ok := names[id]; ok {
			r.fail(fmt.Errorf("%s: a pod %s is there already: %s", s.Origin, id, first))
			return
		}
		names[id] = s.Origin
	}
}
