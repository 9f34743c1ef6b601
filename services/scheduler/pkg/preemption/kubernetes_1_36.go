//go:build kubernetes_1_36

package preemption

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// watchRemovals has this plugin asked where the embedded one removes a pod.
func (pl *Plugin) watchRemovals() {
	preempt := pl.Executor.PreemptPod
	pl.Executor.PreemptPod = func(
		ctx context.Context, c preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string,
	) error {
		return pl.remove(ctx, removalOf(c, by, victim), func() error { return preempt(ctx, c, by, victim, plugin) })
	}
}
