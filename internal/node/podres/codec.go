package podres

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// codec is gRPC's own, except for answers of encoder: their bytes are passed on, and all calls
// share them. gRPC's own codec copies them for each call.
type codec struct{ encoding.CodecV2 }

// Marshal is encoding.CodecV2's.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, is := v.(*podresourcesv1.ListPodResourcesResponse); is && len(r.GetPodResources()) == 0 {
		if data := r.ProtoReflect().GetUnknown(); len(data) > 0 {
			return mem.BufferSlice{mem.SliceBuffer(data)}, nil
		}
	}
	return c.CodecV2.Marshal(v)
}
