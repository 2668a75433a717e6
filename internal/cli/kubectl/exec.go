package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
)

// ExitError is the nonzero exit code of a command that ran. The command has printed the reason.
type ExitError struct{ Code int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// run runs a command in the agent's container. It tries WebSocket first and then SPDY, as kubectl
// does, because proxies and API servers before 1.31 may support only SPDY.
func (c *Cluster) run(ctx context.Context, a Agent, command []string, stdout, stderr io.Writer) error {
	request := c.core.Get().Namespace(a.namespace).Resource("pods").Name(a.pod).SubResource("exec").
		Param("container", a.container).Param("stdout", "true").Param("stderr", "true")
	for _, arg := range command {
		request.Param("command", arg)
	}
	address := request.URL()
	byWebSocket, err := remotecommand.NewWebSocketExecutor(c.config, http.MethodGet, address.String())
	if err != nil {
		return err
	}
	bySPDY, err := remotecommand.NewSPDYExecutor(c.config, http.MethodPost, address)
	if err != nil {
		return err
	}
	// Only the WebSocket answer has a machine-readable status.
	var status *apierrors.StatusError
	executor, err := remotecommand.NewFallbackExecutor(byWebSocket, bySPDY, func(failed error) bool {
		if upgrade := (*httpstream.UpgradeFailureError)(nil); errors.As(failed, &upgrade) {
			errors.As(upgrade.Cause, &status)
			return !apierrors.IsUnauthorized(upgrade.Cause) && !apierrors.IsNotFound(upgrade.Cause)
		}
		return httpstream.IsHTTPSProxyError(failed)
	})
	if err != nil {
		return err
	}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: stdout, Stderr: stderr})
	if exit := (exec.CodeExitError{}); errors.As(err, &exit) {
		return &ExitError{exit.Code}
	}
	if err != nil {
		return c.notRun(ctx, a, status, err)
	}
	return nil
}

// notRun explains why a command did not run.
func (c *Cluster) notRun(ctx context.Context, a Agent, status *apierrors.StatusError, err error) error {
	if status != nil {
		err = status
	}
	where := fmt.Sprintf("pod %s/%s on node %s", a.namespace, a.pod, a.Node)
	switch text := err.Error(); {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the agent has just been replaced: %s is gone; try again", where)
	case strings.Contains(text, "error dialing backend"), strings.Contains(text, "proxy error from"):
		return fmt.Errorf("the API server does not reach the kubelet of node %s, so the agent there cannot be asked: %w", a.Node, err)
	case strings.Contains(text, "container not found"), strings.Contains(text, "not running"):
		return fmt.Errorf("the agent has just ended (%s): try again, or see kubectl -n %s logs %s --previous", where, a.namespace, a.pod)
	case strings.Contains(text, "no such file or directory"), strings.Contains(text, "executable file not found"):
		return fmt.Errorf("the container %s of %s has no program %s: is its image Paddock's?: %w", a.container, where, a.program, err)
	case status == nil && ctx.Err() == nil && strings.Contains(text, "error stream"):
		return fmt.Errorf("the connection to %s ended before the answer was complete: try again: %w", where, err)
	}
	return c.explained(ctx, permission{"create", "pods/exec", a.namespace}, err)
}
