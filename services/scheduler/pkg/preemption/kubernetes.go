//go:build !kubernetes_1_36 && !kubernetes_1_35

package preemption

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// fitOptions are those that NodeResourcesFit judges by.
func fitOptions(features feature.Features) noderesources.ResourceRequestsOptions {
	return noderesources.ResourceRequestsOptions{
		EnablePodLevelResources:                            features.EnablePodLevelResources,
		EnableDRAExtendedResource:                          features.EnableDRAExtendedResource,
		EnableInPlacePodVerticalScalingSchedulerPreemption: features.EnableInPlacePodVerticalScalingSchedulerPreemption,
	}
}

// candidates are the pods of a node that DefaultPreemption may take, in groups that go together.
type candidates = []*preemption.DomainVictim

// candidatesOn returns the candidates on a node.
func (pl *Plugin) candidatesOn(ctx context.Context, node fwk.NodeInfo) (candidates, error) {
	return pl.Evaluator.GetVictimsOnNode(ctx, node)
}

// SelectVictimsOnNode chooses what has to leave a node so that the preemptor fits.
func (pl *Plugin) SelectVictimsOnNode(
	ctx context.Context, state fwk.CycleState, preemptor *v1.Pod, node fwk.NodeInfo, candidates candidates,
	pdbs []*policy.PodDisruptionBudget,
) ([]*v1.Pod, int, *fwk.Status) {
	return pl.selectOn(ctx, state, preemptor, node, candidates, pdbs)
}

// selectOrdinary leaves the choice to DefaultPreemption. Scavenger pods are not on offer: those that may go are off the
// node.
func (r *room) selectOrdinary(
	candidates candidates, pdbs []*policy.PodDisruptionBudget,
) ([]*v1.Pod, int, *fwk.Status) {
	ordinary := slices.DeleteFunc(slices.Clone(candidates), func(v *preemption.DomainVictim) bool {
		return hasScavenger(v)
	})
	return r.pl.DefaultPreemption.SelectVictimsOnNode(r.ctx, r.state, r.preemptor, r.node, ordinary, pdbs)
}

func hasScavenger(victim preemption.Victim) bool {
	return slices.ContainsFunc(victim.Pods(), func(pod fwk.PodInfo) bool { return isScavenger(pod.GetPod()) })
}

// takeOver has the embedded plugin ask this one where it removes pods, and whether it may.
func (pl *Plugin) takeOver(features feature.Features) {
	pl.features = features
	pl.IsEligiblePod = func(_ fwk.NodeInfo, victim preemption.Victim, _ *v1.Pod) bool {
		return !slices.ContainsFunc(victim.Pods(), func(pod fwk.PodInfo) bool { return !pl.isForEmbedded(pod.GetPod()) })
	}
	preempt := pl.Executor.PreemptPod
	pl.Executor.PreemptPod = func(
		ctx context.Context, c preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string,
	) (inMemory bool, err error) {
		err = pl.remove(ctx, removalOf(c, by, victim), func() (err error) {
			inMemory, err = preempt(ctx, c, by, victim, plugin)
			return err
		})
		return inMemory, err
	}
}
