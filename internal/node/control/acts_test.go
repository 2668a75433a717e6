package control

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// This file has what a runtime, a kubelet and others do to a world, as commands of a scenario:
//
//	run POD CPUS       list a pod and start it; without CPUS, or with 0, it shares
//	create POD CPUS    the same, and its container is not reported yet
//	report             what was created is reported and starts
//	again POD          its container ends and is created again
//	stop POD           its container and its sandbox end; it stays listed
//	end POD            the same, and it is gone
//	resize POD CPUS    the kubelet resizes it
//	move POD           its move to another place becomes durable, if there is one
//	drift POD CPUS     another process writes its cgroup: a list of CPUs
//	lose N             the next N updates of containers are lost
//	hold, go           jobs and unsolicited updates wait, or go on
//	crash              the agent ends and starts again on what is durable, and connects
//	disconnect, connect
//	runtime old|new    the next connection takes no unsolicited updates, or does
//	wait DURATION
func (w *world) command(name string, args []string) []string {
	uid, amount := "", 0
	if len(args) > 0 {
		uid = args[0]
		amount, _ = strconv.Atoi(uid)
	}
	cpus := 0
	if len(args) > 1 {
		cpus, _ = strconv.Atoi(args[1])
	}
	if !w.commandOfPod(name, uid, cpus) {
		w.commandOfNode(name, uid, amount, args)
	}
	w.goOn()
	return w.where()
}

// commandOfPod carries out a command about a pod. It reports whether it is one.
func (w *world) commandOfPod(name, uid string, cpus int) bool {
	switch name {
	case "run", "create":
		w.listed[uid] = podOf(uid, cpus)
		if w.create(uid) && name == "run" {
			w.report()
		}
	case "again":
		w.endContainers(uid)
		if w.create(uid) {
			w.report()
		}
	case "stop", "end":
		w.stop(uid)
		if name == "end" {
			delete(w.listed, uid)
		}
	case "resize":
		w.resize(uid, cpus)
	case "move":
		w.move(uid)
	default:
		return false
	}
	return true
}

// commandOfNode carries out the other commands.
func (w *world) commandOfNode(name, uid string, amount int, args []string) {
	switch name {
	case "report":
		w.report()
	case "drift":
		w.drift(uid, args[1])
	case "lose":
		w.lose = amount
	case "hold", "go":
		w.holds = name == "hold"
	case "crash":
		w.disconnect()
		w.boot()
		w.connect()
	case "disconnect":
		w.disconnect()
	case "connect":
		w.disconnect()
		w.connect()
	case "runtime":
		w.mayUpdate = uid == "new"
	case "wait":
		d, err := time.ParseDuration(uid)
		if err != nil {
			w.t.Fatal(err)
		}
		w.wait(d)
	default:
		w.t.Fatalf("no command %q", name)
	}
}

// podOf is a pod with one container: it has that many CPUs, or shares.
func podOf(uid string, cpus int) request.Pod {
	pod := request.Pod{UID: uid, Namespace: "default", Name: uid, QoS: request.Burstable, Containers: []request.Container{{Name: "app", Type: request.App, Sharing: request.NotEquivalent}}}
	if cpus > 0 {
		milli := int64(cpus) * 1000
		pod.QoS = request.Guaranteed
		pod.Containers[0] = request.Container{
			Name: "app", Type: request.App, CPUs: cpus, CPURequest: milli, CPULimit: milli, Equivalent: true, Sharing: request.NotShared,
			Memory: request.Amounts{{Resource: machine.Memory, Value: 64 << 20}},
		}
	}
	return pod
}

func (w *world) failed(what string, err error) { w.errs = append(w.errs, what+": "+err.Error()) }

// create creates a pod's sandbox and container. It reports whether the container is there.
func (w *world) create(uid string) bool {
	pod, listed := w.listed[uid]
	if !listed || w.containerOf(uid) != nil {
		return false
	}
	w.lastID++
	box := &Sandbox{ID: fmt.Sprint("box-", w.lastID), Pod: uid, Who: "default/" + uid, Parent: "/pod" + uid}
	w.boxes[uid] = box
	r := &running{id: fmt.Sprintf("c-%03d", w.lastID), pod: uid, name: "app"}
	if w.connection == 0 {
		w.running[r.id] = r
		w.observe(sim.Replied, "", r, r.setting)
		return true
	}
	if m, _ := w.step(Enter{w.connection, box}).(Managed); m.Err != nil || !m.Managed {
		return false
	}
	if err := w.admit(pod); err != nil {
		w.failed(uid, err)
		w.step(Leave{w.connection, box.ID})
		return false
	}
	p, _ := w.step(Create{w.connection, box, w.of(r)}).(Placed)
	if p.Err != nil {
		w.failed(uid, p.Err)
		w.step(End{w.connection, r.id, uid, false})
		return false
	}
	w.update("CreateContainer", p.Updates)
	r.setting = p.Setting
	w.running[r.id] = r
	w.observe(sim.Replied, "CreateContainer", r, r.setting)
	return true
}

func (w *world) of(r *running) Container { return Container{r.id, r.pod, r.name, r.id} }

// admit makes sure that a pod has a durable grant.
func (w *world) admit(pod request.Pod) error {
	if _, there := w.state.Grant(pod.UID); there {
		return nil
	}
	if w.state.Plan(pod).Rejection != nil {
		traces, _ := w.step(Unused{}).(map[string]Trace)
		w.step(Release{w.listing(traces)})
	}
	if err, _ := w.step(Ask{Pod: pod}).(error); err != nil {
		return err
	}
	plan, version := w.state.Plan(pod), w.version
	if plan.Rejection != nil {
		w.step(Rejected{Rejection{Pod: pod, Version: version, Err: plan.Rejection}})
		return plan.Rejection
	}
	next, err := w.state.Apply(plan)
	if err == nil {
		w.apply(next)
	}
	return err
}

func (w *world) adopt(boxes []*Sandbox) {
	for _, box := range boxes {
		pod, listed := w.listed[box.Pod]
		switch {
		case !listed:
			w.step(Unplanned{box.Who, box.Pod, errors.New("the pod is not listed")})
		case w.admit(pod) == nil:
			w.step(Adopting{[]string{box.Pod}})
		}
	}
}

// report reports what was created, and starts it.
func (w *world) report() {
	for _, id := range slices.Sorted(maps.Keys(w.running)) {
		r := w.running[id]
		if r.begun {
			continue
		}
		r.begun = true
		if box := w.boxes[r.pod]; w.connection != 0 {
			w.step(Created{w.connection, box, w.of(r)})
			w.step(Started{w.connection, box, w.of(r)})
		}
	}
}

func (w *world) containerOf(uid string) *running {
	for _, r := range w.running {
		if r.pod == uid {
			return r
		}
	}
	return nil
}

func (w *world) endContainers(uid string) {
	r := w.containerOf(uid)
	if r == nil {
		return
	}
	delete(w.running, r.id)
	w.observe(sim.Stopped, "", r, r.setting)
	if w.connection == 0 {
		return
	}
	p, _ := w.step(End{w.connection, r.id, uid, true}).(Placed)
	w.update("StopContainer", p.Updates)
}

func (w *world) stop(uid string) {
	w.endContainers(uid)
	if box := w.boxes[uid]; box != nil && w.connection != 0 {
		w.step(Leave{w.connection, box.ID})
	}
	delete(w.boxes, uid)
}

func (w *world) connect() {
	w.connections++
	w.connection = w.connections
	w.step(Connected{w.connection})
	w.step(Configured{Connection: w.connection, MayUpdate: w.mayUpdate})
	shows := Synchronising{Connection: w.connection}
	for _, uid := range slices.Sorted(maps.Keys(w.boxes)) {
		shows.Boxes = append(shows.Boxes, w.boxes[uid])
	}
	for _, id := range slices.Sorted(maps.Keys(w.running)) {
		r := w.running[id]
		life := IsCreated
		if r.begun {
			life = IsRunning
		}
		shows.Containers = append(shows.Containers, Shown{Container: w.of(r), Box: w.boxes[r.pod].ID, Life: life, Setting: r.setting})
	}
	do, _ := w.step(shows).(ToDo)
	w.read(do.Sights)
	if do.Managed {
		w.adopt(do.Without)
	}
	p, _ := w.step(Synchronise{w.connection, do.Unasked, do.Sights}).(Placed)
	w.update("Synchronize", p.Updates)
}

func (w *world) disconnect() {
	if w.connection != 0 {
		was := w.connection
		w.connection = 0
		w.step(Disconnected{was})
	}
}

func (w *world) decideResize(pod request.Pod, asked bool) error {
	plan := w.state.Resize(pod.UID, pod)
	var err error
	if plan.Rejection != nil {
		err = plan.Rejection
	} else if next, failed := w.state.Apply(plan); failed == nil {
		w.apply(next)
	}
	w.step(Resized{Rejection{Pod: pod, Version: w.version, Err: err}, asked})
	return err
}

func (w *world) resize(uid string, cpus int) {
	r, g := w.containerOf(uid), w.listed[uid]
	if r == nil || !r.begun || cpus == 0 || g.QoS != request.Guaranteed || w.connection == 0 {
		return
	}
	pod := podOf(uid, cpus)
	w.step(Resizing{w.connection, uid, true})
	if err := w.decideResize(pod, true); err != nil {
		w.failed(uid, err)
		return
	}
	w.listed[uid] = pod
	p, _ := w.step(ResizeContainer{Connection: w.connection, Box: w.boxes[uid], Of: w.of(r)}).(Placed)
	w.update("UpdateContainer", p.Updates)
}

// move makes the begin of a move durable.
func (w *world) move(uid string) {
	g, there := w.state.Grant(uid)
	if !there || g.Moving != nil || g.Pod.QoS != request.Guaranteed {
		return
	}
	plan := scenario.Elsewhere(w.state, g)
	if plan.Rejection != nil {
		return
	}
	if next, err := w.state.BeginMove(plan.Grant); err == nil {
		w.apply(next)
		w.step(Round{})
	}
}

func (w *world) drift(uid, list string) {
	cpus, err := cpuset.Parse(list)
	if err != nil {
		w.t.Fatal(err)
	}
	if r := w.containerOf(uid); r != nil && r.begun {
		r.setting.CPUs = cpus
		w.observe(sim.Drifted, "", r, r.setting)
	}
}

// atRest is what is wrong once nothing happens any more.
func (w *world) atRest() []string {
	var observed []converge.Observed
	for _, r := range w.running {
		observed = append(observed, converge.Observed{ID: r.id, Pod: r.pod, Container: r.name, Setting: r.setting})
	}
	var wrong []string
	for _, u := range converge.Want(w.state).Compare(observed).Updates {
		if !u.Before.CPUs.Equal(u.After.CPUs) || u.Before.Mems != u.After.Mems {
			wrong = append(wrong, fmt.Sprintf("%s runs on %s, the state has %s", u.Pod, u.Before.CPUs, u.After.CPUs))
		}
	}
	for _, g := range w.state.Grants() {
		if _, listed := w.listed[g.Pod.UID]; !listed {
			wrong = append(wrong, g.Pod.UID+" is gone and has a grant")
		}
		if g.Moving != nil {
			wrong = append(wrong, g.Pod.UID+" is still being moved")
		}
	}
	for _, r := range w.running {
		if _, there := w.state.Grant(r.pod); !there && w.state.Plan(w.listed[r.pod]).Rejection == nil {
			wrong = append(wrong, r.pod+" runs without a grant that it could have")
		}
		if phase := phaseOf(&w.loop, r.id); phase != "settled" {
			wrong = append(wrong, r.pod+" is "+phase)
		}
	}
	if len(w.status.Unenforced) > 0 {
		wrong = append(wrong, "not enforced: "+strings.Join(slices.Sorted(maps.Keys(w.status.Unenforced)), " "))
	}
	if err := w.checker.Err(); err != nil {
		wrong = append(wrong, err.Error())
	}
	slices.Sort(wrong)
	return wrong
}
