package resourceslices

import (
	"context"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/paddock-project/paddock/internal/codec/claims"
)

// claimTime limits the time of a request for a claim.
const claimTime = 5 * time.Second

// Claims requests ResourceClaims. It is safe for use by several goroutines.
type Claims struct{ client *rest.RESTClient }

// NewClaims returns a client of an API server. It sends no request.
func NewClaims(c *rest.Config) (*Claims, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, resourceapi.SchemeGroupVersion)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // for errors of the API server
	c = rest.CopyConfig(c)
	c.APIPath, c.GroupVersion = "/apis", &resourceapi.SchemeGroupVersion
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("ResourceClaims: %w", err)
	}
	return &Claims{client}, nil
}

// Allocation returns the devices that are allocated to a claim, or nil if there are none.
func (c *Claims) Allocation(ctx context.Context, namespace, name string) ([]claims.Allocated, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	result := c.client.Get().Namespace(namespace).Resource("resourceclaims").Name(name).Do(ctx)
	if err := result.Error(); err != nil { // Error has the text of the API server; Raw does not.
		return nil, fmt.Errorf("ResourceClaim %s/%s: %w", namespace, name, err)
	}
	data, err := result.Raw()
	if err != nil {
		return nil, fmt.Errorf("ResourceClaim %s/%s: %w", namespace, name, err)
	}
	devices, err := claims.ReadAllocation(data)
	if err != nil {
		return nil, fmt.Errorf("ResourceClaim %s/%s: %w", namespace, name, err)
	}
	return devices, nil
}
