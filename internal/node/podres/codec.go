package podres

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// codec is the codec of gRPC, except for answers of an encoder: it passes their bytes on without a
// copy, so all calls share them. The codec of gRPC copies them for each call.
type codec struct{ encoding.CodecV2 }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, is := v.(*podresourcesv1.ListPodResourcesResponse); is && len(r.GetPodResources()) == 0 {
		if data := r.ProtoReflect().GetUnknown(); len(data) > 0 {
			return mem.BufferSlice{mem.SliceBuffer(data)}, nil
		}
	}
	return c.CodecV2.Marshal(v)
}
