package control

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
)

// The errors with which requests are answered. A runtime shows their text, and the kubelet tries
// again.
var (
	// ErrGone is the answer to a request of a connection that has ended.
	ErrGone = errors.New("paddock: the connection was closed")

	errEmptyPool = errors.New("it has no CPUs of its own, and the node shared pool is empty: free CPUs, or turn strict-cpu-reservation off")
	errReleased  = errors.New("its pod was released in the meantime; the kubelet tries again")
	errUndone    = errors.New("its creation was cancelled in the meantime; the kubelet tries again")
	errStopped   = errors.New("the agent did not run for some time and answers old requests; the kubelet tries again")
)

// unlistedFor is how long the loop waits for a container that CRI-O was creating when it
// synchronised, and did not show. If the container starts later, its start makes it known.
const unlistedFor = 10 * time.Second

// Container is a container as a request names it.
type Container struct {
	// ID is the runtime's ID. Pod is the UID of the pod.
	ID, Pod, Name string
	Path          string // path of its cgroup, as the runtime names it
}

func (c Container) record() container {
	return container{id: c.ID, pod: c.Pod, name: c.Name, path: c.Path}
}

// Managed is the answer to a request. Paddock decides about the request only if Managed is true: it
// then manages the node.
type Managed struct {
	Managed bool
	Err     error
}

// Placed is the answer to a request with updates.
type Placed struct {
	Setting converge.Setting
	Updates []converge.Update
	Noticed Noticed
	Err     error
	// by is the reply. made is the container that the reply creates. If empty, it creates none.
	by   *operation
	made string
}

// Undelivered is an event: an answer did not reach the runtime in time. The request has failed, and
// the container that it would have created does not exist. It is open whether the updates were
// applied.
type Undelivered struct{ Of Placed }

func (u Undelivered) on(s *step) {
	by := u.Of.by
	if by == nil {
		return
	}
	s.settle(func(other *operation) bool { return other == by }, (*container).doubt)
	if c := s.containers.get(u.Of.made); c != nil && c.phase == coming && c.replied == by.number {
		s.containers.remove(s, u.Of.made)
	}
	s.shortly()
}

// begin returns a new operation. The edge passes it to the runtime before the next event.
func (s *step) begin(creates string, unsolicited bool) *operation {
	s.number++
	return &operation{number: s.number, creates: creates, unsolicited: unsolicited, at: s.now}
}

// reply notes the updates in a reply, and reports stranded and exchanged containers.
func (s *step) reply(by *operation, a converge.Answer) {
	for _, u := range a.Updates {
		s.containers.edit(s, u.ID).send(by, u.After, s.want().Takes(u))
	}
	if len(a.Updates) > 0 {
		s.replies = append(slices.Clip(s.replies), by)
	}
	s.reportStranded(a.Stranded)
	if a.Exchanges {
		s.warn(exchanging, "containers", len(a.Updates))
	}
}

// exchanging is logged when no order of the updates in a reply is safe.
const exchanging = "another process has put containers on each other's CPUs: while the runtime exchanges them, some share CPUs"

// settle ends the wait for the replies for which done returns true: each was applied, or never will
// be. It calls end for every container with an update in such a reply.
func (s *step) settle(done func(*operation) bool, end func(*container, *operation)) {
	var open []*operation
	for _, by := range s.replies {
		if !done(by) {
			open = append(open, by)
			continue
		}
		for id, c := range s.containers.all() {
			if c.inReply(by) {
				end(s.containers.edit(s, id), by)
			}
		}
	}
	s.replies = open
}

// asked must be called first for every request of the runtime. It reports whether the connection is
// the present one. A runtime asks under the lock under which it applied the last reply, so a
// request settles the replies that create no container. For a reply that creates one, Created or
// End shows whether the container was created.
func (s *step) asked(connection uint64) bool {
	if connection != s.link.id || connection == 0 {
		return false
	}
	s.link.heard = s.now
	s.settle(func(by *operation) bool { return by.creates == "" }, (*container).doubt)
	return true
}

// Enter is an event: a sandbox is being created. Managed is the answer.
type Enter struct {
	Connection uint64
	Box        *Sandbox
}

func (e Enter) on(s *step) {
	switch {
	case s.renewing(e.Connection):
		s.answer(Managed{Err: errRenewing})
		return
	case !s.asked(e.Connection):
		s.answer(Managed{Err: ErrGone})
		return
	}
	// The kubelet stops the sandbox of a pod before it creates the next one. If others are known,
	// they failed after the answer, or their end was not reported.
	for _, box := range s.boxesOf(e.Box.Pod) {
		s.leaveBox(box.Pod, box.ID)
	}
	s.enterBox(e.Box)
	s.heardOf(e.Box.Pod)
	s.answer(Managed{Managed: s.managed()})
}

// Leave is an event: a sandbox of a pod is gone. The pod, which has the UID Pod, keeps everything,
// because a new sandbox may follow.
type Leave struct {
	Connection uint64
	Pod, ID    string
}

func (e Leave) on(s *step) {
	defer s.answer(nil)
	if !s.asked(e.Connection) {
		return
	}
	if s.leaveBox(e.Pod, e.ID) {
		s.heardOf(e.Pod)
		s.shortly()
	}
}

// Come is an event: a container is being created or changed. Pinned is the setting that another
// manager chose for it. If nil, none did. While there is a container with such a setting, Paddock
// does not manage this node. Managed is the answer.
type Come struct {
	Connection    uint64
	ID, Pod, Name string
	Pinned        *converge.Setting
}

func (e Come) on(s *step) {
	switch {
	case s.renewing(e.Connection):
		s.answer(Managed{Err: errRenewing})
	case e.Pinned == nil:
		s.answer(Managed{Managed: s.managed()})
	case !s.asked(e.Connection):
		s.answer(Managed{Err: ErrGone})
	default:
		first := s.foreign.len() == 0
		s.foreign.put(s, e.ID, foreigner{e.Pod, e.Name, *e.Pinned})
		s.publishUnmanaged(first)
		s.answer(Managed{})
	}
}

// Create is an event: a container is being created. Placed is the answer. It has the container's
// setting, and the updates of the containers that make room.
type Create struct {
	Connection uint64
	Box        *Sandbox
	Of         Container
}

func (e Create) on(s *step) { s.answer(s.create(e)) }

func (s *step) create(e Create) Placed {
	if !s.asked(e.Connection) {
		return Placed{Err: ErrGone}
	}
	if err := s.outdated(e.Of.ID); err != nil {
		return Placed{Err: err}
	}
	s.meet(e.Box)
	w, c := s.want(), e.Of.record()
	if s.grant(c.pod) == nil {
		return Placed{Err: errReleased}
	}
	setting := w.Setting(c.pod, c.name)
	if setting.CPUs.IsEmpty() && w.State().Policy().StaticCPU {
		return Placed{Setting: setting, Err: errEmptyPool}
	}
	c.own = w.Owns(c.pod, c.name)
	a := s.updates(converge.Occasion{By: converge.Merged, Creates: &converge.Container{ID: c.id, Pod: c.pod, Name: c.name}})
	if by := a.Blocker; by != nil {
		s.soon()
		phase := by.Phase.String()
		if s.isStopping(s.containers.get(by.ID)) {
			s.shortly() // The agent writes its cgroup.
			phase = "stopping"
		}
		return Placed{Err: fmt.Errorf("its CPUs %s are not free yet: container %s of pod %s is being moved away and may still run on some of them (%s); the kubelet tries again",
			setting.CPUs, by.Name, s.who(by.Pod), phase)}
	}
	s.do(ContainerCreated{c.pod, c.name})
	s.heardOf(c.pod)
	by := s.begin(c.id, false)
	s.reply(by, a)
	c.has, c.phase, c.replied, c.since = setting, coming, s.number, s.now
	s.containers.put(s, c.id, c)
	if a.Withheld > 0 {
		s.soon()
	}
	return Placed{Setting: setting, Updates: a.Updates, Noticed: s.noticed(&c, setting), by: by, made: c.id}
}

// outdated returns the reason why the creation of a container is not answered any more. Either the
// runtime has already reported the end of the container, because requests that wait are handled in
// any order. Or the process was stopped, and the request is probably from that time.
func (s *step) outdated(id string) error {
	if s.gone.get(id) != nil {
		return errUndone
	}
	s.noteStop()
	if !s.stopped.IsZero() && s.now.Sub(s.resumed) < s.config.Timeout {
		return errStopped
	}
	return nil
}

// Created is an event: the runtime has a container. It has made the updates in the reply to the
// creation.
type Created Create

func (e Created) on(s *step) {
	defer s.answer(nil)
	if s.asked(e.Connection) {
		s.learn(e.Box, e.Of)
		s.settle(func(by *operation) bool { return by.creates == e.Of.ID }, (*container).made)
	}
}

// Started is an event: a container runs. Changes since its creation reach it now.
type Started Create

func (e Started) on(s *step) {
	defer s.answer(nil)
	if !s.asked(e.Connection) {
		return
	}
	s.learn(e.Box, e.Of)
	if s.containers.get(e.Of.ID) == nil {
		return
	}
	c := s.containers.edit(s, e.Of.ID)
	c.started()
	if !c.everything().CPUs.Equal(s.want().Setting(c.pod, c.name).CPUs) {
		s.shortly()
	}
}

// End is an event: a container has ended, or its creation failed. Its pod keeps everything, because
// the container may start again. Placed is the answer. If Replies is true, the request has a reply,
// and Placed has the updates that other containers wait for.
type End struct {
	Connection uint64
	ID, Pod    string
	Replies    bool
}

func (e End) on(s *step) { s.answer(s.endOf(e)) }

func (s *step) endOf(e End) Placed {
	if !s.asked(e.Connection) {
		return Placed{Err: ErrGone}
	}
	s.settle(func(by *operation) bool { return by.creates == e.ID }, (*container).doubt)
	s.containers.remove(s, e.ID)
	s.gone.put(s, e.ID, s.now)
	s.freed(e.ID)
	s.heardOf(e.Pod)
	s.shortly()
	if !e.Replies || !s.managed() {
		return Placed{}
	}
	a := s.updates(converge.Occasion{By: converge.Merged})
	by := s.begin("", false)
	s.reply(by, a)
	return Placed{Updates: a.Updates, by: by}
}

// freed notes the end of a container that another manager pinned. After the last one, the runtime
// is asked to synchronise again, because nothing was done for the containers that were created
// meanwhile.
func (s *step) freed(id string) {
	if s.foreign.get(id) == nil {
		return
	}
	s.foreign.remove(s, id)
	if s.foreign.len() == 0 {
		s.info("another manager no longer pins any container: Paddock manages this node again")
		s.link.mode = resuming
		s.shortly()
	}
	s.publish()
}

// learn adds a container that a request names and the table does not have. The runtime created it
// while it was not connected to Paddock, or shortly before it synchronised. CRI-O lists a container
// only after its creation. Unlike containerd (NRI's BlockPluginSync), it does not delay a
// synchronisation until the creations that are under way have ended. The CPUs and memory nodes of
// the container are not known, so it counts as running everywhere until its cgroup is read. The
// next round plans its pod and updates it.
func (s *step) learn(box *Sandbox, of Container) {
	if s.containers.get(of.ID) != nil || s.gone.get(of.ID) != nil || of.Pod == "" || !s.managed() {
		return
	}
	s.meet(box)
	c := of.record()
	c.phase, c.since = learned, s.now
	s.containers.put(s, c.id, c)
	s.heardOf(c.pod)
	s.shortly()
	s.warn("a container was created without Paddock: it gets its CPUs as soon as it runs",
		"pod", box.Who, "uid", c.pod, "container", c.name, "id", c.id)
}

// meet adds the sandbox of a container if the sandbox was created without Paddock.
func (s *step) meet(box *Sandbox) {
	if !slices.ContainsFunc(s.boxesOf(box.Pod), func(b *Sandbox) bool { return b.ID == box.ID }) {
		s.enterBox(box)
	}
}

// keepGone forgets containers that ended some time ago, because no request names them any more. It
// also forgets those of which it is only known that they were being created when CRI-O
// synchronised.
func (s *step) keepGone() {
	s.containers.removeIf(s, func(_ string, c *container) bool {
		return c.phase == unlisted && s.now.Sub(c.since) > unlistedFor
	})
	s.gone.removeIf(s, func(_ string, at *time.Time) bool { return s.now.Sub(*at) > creation })
}
