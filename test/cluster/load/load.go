package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Config configures a load.
type Config struct {
	Client    kubernetes.Interface
	Namespace string
	// Scheduler is the schedulerName of the pods.
	Scheduler  string
	Templates  *Templates
	Placements int
	// Most limits the time for the placements. Zero means no limit.
	Most time.Duration
	// Enough, once it is closed, ends the placements as Most does. It may be nil.
	Enough <-chan struct{}
	// Capacity is what the nodes have, in thousandths of a CPU. Fill is the part of it that pods
	// request.
	Capacity int64
	Fill     float64
	Seed     uint64
	// Once, if it is not nil, has pods that are created in this order, and none of which ends.
	// Placements, Enough and Fill then have no effect.
	Once []*Pod
	// Evict is the time after binding at which a pod that does not run is evicted. Zero means
	// never.
	Evict time.Duration
	// Beside returns additional text about the running load. Nil means none.
	Beside func(context.Context) string
	// Progress is called with the number of pods that were bound, many times a second. It must not
	// wait. It may be nil.
	Progress func(bound int)
	// Placed is called when enough pods were bound, before the load waits for those that do not run
	// yet. It may be nil.
	Placed func()
	Say    func(format string, args ...any)
}

const (
	// waiting limits the number of pods that are not bound. parallel limits the requests in
	// progress: on a busy machine one takes about 200 ms, and the load must not wait for that.
	waiting, parallel = 60, 32
	// withdraw is the time after which a user gives up on a pod that finds no node. In a full fleet
	// some pods never find one.
	withdraw = 10 * time.Second
	// settle is how long the end waits for pods that are bound and do not run. It is longer than
	// the time after which a scheduler evicts them.
	settle = 90 * time.Second
	tick   = 50 * time.Millisecond
	tell   = 10 * time.Second
)

// Load is a running load. It must not be used by several goroutines.
type Load struct {
	Config
	tracker
	random    *rand.Rand
	owner     metav1.OwnerReference
	number    int
	withdrawn int
	evicted   int
	// next has the pods that are not created yet. order has those that are, oldest first.
	next, order []*Pod
	slots       chan struct{}
	requests    sync.WaitGroup
	failed      error // the first request that failed permanently; mu guards it
}

// Run creates pods until enough were bound, keeps the fleet at its fill level, and waits until all
// bound pods run.
func Run(ctx context.Context, c Config) (*Result, error) {
	l := &Load{Config: c, tracker: tracker{pods: map[string]*Pod{}, freed: map[string]time.Time{}}, random: rand.New(rand.NewPCG(c.Seed, 1)), slots: make(chan struct{}, parallel)}
	if err := l.prepare(ctx); err != nil {
		return nil, err
	}
	if err := l.follow(ctx, c.Client, c.Namespace); err != nil {
		return nil, err
	}
	begin := time.Now()
	done, do := func(s summary) bool { return s.bound >= c.Placements || closed(c.Enough) }, l.step
	settled := func(s summary) bool { return s.starting+s.waiting == 0 }
	if c.Once != nil {
		done, do, settled = l.placedOnce, l.once, func(s summary) bool { return s.starting == 0 }
	}
	err := l.until(ctx, c.Most, done, do)
	took := time.Since(begin)
	if c.Placed != nil {
		c.Placed()
	}
	if err == nil {
		err = l.until(ctx, settle, settled, l.rest)
	}
	l.requests.Wait()
	return l.result(took), errors.Join(err, l.failed)
}

// Prepare creates a namespace, and waits until its service account exists, so that pods can be
// created in it.
func Prepare(ctx context.Context, client kubernetes.Interface, namespace string) error {
	_, err := client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	const most = 30 * time.Second
	for begin := time.Now(); ; {
		if _, err = client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{}); err == nil || !apierrors.IsNotFound(err) || time.Since(begin) > most {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(tick):
		}
	}
}

// class is the PriorityClass of the pods. All pods have the same priority. The class never
// preempts: otherwise a scheduler would look for pods to preempt on every node, for every pod that
// finds no room, and find none.
const class = "load"

// prepare creates the namespace, and the object that controls the pods. Only pods with a controller
// are evicted.
func (l *Load) prepare(ctx context.Context) error {
	if err := Prepare(ctx, l.Client, l.Namespace); err != nil {
		return err
	}
	never := v1.PreemptNever
	if _, err := l.Client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, PreemptionPolicy: &never,
	}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	owner, err := l.Client.CoreV1().ConfigMaps(l.Namespace).Create(ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "load-"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	yes := true
	l.owner = metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: &yes}
	return nil
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// summary counts the current pods.
type summary struct {
	waiting, starting, running, bound int
	live                              int64 // requested, in thousandths of a CPU
}

func (l *Load) summary() summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := summary{bound: l.ran}
	for _, p := range l.pods {
		if !p.Bound.IsZero() {
			s.bound++
		}
		s.live += p.Milli
		switch {
		case p.Ending:
		case p.Failed:
		case p.Bound.IsZero():
			s.waiting++
		case p.Running.IsZero():
			s.starting++
		default:
			s.running++
		}
	}
	return s
}

// until calls do regularly until done accepts the summary. If most is 0, there is no time limit.
func (l *Load) until(ctx context.Context, most time.Duration, done func(summary) bool, do func(context.Context, summary)) error {
	begin, told := time.Now(), time.Now()
	for {
		s := l.summary()
		if l.Progress != nil {
			l.Progress(s.bound)
		}
		if done(s) || most > 0 && time.Since(begin) > most {
			return nil
		}
		if time.Since(told) >= tell {
			told = time.Now()
			beside := ""
			if l.Beside != nil {
				beside = l.Beside(ctx)
			}
			l.Say("%s: %d of %d placed, %d run, %d start, %d wait, %d withdrawn, %d evicted, %.0f %% requested%s", l.Scheduler, s.bound, l.Placements,
				s.running, s.starting, s.waiting, l.withdrawn, l.evicted, 100*float64(s.live)/float64(l.Capacity), beside)
		}
		do(ctx, s)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(tick):
		}
	}
}

// step creates pods for which there is room, and makes room.
func (l *Load) step(ctx context.Context, s summary) {
	l.rest(ctx, s)
	full := int64(l.Fill * float64(l.Capacity))
	if s.waiting >= waiting/2 {
		l.endSome(ctx, 1) // A pod ends in every tick, so that pods that wait for room do not stop the load.
	}
	for created := 0; s.waiting < waiting && created < waiting/2; created++ {
		wanted := l.prepareNext()
		next := l.next[0]
		if s.live+next.Milli > full {
			l.endSome(ctx, s.live+wanted-full)
			return
		}
		s.live += next.Milli
		s.waiting++
		l.create(ctx, next)
		l.next = l.next[1:]
	}
}

// replaced is the number of thousandths of a CPU of the nodes for which one pod ends at a time. On
// a busy machine a pod takes up to two seconds to end, and so the number of pods that end at a time
// limits the rate of a full fleet. They have 0.3 % of its CPUs.
const replaced = 2_500 * 1000

// prepareNext prepares the pods for which room is made together, and returns the sum of their
// requests.
func (l *Load) prepareNext() (milli int64) {
	for len(l.next) < max(1, int(l.Capacity/replaced)) {
		spec, milli := l.Templates.Next(l.random)
		l.next = append(l.next, &Pod{spec: spec, Milli: milli, labels: map[string]string{"app": "load"}})
	}
	for _, p := range l.next {
		milli += p.Milli
	}
	return milli
}

// rest withdraws pods that found no node, evicts pods that do not start, and replaces those that
// have failed.
func (l *Load) rest(ctx context.Context, _ summary) {
	now := time.Now()
	l.mu.Lock()
	var late, stuck, failed []*Pod
	for _, p := range l.pods {
		switch {
		case p.Ending || !p.seen:
		case p.Failed:
			failed = append(failed, p)
		case p.Bound.IsZero() && now.Sub(p.Created) > withdraw:
			late = append(late, p)
		case l.Evict > 0 && !p.Bound.IsZero() && p.Running.IsZero() && now.Sub(p.Bound) > l.Evict:
			stuck = append(stuck, p)
		}
	}
	l.mu.Unlock()
	for _, p := range late {
		l.withdrawn++
		l.delete(ctx, p)
	}
	for _, p := range failed {
		l.delete(ctx, p)
		l.create(ctx, &Pod{spec: p.spec, Milli: p.Milli, labels: p.labels, Born: p.Born})
	}
	for _, p := range stuck {
		l.evicted++
		l.evict(ctx, p)
		l.create(ctx, &Pod{spec: p.spec, Milli: p.Milli, labels: p.labels, Born: p.Born})
	}
}

// endSome deletes running pods, in random order, until that amount is released or being released.
func (l *Load) endSome(ctx context.Context, milli int64) {
	l.mu.Lock()
	var running []*Pod
	l.order = slices.DeleteFunc(l.order, func(p *Pod) bool { return l.pods[p.Name] != p })
	for _, p := range l.order {
		switch {
		case p.Ending:
			milli -= p.Milli
		case !p.Running.IsZero():
			running = append(running, p)
		}
	}
	l.mu.Unlock()
	for milli > 0 && len(running) > 0 {
		i := l.random.IntN(len(running))
		milli -= running[i].Milli
		l.delete(ctx, running[i])
		running = slices.Delete(running, i, i+1)
	}
}

// request makes a request in the background, a few at a time. do may be called again, so it must
// not fail for what is already done.
func (l *Load) request(ctx context.Context, do func(context.Context) error) {
	l.slots <- struct{}{}
	l.requests.Go(func() {
		defer func() { <-l.slots }()
		for tries := 0; ; tries++ {
			err := do(ctx)
			if err == nil || ctx.Err() != nil {
				return
			}
			if tries == 60 || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
				l.mu.Lock()
				l.failed = errors.Join(l.failed, err)
				l.mu.Unlock()
				return
			}
			select { // The API server may be down.
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
}

func (l *Load) create(ctx context.Context, p *Pod) {
	l.number++
	p.Name, p.Created = fmt.Sprintf("p%06d", l.number), time.Now()
	if p.Born.IsZero() {
		p.Born = p.Created
	}
	object := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Labels: maps.Clone(p.labels), OwnerReferences: []metav1.OwnerReference{l.owner}}, Spec: *p.spec.DeepCopy()}
	no := false
	object.Spec.SchedulerName, object.Spec.PriorityClassName, object.Spec.AutomountServiceAccountToken = l.Scheduler, class, &no
	l.mu.Lock()
	l.pods[p.Name] = p
	l.order = append(l.order, p)
	l.mu.Unlock()
	l.request(ctx, func(ctx context.Context) error {
		_, err := l.Client.CoreV1().Pods(l.Namespace).Create(ctx, object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

func (l *Load) delete(ctx context.Context, p *Pod) {
	l.mu.Lock()
	p.Ending = true
	l.mu.Unlock()
	l.request(ctx, func(ctx context.Context) error {
		return ignore(l.Client.CoreV1().Pods(l.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{}))
	})
}

func (l *Load) evict(ctx context.Context, p *Pod) {
	l.mu.Lock()
	p.Ending = true
	l.mu.Unlock()
	l.request(ctx, func(ctx context.Context) error {
		return ignore(l.Client.PolicyV1().Evictions(l.Namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: l.Namespace}}))
	})
}

// ignore returns nil for an object that does not exist.
func ignore(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Drain deletes every pod of a namespace, and waits until they are gone.
func Drain(ctx context.Context, client kubernetes.Interface, namespace string) error {
	for {
		err := client.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		if err == nil {
			var list *v1.PodList
			if list, err = client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1}); err == nil && len(list.Items) == 0 {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("pods of namespace %s do not end: %w", namespace, errors.Join(err, context.Cause(ctx)))
		case <-time.After(5 * time.Second):
		}
	}
}
