//go:build !kubernetes_1_36 && !kubernetes_1_35

package preemption

import (
	"context"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// queued is what stands in the scheduling queue.
type queued = fwk.QueuedEntityInfo

func (w world) snapshot(running []*v1.Pod) *internalcache.Snapshot {
	var groups []*schedulingv1beta1.PodGroup
	for _, g := range w.groups {
		groups = append(groups, g.(*schedulingv1beta1.PodGroup))
	}
	return internalcache.NewTestSnapshotWithPodGroups(running, w.nodes, groups)
}

func versionOptions(snapshot *internalcache.Snapshot) []frameworkruntime.Option {
	return []frameworkruntime.Option{
		frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithMutableSnapshotLister(snapshot),
		frameworkruntime.WithPodGroupManager(snapshot),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
	}
}

// onRemoval has `hook` stand between a plugin and the removal of a victim.
func onRemoval(pl *defaultpreemption.DefaultPreemption, hook func(victim *v1.Pod, preempt func() error) error) {
	preempt := pl.Executor.PreemptPod
	pl.Executor.PreemptPod = func(
		ctx context.Context, c preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string,
	) (inMemory bool, err error) {
		err = hook(victim, func() (err error) {
			inMemory, err = preempt(ctx, c, by, victim, plugin)
			return err
		})
		return inMemory, err
	}
}
