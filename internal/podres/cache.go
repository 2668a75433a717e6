package podres

import (
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/paddock-project/paddock/internal/core/node"
)

// cache keeps one answer, as long as the state is the one that it is of. Readers of the same
// state share it without a lock; of those that find a new state one makes the answer and the
// others wait for it.
//
// States are compared as pointers and not by generation, which begins anew with a process.
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

// encodedList is list(s) with its wire form already made. To protobuf it is a message without
// fields whose bytes it does not know and passes on as they are: encoding it again is a copy.
func encodedList(s *node.State) (*podresourcesv1.ListPodResourcesResponse, error) {
	data, err := proto.Marshal(list(s))
	if err != nil {
		return nil, err
	}
	response := &podresourcesv1.ListPodResourcesResponse{}
	response.ProtoReflect().SetUnknown(data)
	return response, nil
}
