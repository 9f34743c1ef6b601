// Package preemption decides which running pods make room for a pending one, in a cluster where scavenger jobs soak up
// what is idle.
//
// The plugin embeds DefaultPreemption and changes what has to change:
//
//   - plugin.go    the extension points
//   - attempt.go   what is remembered during one attempt, and what a set of victims costs
//   - scavenger.go which pods are scavenger pods, their class, and what is at risk in them
//   - jobs.go      what a whole job would lose, kept up to date
//   - decisions.go who has to go and is not seen to go yet
//   - victims.go   the victims on one node: scavenger pods before any ordinary pod, whole jobs, least CPU time at risk
//   - choice.go    the jobs on one node that leave enough room and lose the least
//   - bound.go     which nodes cannot be better than the best one found, without trying them
//   - score.go     the order of the nodes
//   - waiting.go   who may take non-preemptible jobs, and when those who may not yet are tried again
//   - podgroup.go  the same for a group of pods, with podgroup_removal.go
//   - kubernetes.go what differs between versions of Kubernetes, with kubernetes_older.go (1.36 and 1.35),
//     executor.go (all but 1.35), kubernetes_1_36.go and kubernetes_1_35.go
//   - settings.go  what all components read alike, as far as the plugin needs it
//   - weights.go   what the resources of a pod count as
//   - args.go, metrics.go, events.go
package preemption

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/utils/clock"
)

// Name is what the plugin is called in a scheduler's configuration.
const Name = "ScavengerPreemption"

// Plugin is DefaultPreemption for ordinary pods, and gives scavenger pods away by the CPU time that would be lost.
type Plugin struct {
	*defaultpreemption.DefaultPreemption

	handle     fwk.Handle
	clock      clock.WithDelayedExecution
	jobs       *jobTable
	settings   *followedSettings
	priorities priorities
	decided    *decisions
	entitle    *entitlement
	waiting    *waiting
	// async: victims are removed while the next pod is being scheduled.
	async bool
	// devices and fit are what NodeResourcesFit judges by.
	devices fwk.SharedDRAManager
	fit     noderesources.ResourceRequestsOptions

	perVersion
}

var (
	_ fwk.PostFilterPlugin  = &Plugin{}
	_ fwk.PreEnqueuePlugin  = &Plugin{}
	_ fwk.EnqueueExtensions = &Plugin{}
	_ preemption.Interface  = &Plugin{}
)

// New builds the plugin for one profile of a scheduler.
func New(ctx context.Context, configuration runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, err := decodeArgs(configuration)
	if err != nil {
		return nil, err
	}
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	return newPlugin(ctx, args, handle, features, clock.RealClock{})
}

func newPlugin(
	ctx context.Context, args *Args, handle fwk.Handle, features feature.Features, clock clock.WithDelayedExecution,
) (*Plugin, error) {
	embedded, err := defaultpreemption.New(ctx, args.defaultPreemption(), handle, features)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	registerMetrics()
	pods := handle.SharedInformerFactory().Core().V1().Pods()
	known, err := sharedOf(ctx, handle, clock)
	if err != nil {
		return nil, fmt.Errorf("%s: following pods and settings: %w", Name, err)
	}
	pl := &Plugin{
		DefaultPreemption: embedded,
		handle:            handle,
		clock:             clock,
		jobs:              known.jobs,
		settings:          known.settings,
		priorities:        watchPriorities(ctx, handle.ClientSet()),
		decided:           known.decided,
		entitle:           newEntitlement(args.NonPreemptibleWait.Duration, args.FullWaitFrom.Duration, clock),
		async:             features.EnableAsyncPreemption,
		fit:               fitOptions(features),
	}
	if features.EnableDRAExtendedResource {
		pl.devices = handle.SharedDRAManager()
	}
	pl.waiting = newWaiting(clock, pods.Lister(), func(pods map[string]*v1.Pod) {
		handle.Activate(klog.FromContext(ctx), pods)
	})
	for _, handler := range []cache.ResourceEventHandler{pl.waiting.handler(), pl.entitle.handler()} {
		if _, err := pods.Informer().AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("%s: watching pods: %w", Name, err)
		}
	}
	nodes := handle.SharedInformerFactory().Core().V1().Nodes().Informer()
	if _, err := nodes.AddEventHandler(pl.waiting.nodeHandler(handle.NominatedPodsForNode)); err != nil {
		return nil, fmt.Errorf("%s: watching nodes: %w", Name, err)
	}

	// The embedded plugin made itself the implementation; from here on the outer one is asked.
	embedded.Evaluator.PluginName = Name
	embedded.Evaluator.Interface = pl
	pl.takeOver(features)
	return pl, nil
}

// isForEmbedded tells whether the embedded plugin may take a pod. For it a scavenger pod is a victim only as one that is
// going already: that is how a preemptor knows what it waits for, whatever became of the class since. The others are
// selectVictims's to give.
func (pl *Plugin) isForEmbedded(victim *v1.Pod) bool {
	return !isScavenger(victim) || leaving(victim, pl.clock.Now())
}

// Name returns the plugin's name.
func (pl *Plugin) Name() string {
	return Name
}

// PostFilter looks for victims for a pod that fits nowhere, and starts to remove them.
func (pl *Plugin) PostFilter(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	if isScavenger(pod) {
		// Their PriorityClasses say preemptionPolicy Never; a pod made by hand may say otherwise.
		attempts.WithLabelValues(resultRefused).Inc()
		return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: scavenger pods never preempt")
	}
	began := pl.clock.Now()
	at := pl.newAttempt(pl.latest(pod), began)
	at.listenTo(statuses)
	attemptCtx := withAttempt(ctx, at)
	if !pl.jobs.empty() {
		statuses = promising{statuses, at, attemptCtx, state}
	}
	if pl.async {
		defer pl.decided.deciding(pod.UID)()
	}
	result, status := pl.DefaultPreemption.PostFilter(attemptCtx, state, pod, statuses)
	attempts.WithLabelValues(pl.conclude(ctx, at, result, status)).Inc()
	decisionSeconds.Observe(pl.clock.Since(began).Seconds())
	return result, status
}

// latest returns the pod as it is now: the queue may still hold it without the annotation that had it tried again.
func (pl *Plugin) latest(pod *v1.Pod) *v1.Pod {
	known, err := pl.waiting.lister.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || known.UID != pod.UID {
		return pod
	}
	return known
}

// conclude remembers what was decided, counts it, and returns the name of the result.
func (pl *Plugin) conclude(
	ctx context.Context, at *attempt, result *fwk.PostFilterResult, status *fwk.Status,
) string {
	switch {
	case status.IsSuccess():
		node := result.NominatedNodeName
		loss := at.lossOn(node)
		if loss == nil {
			loss = at.weigh(nil, 0)
		}
		pl.decide(ctx, at.preemptor.UID, at, node, loss)
		if len(loss.pods) == 0 {
			return resultAwaiting
		}
		return resultPreempted
	case status.Code() == fwk.Error:
		return resultError
	}
	pl.waitIfRefused(ctx, at)
	switch {
	case at.awaits:
		pl.giveUpInTime(at, pl.podsOn(at.preemptor.Status.NominatedNodeName))
		return resultAwaiting
	case neverPreempts(at.preemptor):
		return resultRefused
	}
	return resultNoCandidate
}

// decide remembers who has to go for a pod or a group.
func (pl *Plugin) decide(ctx context.Context, by types.UID, at *attempt, node string, loss *loss) {
	pl.decided.add(by, loss.pods)
	for _, pod := range loss.pods {
		pl.jobs.forget(keyOf(pod))
	}
	pl.giveUpInTime(at, loss.victims)
	for class, seconds := range loss.secondsByClass {
		lostSeconds.WithLabelValues(string(class)).Add(seconds)
	}
	klog.FromContext(ctx).V(2).Info("Preemption decided", "pod", klog.KObj(at.preemptor), "node", node,
		"victims", len(loss.pods), "ordinary", loss.ordinary.count, "nonPreemptible", loss.nonPreemptible,
		"jobs", loss.jobs, "cpuSecondsLost", loss.seconds, "entitled", at.entitled)
}

// waitIfRefused has the preemptor tried again when it may take what was refused.
func (pl *Plugin) waitIfRefused(ctx context.Context, at *attempt) {
	if !at.refused.Load() {
		return
	}
	pl.waiting.add(at.preemptor, max(leastWait, pl.entitle.remaining(at.preemptor, at.wait)))
	klog.FromContext(ctx).V(2).Info("Only non-preemptible jobs could free the capacity, and the pod has not waited long enough",
		"pod", klog.KObj(at.preemptor), "wait", at.wait)
}

// PodEligibleToPreemptOthers leaves that to DefaultPreemption, and remembers who has to wait for a victim.
func (pl *Plugin) PodEligibleToPreemptOthers(
	ctx context.Context, pod *v1.Pod, nominatedNodeStatus *fwk.Status,
) (bool, string) {
	eligible, reason := pl.DefaultPreemption.PodEligibleToPreemptOthers(ctx, pod, nominatedNodeStatus)
	pl.attemptFrom(ctx, pod).awaits = !eligible && !neverPreempts(pod)
	return eligible, reason
}

func neverPreempts(pod *v1.Pod) bool {
	return pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever
}

// giveUpInTime has the preemptor tried again when the first of these pods that is leaving, or will be, is overdue: no
// event would tell that it hangs.
func (pl *Plugin) giveUpInTime(at *attempt, pods []*v1.Pod) {
	again := func(overdue time.Time) { pl.waiting.again(at.preemptor, overdue) }
	for _, pod := range pods {
		if isScavenger(pod) && leaving(pod, at.now) {
			again(overdueAt(pod))
		}
	}
	pl.decided.whenLeaving(pods, again)
}

func (pl *Plugin) podsOn(node string) (pods []*v1.Pod) {
	info, err := pl.handle.SnapshotSharedLister().NodeInfos().Get(node)
	if err != nil {
		return nil
	}
	for _, pod := range info.GetPods() {
		pods = append(pods, pod.GetPod())
	}
	return pods
}

// GetOffsetAndNumCandidates makes the dry run visit every node that bound.go lets it see, once there are scavenger pods:
// the one with the least at risk may be anywhere.
func (pl *Plugin) GetOffsetAndNumCandidates(nodes int32) (int32, int32) {
	offset, sample := pl.DefaultPreemption.GetOffsetAndNumCandidates(nodes)
	if pl.jobs.empty() {
		return offset, sample
	}
	return 0, nodes
}

// OrderedScoreFuncs compares candidates with scavenger victims; without any, nil leaves it to DefaultPreemption.
func (pl *Plugin) OrderedScoreFuncs(
	ctx context.Context, nodesToVictims map[string]*extenderv1.Victims,
) []func(node string) int64 {
	at := pl.attemptFrom(ctx, nil)
	losses := make(map[string]*loss, len(nodesToVictims))
	scavengers := false
	for node, victims := range nodesToVictims {
		losses[node] = at.weigh(victims.Pods, victims.NumPDBViolations)
		scavengers = scavengers || losses[node].scavengers > 0
	}
	if !scavengers {
		return nil
	}
	return orderedScores(losses, nodesToVictims)
}

// sample is how many candidates DefaultPreemption would compare in this cluster.
func (pl *Plugin) sample() int {
	nodes, err := pl.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil || len(nodes) == 0 {
		return 0
	}
	_, sample := pl.DefaultPreemption.GetOffsetAndNumCandidates(int32(len(nodes)))
	return int(sample)
}

func (pl *Plugin) newAttempt(preemptor *v1.Pod, now time.Time) *attempt {
	return newAttempt(pl, preemptor, now, pl.entitle.has(preemptor, now), pl.sample())
}
