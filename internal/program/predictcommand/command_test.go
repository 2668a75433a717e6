package predictcommand

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	api "github.com/paddock-project/paddock/api/predict/v1alpha1"
	"github.com/paddock-project/paddock/internal/cluster/clusterstate"
)

// command returns the command with its standard output.
func command(arguments ...string) (*cobra.Command, *bytes.Buffer) {
	root, out := &cobra.Command{Use: "paddock", SilenceErrors: true, SilenceUsage: true}, &bytes.Buffer{}
	root.AddCommand(New())
	root.SetArgs(append([]string{"predict", "serve"}, arguments...))
	root.SetOut(out)
	root.SetErr(out)
	return root, out
}

// TestServe asks the nodes of a file over the socket, which replaces one that a process left
// behind.
func TestServe(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cmd, out := command("--nodes", "../../../examples/fleet/nodes.yaml", "--socket", socket)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	pod := &api.Pod{Uid: "u", Namespace: "prod", Name: "training", Containers: []*api.Container{{
		Name: "main", Resources: &api.Resources{Limits: map[string]int64{"cpu": 10_000, "memory": 16 << 30}},
	}}}
	answer, err := api.NewPredictClient(conn).AskBatch(t.Context(), &api.AskBatchRequest{Pods: []*api.Pod{pod}, Detail: true}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	fits := 0
	for _, a := range answer.GetAnswers() {
		t.Log(a)
		if a.GetFits() {
			fits++
		}
	}
	if fits == 0 || len(answer.GetAnswers()) < 2 {
		t.Errorf("%d of %d nodes take the pod", fits, len(answer.GetAnswers()))
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	cancel()
	if err := <-ended; err != nil || !strings.HasPrefix(out.String(), "Serving predictions for ") {
		t.Errorf("%v, and the output %q", err, out)
	}
	if _, err := os.Stat(socket); err == nil {
		t.Error("the socket is left behind")
	}
}

// TestProblems checks that each node of a cluster that cannot be planned for has its reason.
func TestProblems(t *testing.T) {
	m := momentOf(&clusterstate.Moment{Problems: []clusterstate.Problem{{Node: "broken", Text: "its machine is missing"}}, Strange: []string{"new"}})
	if len(m.Problems) != 2 || m.Problems["broken"] != "its machine is missing" || !strings.Contains(m.Problems["new"], "no PaddockNode") {
		t.Errorf("got %q", m.Problems)
	}
}

// TestFlags checks the errors of flags. None of them leaves a file behind.
func TestFlags(t *testing.T) {
	dir := t.TempDir()
	for want, arguments := range map[string][]string{
		"--socket-mode":     {"--nodes", "n", "--socket", "s", "--socket-mode", "0444"},
		"less than 1s":      {"--nodes", "n", "--socket", "s", "--max-age", "1ms"},
		"--nodes":           {"--socket", "s"},
		"given 2 times":     {"--nodes", "a", "--nodes", "b", "--socket", "s"},
		"no such file":      {"--nodes", "missing.yaml", "--socket", filepath.Join(dir, "s")},
		"does not exist":    {"--nodes", "missing.yaml", "--socket", filepath.Join(t.TempDir(), "missing", "s")}, // before the nodes are read
		"choose a shorter ": {"--nodes", "missing.yaml", "--socket", "/" + strings.Repeat("x", 200)},
	} {
		cmd, _ := command(arguments...)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want an error with %q", arguments, err, want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left behind, %v", left, err)
	}
}
