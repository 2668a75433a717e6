package kubectl

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/paddock-project/paddock/internal/base/authorizer"
)

// permission is the permission that a request needs.
type permission struct{ verb, resource, namespace string }

// explained adds what to do to an error of the API server.
func (c *Cluster) explained(ctx context.Context, needs permission, err error) error {
	server := c.config.Host
	unreachable := (*url.Error)(nil)
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server %s does not accept the credentials%s; they may have expired: log in again, or choose another --context or --user: %w",
			server, c.ofContext(), err)
	case apierrors.IsForbidden(err):
		if starting := authorizer.Unready(err, c.readyz(ctx)); authorizer.IsStarting(starting) {
			return fmt.Errorf("%w (%s%s)", starting, server, c.ofContext())
		}
		role := fmt.Sprintf("a role in the namespace %s must allow to %s %s", needs.namespace, needs.verb, needs.resource)
		if needs.verb != "get" { // This is the agents' namespace.
			role += " (the chart makes one: rbac.kubectl)"
		}
		return fmt.Errorf("%w; %s", err, role)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w in the namespace %s; if it was deleted, its node may still know it: add --node NODE", err, needs.namespace)
	case errors.Is(ctx.Err(), context.DeadlineExceeded): // Which operation fails first is random and not the reason.
		return fmt.Errorf("no answer within %v; --request-timeout gives it longer: %w", c.patience, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %v; --request-timeout gives it longer: %w", c.patience, err)
	case errors.As(err, &unreachable):
		return fmt.Errorf("the API server %s%s cannot be reached: %w", server, c.ofContext(), unreachable.Err)
	}
	return fmt.Errorf("to %s %s in the namespace %s: %w", needs.verb, needs.resource, needs.namespace, err)
}

// readyz returns the status of the answer to /readyz, or zero without an answer.
func (c *Cluster) readyz(ctx context.Context) (status int) {
	c.core.Get().AbsPath("/readyz").Do(ctx).StatusCode(&status)
	return status
}

// ofContext names the context, if the files have one.
func (c *Cluster) ofContext() string {
	if c.context == "" {
		return ""
	}
	return fmt.Sprintf(" of the context %q", c.context)
}
