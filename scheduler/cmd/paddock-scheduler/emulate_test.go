package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	info "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func TestEmulation(t *testing.T) {
	binary := utilversion.MustParseGeneric("1.37.2")
	for _, c := range []struct {
		server info.Info
		want   string
		failed string
	}{
		{server: info.Info{GitVersion: "v1.37.2"}},
		{server: info.Info{GitVersion: "v1.37.0"}},
		{server: info.Info{GitVersion: "v1.38.1"}},
		{server: info.Info{GitVersion: "v1.36.4"}, want: "1.36"},
		{server: info.Info{GitVersion: "v1.36.2-gke.1043000", Minor: "36+"}, want: "1.36"},
		{server: info.Info{GitVersion: "v1.35.6+k3s1"}, want: "1.35"},
		{server: info.Info{GitVersion: "v1.34.0-rc.1"}, want: "1.34"},
		{server: info.Info{GitVersion: "v1.37.2", EmulationMajor: "1", EmulationMinor: "36"}, want: "1.36"},
		{server: info.Info{GitVersion: "v1.33.12"}, failed: "Kubernetes 1.33, and this scheduler works with 1.34 and later"},
		{server: info.Info{GitVersion: "unknown"}, failed: `the version "unknown"`},
	} {
		got, err := emulation(&c.server, binary)
		if (err != nil) != (c.failed != "") || err != nil && !strings.Contains(err.Error(), c.failed) || got != c.want {
			t.Errorf("%s: got %q and error %v, want %q and error %q", c.server.GitVersion, got, err, c.want, c.failed)
		}
	}
}

// TestEmulateServer starts the command up to the point where kube-scheduler sets its gates.
func TestEmulateServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(info.Info{GitVersion: "v1.35.6"}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	kubeconfig := write("kubeconfig", "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: "+server.URL+"}}]\n"+
		"contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n")
	config := write("config.yaml", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nclientConnection:\n  kubeconfig: "+kubeconfig+"\n")
	for _, c := range []struct {
		args   []string
		want   string
		failed string
	}{
		{args: []string{"--config", config}, want: "[1.35]"},
		{args: []string{"--kubeconfig", kubeconfig}, want: "[1.35]"},
		{args: []string{"--master", server.URL}, want: "[1.35]"},
		{args: []string{"--config", config, "--emulated-version", "1.36"}, want: "[1.36]"},
		{args: []string{"--config", filepath.Join(dir, "missing")}, failed: "--config: open"},
		{args: []string{"--config", write("bad.yaml", "clientConnection: [")}, failed: "bad.yaml: "},
		{args: nil, failed: "unable to load in-cluster configuration"},
	} {
		command := app.NewSchedulerCommand()
		got := ""
		command.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
			got = c.Flags().Lookup(emulatedVersion).Value.String()
			return nil
		}
		command.RunE = func(*cobra.Command, []string) error { return nil }
		command.SilenceUsage, command.SilenceErrors = true, true
		emulateServer(command)
		command.SetArgs(c.args)
		err := command.Execute()
		if (err != nil) != (c.failed != "") || err != nil && !strings.Contains(err.Error(), c.failed) || got != c.want {
			t.Errorf("%v: got %q and error %v, want %q and error %q", c.args, got, err, c.want, c.failed)
		}
	}
}

// TestAskVersion asks an API server that starts late, and one that never does.
func TestAskVersion(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		}
		if err := json.NewEncoder(w).Encode(info.Info{GitVersion: "v1.36.4"}); err != nil {
			t.Error(err)
		}
	}))
	config := &rest.Config{Host: server.URL}
	got, err := askVersion(t.Context(), config, time.Minute)
	if err != nil || got.GitVersion != "v1.36.4" || asked != 2 {
		t.Errorf("got %v and error %v after %d requests", got, err, asked)
	}
	server.Close()
	_, err = askVersion(t.Context(), config, time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "did not answer within 1ms: ") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("no server: got error %v", err)
	}
}
