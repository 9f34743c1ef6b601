//go:build kubernetes_1_36 || kubernetes_1_35

package preemption

import (
	"context"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
)

// perVersion is what only some versions of Kubernetes need.
type perVersion struct{}

// fitOptions are those that NodeResourcesFit judges by.
func fitOptions(features feature.Features) noderesources.ResourceRequestsOptions {
	return noderesources.ResourceRequestsOptions{
		EnablePodLevelResources:   features.EnablePodLevelResources,
		EnableDRAExtendedResource: features.EnableDRAExtendedResource,
	}
}

// candidates: DefaultPreemption finds the pods that it may take itself.
type candidates = []struct{}

func (pl *Plugin) candidatesOn(context.Context, fwk.NodeInfo) (candidates, error) { return nil, nil }

// SelectVictimsOnNode chooses what has to leave a node so that the preemptor fits.
func (pl *Plugin) SelectVictimsOnNode(
	ctx context.Context, state fwk.CycleState, preemptor *v1.Pod, node fwk.NodeInfo, pdbs []*policy.PodDisruptionBudget,
) ([]*v1.Pod, int, *fwk.Status) {
	return pl.selectOn(ctx, state, preemptor, node, nil, pdbs)
}

// selectOrdinary leaves the choice to DefaultPreemption.
func (r *room) selectOrdinary(_ candidates, pdbs []*policy.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	return r.pl.DefaultPreemption.SelectVictimsOnNode(r.ctx, r.state, r.preemptor, r.node, pdbs)
}

// takeOver has the embedded plugin ask this one where it removes pods, and whether it may.
func (pl *Plugin) takeOver(feature.Features) {
	pl.IsEligiblePod = func(_ fwk.NodeInfo, victim fwk.PodInfo, _ *v1.Pod) bool {
		return pl.isForEmbedded(victim.GetPod())
	}
	pl.watchRemovals()
}
