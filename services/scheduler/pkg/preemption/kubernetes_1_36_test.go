//go:build kubernetes_1_36

package preemption

import (
	"context"

	v1 "k8s.io/api/core/v1"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

func versionOptions(snapshot *internalcache.Snapshot) []frameworkruntime.Option {
	return []frameworkruntime.Option{
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
	}
}

// onRemoval has `hook` stand between a plugin and the removal of a victim.
func onRemoval(pl *defaultpreemption.DefaultPreemption, hook func(victim *v1.Pod, preempt func() error) error) {
	preempt := pl.Executor.PreemptPod
	pl.Executor.PreemptPod = func(
		ctx context.Context, c preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string,
	) error {
		return hook(victim, func() error { return preempt(ctx, c, by, victim, plugin) })
	}
}
