package zones

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/paddock-project/paddock/internal/node/reconcile"
)

// ErrNotInstalled is returned if the API server has no CustomResourceDefinition of
// NodeResourceTopology.
var ErrNotInstalled = errors.New("the API server does not have " + resource + "." + group +
	": apply manifests/crd.yaml of github.com/k8stopologyawareschedwg/noderesourcetopology-api, or switch the export off")

// Client sends requests to an API server.
type Client struct{ rest rest.Interface }

// NewClient returns a client. It sends no request.
func NewClient(config *rest.Config) (*Client, error) {
	made, err := reconcile.NewClient(config)
	return &Client{made}, err
}

// path is the path of the collection of objects.
const path = "/apis/" + apiVersion + "/" + resource

// look returns the present object of a node, and the owner that it must have. If there is no
// object, it returns a new one without a resource version.
func (c *Client) look(ctx context.Context, name string) (*Object, metav1.OwnerReference, error) {
	owner, err := reconcile.Owner(ctx, c.rest, name)
	if err != nil {
		return nil, owner, err
	}
	o := &Object{}
	there, err := reconcile.Read(ctx, c.rest.Get().AbsPath(path, name), o)
	if err != nil {
		return nil, owner, fmt.Errorf("%s %s: %w", kind, name, err)
	}
	if !there {
		o.TypeMeta, o.Name = metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, name
	}
	return o, owner, nil
}

// put writes an object and returns the written object.
func (c *Client) put(ctx context.Context, o *Object) (*Object, error) {
	request := c.rest.Post().AbsPath(path)
	if o.ResourceVersion != "" {
		request = c.rest.Put().AbsPath(path, o.Name)
	}
	made, err := reconcile.Send(ctx, request, o)
	switch {
	case apierrors.IsNotFound(err) && o.ResourceVersion == "": // A creation fails with NotFound only if the definition is missing.
		return nil, ErrNotInstalled
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", kind, o.Name, reconcile.Lost(err))
	}
	return made, nil
}
