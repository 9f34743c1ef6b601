package preemption

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// eventReason stands on the victim beside the scheduler's own "Preempted", which gives the preemptor's UID only.
const eventReason = "PreemptedBy"

type preemptPodFunc = func(
	ctx context.Context, c preemption.Candidate, preemptor preemption.ExecutorPreemptor, victim *v1.Pod, plugin string,
) error

// reporting wraps the call that removes a victim: it waits until the decision is remembered, takes it back where the
// removal fails, counts, and tells a scavenger pod for whom it had to go.
func (pl *Plugin) reporting(preempt preemptPodFunc) preemptPodFunc {
	return func(
		ctx context.Context, c preemption.Candidate, preemptor preemption.ExecutorPreemptor, victim *v1.Pod, plugin string,
	) error {
		pl.decided.wait(preemptor.UID())
		if pl.decided.attempt(preemptor.UID(), victim) {
			pl.jobs.forget(keyOf(victim))
		}
		if err := preempt(ctx, c, preemptor, victim, plugin); err != nil {
			for _, pod := range pl.decided.fail(preemptor.UID(), victim) {
				pl.jobs.forget(keyOf(pod))
			}
			return err
		}
		victimsTotal.WithLabelValues(string(classOf(victim))).Inc()
		if isScavenger(victim) {
			pl.tell(ctx, victim, preemptor, c.Name())
		}
		return nil
	}
}

func (pl *Plugin) tell(ctx context.Context, victim *v1.Pod, preemptor preemption.ExecutorPreemptor, node string) {
	seconds, _ := riskOf(pl.jobs.podsOf(keyOf(victim), victim), pl.clock.Now())
	for _, pod := range preemptor.Pods() {
		pl.handle.EventRecorder().WithLogger(klog.FromContext(ctx)).Eventf(victim, pod, v1.EventTypeNormal,
			eventReason, "Preempting", "Made room on node %s for pod %s: %.0f CPU-seconds at risk in its job",
			node, klog.KObj(pod), seconds)
		return
	}
}
