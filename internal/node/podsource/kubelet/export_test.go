package kubelet

import (
	"io"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/absence"
)

// These are limits of an answer.
const (
	MaxItems      = maxItems
	MaxItem       = maxItem
	MaxContainers = maxContainers
)

// Read reads an answer as a Source does. It returns the pods that can be used, and the list.
func Read(r io.Reader, g podspec.Gates) (map[string]request.Pod, absence.List, error) {
	a := &answer{gates: g, pods: map[string]entry{}, left: maxWeight}
	a.list = absence.List{Pods: map[string]absence.Source{}, Ended: map[string]absence.Source{}}
	if err := readList(r, a.read); err != nil {
		return nil, absence.List{}, err
	}
	usable := map[string]request.Pod{}
	for uid, e := range a.pods {
		if e.err == nil {
			usable[uid] = e.pod
		}
	}
	return usable, a.list, nil
}

// Item returns one item as podspec reads it.
func Item(raw []byte) (*v1.Pod, error) {
	var i item
	if err := decodeItem(raw, true, &i); err != nil {
		return nil, err
	}
	return i.pod(), nil
}

// CloseIdle closes the connections of a source that does not run.
func CloseIdle(s *Source) { s.client.http.CloseIdleConnections() }
