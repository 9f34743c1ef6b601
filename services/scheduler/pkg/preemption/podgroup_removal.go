//go:build !kubernetes_1_36 && !kubernetes_1_35

package preemption

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/parallelize"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// perVersion is what only some versions of Kubernetes need.
type perVersion struct {
	features feature.Features
	// making are the pods of groups for which victims are being removed.
	making makingRoom
}

// makingRoom holds pods that are not to be tried meanwhile, each with the last victim once all others are being removed.
type makingRoom struct {
	mu   sync.RWMutex
	pods map[types.UID]*v1.Pod
}

func (m *makingRoom) begin(pods []*v1.Pod) { m.set(pods, nil) }

// set says which victim is the last one.
func (m *makingRoom) set(pods []*v1.Pod, last *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pods == nil {
		m.pods = map[types.UID]*v1.Pod{}
	}
	for _, pod := range pods {
		m.pods[pod.UID] = last
	}
}

func (m *makingRoom) end(pods []*v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pod := range pods {
		delete(m.pods, pod.UID)
	}
}

// has tells whether a pod is not to be tried. It is, as soon as its last victim is seen to leave: that this one has gone
// may be the last event that tells the queue of it, and it may come before the call that removes it returns.
func (m *makingRoom) has(pod *v1.Pod, lister corelisters.PodLister) bool {
	m.mu.RLock()
	last, making := m.pods[pod.UID]
	m.mu.RUnlock()
	if !making || last == nil {
		return making
	}
	known, err := lister.Pods(last.Namespace).Get(last.Name)
	return err == nil && known.DeletionTimestamp == nil
}

// PreEnqueue keeps pods out of the queue while their victims, or those of their group, are being removed.
func (pl *Plugin) PreEnqueue(ctx context.Context, pod *v1.Pod) *fwk.Status {
	if pl.making.has(pod, pl.waiting.lister) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "waiting for the preemption for this pod group to be finished")
	}
	return pl.DefaultPreemption.PreEnqueue(ctx, pod)
}

// decideGroup remembers a plan, counts it, and begins to remove the victims.
func (pl *Plugin) decideGroup(g *podGroup, plan *groupPlan) *fwk.Status {
	loss := g.at.weigh(plan.victims, int64(plan.violations))
	metrics.WorkloadPreemptionVictims.Observe(float64(len(plan.victims)))
	pl.decide(g.ctx, groupUID(g.info), g.at, "", loss)
	if len(loss.pods) == 0 {
		attempts.WithLabelValues(resultAwaiting).Inc()
		return nil
	}
	attempts.WithLabelValues(resultPreempted).Inc()
	return pl.removeFor(g, plan, loss.pods)
}

// failGroup counts that a group finds no victims, and has it tried again when it is entitled to more.
func (pl *Plugin) failGroup(g *podGroup, status *fwk.Status) {
	if status.IsError() {
		attempts.WithLabelValues(resultError).Inc()
		return
	}
	pl.waitIfRefused(g.ctx, g.at)
	attempts.WithLabelValues(resultNoCandidate).Inc()
}

// removeFor removes the victims of a group, in the background where that is on. The end of the last one has the group
// tried again; where there is no such end, as a removal failed or was none in the API, it is put to the head of the queue.
func (pl *Plugin) removeFor(g *podGroup, plan *groupPlan, victims []*v1.Pod) *fwk.Status {
	r := &groupRemoval{pl, plan, &groupPreemptor{g.info}}
	if !pl.async {
		return fwk.AsStatus(r.all(g.ctx, victims))
	}
	ctx := klog.NewContext(context.Background(), klog.FromContext(g.ctx)) // the scheduling cycle is over before
	members := g.info.GetUnscheduledPods()
	pl.making.begin(members)
	go func() {
		inMemory, err := r.inOrder(ctx, victims, func(last *v1.Pod) { pl.making.set(members, last) })
		pl.making.end(members)
		if err != nil {
			utilruntime.HandleErrorWithContext(ctx, err, "Error occurred during async preemption")
		}
		if err != nil || inMemory {
			pl.handle.Activate(klog.FromContext(ctx), r.by.Pods())
		}
	}()
	return nil
}

// groupRemoval is the removal of the victims of a plan.
type groupRemoval struct {
	pl   *Plugin
	plan *groupPlan
	by   *groupPreemptor
}

// inOrder removes all victims but the last one, says which that is, and removes it. inMemory: that one was only on its way
// to its node, and there will be no event of its end.
func (r *groupRemoval) inOrder(
	ctx context.Context, victims []*v1.Pod, before func(last *v1.Pod),
) (inMemory bool, err error) {
	last := len(victims) - 1
	if err := r.all(ctx, victims[:last]); err != nil {
		return false, err
	}
	before(victims[last])
	return r.one(ctx, victims[last])
}

func (r *groupRemoval) all(ctx context.Context, victims []*v1.Pod) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := parallelize.NewResultChannel[error]()
	r.pl.handle.Parallelizer().Until(ctx, len(victims), func(i int) {
		if _, err := r.one(ctx, victims[i]); err != nil {
			failed.SendWithCancel(err, cancel)
		}
	}, Name)
	return failed.Receive()
}

func (r *groupRemoval) one(ctx context.Context, victim *v1.Pod) (inMemory bool, err error) {
	return r.pl.Executor.PreemptPod(ctx, &groupCandidate{r.plan, victim.Spec.NodeName}, r.by, victim, Name)
}

// groupCandidate is the node that a victim leaves.
type groupCandidate struct {
	plan *groupPlan
	node string
}

func (c *groupCandidate) Name() string { return c.node }
func (c *groupCandidate) Victims() *extenderv1.Victims {
	return &extenderv1.Victims{Pods: c.plan.victims, NumPDBViolations: int64(c.plan.violations)}
}
func (c *groupCandidate) NumPodGroupDisruptions() int { return c.plan.disruptions }

// groupPreemptor is a group in the words of the executor.
type groupPreemptor struct {
	fwk.PodGroupInfo
}

func (p *groupPreemptor) UID() types.UID        { return groupUID(p.PodGroupInfo) }
func (p *groupPreemptor) SchedulerName() string { return p.GetUnscheduledPods()[0].Spec.SchedulerName }
func (p *groupPreemptor) Priority() int32       { return groupPriority(p.PodGroupInfo) }
func (p *groupPreemptor) Type() string          { return string(p.GetType()) }

func (p *groupPreemptor) Obj() runtime.Object {
	if composite := p.GetCompositePodGroup(); composite != nil {
		return composite
	}
	return p.GetPodGroup()
}

func (p *groupPreemptor) Pods() map[string]*v1.Pod {
	pods := map[string]*v1.Pod{}
	for _, pod := range p.GetUnscheduledPods() {
		pods[pod.Name] = pod
	}
	return pods
}
