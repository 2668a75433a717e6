package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// requestTimeout limits one request. A slower API server is treated as one that does not answer.
const requestTimeout = 10 * time.Second

// errLost marks the error of a write that came too late.
var errLost = errors.New("another writer was faster")

// NewClient returns a client of the core API that uses JSON. It sends no request.
//
// The scheme has only the types that the client itself decodes: the Status with which an API server
// reports an error. The functions below decode objects. The scheme of client-go has every API
// group, adds 15 MB to a program, and takes tens of milliseconds at each start.
func NewClient(config *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, v1.SchemeGroupVersion)
	c := rest.CopyConfig(config)
	c.APIPath, c.GroupVersion = "/api", &v1.SchemeGroupVersion
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return rest.RESTClientFor(c)
}

// Owner asks a client of the core API for a Node, and returns the reference that makes it the owner
// of an object.
func Owner(ctx context.Context, core rest.Interface, name string) (metav1.OwnerReference, error) {
	var node metav1.PartialObjectMetadata
	err := do(ctx, core.Get().Resource("nodes").Name(name).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"), &node)
	if err != nil {
		return metav1.OwnerReference{}, fmt.Errorf("node %s: %w", name, err)
	}
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}, nil
}

// Read reads an object with a GET request. It reports whether the object exists.
func Read(ctx context.Context, get *rest.Request, object any) (there bool, err error) {
	err = do(ctx, get, object)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// Send writes an object with a POST or PUT request, and returns the object that the API server
// answers with.
func Send[T any](ctx context.Context, request *rest.Request, object *T) (*T, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	written := new(T)
	if err := do(ctx, request.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(data), written); err != nil {
		return nil, err
	}
	return written, nil
}

// Lost marks the error of a write, for Keep to return. If another writer was faster and created,
// changed or deleted the object, the Loop does not count the error as a failure.
func Lost(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return err
}

// do sends a request, and decodes the answer.
func do(ctx context.Context, request *rest.Request, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return err
	}
	data, err := result.Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
