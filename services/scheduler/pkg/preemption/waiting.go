package preemption

import (
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/utils/clock"
)

// --- who may take non-preemptible jobs ---

// entitlement decides whether a pod may take the place of a non-preemptible scavenger job.
type entitlement struct {
	// wait is how long pods wait at most, fullFrom the unsaved work for each core from which they do (0: from none on).
	wait, fullFrom time.Duration

	clock clock.PassiveClock
	mu    sync.Mutex
	// failed holds when pending pods first found no capacity; zero: they were tried, and something else kept them out.
	// Time behind a gate, or without a volume or a node that takes the pod, is no time spent waiting for capacity.
	failed map[types.UID]time.Time
}

func newEntitlement(wait, fullFrom time.Duration, clock clock.PassiveClock) *entitlement {
	return &entitlement{wait: wait, fullFrom: fullFrom, clock: clock, failed: map[types.UID]time.Time{}}
}

// has tells whether a pod is interactive, critical for the system, or has waited long enough for any job.
func (e *entitlement) has(pod *v1.Pod, now time.Time) bool {
	return interactive(pod) || critical(pod) || e.wait == 0 || e.waited(pod, now) >= e.wait
}

// waitFor is how long a pod that requests so many cores waits before it may end jobs with so many CPU-seconds unsaved:
// its waiting is worth as much as their work, at the rate that the two settings give.
func (e *entitlement) waitFor(seconds, cores float64) time.Duration {
	worth := e.fullFrom.Seconds() * cores
	if seconds >= worth {
		return e.wait
	}
	return time.Duration(float64(e.wait) * seconds / worth)
}

// waited is how long a pod has waited.
func (e *entitlement) waited(pod *v1.Pod, now time.Time) time.Duration {
	return now.Sub(e.since(pod, now))
}

// remaining is how long the pod still has to wait, of a wait.
func (e *entitlement) remaining(pod *v1.Pod, wait time.Duration) time.Duration {
	return max(0, wait-e.waited(pod, e.clock.Now()))
}

// since returns when a pod began to wait for capacity; now where it has not yet. A pod that runs and wants to grow waits
// since the kubelet deferred that: the API server cuts this time to seconds, and the end of that second is taken, so that
// nobody is entitled early.
func (e *entitlement) since(pod *v1.Pod, now time.Time) time.Time {
	if deferred := deferredResize(pod); deferred != nil {
		return deferred.LastTransitionTime.Add(time.Second)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if at := e.failed[pod.UID]; !at.IsZero() {
		return at
	}
	return now
}

// tried notes that a pod was tried and found no node, for lack of capacity or for another reason. The first lack of
// capacity counts, whatever later attempts fail for.
func (e *entitlement) tried(pod *v1.Pod, lacksCapacity bool, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	first, known := e.failed[pod.UID]
	switch {
	case !lacksCapacity:
		e.failed[pod.UID] = first
	case !known:
		e.failed[pod.UID] = recordedFailure(pod, now)
	case first.IsZero():
		e.failed[pod.UID] = now
	}
}

// recordedFailure returns since when a pod has waited for capacity that this scheduler tries for the first time: the API
// server holds when an earlier scheduler first failed to place the pod, and what the last attempt lacked. So a change of
// the leader costs nobody his wait. Of a pod that had scheduling gates the record says nothing.
func recordedFailure(pod *v1.Pod, now time.Time) time.Time {
	condition := scheduledCondition(pod)
	if condition == nil || condition.Reason != v1.PodReasonUnschedulable || condition.LastTransitionTime.IsZero() ||
		gatedOnce(pod) || !tellsOfCapacity(condition.Message) {
		return now
	}
	if at := condition.LastTransitionTime.Add(time.Second); at.Before(now) {
		return at
	}
	return now
}

// tellsOfCapacity tells whether a scheduler's message names a lack of capacity, in the words of NodeResourcesFit.
func tellsOfCapacity(message string) bool {
	return strings.Contains(message, "Insufficient ") || strings.Contains(message, "Too many pods")
}

// critical tells whether a pod's priority is one that only Kubernetes' own classes have: system-cluster-critical and
// system-node-critical.
func critical(pod *v1.Pod) bool {
	return priorityOf(pod) >= scheduling.SystemCriticalPriority
}

func interactive(pod *v1.Pod) bool {
	return pod.Annotations[annotationLatency] == latencyInteractive
}

// handler forgets pods that wait no longer.
func (e *entitlement) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: podUpdates(func(old, pod *v1.Pod) {
			if pod.Spec.NodeName != "" && old.Spec.NodeName == "" {
				e.forget(pod.UID)
			}
		}),
		DeleteFunc: func(object any) {
			if pod, ok := podOf(object); ok {
				e.forget(pod.UID)
			}
		},
	}
}

func (e *entitlement) forget(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.failed, uid)
}

// gatedOnce tells of a pod that it had scheduling gates: the
// API server gives gated pods, and no others, their condition PodScheduled at creation, and lifting the gates changes
// the specification. Somebody else's change to a pod that was tried in the second of its creation looks the same;
// then a pod waits too long rather than too short.
func gatedOnce(pod *v1.Pod) bool {
	condition := scheduledCondition(pod)
	return condition != nil && pod.Generation > 1 &&
		!condition.LastTransitionTime.After(pod.CreationTimestamp.Add(time.Second))
}

func scheduledCondition(pod *v1.Pod) *v1.PodCondition {
	return conditionOf(pod, v1.PodScheduled)
}

// deferredResize is the condition of a running pod for whose new size its node has no room now; nil for any other. With
// the gate InPlacePodVerticalScalingSchedulerPreemption the scheduler makes that room.
func deferredResize(pod *v1.Pod) *v1.PodCondition {
	if pod.Spec.NodeName == "" {
		return nil
	}
	if condition := conditionOf(pod, v1.PodResizePending); condition != nil && condition.Reason == v1.PodReasonDeferred {
		return condition
	}
	return nil
}

// waitsForRoom tells whether a pod has no node yet, or wants more of it.
func waitsForRoom(pod *v1.Pod) bool {
	return pod.Spec.NodeName == "" || deferredResize(pod) != nil
}

func conditionOf(pod *v1.Pod, kind v1.PodConditionType) *v1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// --- who waits, and when they are tried again ---

// leastWait is the least time between two tries: what is unsaved grows while a pod waits for it, and so does the wait.
const leastWait = time.Second

// classChangeDelay gathers the label changes of one pass of the prioritizer into one retry.
const classChangeDelay = 100 * time.Millisecond

// nodeLossDelay is how long the scheduler may take to see that a node takes no more pods: tried before, a pod would find
// its victim there still leaving, and wait for it.
const nodeLossDelay = time.Second

// waiting holds the pods that non-preemptible jobs stand in the way of. The scheduling queue tries a pod again on events
// that concern the filters that failed; that time has passed, or that a job's class has changed, is none of them.
type waiting struct {
	clock    clock.WithDelayedExecution
	lister   corelisters.PodLister
	activate func(pods map[string]*v1.Pod)

	mu    sync.Mutex
	pods  map[types.UID]waiter
	awake bool
	// later is when pods that wait for others to leave are tried again, as those hang.
	later map[types.UID]time.Time
}

// waiter is a pod that waits, and when it is tried again.
type waiter struct {
	types.NamespacedName
	due time.Time
}

func newWaiting(
	clock clock.WithDelayedExecution, lister corelisters.PodLister, activate func(pods map[string]*v1.Pod),
) *waiting {
	return &waiting{
		clock: clock, lister: lister, activate: activate, pods: map[types.UID]waiter{},
		later: map[types.UID]time.Time{},
	}
}

// add has a pod tried again when it becomes entitled in `remaining`, or earlier if a job becomes preemptible.
func (w *waiting) add(pod *v1.Pod, remaining time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	due := w.clock.Now().Add(remaining)
	if known, ok := w.pods[pod.UID]; ok && !due.Before(known.due) {
		return
	}
	w.pods[pod.UID] = waiter{types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, due}
	w.clock.AfterFunc(remaining, func() { w.due(pod.UID) })
}

// again has a pod tried again at a time, unless it is tried earlier: then it is seen what there is to wait for.
func (w *waiting) again(pod *v1.Pod, when time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known, ok := w.later[pod.UID]; ok && !when.Before(known) {
		return
	}
	w.later[pod.UID] = when
	w.clock.AfterFunc(when.Sub(w.clock.Now()), func() {
		w.mu.Lock()
		superseded := !w.later[pod.UID].Equal(when)
		if !superseded {
			delete(w.later, pod.UID)
		}
		w.mu.Unlock()
		if !superseded {
			w.retry(map[types.UID]types.NamespacedName{pod.UID: {Namespace: pod.Namespace, Name: pod.Name}})
		}
	})
}

// lost tries the pods again that a node was kept free for.
func (w *waiting) lost(nominated []fwk.PodInfo) {
	pods := map[types.UID]types.NamespacedName{}
	for _, info := range nominated {
		pod := info.GetPod()
		pods[pod.UID] = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	}
	if len(pods) > 0 {
		w.clock.AfterFunc(nodeLossDelay, func() { w.retry(pods) })
	}
}

// due tries one pod again, now that its time has come.
func (w *waiting) due(uid types.UID) {
	w.mu.Lock()
	known, ok := w.pods[uid]
	delete(w.pods, uid)
	w.mu.Unlock()
	if ok {
		w.retry(map[types.UID]types.NamespacedName{uid: known.NamespacedName})
	}
}

// classChanged tries all of them again a moment later.
func (w *waiting) classChanged() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.awake || len(w.pods) == 0 {
		return
	}
	w.awake = true
	w.clock.AfterFunc(classChangeDelay, func() {
		w.mu.Lock()
		w.awake = false
		pods := make(map[types.UID]types.NamespacedName, len(w.pods))
		for uid, known := range w.pods {
			pods[uid] = known.NamespacedName
		}
		w.mu.Unlock()
		w.retry(pods)
	})
}

// retry moves pods to the head of the queue, past their backoff; those that are gone or bound are left out.
func (w *waiting) retry(names map[types.UID]types.NamespacedName) {
	pods := map[string]*v1.Pod{}
	for uid, name := range names {
		pod, err := w.lister.Pods(name.Namespace).Get(name.Name)
		if err != nil || pod.UID != uid || !waitsForRoom(pod) {
			continue
		}
		pods[name.String()] = pod
	}
	if len(pods) > 0 {
		w.activate(pods)
	}
}

// handler watches for what the scheduling queue takes no notice of.
func (w *waiting) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{UpdateFunc: podUpdates(func(old, pod *v1.Pod) {
		switch {
		case waitsForRoom(pod):
			if interactive(pod) && !interactive(old) {
				w.activate(map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
			}
		case classOf(old) == nonPreemptible && classOf(pod) == preemptible:
			w.classChanged()
		}
	})}
}

// nodeHandler watches for nodes that take no more pods while some are nominated to them: no filter's event is that a pod
// fits somewhere no longer, so they would wait for the end of their victims there.
func (w *waiting) nodeHandler(nominated func(node string) []fwk.PodInfo) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			old, wasNode := before.(*v1.Node)
			node, isNode := after.(*v1.Node)
			if wasNode && isNode && closes(old, node) {
				w.lost(nominated(node.Name))
			}
		},
		DeleteFunc: func(object any) {
			if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			if node, ok := object.(*v1.Node); ok {
				w.lost(nominated(node.Name))
			}
		},
	}
}

// closes tells whether a node was cordoned, or got a taint that keeps pods off.
func closes(old, node *v1.Node) bool {
	if node.Spec.Unschedulable && !old.Spec.Unschedulable {
		return true
	}
	return slices.ContainsFunc(node.Spec.Taints, func(taint v1.Taint) bool {
		return taint.Effect != v1.TaintEffectPreferNoSchedule &&
			!slices.ContainsFunc(old.Spec.Taints, func(known v1.Taint) bool { return known.MatchTaint(&taint) })
	})
}
