//go:build kubernetes_1_36 || kubernetes_1_35

package preemption

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
)

// queued is what stands in the scheduling queue.
type queued = fwk.QueuedPodInfo

func (w world) snapshot(running []*v1.Pod) *internalcache.Snapshot {
	return internalcache.NewSnapshot(running, w.nodes)
}
