package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// registry serves the images of OCI archives at an address, for runtimes that cannot import them.
// Images have the tags that the archives give them, whatever repository is asked for.
func registry(address string, archives []string) error {
	r := images{files: map[string][]byte{}, digests: map[string]string{}}
	for _, name := range archives {
		if err := r.read(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v2/{repository...}", r.serve) // GET has HEAD, too.
	return (&http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Minute}).ListenAndServe()
}

// images are the files of archives by digest, and the digests of manifests by tag.
type images struct {
	files   map[string][]byte
	digests map[string]string
}

// read adds an archive.
func (r *images) read(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var index []byte
	for in := tar.NewReader(f); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		data, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		if hash, is := strings.CutPrefix(h.Name, "blobs/sha256/"); is {
			r.files["sha256:"+hash] = data
		} else if h.Name == "index.json" {
			index = data
		}
	}
	var list struct {
		Manifests []struct {
			Digest      string            `json:"digest"`
			Annotations map[string]string `json:"annotations"`
		} `json:"manifests"`
	}
	if err := json.Unmarshal(index, &list); err != nil {
		return err
	}
	for _, m := range list.Manifests {
		_, path, _ := strings.Cut(m.Annotations["io.containerd.image.name"], "/")
		r.digests[path] = m.Digest
	}
	return nil
}

// serve answers NAME/manifests/REFERENCE and NAME/blobs/DIGEST.
func (r *images) serve(rw http.ResponseWriter, req *http.Request) {
	path := req.PathValue("repository")
	digest := path[strings.LastIndex(path, "/")+1:]
	if name, reference, is := strings.Cut(path, "/manifests/"); is {
		if digest = reference; r.files[digest] == nil {
			digest = r.digests[name+":"+reference]
		}
		rw.Header().Set("Content-Type", mediaType(r.files[digest]))
	}
	data := r.files[digest]
	if data == nil {
		http.NotFound(rw, req)
		return
	}
	rw.Header().Set("Docker-Content-Digest", digest)
	rw.Header().Set("Content-Length", fmt.Sprint(len(data)))
	if req.Method != http.MethodHead {
		_, _ = rw.Write(data) // The client is gone if this fails.
	}
}

// mediaType returns the type of a manifest or of an index, as they name it themselves.
func mediaType(manifest []byte) string {
	var of struct {
		MediaType string `json:"mediaType"`
	}
	if err := json.Unmarshal(manifest, &of); err != nil || of.MediaType == "" {
		return "application/vnd.oci.image.manifest.v1+json"
	}
	return of.MediaType
}
