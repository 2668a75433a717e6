package podres

import (
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/paddock-project/paddock/internal/core/device"
	"github.com/paddock-project/paddock/internal/core/node"
)

// cache keeps one answer for as long as its state is current. Readers of the same state share the
// answer without a lock. When the state changes, one reader computes the answer and the others wait
// for it. States are compared as pointers, because the generation of a state starts at 1 again in
// each process.
type cache[T any] struct {
	last atomic.Pointer[cached[T]]
	mu   sync.Mutex
}

type cached[T any] struct {
	state  *node.State
	answer T
	err    error
}

func (c *cache[T]) of(s *node.State, answer func(*node.State) (T, error)) (T, error) {
	if last := c.last.Load(); last != nil && last.state == s {
		return last.answer, last.err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.last.Load(); last != nil && last.state == s {
		return last.answer, last.err
	}
	fresh := &cached[T]{state: s}
	fresh.answer, fresh.err = answer(s)
	c.last.Store(fresh)
	return fresh.answer, fresh.err
}

// encoder encodes answers to List. It keeps the encoded part of each pod, because an admission
// changes only one of them. It must be used by one goroutine at a time.
type encoder struct {
	inventory *device.Inventory
	pods      map[*node.Grant][]byte
}

// list returns the answer to List for s in encoded form. For protobuf it is a message without known
// fields, whose unknown bytes are passed on unchanged: encoding it again is a copy.
func (e *encoder) list(s *node.State) (*podresourcesv1.ListPodResourcesResponse, error) {
	before := e.pods
	if inventory := s.Devices().Inventory(); inventory != e.inventory {
		e.inventory, before = inventory, nil
	}
	grants, size := ordered(s), 0
	e.pods = make(map[*node.Grant][]byte, len(grants))
	for _, g := range grants {
		pod, known := before[g]
		if !known {
			var err error
			if pod, err = proto.Marshal(podResources(s, g)); err != nil {
				return nil, err
			}
		}
		e.pods[g] = pod
		size += protowire.SizeTag(podsField) + protowire.SizeBytes(len(pod))
	}
	data := make([]byte, 0, size)
	for _, g := range grants {
		data = protowire.AppendTag(data, podsField, protowire.BytesType)
		data = protowire.AppendBytes(data, e.pods[g])
	}
	response := &podresourcesv1.ListPodResourcesResponse{}
	response.ProtoReflect().SetUnknown(data)
	return response, nil
}

// podsField is the number of pod_resources in ListPodResourcesResponse.
const podsField = 1
