package fleetwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/paddock-project/paddock/internal/base/authorizer"
)

// contact tracks whether the API server answers. It observes every request of the watches.
type contact struct {
	now     func() time.Time
	changed func()

	mu sync.Mutex
	// trouble is the current problem of each resource. All clients of one watch share it.
	trouble map[string]trouble
	allowed map[string]*authorizer.Watch // by resource
}

type trouble struct {
	since time.Time
	why   string
}

// wrap has the signature of WrapTransport in rest.Config.
func (c *contact) wrap(next http.RoundTripper) http.RoundTripper { return through{c, next} }

type through struct {
	*contact
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t through) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(r)
	resource := path.Base(r.URL.Path)
	switch {
	case r.Context().Err() != nil: // The request was canceled on purpose.
	case resource == readyz: // Check asks for it, whatever the answer is.
	case err != nil:
		t.starting(resource, authorizer.Failed)
		t.note(resource, err.Error())
	case answer.StatusCode == http.StatusForbidden && t.starting(resource, authorizer.Forbidden):
		t.note(resource, "the API server is starting: it forbids requests until it has read its roles")
	case answer.StatusCode >= http.StatusBadRequest && answer.StatusCode != http.StatusGone && answer.StatusCode != http.StatusUnprocessableEntity:
		// 410 and 422 make the reflector list again in another way. They are not a problem.
		if answer.StatusCode != http.StatusForbidden {
			t.starting(resource, authorizer.Failed)
		}
		t.note(resource, "the API server answers "+answer.Status)
	case answer.StatusCode < http.StatusBadRequest:
		t.starting(resource, authorizer.Allowed)
		t.note(resource, "")
		answer.Body = &watched{answer.Body, t.contact, resource, r.Context()}
	}
	return answer, err
}

// readyz is the resource of the path /readyz.
const readyz = "readyz"

// starting takes in an answer about a resource. It reports whether it is Forbidden and not yet a
// missing permission.
func (c *contact) starting(resource string, a authorizer.Answer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.allowed[resource]
	if w == nil {
		w = &authorizer.Watch{}
		c.allowed[resource] = w
	}
	return w.Starting(a, c.now())
}

// watched is the body of a response, which may break long after it began.
type watched struct {
	io.ReadCloser
	contact  *contact
	resource string
	ctx      context.Context //nolint:containedctx // It belongs to the request. A deliberate end is not a problem.
}

// Read implements io.Reader.
func (b *watched) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	if err != nil && !errors.Is(err, io.EOF) && b.ctx.Err() == nil {
		b.contact.note(b.resource, err.Error())
	}
	return n, err
}

// note records the problem of a resource. If why is empty, there is none.
func (c *contact) note(resource, why string) {
	c.mu.Lock()
	before, was := c.trouble[resource]
	switch {
	case why == "":
		delete(c.trouble, resource)
	case was:
		c.trouble[resource] = trouble{before.since, why}
	default:
		c.trouble[resource] = trouble{c.now(), why}
	}
	c.mu.Unlock()
	if was || why != "" {
		c.changed()
	}
}

// worst returns the oldest problem.
func (c *contact) worst() (since time.Time, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for resource, t := range c.trouble {
		if why == "" || t.since.Before(since) || t.since.Equal(since) && resource < why {
			since, why = t.since, resource+": "+t.why
		}
	}
	return since, why
}

// Check reads one object of each kind. The error names the first kind that cannot be read, and what
// to do.
func (w *Watch) Check(ctx context.Context) error {
	for _, a := range []struct {
		resource string
		client   rest.Interface
	}{{"nodes", w.core}, {"pods", w.core}, {"paddocknodes", w.custom}, {"paddockmachines", w.custom}} {
		err := a.client.Get().Resource(a.resource).Param("limit", "1").Do(ctx).Error()
		switch {
		case err == nil:
		case apierrors.IsForbidden(err):
			var status int
			w.core.Get().AbsPath("/" + readyz).Do(ctx).StatusCode(&status)
			if starting := authorizer.Unready(err, status); authorizer.IsStarting(starting) {
				return fmt.Errorf("the %s of the cluster cannot be read: %w", a.resource, starting)
			}
			return fmt.Errorf("%w; a ClusterRole must allow to list and watch nodes and pods, and paddocknodes and paddockmachines of paddock-project.github.io: deploy/fleet/rbac.yaml has one", err)
		case apierrors.IsNotFound(err):
			return fmt.Errorf("the cluster has no %s: install the CRDs of deploy/, and let the agents publish their nodes (publish: true)", a.resource)
		case apierrors.IsUnauthorized(err):
			return fmt.Errorf("the API server does not accept the credentials; they may have expired: log in again, or choose another --context: %w", err)
		default:
			return fmt.Errorf("the %s of the cluster cannot be read: %w", a.resource, err)
		}
	}
	return nil
}
