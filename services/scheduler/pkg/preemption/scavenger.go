package preemption

import (
	"context"
	"errors"
	"math"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/clock"
)

// The names of the contract that a scheduler needs (package scavenger_api, module names).
const (
	labelJob                    = "scavenger.dev/job"
	labelClass                  = "scavenger.dev/preemption-class"
	annotationRisk              = "scavenger.dev/running-priority"
	annotationCheckpoint        = "scavenger.dev/last-checkpoint"
	annotationLatency           = "scavenger.dev/latency"
	latencyInteractive          = "interactive"
	resourceReclaimedCPU        = "scavenger.dev/reclaimed-cpu"
	priorityClassNonPreemptible = "scavenger-non-preemptible"
	priorityClassPreemptible    = "scavenger-preemptible"

	jobIndex = "scavenger.dev/job"
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

// isScavenger tells whether a pod belongs to a scavenger job; one of its marks is enough.
func isScavenger(pod *v1.Pod) bool {
	if _, ok := pod.Labels[labelJob]; ok {
		return true
	}
	if _, ok := pod.Labels[labelClass]; ok {
		return true
	}
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

// of returns the value of the PriorityClass that a class stands for.
func (p priorities) of(c class) int32 {
	name := priorityClassPreemptible
	if c == nonPreemptible {
		name = priorityClassNonPreemptible
	}
	if found, err := p.lister.Get(name); err == nil {
		return found.Value
	}
	return defaultPriorities[name]
}

// --- jobs ---

// jobKey names a job. A scavenger pod without the label is a job of its own.
type jobKey struct {
	namespace, job string
}

func keyOf(pod *v1.Pod) jobKey {
	if job := pod.Labels[labelJob]; job != "" {
		return jobKey{pod.Namespace, job}
	}
	return jobKey{pod.Namespace, "/" + pod.Name}
}

// runOf identifies one run of a job: the batch Job it has for this run, or the pod itself where there is none.
func runOf(pod *v1.Pod) types.UID {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return owner.UID
	}
	return pod.UID
}

// String is the key in the informer's index.
func (k jobKey) String() string {
	return k.namespace + "/" + k.job
}

// indexByJob lets the pods of a job be found wherever they run; profiles share one informer, so it may be there.
func indexByJob(informer cache.SharedIndexInformer) error {
	if _, ok := informer.GetIndexer().GetIndexers()[jobIndex]; ok {
		return nil
	}
	return informer.AddIndexers(cache.Indexers{jobIndex: func(object any) ([]string, error) {
		pod, ok := object.(*v1.Pod)
		if !ok {
			return nil, errors.New("not a pod")
		}
		if !isScavenger(pod) {
			return nil, nil
		}
		return []string{keyOf(pod).String()}, nil
	}})
}

// job is what one scavenger job would lose, as of one attempt.
type job struct {
	class    class
	priority int32
	// seconds is the CPU time at risk in CPU-seconds over all its pods, wherever they are.
	seconds float64
	// lost says that a pod of it is going already: the whole gang goes with it, and nothing is left to lose.
	lost bool
}

// newJob adds up a job's pods. It is non-preemptible when one of its pods says so: the labels of a gang are written one
// after the other, and one may be missing.
func newJob(pods []*v1.Pod, now time.Time, values priorities, decided func(types.UID) bool) *job {
	j := &job{class: preemptible}
	for _, pod := range pods {
		j.lost = j.lost || pod.DeletionTimestamp != nil || decided(runOf(pod))
		j.seconds += secondsAtRisk(pod, now)
		if classOf(pod) == nonPreemptible {
			j.class = nonPreemptible
		}
	}
	if j.lost {
		j.seconds = 0
	}
	j.priority = values.of(j.class)
	return j
}

// secondsAtRisk is what a pod's end would throw away, in CPU-seconds: the annotation, or where that is missing or
// senseless the CPU request times the seconds since the last checkpoint or the start.
func secondsAtRisk(pod *v1.Pod, now time.Time) float64 {
	if text, ok := pod.Annotations[annotationRisk]; ok {
		seconds, err := strconv.ParseFloat(text, 64)
		if err == nil && !math.IsNaN(seconds) && !math.IsInf(seconds, 0) && seconds >= 0 {
			return min(seconds, maxRisk)
		}
	}
	if pod.Status.StartTime == nil {
		return 0
	}
	since := pod.Status.StartTime.Time
	if checkpoint, err := time.Parse(time.RFC3339, pod.Annotations[annotationCheckpoint]); err == nil {
		if checkpoint.After(since) && !checkpoint.After(now) {
			since = checkpoint
		}
	}
	return min(cores(pod)*max(0, now.Sub(since).Seconds()), maxRisk)
}

// cores is a pod's CPU request; a pod on reclaimed capacity requests none, but says what it was placed for.
func cores(pod *v1.Pod) float64 {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	if cpu := requests.Cpu(); !cpu.IsZero() {
		return cpu.AsApproximateFloat64()
	}
	reclaimed := requests[resourceReclaimedCPU]
	return reclaimed.AsApproximateFloat64() / 1000
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
	return pod.DeletionTimestamp != nil && now.Before(pod.DeletionTimestamp.Add(overdueAfter))
}

// --- decisions ---

// decisionMemory is how long a victim counts as going before the API server has said so.
const decisionMemory = 30 * time.Second

// decisions remembers victims, and the runs they belong to, between the decision and the moment their end is seen: the
// next preemptor comes earlier, and must neither take a second job where a broken gang's other pods would do, nor count
// a loss twice.
type decisions struct {
	clock clock.PassiveClock
	mu    sync.RWMutex
	until map[types.UID]time.Time
}

func newDecisions(clock clock.PassiveClock) *decisions {
	return &decisions{clock: clock, until: map[types.UID]time.Time{}}
}

func (d *decisions) add(pods []*v1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	for uid, until := range d.until {
		if now.After(until) {
			delete(d.until, uid)
		}
	}
	for _, pod := range pods {
		d.until[pod.UID] = now.Add(decisionMemory)
		if isScavenger(pod) {
			d.until[runOf(pod)] = now.Add(decisionMemory)
		}
	}
}

// forget takes a decision back: the API server would not have it.
func (d *decisions) forget(pod *v1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.until, pod.UID)
	delete(d.until, runOf(pod))
}

func (d *decisions) has(uid types.UID) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	until, ok := d.until[uid]
	return ok && !d.clock.Now().After(until)
}
