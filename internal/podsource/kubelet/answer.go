package kubelet

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/absence"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/podspec"
)

// answer is a list while it is read. A broken item costs itself: the pod is there, without a specification, if its
// UID can be read, and is counted otherwise.
type answer struct {
	gates podspec.Gates
	pods  map[string]entry // those that have not ended
	list  absence.List
	left  int   // of maxWeight
	first error // what was wrong with the first item without a UID
}

// read reads an item. An error is one of the whole answer.
func (a *answer) read(raw []byte, whole bool) error {
	var i item
	err := errTooMany // Nothing more is decoded then, but for who it is.
	if a.left >= 0 {
		err = decodeItem(raw, whole, &i)
	}
	if err == nil {
		err = i.Metadata.check()
	}
	if errors.Is(err, errSyntax) {
		return err
	}
	if err != nil {
		i = item{Metadata: identity(raw)}
	}
	uid, source := i.Metadata.UID, absence.ParseSource(i.Metadata.Annotations.Source)
	_, listed := a.list.Pods[uid]
	_, ended := a.list.Ended[uid]
	switch {
	case uid == "":
		a.list.Unreadable++
		if a.first == nil {
			a.first = fmt.Errorf("an item without a readable UID: %.200q", raw)
		}
		return nil
	case listed || ended:
		err = errors.New("the kubelet lists its UID twice")
		delete(a.list.Ended, uid)
	case err == nil && (i.Status.Phase == v1.PodSucceeded || i.Status.Phase == v1.PodFailed):
		a.list.Ended[uid] = source
		return nil
	}
	a.list.Pods[uid] = source
	a.pods[uid] = a.entry(&i, err)
	return nil
}

// check makes sure that the names are some.
func (m *meta) check() error {
	for what, name := range map[string]string{"its UID": m.UID, "its name": m.Name, "its namespace": m.Namespace} {
		if err := checkName(what, name, maxName); err != nil {
			return err
		}
	}
	return nil
}

// entry is the pod in numbers, or with its names only and what is wrong.
func (a *answer) entry(i *item, err error) entry {
	if err == nil {
		if a.left -= i.weight(); a.left < 0 {
			err = errTooMany
		}
	}
	m := &i.Metadata
	var asked request.Pod
	if err == nil {
		asked, err = podspec.Request(podspec.Default(i.pod(), a.gates), a.gates)
	}
	if err != nil {
		return entry{
			request.Pod{UID: m.UID, Namespace: m.Namespace, Name: m.Name},
			fmt.Errorf("pod %s/%s: %w: %s", m.Namespace, m.Name, ErrUnusablePod, brief(err)),
		}
	}
	return entry{pod: asked}
}

// unreadable is the error about items that could be any pod.
func (a *answer) unreadable() error {
	if a.list.Unreadable == 0 {
		return nil
	}
	return fmt.Errorf("the kubelet's list has %d items that could be any pod: %w", a.list.Unreadable, a.first)
}
