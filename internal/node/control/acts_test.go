package control

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/core/converge"
	"github.com/paddock-project/paddock/internal/core/cpuset"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/core/moves"
	"github.com/paddock-project/paddock/internal/core/node"
	"github.com/paddock-project/paddock/internal/core/request"
	"github.com/paddock-project/paddock/internal/node/runtime/sim"
	"github.com/paddock-project/paddock/internal/testing/scenario"
)

// This file implements what a runtime, a kubelet and others do to a world, as commands of a
// scenario. A runtime that waits for an answer does nothing else meanwhile.
//
//	run POD FORM       list a pod and start it; podOf describes the forms; the default form is 0
//	create POD FORM    as run, but its containers are not reported yet
//	report             report what was created, and start it
//	again POD          end the pod's containers and create them again
//	stop POD           end the pod's containers and its sandbox; it stays listed
//	end POD            as stop, but the pod is no longer listed
//	terminate POD      the pod is deleted: the runtime stops its containers, which go on until `end`
//	resize POD CPUS    the kubelet resizes the pod
//	move POD           a move of the pod to another place becomes durable, if there is one
//	carry POD          an operator asks for that move
//	drift POD CPUS     another process writes a list of CPUs to the cgroup of the pod's first container
//	lose N             the next N updates of containers are lost
//	fail N             the next N writes of the disk fail
//	hold, stall, go    delay unsolicited updates and the jobs of rounds; delay the jobs of requests; end both delays
//	crash              the agent ends, starts again from what is durable, and connects
//	disconnect, connect
//	runtime old|new    the next connection does not take unsolicited updates, or takes them
//	runtime crio       as old; while a container is being stopped, the runtime neither synchronises nor updates it
//	dynamic            remove everything, and start the node with a policy that moves pods
//	wait DURATION
func (w *world) command(name string, args []string) []string {
	args = append(args, "", "")
	if !w.commandOfPod(name, args[0], args[1]) {
		w.commandOfNode(name, args[0])
	}
	w.goOn()
	return w.where()
}

// commandOfPod carries out a command about a pod. It reports whether the command is one.
func (w *world) commandOfPod(name, uid, arg string) bool {
	commands := map[string]func(){
		"run":    func() { w.run(uid, arg, w.report) },
		"create": func() { w.run(uid, arg, func() {}) },
		"again":  func() { w.endContainers(uid); w.create(uid, w.report) },
		"stop":   func() { w.stop(uid) },
		"end":    func() { w.stop(uid); delete(w.listed, uid) },
		"resize": func() { w.resize(uid, arg) },
		"move":   func() { w.move(uid) },
		"carry":  func() { w.carryOver(uid) },
		"drift":  func() { w.drift(uid, arg) },
		"terminate": func() {
			if w.containerOf(uid) != nil {
				w.ending[uid] = true
			}
		},
	}
	command, is := commands[name]
	if asks := name == "run" || name == "create" || name == "again" || name == "resize"; asks && (w.blocked != nil || w.ending[uid]) {
		if !w.ending[uid] {
			w.failed(uid, errBlocked)
		}
		return true
	}
	if is && (w.asks == nil || name == "move" || name == "carry" || name == "drift") {
		command()
	}
	return is
}

// commandOfNode carries out the other commands.
func (w *world) commandOfNode(name, arg string) {
	amount, _ := strconv.Atoi(arg)
	switch name {
	case "report":
		if w.asks == nil && w.blocked == nil {
			w.report()
		}
	case "lose":
		w.lose = amount
	case "fail":
		w.fail = amount
	case "hold":
		w.holds = true
	case "stall":
		w.stalls = true
	case "go":
		w.holds, w.stalls = false, false
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
		w.mayUpdate, w.crio = arg == "new", arg == "crio"
	case "dynamic":
		w.begin(node.MovePolicy{Pods: 2, Bytes: 1 << 30, AnyKernel: true})
	case "wait":
		d, err := time.ParseDuration(arg)
		if err != nil {
			w.t.Fatal(err)
		}
		w.wait(d)
	default:
		w.t.Fatalf("no command %q", name)
	}
}

// podOf returns a pod of a form:
//
//	0     a container that shares CPUs
//	N     a container with N CPUs
//	N+    as N, and a container that shares CPUs of the node
//	N*    a pool of N CPUs, with a container that has one of them and a container that shares the others
func podOf(uid, form string) request.Pod {
	pod := request.Pod{Identity: request.Identity{UID: uid, Namespace: "default", Name: uid}, Notes: request.Notes{Moves: request.MoveMemory}}
	pod.QoS, pod.Containers = request.Burstable, []request.Container{{Name: "app", Type: request.App, Sharing: request.NotEquivalent}}
	cpus, _ := strconv.Atoi(strings.TrimRight(form, "+*"))
	if cpus == 0 {
		return pod
	}
	memory := request.Amounts{{Resource: machine.Memory, Value: 64 << 20}}
	qualifies := func(cpus int) request.Container {
		milli := int64(cpus) * 1000
		return request.Container{Name: "app", Type: request.App, CPUs: cpus, CPURequest: milli, CPULimit: milli, Equivalent: true, Memory: memory}
	}
	pod.QoS, pod.Containers = request.Guaranteed, []request.Container{qualifies(cpus)}
	switch {
	case strings.HasSuffix(form, "+"):
		pod.Containers = append(pod.Containers, request.Container{Name: "log", Type: request.App, Sharing: request.FractionalCPU, Equivalent: true, Memory: memory})
	case strings.HasSuffix(form, "*"):
		milli := int64(cpus) * 1000
		pod.Kind, pod.BudgetCPUs, pod.BudgetCPUMilli, pod.CPULimit = request.PodLevel, cpus, milli, milli
		pod.BudgetMemory = request.Amounts{{Resource: machine.Memory, Value: 128 << 20}}
		pod.Containers = []request.Container{qualifies(1), {Name: "log", Type: request.App, Sharing: request.NotEquivalent}}
	}
	return pod
}

func (w *world) failed(what string, err error) { w.errs = append(w.errs, what+": "+err.Error()) }

// run lists a pod and creates its containers.
func (w *world) run(uid, form string, then func()) {
	if w.containerOf(uid) == nil {
		w.listed[uid] = podOf(uid, form)
		w.create(uid, then)
	}
}

// create creates a pod's sandbox and its containers.
func (w *world) create(uid string, then func()) {
	if _, listed := w.listed[uid]; !listed || w.containerOf(uid) != nil {
		return
	}
	box := w.box(uid)
	if w.connection == 0 {
		for _, c := range w.listed[uid].Containers {
			r := w.container(uid, c.Name)
			w.running[r.id] = r
			w.observe(sim.Replied, "", r, r.setting)
		}
		then()
		return
	}
	w.sandbox(box, func() {
		if w.createContainers(box) {
			then()
		}
	})
}

// box returns a new sandbox of a pod.
func (w *world) box(uid string) *Sandbox {
	w.lastID++
	w.boxes[uid] = &Sandbox{ID: fmt.Sprint("box-", w.lastID), Pod: uid, Who: "default/" + uid, Parent: "/pod" + uid}
	return w.boxes[uid]
}

func (w *world) container(uid, name string) *running {
	w.lastID++
	return &running{id: fmt.Sprintf("c-%05d", w.lastID), pod: uid, name: name}
}

// sandbox asks whether a sandbox may be created.
func (w *world) sandbox(box *Sandbox, then func()) {
	connection := w.connection
	leave := func() { w.step(Leave{connection, box.Pod, box.ID}) }
	if m, _ := w.step(Enter{connection, box}).(Managed); m.Err != nil || !m.Managed {
		return
	}
	w.request(Admit{Connection: connection, Box: box, Until: w.now.Add(timeout)}, timeout, func(reply any) {
		if a, _ := reply.(Admitted); a.Err != nil {
			w.failed(box.Pod, a.Err)
			leave()
			return
		}
		then()
	}, leave)
}

// createContainers creates the containers of a pod, one after the other. It reports whether all
// exist.
func (w *world) createContainers(box *Sandbox) bool {
	for _, c := range w.listed[box.Pod].Containers {
		r := w.container(box.Pod, c.Name)
		p, _ := w.step(Create{w.connection, box, w.of(r)}).(Placed)
		if p.Err != nil {
			w.failed(box.Pod, p.Err)
			w.step(End{w.connection, r.id, box.Pod, false})
			return false
		}
		w.update("CreateContainer", p.Updates)
		r.setting = p.Setting
		w.running[r.id] = r
		w.observe(sim.Replied, "CreateContainer", r, r.setting)
	}
	return true
}

func (w *world) of(r *running) Container { return Container{r.id, r.pod, r.name, r.id} }

// report reports the containers that were created, and starts them.
func (w *world) report() {
	for _, r := range w.containers() {
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

// containersOf returns the containers of a pod, the oldest first. containerOf returns the first of
// them, or nil.
func (w *world) containersOf(uid string) []*running {
	return slices.DeleteFunc(w.containers(), func(r *running) bool { return r.pod != uid })
}

func (w *world) containerOf(uid string) *running {
	if all := w.containersOf(uid); len(all) > 0 {
		return all[0]
	}
	return nil
}

func (w *world) endContainers(uid string) {
	for _, r := range w.containersOf(uid) {
		delete(w.running, r.id)
		w.observe(sim.Stopped, "", r, r.setting)
		if w.connection != 0 {
			p, _ := w.step(End{w.connection, r.id, uid, true}).(Placed)
			w.update("StopContainer", p.Updates)
		}
	}
}

func (w *world) stop(uid string) {
	delete(w.ending, uid)
	if w.blocked != nil {
		w.stopBlocked(uid)
		return
	}
	w.endContainers(uid)
	if box := w.boxes[uid]; box != nil && w.connection != 0 {
		w.step(Leave{w.connection, box.Pod, box.ID})
	}
	delete(w.boxes, uid)
}

// stopBlocked ends the containers and the sandbox of a pod while the runtime waits for such an end
// before it synchronises. It then no longer shows them.
func (w *world) stopBlocked(uid string) {
	for _, r := range w.containersOf(uid) {
		delete(w.running, r.id)
		w.observe(sim.Stopped, "", r, r.setting)
	}
	delete(w.boxes, uid)
	if next := w.blocked; len(w.ending) == 0 {
		w.blocked = nil
		next()
	}
}

func (w *world) connect() {
	w.connections++
	w.connection = w.connections
	w.step(Connected{w.connection})
	w.step(Configured{Connection: w.connection, MayUpdate: w.mayUpdate, ListsLate: w.crio})
	if w.crio && len(w.ending) > 0 {
		w.blocked = w.synchronise
		w.errs = append(w.errs, errBlocked.Error())
		return
	}
	w.synchronise()
}

// synchronise shows the agent what the runtime has.
func (w *world) synchronise() {
	shows := Synchronise{Connection: w.connection, Until: w.now.Add(timeout)}
	for _, uid := range slices.Sorted(maps.Keys(w.boxes)) {
		shows.Boxes = append(shows.Boxes, w.boxes[uid])
	}
	for _, r := range w.containers() {
		life := IsCreated
		if r.begun {
			life = IsRunning
		}
		shows.Containers = append(shows.Containers, Shown{Container: w.of(r), Box: w.boxes[r.pod].ID, Life: life, Setting: r.setting})
	}
	w.request(shows, timeout*3/2, func(reply any) {
		p, _ := reply.(Placed)
		w.update("Synchronize", p.Updates)
	}, func() {
		w.disconnect()
		w.connect()
	})
	w.goOn()
}

// disconnect ends the connection. A request that waits for an answer fails.
func (w *world) disconnect() {
	if w.connection == 0 {
		return
	}
	was := w.connection
	w.connection, w.blocked = 0, nil
	if a := w.asks; a != nil {
		w.asks = nil
		delete(w.waiting, a.number)
	}
	w.step(Disconnected{was})
}

func (w *world) resize(uid, cpus string) {
	r, has := w.containerOf(uid), w.listed[uid]
	if n, _ := strconv.Atoi(cpus); r == nil || !r.begun || n == 0 || has.QoS != request.Guaranteed || w.connection == 0 {
		return
	}
	form := cpus
	switch {
	case has.Kind == request.PodLevel:
		form += "*"
	case len(has.Containers) > 1:
		form += "+"
	}
	pod, box := podOf(uid, form), w.boxes[uid]
	if m, _ := w.step(Resizing{w.connection, uid, true}).(Managed); m.Err != nil || !m.Managed {
		return
	}
	w.listed[uid] = pod
	w.request(Resize{Box: box, Shown: amountsOfPod(&pod), Until: w.now.Add(timeout)}, timeout, func(reply any) {
		if d, _ := reply.(ResizeDecided); d.Err != nil {
			w.failed(uid, d.Err)
			w.listed[uid] = has // The kubelet tries again, until the user gives up.
			return
		}
		for _, r := range w.containersOf(uid) {
			p, _ := w.step(ResizeContainer{Connection: w.connection, Box: box, Of: w.of(r)}).(Placed)
			w.update("UpdateContainer", p.Updates)
		}
	}, func() { w.listed[uid] = has })
}

// elsewhere returns the grant of a pod and a grant at another place. It returns nil if there is
// none.
func (w *world) elsewhere(uid string) (*node.Grant, *node.Grant) {
	g, there := w.state.Grant(uid)
	if !there || g.Moving != nil || g.Pod.QoS != request.Guaranteed {
		return nil, nil
	}
	plan := scenario.Elsewhere(w.state, g)
	if plan.Rejection != nil {
		return nil, nil
	}
	return g, plan.Grant
}

// move makes the beginning of a move durable.
func (w *world) move(uid string) {
	if _, to := w.elsewhere(uid); to != nil {
		if next, err := w.state.BeginMove(to); err == nil {
			w.apply(next)
			w.step(Round{})
		}
	}
}

// carryOver asks for a move, as an operator does.
func (w *world) carryOver(uid string) {
	g, to := w.elsewhere(uid)
	if to == nil {
		return
	}
	m, err := moves.Between(w.state, g, to)
	if err != nil {
		return
	}
	w.ask(Carry{Left: []moves.Move{m}, Until: w.now.Add(timeout)}, func(reply any) {
		if err, _ := reply.(error); err != nil {
			w.failed(uid, err)
		}
	})
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

// atRest returns what is wrong when nothing happens any more.
func (w *world) atRest() []string {
	var observed []converge.Observed
	for _, r := range w.containers() {
		observed = append(observed, converge.Observed{ID: r.id, Pod: r.pod, Container: r.name, Setting: r.setting})
	}
	var wrong []string
	for _, u := range converge.Want(w.state).Compare(observed).Updates {
		if !u.Before.CPUs.Equal(u.After.CPUs) || u.Before.Mems != u.After.Mems {
			wrong = append(wrong, fmt.Sprintf("%s/%s runs on %s, the state has %s", u.Pod, u.Container, u.Before.CPUs, u.After.CPUs))
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
	for _, r := range w.containers() {
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
	if uid, _ := w.keeper.Kept(); uid != "" || w.loop.room != nil {
		wrong = append(wrong, "a place is promised for ever")
	}
	if len(w.waiting) > 0 || len(w.held) > 0 || w.loop.jobs.len() > 0 {
		wrong = append(wrong, fmt.Sprintf("%d wait for an answer, and %d jobs are under way", len(w.waiting), w.loop.jobs.len()))
	}
	if err := w.checker.Err(); err != nil {
		wrong = append(wrong, err.Error())
	}
	slices.Sort(wrong)
	return wrong
}
