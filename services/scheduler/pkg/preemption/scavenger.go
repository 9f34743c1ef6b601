package preemption

import (
	"context"
	"math"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// The names of the contract that a scheduler needs (package scavenger_api, module names).
const (
	labelJob                    = "scavenger.dev/job"
	labelTask                   = "scavenger.dev/task"
	labelKind                   = "scavenger.dev/kind"
	labelClass                  = "scavenger.dev/preemption-class"
	annotationRisk              = "scavenger.dev/running-priority"
	annotationCheckpoint        = "scavenger.dev/last-checkpoint"
	annotationSizes             = "scavenger.dev/requested-cpu"
	annotationRun               = "scavenger.dev/run"
	annotationContainer         = "kubectl.kubernetes.io/default-container"
	annotationLatency           = "scavenger.dev/latency"
	latencyInteractive          = "interactive"
	resourceReclaimedCPU        = "scavenger.dev/reclaimed-cpu"
	resourceReclaimedMemory     = "scavenger.dev/reclaimed-memory"
	priorityClassNonPreemptible = "scavenger-non-preemptible"
	priorityClassPreemptible    = "scavenger-preemptible"

	mainContainer = "main"

	kindJob = "Job"

	// maxRisk keeps a figure somebody made up (1e300) from drowning the sums it enters: 30,000 CPU-years.
	maxRisk = 1e12
)

// class is what the prioritizer made of a running pod.
type class string

const (
	ordinary       class = "ordinary"
	preemptible    class = "preemptible"
	nonPreemptible class = "non-preemptible"
)

// defaultPriorities hold where a PriorityClass cannot be read.
var defaultPriorities = map[string]int32{priorityClassNonPreemptible: -1000, priorityClassPreemptible: -2000}

// isScavenger tells whether a pod belongs to a scavenger job: its PriorityClass is one of theirs. That cannot be
// changed after creation; labels can, by whoever may write pods, and say something about scavenger pods only.
func isScavenger(pod *v1.Pod) bool {
	return pod.Spec.PriorityClassName == priorityClassPreemptible || pod.Spec.PriorityClassName == priorityClassNonPreemptible
}

// classOf reads a pod's class. Without a label that says one, a scavenger pod is what its PriorityClass made it.
func classOf(pod *v1.Pod) class {
	if !isScavenger(pod) {
		return ordinary
	}
	switch label := class(pod.Labels[labelClass]); label {
	case preemptible, nonPreemptible:
		return label
	}
	if pod.Spec.PriorityClassName == priorityClassNonPreemptible {
		return nonPreemptible
	}
	return preemptible
}

// --- effective priority ---

// priorities knows the values of the PriorityClasses.
type priorities struct {
	lister schedulinglisters.PriorityClassLister
}

// watchPriorities follows the PriorityClasses with an informer of its own: the scheduler waits for those of its shared
// factory before it starts, and a stock kube-scheduler's role may not list these.
func watchPriorities(ctx context.Context, client kubernetes.Interface) priorities {
	factory := informers.NewSharedInformerFactory(client, 0)
	lister := factory.Scheduling().V1().PriorityClasses().Lister()
	factory.Start(ctx.Done())
	return priorities{lister}
}

// values returns the values of the PriorityClasses that the classes stand for.
func (p priorities) values() map[class]int32 {
	return map[class]int32{
		preemptible: p.of(priorityClassPreemptible), nonPreemptible: p.of(priorityClassNonPreemptible),
	}
}

func (p priorities) of(name string) int32 {
	if found, err := p.lister.Get(name); err == nil {
		return found.Value
	}
	return defaultPriorities[name]
}

// --- what is at risk ---

// riskOf is what the end of a job would throw away, in CPU-seconds, from its pods; an accelerator counts as so many cores.
//
// The prioritizer writes the figure of the whole job on every pod of a gang, one after the other. So pods may carry an
// older one, or none yet, and the largest counts: too much protects a job a moment too long, too little breaks a whole
// gang for the price of a pod. Where no pod has one (annotated is false) it is estimated, pod by pod. Of pods that have
// ended there are none: the pod informer of a scheduler leaves them out.
func riskOf(pods []*v1.Pod, now time.Time, set settings) (seconds float64, annotated bool) {
	for _, pod := range pods {
		if written, ok := annotatedRisk(pod); ok {
			seconds, annotated = max(seconds, written), true
		}
	}
	if annotated {
		return seconds, true
	}
	for _, pod := range pods {
		seconds += estimatedRisk(pod, now, set)
	}
	return min(seconds, maxRisk), false
}

// estimatedRisk is what one pod's end would throw away as far as can be told without the prioritizer: the cost of its
// requests times the seconds since the last checkpoint, or since the start and what that costs. Of a pod that was resized
// in place, each amount that it requested counts for its time. The prioritizer writes a figure on a preemptible pod only where this is far from the truth (estimated_at_risk in scavenger_domain.gang).
func estimatedRisk(pod *v1.Pod, now time.Time, set settings) float64 {
	since, ok := startOf(pod)
	if !ok {
		return 0
	}
	cost := set.startupCost
	if checkpoint, ok := checkpointTime(pod.Annotations[annotationCheckpoint]); ok {
		if checkpoint.After(since) && !checkpoint.After(now) {
			since, cost = checkpoint, 0
		}
	}
	requests := computesWith(pod)
	return set.weights.cost(requests)*cost + costOver(pod, requests, since, now, set.weights)
}

// startOf is when the work of a scavenger pod started: its main container; false while that has not run. The kubelet's
// startTime stands before: images are pulled and init containers run between the two. It only stands in where a runtime
// does not say when (started_at in scavenger_domain.pod_reading; both are tested against testdata/unit_cases.json).
func startOf(pod *v1.Pod) (time.Time, bool) {
	status := mainStatus(pod)
	if status == nil {
		return time.Time{}, false
	}
	if running := status.State.Running; running != nil {
		return firstSeen(running.StartedAt, startTime(pod), pod.CreationTimestamp)
	}
	ended := status.State.Terminated
	if ended == nil || ended.Reason == "StartError" || ended.Reason == "ContainerCannotRun" {
		return time.Time{}, false
	}
	seenEnd := ended.FinishedAt
	if ended.Reason == "ContainerStatusUnknown" || ended.Reason == "Unknown" {
		seenEnd = metav1.Time{}
	}
	return firstSeen(ended.StartedAt, seenEnd, startTime(pod))
}

// mainStatus is the status of the container that does the work; nil where there is none yet.
func mainStatus(pod *v1.Pod) *v1.ContainerStatus {
	statuses := pod.Status.ContainerStatuses
	if len(statuses) == 0 {
		return nil
	}
	program, named := pod.Annotations[annotationContainer]
	if !named {
		program = mainContainer
	}
	for i := range statuses {
		if len(statuses) > 1 && statuses[i].Name == program {
			return &statuses[i]
		}
	}
	return &statuses[0]
}

func startTime(pod *v1.Pod) metav1.Time {
	if pod.Status.StartTime == nil {
		return metav1.Time{}
	}
	return *pod.Status.StartTime
}

// firstSeen is the first of these moments that somebody saw: of others runtimes and kubelets say the epoch.
func firstSeen(moments ...metav1.Time) (time.Time, bool) {
	for _, at := range moments {
		if !at.IsZero() && at.Unix() != 0 {
			return at.Time, true
		}
	}
	return time.Time{}, false
}

// annotatedRisk reads what the prioritizer wrote about a pod's job; false when it is missing or senseless.
func annotatedRisk(pod *v1.Pod) (seconds float64, ok bool) {
	text, ok := pod.Annotations[annotationRisk]
	if !ok {
		return 0, false
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(seconds) || math.IsInf(seconds, 0) || seconds < 0 {
		return 0, false
	}
	return min(seconds, maxRisk), true
}

// priorityOf is the pod's own priority, which no victim may reach.
func priorityOf(pod *v1.Pod) int32 {
	return corev1helpers.PodPriority(pod)
}

// overdueAfter is how long after its grace period a pod is still expected to go. A kubelet kills at the end of it; one
// that has not by now hangs, and whoever waited for its room would wait for ever.
const overdueAfter = time.Minute

// leaving tells whether a pod is on its way out and can be expected to arrive there.
func leaving(pod *v1.Pod, now time.Time) bool {
	return pod.DeletionTimestamp != nil && now.Before(overdueAt(pod))
}

// overdueAt is when a pod that is on its way out is given up.
func overdueAt(pod *v1.Pod) time.Time {
	return pod.DeletionTimestamp.Add(overdueAfter)
}
