//go:build !kubernetes_1_35

package preemption

import (
	"context"

	fwk "k8s.io/kube-scheduler/framework"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
)

func (deviceClasses) PodGroups() fwk.PodGroupLister { return nil }

// addTo puts a pod into the scheduling queue.
func addTo(ctx context.Context, queue internalqueue.SchedulingQueue, p pod) {
	queue.Add(ctx, p.Pod)
}

// runsPreemption tells whether victims are being removed in the background for a pod.
func runsPreemption(pl *defaultpreemption.DefaultPreemption, pod pod) bool {
	return pl.Executor.IsPodRunningPreemption(pod.UID)
}
