package podspec

import (
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

	"github.com/paddock-project/paddock/internal/bounded"
)

// MaxFileSize is the largest file that is read, in bytes.
const MaxFileSize = 64 << 20

// maxErrors is how many errors are told at once: a file that is no manifest at all can
// have one in each line.
const maxErrors = 20

// Read returns the pods of a file, in the order of the file: YAML or JSON, any number
// of documents, of pods, of controllers (one pod for each replica that runs at once,
// one for a DaemonSet), and of lists of these. What can hold no pods is left out with a
// note. A name that ends in .json says that the file is JSON; else it is for messages.
//
// Decoding is strict: an unknown or repeated field is an error. Errors name the file,
// the document, the object and the field; all documents are looked at unless the syntax
// is wrong, and if there is an error there are no pods. Two pods with one UID, and two manifests of one pod, are
// an error, and so is asking for more than MaxPods pods.
func Read(name string, data []byte) ([]Source, []Note, error) {
	var r reader
	r.read(name, data)
	return r.result()
}

// ReadFiles is Read for files: it returns the pods of all of them, in the order of
// paths. Of a directory the files *.yaml, *.yml and *.json are read, by name; its
// subdirectories and hidden files are not. "-" is stdin.
func ReadFiles(paths []string, stdin io.Reader) ([]Source, []Note, error) {
	var r reader
	for _, path := range paths {
		r.readPath(path, stdin)
		if path == "-" {
			stdin = nil // it can be read but once
		}
	}
	return r.result()
}

// reader gathers what was found.
type reader struct {
	sources []Source
	notes   []Note
	errs    []error
}

func (r *reader) result() ([]Source, []Note, error) {
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

func (r *reader) readPath(path string, stdin io.Reader) {
	if path == "-" {
		if stdin == nil {
			r.fail(errors.New("-: the standard input is not there, or named twice"))
			return
		}
		r.readFrom(path, stdin)
		return
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		r.fail(err)
	case info.IsDir():
		r.readDir(path)
	default:
		r.readFile(path)
	}
}

func (r *reader) readDir(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		r.fail(err)
		return
	}
	for _, e := range entries { // sorted by name
		ext := strings.ToLower(filepath.Ext(e.Name()))
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
	data, err := bounded.Read("it", from, MaxFileSize)
	if err != nil {
		r.fail(fmt.Errorf("%s: %w", name, err))
		return
	}
	r.read(name, data)
}

func (r *reader) read(name string, data []byte) {
	docs, err := split(name, data)
	if err != nil {
		r.fail(fmt.Errorf("%s: %w", name, err))
		return
	}
	for i, d := range docs {
		r.object(Origin{File: name, Document: i + 1, Line: d.line}, d.json, identity{})
	}
}

// identity is as much of an object as is needed to decide what it is.
type identity struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name         string `json:"name"`
		Namespace    string `json:"namespace"`
		GenerateName string `json:"generateName"`
	} `json:"metadata"`
}

func (id identity) String() string {
	name := id.Metadata.Name
	if name == "" {
		name = id.Metadata.GenerateName
	}
	if name == "" {
		return id.Kind
	}
	return fmt.Sprintf("%s %s/%s", id.Kind, orDefault(id.Metadata.Namespace), name)
}

// identify reads the identity of an object as far as it has one; what it does not say
// itself is taken from assumed.
func identify(raw []byte, assumed identity) identity {
	var id identity
	// A field of the wrong type is complained of when all of the object is decoded.
	_ = kjson.UnmarshalCaseSensitivePreserveInts(raw, &id)
	if id.Kind == "" {
		id.Kind = assumed.Kind
	}
	if id.APIVersion == "" {
		id.APIVersion = assumed.APIVersion
	}
	return id
}

// object reads one object. assumed is the kind that an item of a list has without
// saying so.
func (r *reader) object(at Origin, raw []byte, assumed identity) {
	id := identify(raw, assumed)
	at.Object = id.String()
	if strings.HasSuffix(id.Kind, "List") {
		r.list(at, id, raw)
		return
	}
	if err := findQuantity(raw, textOutOfRange); err != nil {
		r.fail(fmt.Errorf("%s: %w", at, err))
		return
	}
	w, err := decodeWorkload(id, raw)
	switch {
	case err != nil:
	case w != nil:
		err = w.check()
	case hasNoPods(id):
		r.notes = append(r.notes, Note{Origin: at, Text: "left out, it has no pods"})
		return
	default:
		err = unknownKind(id)
	}
	if err != nil {
		r.fail(fmt.Errorf("%s: %w", at, err))
		return
	}
	r.add(at, id, w)
}

func (r *reader) add(at Origin, id identity, w *workload) {
	if n := w.size(); n > int64(MaxPods-len(r.sources)) {
		r.fail(fmt.Errorf("%s: it asks for %d pods, and %d were read before; at most %d can be read in all",
			at, n, len(r.sources), MaxPods))
		return
	}
	pods := w.pods(id.Kind)
	if len(pods) == 0 {
		r.notes = append(r.notes, Note{Origin: at, Text: "it asks for no pods"})
	}
	for _, pod := range pods {
		r.sources = append(r.sources, Source{Origin: at, Pod: pod})
	}
}

// list reads the items of a v1 List, which say what they are, or of the list of one
// kind, as the API returns it, which need not.
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
	if err := strict(raw, &l); err != nil {
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

// checkUnique refuses a pod that is there twice: the second would be taken for the first.
func (r *reader) checkUnique() {
	uids, names := map[string]Origin{}, map[string]Origin{}
	for _, s := range r.sources {
		uid := string(s.Pod.UID)
		if first, ok := uids[uid]; ok {
			r.fail(fmt.Errorf("%s: the pod %s/%s is there already, with the same uid %s: %s",
				s.Origin, s.Pod.Namespace, s.Pod.Name, uid, first))
			return
		}
		uids[uid] = s.Origin
		if !strings.HasPrefix(s.Object, "Pod ") {
			continue // "web-0" of two controllers that are both named web are two pods
		}
		id := s.Pod.Namespace + "/" + s.Pod.Name
		if first, ok := names[id]; ok {
			r.fail(fmt.Errorf("%s: a pod %s is there already: %s", s.Origin, id, first))
			return
		}
		names[id] = s.Origin
	}
}
