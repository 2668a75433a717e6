// Package duties performs the tasks that only one of several schedulers must do: it evicts pods
// that their nodes reject (package eviction), deletes pods that kubelets have rejected (package
// cleanup), deletes PaddockMachines that no node uses (package machines), and answers admission
// checks of Kueue (package kueue).
//
// That scheduler is the holder of the Lease Name. It need not be the one that schedules: a plugin
// does not know which one schedules.
package duties

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
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
	"github.com/paddock-project/paddock/scheduler/cleanup"
	"github.com/paddock-project/paddock/scheduler/cluster"
	"github.com/paddock-project/paddock/scheduler/eviction"
	"github.com/paddock-project/paddock/scheduler/machines"
)

// Name is the name of the Lease.
const Name = "paddock-duties"

// period is the time between two passes of eviction and of cleanup. It is a fraction of the
// shortest time after which pods can be evicted or deleted.
const period = 5 * time.Second

// Settings are what an administrator sets.
type Settings struct {
	// Namespace has the Lease.
	Namespace string
	// EvictAfter is the time after which rejected pods are evicted. Zero means that none is.
	EvictAfter time.Duration
	Cleanup    cleanup.Config
	// Kueue makes Start answer admission checks of Kueue, about Nodes.
	Kueue bool
	// Nodes is not set by an administrator but by the plugin.
	Nodes Nodes
}

// Nodes is what a scheduler knows of nodes.
type Nodes struct {
	Cluster *cluster.Cluster
	// Awaited reports whether a node that has no objects yet is expected to get them.
	Awaited func(*v1.Node) bool
}

// The times of the Lease are the defaults of kube-scheduler.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// Start performs the duties until the context ends, while this process has the Lease.
func Start(ctx context.Context, handle fwk.Handle, s Settings) error {
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
			LeaseMeta:  metav1.ObjectMeta{Namespace: s.Namespace, Name: Name},
			Client:     handle.ClientSet().CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			// Observations of an earlier Lease do not count, because this process did not look in
			// between.
			OnStartedLeading: func(ctx context.Context) {
				var all sync.WaitGroup
				defer all.Wait()
				all.Go(func() { wait.UntilWithContext(ctx, machines.New(collected(client)).Pass, machines.Period) })
				if s.EvictAfter > 0 {
					all.Go(func() { evict(ctx, client, handle, s.EvictAfter) })
				}
				if s.Cleanup.After > 0 {
					all.Go(func() { clean(ctx, handle, s.Cleanup) })
				}
				if s.Kueue {
					all.Go(func() { answerKueue(ctx, handle, s.Nodes) })
				}
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	go wait.UntilWithContext(ctx, elector.Run, retryPeriod) // A process that loses the Lease waits for it again.
	return nil
}

func evict(ctx context.Context, client rest.Interface, handle fwk.Handle, after time.Duration) {
	nodes, err := rejections(client)
	if err != nil { // Only an informer that has started returns one.
		klog.FromContext(ctx).Error(err, "Pods are not evicted")
		return
	}
	watching(ctx, eviction.New(evicting(handle, nodes), after).Pass, period, nodes)
}

func clean(ctx context.Context, handle fwk.Handle, config cleanup.Config) {
	pods, err := failedPods(handle.ClientSet())
	if err != nil { // Only an informer that has started returns one.
		klog.FromContext(ctx).Error(err, "Pods that kubelets rejected are not deleted")
		return
	}
	watching(ctx, cleanup.New(cleaning(handle, pods), config).Pass, period, pods)
}

// watching runs informers until the context ends. When they have all objects, it calls pass with a
// pause after each call.
func watching(ctx context.Context, pass func(context.Context), pause time.Duration, informers ...cache.SharedIndexInformer) {
	var all sync.WaitGroup
	defer all.Wait()
	var synced []cache.InformerSynced
	for _, informer := range informers {
		all.Go(func() { informer.RunWithContext(ctx) })
		synced = append(synced, informer.HasSynced)
	}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		wait.UntilWithContext(ctx, pass, pause)
	}
}
