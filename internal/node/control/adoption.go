package control

import (
	"slices"
	"time"

	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
)

// Adoption is the planning of pods that run without a grant, in the order of Boxes. It is a chain
// of two jobs, FindAll and AdmitAll. Each job has the Adoption, and so has its outcome. A rejected
// pod stays on the node shared pool. So does a pod that is not listed: it already runs there, and
// an estimate could not be corrected later.
type Adoption struct {
	Boxes []*Sandbox
	// name is the name of the jobs. until is the latest time at which they end.
	name  string
	until time.Time
	// of is the runtime that synchronises and waits for the pods. If nil, no runtime waits.
	of *synchronising
	// pods are the pods that are being planned. who has their names.
	pods []Candidate
	who  []string
	// version is the version of the state before the decisions.
	version uint64
}

// adoptLate plans the pods that run without a grant.
func (s *step) adoptLate() {
	boxes := s.without(s.podsThatRun())
	for uid, p := range s.pods.all() {
		if p.unplanned != "" && !slices.ContainsFunc(boxes, func(box *Sandbox) bool { return box.Pod == uid }) {
			s.pods.edit(s, uid).unplanned = ""
		}
	}
	if len(boxes) > 0 {
		s.adopt(Adoption{Boxes: boxes, name: "adopt", until: s.now.Add(s.config.Timeout)})
	}
}

func (s *step) adopt(a Adoption) { s.jobUntil(a.name, a.until, FindAll{a}) }

// AllFound is the outcome of FindAll: for each pod its request, or the reason why it is not known.
type AllFound struct {
	Of   Adoption
	Pods []request.Pod
	Errs []error
}

func (e AllFound) on(s *step) {
	a := e.Of
	if a.of != nil {
		own := *a.of
		a.of = &own
	}
	for i, box := range a.Boxes {
		if err := e.Errs[i]; err != nil {
			a.missed(box.Who)
			s.unplanned(box.Who, box.Pod, err)
			continue
		}
		pod := e.Pods[i]
		if s.repeats(s.pod(pod.UID).rejected, pod, s.now, &s.engine) != nil {
			continue // Its request or the node has to change first.
		}
		a.missed(box.Who)
		a.pods, a.who = append(a.pods, Candidate{pod, box.Grant}), append(a.who, box.Who)
	}
	if len(a.pods) == 0 {
		s.adopted(a)
		return
	}
	for _, c := range a.pods {
		s.pods.edit(s, c.Pod.UID).adopting = true
	}
	s.publish()
	a.version = s.engine.Version
	s.jobUntil(a.name, a.until, AdmitAll{Of: a, Pods: a.pods})
}

// missed notes a pod that started without Paddock, for the runtime that synchronises.
func (a *Adoption) missed(who string) {
	if a.of != nil {
		a.of.missed = append(slices.Clip(a.of.missed), who)
	}
}

// AllDecided is the outcome of AdmitAll: for each pod a plan, or the reason why there is none.
type AllDecided struct {
	Of    Adoption
	Plans []*node.Plan
	Errs  []error
}

func (e AllDecided) on(s *step) {
	a := e.Of
	for i, c := range a.pods {
		switch plan := e.Plans[i]; {
		case e.Errs[i] != nil:
			s.unplanned(a.who[i], c.Pod.UID, e.Errs[i])
		case plan.Rejection != nil:
			err := rejected(c.Pod, plan.Rejection)
			s.reject(c.Pod, a.version, err)
			s.alert("a running pod cannot be assigned what it requests: it stays on the node shared pool", "pod", a.who[i], "uid", c.Pod.UID, "error", err)
		}
	}
	s.adopted(a)
}

// adopted ends an adoption. The assignments of its pods are enforced from now on.
func (s *step) adopted(a Adoption) {
	if a.of != nil {
		s.synchronised(*a.of)
		return
	}
	s.endAdoption()
	s.push()
}

func (s *step) endAdoption() {
	for uid, p := range s.pods.all() {
		if p.adopting {
			s.pods.edit(s, uid).adopting = false
		}
	}
}

// unplanned notes that a running pod could not be planned. It logs each new reason once.
func (s *step) unplanned(who, uid string, why error) {
	if p := s.pods.edit(s, uid); p.unplanned != why.Error() {
		p.unplanned = why.Error()
		s.warn("a running pod cannot be planned yet; the agent tries again", "pod", who, "uid", uid, "error", why)
	}
}
