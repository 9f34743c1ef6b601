//go:build kubernetes_1_35

package preemption

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// watchRemovals has this plugin asked where the embedded one removes a pod.
func (pl *Plugin) watchRemovals() {
	preempt := pl.Evaluator.PreemptPod
	pl.Evaluator.PreemptPod = func(
		ctx context.Context, c preemption.Candidate, by, victim *v1.Pod, plugin string,
	) error {
		r := removal{victim: victim, by: by.UID, pods: []*v1.Pod{by}, node: c.Name()}
		return pl.remove(ctx, r, func() error { return preempt(ctx, c, by, victim, plugin) })
	}
}

// recorder writes Events.
func (pl *Plugin) recorder(context.Context) events.EventRecorder {
	return pl.handle.EventRecorder()
}
