// Package duties does what one of several schedulers must do, once: it evicts pods that their nodes
// reject (package eviction) and deletes PaddockMachines that no node uses (package machines).
//
// The one is the holder of the Lease Name. It need not be the one that schedules: a plugin does not
// know which that is.
package duties

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/paddock-project/paddock/internal/codec/objects"
	"github.com/paddock-project/paddock/scheduler/eviction"
	"github.com/paddock-project/paddock/scheduler/machines"
)

// Name is the name of the Lease.
const Name = "paddock-duties"

// period is the time between two passes of eviction: a fraction of the shortest time that can be
// set.
const period = 5 * time.Second

// The times of the Lease are those of kube-scheduler.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// Start does the duties until the context ends, while this process has the Lease in that namespace.
// Pods that are rejected for so long are evicted; 0: never.
func Start(ctx context.Context, handle fwk.Handle, namespace string, evictAfter time.Duration) error {
	client, err := objects.NewClient(handle.KubeConfig())
	if err != nil {
		return fmt.Errorf("a client for PaddockNodes: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("the name of this host, for the identity in a Lease: %w", err)
	}
	registerMetrics()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: Name,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: Name},
			Client:     handle.ClientSet().CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			// What was seen under an earlier Lease does not count: there was no look in between.
			OnStartedLeading: func(ctx context.Context) {
				var all sync.WaitGroup
				defer all.Wait()
				all.Go(func() { wait.UntilWithContext(ctx, machines.New(collected(client)).Pass, machines.Period) })
				if evictAfter > 0 {
					all.Go(func() { evict(ctx, client, handle, evictAfter) })
				}
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	go wait.UntilWithContext(ctx, elector.Run, retryPeriod) // One that lost the Lease waits for it again.
	return nil
}

func evict(ctx context.Context, client rest.Interface, handle fwk.Handle, after time.Duration) {
	nodes, err := rejections(client)
	if err != nil { // Only an informer that runs has one.
		klog.FromContext(ctx).Error(err, "Pods are not evicted")
		return
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() { nodes.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), nodes.HasSynced) {
		wait.UntilWithContext(ctx, eviction.New(evicting(handle, nodes), after).Pass, period)
	}
}
