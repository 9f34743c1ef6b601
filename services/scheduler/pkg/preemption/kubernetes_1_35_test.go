//go:build kubernetes_1_35

package preemption

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

func versionOptions(snapshot *internalcache.Snapshot) []frameworkruntime.Option {
	return []frameworkruntime.Option{frameworkruntime.WithSnapshotSharedLister(snapshot)}
}

// addTo puts a pod into the scheduling queue.
func addTo(ctx context.Context, queue internalqueue.SchedulingQueue, p pod) {
	queue.Add(klog.FromContext(ctx), p.Pod)
}

// runsPreemption tells whether victims are being removed in the background for a pod.
func runsPreemption(pl *defaultpreemption.DefaultPreemption, pod pod) bool {
	return pl.Evaluator.IsPodRunningPreemption(pod.UID)
}

// onRemoval has `hook` stand between a plugin and the removal of a victim.
func onRemoval(pl *defaultpreemption.DefaultPreemption, hook func(victim *v1.Pod, preempt func() error) error) {
	preempt := pl.Evaluator.PreemptPod
	pl.Evaluator.PreemptPod = func(ctx context.Context, c preemption.Candidate, by, victim *v1.Pod, plugin string) error {
		return hook(victim, func() error { return preempt(ctx, c, by, victim, plugin) })
	}
}
