package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/paddock-project/paddock/internal/bounded"
	"github.com/paddock-project/paddock/internal/view"
	"github.com/paddock-project/paddock/internal/web"
)

// maxAnswer bounds what is read of an agent's answer, in bytes. Those of the largest machines have
// some 100 KiB.
const maxAnswer = 8 << 20

// askAgent explains a pod of a running node.
func (x *explainCommand) askAgent(cmd *cobra.Command, args []string) error {
	pod, err := x.podOfAgent(cmd, args)
	if err != nil {
		return err
	}
	explained, err := fetchExplained(cmd.Context(), x.agent, pod, askTime)
	if err != nil {
		return fmt.Errorf("agent at %s: %w", x.agent, err)
	}
	if err := printAs(x.stdout, x.output.value, explained, func() string { return explained.Text(styleFor(x.stdout), x.verbose) }); err != nil {
		return err
	}
	if !explained.Held {
		return &exitError{code: 2}
	}
	return nil
}

// podOfAgent is the pod that is meant, if the flags and arguments go together.
func (x *explainCommand) podOfAgent(cmd *cobra.Command, args []string) (string, error) {
	for _, name := range []string{"machine", "state", "kubelet-config", "devices", "pod"} {
		if cmd.Flags().Changed(name) {
			return "", fmt.Errorf("--agent and --%s do not go together: the agent knows its own node; leave --%s out, or --agent to explain files", name, name)
		}
	}
	if _, _, err := net.SplitHostPort(x.agent); err != nil {
		return "", fmt.Errorf("--agent=%s: want HOST:PORT, such as %s", x.agent, cmd.Flags().Lookup("agent").NoOptDefVal)
	}
	if len(args) > 1 {
		return "", fmt.Errorf("%d arguments: with --agent want one pod, NAMESPACE/NAME; the agent's address is written with an equals sign, --agent=HOST:PORT", len(args))
	}
	namespace, name, ok := strings.Cut(args[0], "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", fmt.Errorf("%q: with --agent want a pod that the node knows, NAMESPACE/NAME, such as default/database", args[0])
	}
	return args[0], nil
}

// fetchExplained asks address and nobody else: no proxy, no redirection.
func fetchExplained(ctx context.Context, address, pod string, patience time.Duration) (*web.Explained, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	from := url.URL{Scheme: "http", Host: address, Path: "/api/explain", RawQuery: url.Values{"pod": {pod}}.Encode()}
	question, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(question)
	if err != nil {
		return nil, unanswered(err, patience)
	}
	defer response.Body.Close()
	data, err := bounded.Read("the answer", response.Body, maxAnswer)
	switch {
	case errors.Is(err, bounded.ErrTooLarge):
		return nil, fmt.Errorf("%w: this is no agent of Paddock", err)
	case err != nil:
		return nil, unanswered(err, patience)
	}
	return readExplained(response, data)
}

// unanswered says what to do when nothing came.
func unanswered(err error, patience time.Duration) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err // It begins with the whole address, escaped.
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New(`no process listens there; is "paddock agent" running on this node, and is this its listen address (--agent=HOST:PORT)?`)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %v; is this the agent's listen address?", patience)
	}
	return fmt.Errorf("no answer: %w", err)
}

// readExplained tells an answer from an agent's no, and from what is no agent's.
func readExplained(response *http.Response, data []byte) (*web.Explained, error) {
	var no struct{ Error string }
	isJSON := json.Unmarshal(data, &no) == nil
	if response.StatusCode != http.StatusOK && isJSON && no.Error != "" {
		return nil, errors.New(view.Style{}.Paint(view.Plain, no.Error)) // Whoever it was that answered.
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s, and not as an agent of Paddock does: is this its listen address, and is it of this version?", response.Status)
	}
	var explained web.Explained
	if err := json.Unmarshal(data, &explained); err != nil || explained.Answer.Pod == "" {
		return nil, errors.New("the answer is no explanation: is this the listen address of an agent of Paddock?")
	}
	return &explained, nil
}
