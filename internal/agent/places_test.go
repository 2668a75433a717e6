package agent

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-project/paddock/internal/core/mask"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/podsource/kubeletdevices"
)

const (
	slicesOfNode = `{"kind":"ResourceSliceList","apiVersion":"resource.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[
		{"metadata":{"name":"s","resourceVersion":"1"},"spec":{"driver":"gpu.example.com","nodeName":"node7","pool":{"name":"p","generation":1},"devices":[
		{"name":"gpu0","attributes":{"resource.kubernetes.io/numaNode":{"int":0}}},{"name":"gpu1","attributes":{"resource.kubernetes.io/numaNode":{"int":1}}},{"name":"gpu2","attributes":{}}]}}]}`
	metadataOfClaim = `{"kind":"DeviceMetadata","apiVersion":"metadata.resource.k8s.io/v1beta1","requests":[{"name":"r","devices":[
		{"driver":"gpu.example.com","pool":"p","name":"gpu1","attributes":{"resource.kubernetes.io/numaNode":{"int":3}}},
		{"driver":"gpu.example.com","pool":"p","name":"gpu2","attributes":{"resource.kubernetes.io/numaNode":{"int":2}}}]}]}`
)

// apiServer returns the URL of a server that answers the list of ResourceSlices, and never answers
// watches.
func apiServer(t *testing.T, list string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if list == "" || r.URL.Query().Get("watch") != "" {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(list))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// kubeletDir returns a directory with a metadata file of the claim "gpus".
func kubeletDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "plugins/gpu.example.com/dra-device-metadata/default_gpus/r")
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "metadata.json"), []byte(metadataOfClaim), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestPlaces checks that NUMA nodes come from the slices, otherwise from the files, and are
// otherwise not known with a reason, whether the API server answers, does not answer, or is not
// used.
func TestPlaces(t *testing.T) {
	var claim kubeletdevices.Claim
	claim.Namespace, claim.Name = "default", "gpus"
	for i := range 4 {
		claim.Devices = append(claim.Devices, kubeletdevices.ClaimDevice{Driver: "gpu.example.com", Pool: "p", Device: fmt.Sprintf("gpu%d", i)})
	}
	listed := kubeletdevices.Pod{Namespace: "default", Name: "p", Containers: []kubeletdevices.Container{{Name: "app", Claims: []kubeletdevices.Claim{claim}}}}
	pod := request.Pod{Identity: request.Identity{UID: "u", Namespace: "default", Name: "p"}, Ask: request.Ask{Containers: []request.Container{{Name: "app", Type: request.App}}}}
	for name, c := range map[string]struct{ url, dir, want, why string }{
		"slices and files": {apiServer(t, slicesOfNode), kubeletDir(t), "{0}{1}{2}{} [{gpu.example.com [{{0} 1} {{1} 1}]}]", "neither the ResourceSlices nor the metadata files"},
		"slices alone":     {apiServer(t, slicesOfNode), "", "{0}{1}{}{} [{gpu.example.com [{{0} 1} {{1} 1}]}]", "neither the ResourceSlices nor the metadata files"},
		"files alone":      {"", kubeletDir(t), "{}{3}{2}{} []", "the API server is not asked"},
		"nothing":          {"", "", "{}{}{}{} []", "the API server is not asked"},
		"no answer":        {apiServer(t, ""), kubeletDir(t), "{}{3}{2}{} []", "the API server has not answered yet"},
		"bad address":      {"in-cluster", kubeletDir(t), "{}{3}{2}{} []", "the API server is not asked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			var log bytes.Buffer
			config := DefaultConfig()
			config.APIServer.URL, config.Kubelet.Dir, config.NodeName = c.url, c.dir, "node7"
			p := newPlaces(t.Context(), config, slog.New(slog.NewTextHandler(&log, nil)))
			p.within = time.Minute // The test must pass on a busy machine.
			if p.slices != nil {
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_ = p.slices.Run(ctx)
				}()
				p.first(ctx)
				defer func() { cancel(); <-ended }()
			}
			d := &devices{places: p}
			at := d.places.locate(t.Context(), listed)
			d.places.report(t.Context(), listed, at)
			got := give(pod, listed, at)
			var nodes []mask.Mask
			for _, g := range got.Containers[0].Given {
				nodes = append(nodes, g.Nodes)
			}
			same(t, "nodes", strings.NewReplacer("[", "", "]", "", " ", "").Replace(fmt.Sprint(nodes))+" "+fmt.Sprint(got.Stock), c.want)
			if !strings.Contains(log.String(), c.why) || !strings.Contains(log.String(), "gpu3") {
				t.Errorf("log %s, want %s", log.String(), c.why)
			}
		})
	}
}
