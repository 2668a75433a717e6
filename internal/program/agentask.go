package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/agent"
	"github.com/paddock-project/paddock/internal/base/bounded"
	"github.com/paddock-project/paddock/internal/base/terminal"
	"github.com/paddock-project/paddock/internal/cli/console"
	"github.com/paddock-project/paddock/internal/ui/web"
)

// maxAnswer limits how much of an agent's answer is read, in bytes. Answers of the largest machines
// have on the order of 100 KiB.
const maxAnswer = 8 << 20

// agentFlag is the flag --agent, which is the same in every command.
type agentFlag struct{ address string }

func (f *agentFlag) register(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.address, "agent", "", usage)
	cmd.Flags().Lookup("agent").NoOptDefVal = agent.DefaultConfig().Listen
}

// check returns an error if flags that describe a node, or how it decides, are also given, or if
// the address is invalid.
func (f *agentFlag) check(cmd *cobra.Command, others ...string) error {
	for _, name := range append([]string{"machine", "state", "pods", "kubelet-config", "devices", "as", "node", "resize", "cpu-quota", "started"}, others...) {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--agent and --%s cannot be combined: the agent knows its own node; leave out --%s, or leave out --agent to use files", name, name)
		}
	}
	if _, _, err := net.SplitHostPort(f.address); err != nil {
		return fmt.Errorf("--agent=%s: expected HOST:PORT, such as %s", f.address, cmd.Flags().Lookup("agent").NoOptDefVal)
	}
	return nil
}

// ask asks the agent. If the agent's state is not in force, ask prints the reason. The error names
// the agent's address.
func (f *agentFlag) ask(ctx context.Context, s console.Streams, path string, query url.Values) ([]byte, error) {
	data, notice, err := askAgent(ctx, url.URL{Scheme: "http", Host: f.address, Path: path, RawQuery: query.Encode()}, askTime)
	if err != nil {
		return nil, fmt.Errorf("agent at %s: %w", f.address, err)
	}
	if notice != "" {
		s.Notes([]string{"agent at " + f.address + ": " + terminal.Style{}.Paint(terminal.Plain, notice)})
	}
	return data, nil
}

// askAgent asks exactly that address, without a proxy and without redirects. The notice is the
// reason why the agent's state is not in force.
func askAgent(ctx context.Context, from url.URL, patience time.Duration) (data []byte, notice string, err error) {
	return sendAgent(ctx, http.MethodGet, from, nil, patience)
}

// post sends a request that makes the agent do something. The error is the agent's, with its
// address.
func (f *agentFlag) post(ctx context.Context, path string, document any) error {
	body, err := json.Marshal(document)
	if err == nil {
		_, _, err = sendAgent(ctx, http.MethodPost, url.URL{Scheme: "http", Host: f.address, Path: path}, body, askTime)
	}
	if err != nil {
		return fmt.Errorf("agent at %s: %w", f.address, err)
	}
	return nil
}

// sendAgent sends a request with a body; see askAgent.
func sendAgent(ctx context.Context, method string, to url.URL, body []byte, patience time.Duration) (data []byte, notice string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, "", unanswered(err, patience)
	}
	defer response.Body.Close()
	data, err = bounded.Read("the answer", response.Body, maxAnswer)
	var no struct{ Error string }
	switch {
	case errors.Is(err, bounded.ErrTooLarge):
		return nil, "", fmt.Errorf("%w: this is not a Paddock agent", err)
	case err != nil:
		return nil, "", unanswered(err, patience)
	case response.StatusCode == http.StatusOK:
		return data, response.Header.Get(web.NoticeHeader), nil
	case json.Unmarshal(data, &no) == nil && no.Error != "":
		return nil, "", errors.New(terminal.Style{}.Paint(terminal.Plain, no.Error)) // Any process may have answered.
	}
	return nil, "", fmt.Errorf("the answer %s is not one of a Paddock agent: is this its listen address, and does the agent have this version?", response.Status)
}

// unanswered returns the error for a request without an answer, with what to do.
func unanswered(err error, patience time.Duration) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err // Its text begins with the whole address, escaped.
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New(`no process listens there; is "paddock agent" running on this node, and is this its listen address (--agent=HOST:PORT)?`)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %v; is this the agent's listen address?", patience)
	}
	return fmt.Errorf("no answer: %w", err)
}

// askAgent explains a pod of a running node.
func (c *explainCommand) askAgent(cmd *cobra.Command, args []string) error {
	s := console.StreamsOf(cmd)
	if err := c.agent.check(cmd, "pod"); err != nil {
		return err
	}
	if len(args) > 1 {
		return fmt.Errorf("%d arguments: with --agent, expected one pod, NAMESPACE/NAME; the agent's address is written with an equals sign, --agent=HOST:PORT", len(args))
	}
	namespace, name, err := podName(args[0], c.namespace)
	if err != nil {
		return fmt.Errorf("%q: with --agent, expected a pod that the node knows, NAMESPACE/NAME, such as default/database", args[0])
	}
	data, err := c.agent.ask(cmd.Context(), s, "/api/explain", url.Values{"pod": {namespace + "/" + name}})
	if err != nil {
		return err
	}
	var explained web.Explained
	if err := json.Unmarshal(data, &explained); err != nil || explained.Answer.Pod == "" {
		return fmt.Errorf("agent at %s: the answer is not an explanation: is this the listen address of a Paddock agent?", c.agent.address)
	}
	if err := s.Document(c.output.Value, console.Explanation, explained, func() string { return explained.Text(s.Style(), c.verbose) }); err != nil {
		return err
	}
	if !explained.Assigned {
		return &console.ExitError{Code: 2}
	}
	return nil
}

// podsOfAgent returns the names of the pods that an agent knows, for completion. It returns none if
// the agent does not answer.
func (f *agentFlag) podsOfAgent(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, watchPeriod) // A person waits at a prompt.
	defer cancel()
	var state struct {
		Pods []struct{ Pod string }
	}
	if data, err := f.ask(ctx, console.Streams{Stderr: io.Discard}, "/api/state", nil); err != nil || json.Unmarshal(data, &state) != nil {
		return nil
	}
	var names []string
	for _, p := range state.Pods {
		names = append(names, strings.TrimSpace(p.Pod))
	}
	return names
}
