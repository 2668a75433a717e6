package kubelet

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/paddock-project/paddock/internal/codec/claims"
	"github.com/paddock-project/paddock/internal/codec/handover"
	"github.com/paddock-project/paddock/internal/codec/podspec"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/absence"
)

// answer is a list that is being read. A broken item affects only its pod: if the UID can be read,
// the pod is listed without a specification; otherwise the item is counted.
type answer struct {
	gates podspec.Gates
	pods  map[string]entry // the pods that have not ended
	list  absence.List
	begun []handover.Name
	left  int   // what is left of maxWeight
	texts int   // bytes of the grant annotations so far
	first error // the error of the first item without a UID
}

// read decodes an item. An error makes the whole answer invalid.
func (a *answer) read(raw []byte, whole bool) error {
	var i item
	err := errTooMany // With this error only the identity is decoded.
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
	if uid == "" {
		a.list.Unreadable++
		if a.first == nil {
			a.first = fmt.Errorf("an item without a readable UID: %.200q", raw)
		}
		return nil
	}
	if i.Status.Phase != v1.PodPending { // The phase of an item that cannot be decoded is not known.
		a.begun = append(a.begun, handover.Name{Namespace: i.Metadata.Namespace, Name: i.Metadata.Name})
	}
	_, listed := a.list.Pods[uid]
	_, ended := a.list.Ended[uid]
	switch {
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

// check returns an error if a name is too long.
func (m *meta) check() error {
	for what, name := range map[string]string{"its UID": m.UID, "its name": m.Name, "its namespace": m.Namespace} {
		if err := checkName(what, name, maxName); err != nil {
			return err
		}
	}
	return nil
}

// entry returns the pod as a request, or an error with the pod's names.
func (a *answer) entry(i *item, err error) entry {
	if err == nil {
		if a.left -= i.weight(); a.left < 0 {
			err = errTooMany
		}
	}
	m := &i.Metadata
	var asked request.Pod
	if err == nil {
		pod := i.pod()
		asked, err = podspec.Request(podspec.Default(pod, a.gates), a.gates)
		asked.ResourceClaims = claims.UsesOf(pod)
	}
	if err != nil {
		return entry{
			pod: request.Pod{Identity: request.Identity{UID: m.UID, Namespace: m.Namespace, Name: m.Name}},
			err: fmt.Errorf("pod %s/%s: %w: %s", m.Namespace, m.Name, ErrUnusablePod, brief(err)),
		}
	}
	// A time that cannot be parsed counts as none. Manifests are read with a note about it.
	quiet, _ := podspec.Quiet(m.Annotations.Quiet)
	return entry{pod: asked, text: a.text(m), pending: string(i.Status.Conditions), quiet: quiet, odd: m.Annotations.odd}
}

// text returns the grant in the pod's annotation. A grant that is too large is cut off, so that it
// is still too large. Beyond maxTexts it returns none.
func (a *answer) text(m *meta) string {
	text := m.Annotations.Grant
	if text == "" || absence.ParseSource(m.Annotations.Source) != absence.FromAPI {
		return ""
	}
	text = strings.Clone(text[:min(len(text), handover.MaxSize+1)])
	if a.texts += len(text); a.texts > maxTexts {
		return ""
	}
	return text
}

// listing returns the pods that can be used, and the UIDs of those that cannot.
func (a *answer) listing() *handover.Listing {
	l := &handover.Listing{Pods: make(map[string]handover.Bound, len(a.pods)), Begun: a.begun, Asked: a.list.Asked}
	for uid, e := range a.pods {
		if e.err != nil {
			l.Unusable = append(l.Unusable, uid)
			continue
		}
		l.Pods[uid] = handover.Bound{Pod: e.pod, Annotation: e.text}
	}
	return l
}

// unreadable returns an error if there are items that could be any pod.
func (a *answer) unreadable() error {
	if a.list.Unreadable == 0 {
		return nil
	}
	return fmt.Errorf("the kubelet's list has %d items that cannot be attributed to a pod: %w", a.list.Unreadable, a.first)
}
