package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/paddock-project/paddock/internal/ui/view"
	"github.com/paddock-project/paddock/test/e2e/tally"
	"github.com/paddock-project/paddock/test/e2e/vm"
	"github.com/paddock-project/paddock/test/e2e/wire"
)

// observer is the unit of the observing agent.
const observer = "observer"

// observerConfig is its configuration: docs/observe-a-kubelet.md, without a DaemonSet.
const observerConfig = `decides: kubelet
nodeName: ` + nodeName + `
kubelet: {tokenFile: /etc/paddock/token, insecure: true, dir: /var/lib/kubelet}
apiServer: {url: "https://` + apiInside + `", tokenFile: /etc/paddock/token, caFile: /etc/kubernetes/ca.crt}
`

// observerRole lets the agent read what docs/observe-a-kubelet.md names, and the Node.
const observerRole = `apiVersion: v1
kind: ServiceAccount
metadata: {name: paddock-observe, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: paddock-observe}
rules:
- {apiGroups: [""], resources: [nodes, nodes/pods, nodes/configz, nodes/metrics], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: paddock-observe}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: paddock-observe}
subjects: [{kind: ServiceAccount, name: paddock-observe, namespace: kube-system}]
`

// admitObserver gives the agent its permissions and its configuration.
func (n *node) admitObserver(ctx context.Context) error {
	if _, err := n.kubectl(ctx, observerRole, "apply", "-f", "-"); err != nil {
		return err
	}
	token, err := n.kubectl(ctx, "", "create", "token", "paddock-observe", "-n", "kube-system", "--duration=24h")
	if err != nil {
		return err
	}
	return errors.Join(
		n.mustWith(ctx, "mkdir -p /etc/paddock && cat > /etc/paddock/token", token),
		n.mustWith(ctx, "cat > /etc/paddock/observe.yaml", []byte(observerConfig)),
	)
}

// trust returns how the agent's predictions compare.
func (n *node) trust(ctx context.Context) (t view.Trust, err error) {
	answer, err := n.askObserver(ctx, "/api/trust")
	if err != nil {
		return t, err
	}
	return t, json.Unmarshal(answer, &t)
}

func (n *node) askObserver(ctx context.Context, path string) ([]byte, error) {
	answer, err := vm.Do[wire.Ended](ctx, n.vm, wire.OpGet, wire.Get{URL: "http://127.0.0.1:9925" + path})
	if err == nil && answer.Code != http.StatusOK {
		err = fmt.Errorf("the agent answers %s with %d: %s", path, answer.Code, answer.Stdout)
	}
	return []byte(answer.Stdout), err
}

// noticeTime is longer than the agent takes to compare a decision. It waits for ten seconds if the
// files do not add up.
const noticeTime = 30 * time.Second

// lookNow makes the agent look at once. It looks when a file of the kubelet was replaced or the
// kubelet pushes a decision, and every 30 s otherwise: no file shows a rejection or that the kubelet
// has another process.
func (n *node) lookNow(ctx context.Context) error {
	return n.must(ctx, "touch /var/lib/kubelet/cpu_manager_state")
}

// awaitTrust waits until the agent's comparison is as wanted.
func (n *node) awaitTrust(ctx context.Context, limit time.Duration, wanted func(view.Trust) bool) (t view.Trust, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		if t, err = n.trust(ctx); err == nil && wanted(t) {
			return t, nil
		}
		select {
		case <-ctx.Done():
			return t, errors.Join(err, ctx.Err())
		case <-time.After(300 * time.Millisecond):
		}
	}
}

func exact(t view.Trust) bool { return t.Certainty == nil || t.Certainty.Answer == view.Exact }

// player plays a history.
type player struct {
	*node
	history
	random *rand.Rand
	result tally.Result
	// running are the pods that were admitted and have not ended or been deleted.
	running []observedPod
}

// observe plays a history under a new kubelet, and returns what the agent made of it.
func (n *node) observe(ctx context.Context, h history) (tally.Result, error) {
	begin := time.Now()
	topology, scope, memory := h.configuration()
	p := &player{node: n, history: h, random: rand.New(rand.NewPCG(h.seed, 1))}
	p.result = tally.Result{Minor: h.minor, Seed: h.seed, Kind: topology + ", " + scope + ", memory " + memory}
	if err := n.observeNew(ctx, h.changes()); err != nil {
		return p.result, err
	}
	if err := p.play(ctx, memory); err != nil {
		return p.result, err
	}
	err := n.finish(ctx, &p.result)
	p.result.Seconds = time.Since(begin).Seconds()
	return p.result, err
}

// observeNew starts a new kubelet and then the agent, and waits until the agent is sure about the
// kubelet.
func (n *node) observeNew(ctx context.Context, changes map[string]any) error {
	_ = n.stopUnit(ctx, observer) // It may not run.
	if err := n.renewKubelet(ctx, changes); err != nil {
		return err
	}
	if err := n.startUnit(ctx, observer); err != nil {
		return err
	}
	if _, err := n.awaitTrust(ctx, patience, exact); err != nil {
		return fmt.Errorf("the agent is not sure about a kubelet without pods: %w", err)
	}
	return nil
}

// pushes reports whether kubelets of a minor version have the PodsAPI. They push a rejection, which
// no file shows.
func pushes(minor string) bool { return minor >= "1.37" }

// awaitPushes waits until the agent follows the PodsAPI of a kubelet that has it. After a restart of
// the kubelet it connects again within seconds.
func (n *node) awaitPushes(ctx context.Context, minor string) error {
	if !pushes(minor) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	for {
		ready, err := n.askObserver(ctx, "/readyz")
		if err == nil && !bytes.Contains(ready, []byte("PodsAPI")) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the agent does not follow the PodsAPI of kubelet %s: %q, %w", minor, ready, errors.Join(err, ctx.Err()))
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// finish adds to a result what the agent made of the decisions.
func (n *node) finish(ctx context.Context, r *tally.Result) error {
	if err := n.awaitPushes(ctx, r.Minor); err != nil {
		return err
	}
	t, err := n.trust(ctx)
	if err != nil {
		return err
	}
	r.Admissions, r.Rejections, r.Reasons, r.Differ = t.Admissions, t.Rejections, t.Unpredicted, t.Differences
	if !t.Differs() {
		return nil
	}
	lines, err := n.askObserver(ctx, "/api/trust/scenarios")
	for line := range bytes.Lines(lines) {
		r.Scenarios = append(r.Scenarios, bytes.TrimSpace(line))
	}
	return err
}

// play creates pods one after the other until there are enough decisions, with room made between
// them. The kubelet restarts once.
func (p *player) play(ctx context.Context, memory string) error {
	for i := 1; p.result.Decisions < p.decisions; i++ {
		if err := p.makeRoom(ctx); err != nil {
			return err
		}
		if i == 2+int(p.seed%3) {
			if err := p.restart(ctx); err != nil {
				return fmt.Errorf("the kubelet is restarted: %w", err)
			}
		}
		pod := randomPod(p.random, fmt.Sprintf("pod-%d", i))
		if err := p.decide(ctx, pod, memory); err != nil {
			return fmt.Errorf("%s: %w", pod.name, err)
		}
	}
	return nil
}

// makeRoom deletes pods, or ends them and leaves them listed.
func (p *player) makeRoom(ctx context.Context) error {
	for len(p.running) > 0 && (len(p.running) > 3 || p.random.IntN(3) == 0) {
		i := p.random.IntN(len(p.running))
		pod := p.running[i]
		p.running = slices.Delete(p.running, i, i+1)
		steps := []step{{Delete: pod.name}}
		if pod.ends && p.random.IntN(2) == 0 {
			steps = []step{{Await: pod.name, Until: "Ready"}, {End: pod.name}}
		}
		for _, s := range steps {
			if err := p.step(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// restart restarts the kubelet, and waits until the agent has noticed both. A kubelet that stops
// cancels the creation of containers, and a pod that never restarts them fails then. So the pods that
// are ended later run first.
func (p *player) restart(ctx context.Context) error {
	for _, pod := range p.running {
		if pod.ends {
			if err := p.step(ctx, step{Await: pod.name, Until: "Ready"}); err != nil {
				return err
			}
		}
	}
	if err := p.stopUnit(ctx, "kubelet"); err != nil {
		return err
	}
	if err := p.lookNow(ctx); err != nil {
		return err
	}
	if err := p.awaitReadiness(ctx, http.StatusServiceUnavailable, ""); err != nil {
		return err
	}
	if err := p.startUnit(ctx, "kubelet"); err != nil {
		return err
	}
	if err := p.awaitReadiness(ctx, http.StatusOK, ""); err != nil {
		return err
	}
	_, err := p.awaitTrust(ctx, patience, exact)
	return err
}

// decide creates a pod, and waits until the kubelet has decided about it and the agent has compared
// the decision.
func (p *player) decide(ctx context.Context, pod observedPod, memory string) error {
	before, err := p.trust(ctx)
	if err != nil {
		return err
	}
	if err := p.step(ctx, step{Create: pod.name, Spec: pod.spec, Until: "Decided"}); err != nil {
		return err
	}
	status, err := p.status(ctx, pod.name)
	if err != nil {
		return err
	}
	rejected := status.is("Failed")
	if !rejected {
		p.running = append(p.running, pod)
	}
	if !rejected && !pod.own(memory) {
		return nil
	}
	p.result.Decisions++
	compared := func(t view.Trust) bool {
		if rejected {
			return t.Rejections.All > before.Rejections.All
		}
		return t.Admissions.All > before.Admissions.All
	}
	if rejected && !pushes(p.minor) {
		if err := p.lookNow(ctx); err != nil {
			return err
		}
	}
	t, err := p.awaitTrust(ctx, noticeTime, compared)
	say("%s seed %d %s: %s: %s", p.minor, p.seed, p.result.Kind, pod.name, cmp.Or(status.Status.Reason, "admitted"))
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		certainty, _ := json.Marshal(t.Certainty)
		p.result.NotSeen = append(p.result.NotSeen, fmt.Sprintf("%s, %s, after %s; certainty %s", pod.name, cmp.Or(status.Status.Reason, "admitted"), noticeTime, certainty))
		return nil
	}
	return err
}

// observed is a command of pages. It plays a history of so many decisions with the seed of the second
// word. It prints that none differs, and fails if too many were not predicted.
func observed(ctx context.Context, n *node, words []string, _ []byte) (wire.Ended, error) {
	var decisions, seed int
	if _, err := fmt.Sscan(strings.Join(words, " "), &decisions, &seed); err != nil || len(words) != 2 {
		return wire.Ended{}, errors.New("usage: observed DECISIONS SEED")
	}
	if err := n.admitObserver(ctx); err != nil {
		return wire.Ended{}, err
	}
	r, err := n.observe(ctx, history{minor: ownKubelet, seed: uint64(seed), decisions: decisions})
	if err != nil {
		return wire.Ended{}, err
	}
	all := []tally.Result{r}
	if err := errors.Join(tally.Report(os.Stderr, all), predictable(all)); err != nil {
		return wire.Ended{}, err
	}
	return wire.Ended{Stdout: fmt.Sprintf("%s: %d decisions, none differs\n", r.Kind, r.Decisions)}, nil
}

// predictable returns an error if more than one in a hundred decisions of an idle kubelet had no
// prediction. One may be due to the emulator, in which an answer of the kubelet can take seconds.
func predictable(all []tally.Result) error {
	decisions, missed := 0, 0
	for i := range all {
		if r := &all[i]; r.Seed != troubleSeed {
			decisions += r.Decisions
			missed += r.Decisions - r.AsPredicted() - r.Admissions.Differ - r.Rejections.Differ
		}
	}
	if missed > max(1, decisions/100) {
		return fmt.Errorf("%d of %d decisions had no prediction, expected at most 1 %%", missed, decisions)
	}
	return nil
}
