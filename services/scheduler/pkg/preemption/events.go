package preemption

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// eventReason stands on the victim beside the scheduler's own "Preempted", which gives the preemptor's UID only.
const eventReason = "PreemptedBy"

// removal is that of one victim.
type removal struct {
	victim *v1.Pod
	// by is the UID of the preemptor, pods are its own: one, or those of a pod group.
	by   types.UID
	pods []*v1.Pod
	node string
}

// remove removes a victim by a call of upstream's: it waits until the decision is remembered, takes it back where the
// removal fails, counts, and tells a scavenger pod for whom it had to go.
func (pl *Plugin) remove(ctx context.Context, r removal, preempt func() error) error {
	pl.decided.wait(r.by)
	if pl.decided.attempt(r.by, r.victim) {
		pl.jobs.forget(keyOf(r.victim))
	}
	if err := preempt(); err != nil {
		for _, pod := range pl.decided.fail(r.by, r.victim) {
			pl.jobs.forget(keyOf(pod))
		}
		return err
	}
	victimsTotal.WithLabelValues(string(classOf(r.victim))).Inc()
	if isScavenger(r.victim) && len(r.pods) > 0 {
		pl.tell(ctx, r)
	}
	return nil
}

func (pl *Plugin) tell(ctx context.Context, r removal) {
	seconds, _ := riskOf(pl.jobs.podsOf(keyOf(r.victim), r.victim), pl.clock.Now(), pl.settings.now())
	pl.recorder(ctx).Eventf(r.victim, r.pods[0], v1.EventTypeNormal, eventReason,
		"Preempting", "Freed capacity on node %s for pod %s: %.0f CPU-seconds of unsaved work in its job",
		r.node, klog.KObj(r.pods[0]), seconds)
}
