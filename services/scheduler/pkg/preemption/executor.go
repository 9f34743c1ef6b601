//go:build !kubernetes_1_35

package preemption

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// removalOf is the removal of a victim in the words of the executor, which 1.35 does not have.
func removalOf(c preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod) removal {
	return removal{victim: victim, by: by.UID(), pods: slices.Collect(maps.Values(by.Pods())), node: c.Name()}
}

// recorder writes Events.
func (pl *Plugin) recorder(ctx context.Context) events.EventRecorder {
	return pl.handle.EventRecorder().WithLogger(klog.FromContext(ctx))
}
