package preemption

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// decisionMemory is how long a victim counts as going before the API server has said so.
const decisionMemory = 30 * time.Second

// decisions remembers victims, and the runs they belong to, between the decision and the moment their end is seen:
// the next preemptor comes earlier, and must neither take a second job where a broken gang's other pods would do, nor
// count a loss twice.
type decisions struct {
	clock clock.PassiveClock

	mu   sync.RWMutex
	pods map[types.UID]*decision
	// runs are the decisions about the pods of one run of a job.
	runs map[types.UID]map[types.UID]*decision
	// open are the preemptors being decided about. What is closed is the end of that.
	open map[types.UID]chan struct{}
}

// decision is that one pod has to go.
type decision struct {
	pod   *v1.Pod
	by    types.UID // the preemptor
	until time.Time
	// attempted says that its removal was begun.
	attempted bool
	// overdue is when the pod will be given up, zero as long as it is not seen to leave; who waits for it is told.
	overdue time.Time
	waiting []func(overdue time.Time)
}

func newDecisions(clock clock.PassiveClock) *decisions {
	return &decisions{
		clock: clock, pods: map[types.UID]*decision{}, runs: map[types.UID]map[types.UID]*decision{},
		open: map[types.UID]chan struct{}{},
	}
}

// deciding keeps the removal of a preemptor's victims back until the returned function is called, once.
func (d *decisions) deciding(by types.UID) (decided func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	done := make(chan struct{})
	d.open[by] = done
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		close(done)
		delete(d.open, by)
	}
}

// wait returns when nothing is being decided for a preemptor.
func (d *decisions) wait(by types.UID) {
	d.mu.RLock()
	done := d.open[by]
	d.mu.RUnlock()
	if done != nil {
		<-done
	}
}

// add remembers that pods have to go for a preemptor; those that have to go already are left as they are.
func (d *decisions) add(by types.UID, pods []*v1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	for _, known := range d.pods {
		if !d.holds(known) {
			d.drop(known)
		}
	}
	for _, pod := range pods {
		d.put(by, pod, now)
	}
}

// attempt remembers that the removal of a pod has begun, and tells whether it was not known to have to go.
func (d *decisions) attempt(by types.UID, pod *v1.Pod) (news bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, known := d.pods[pod.UID]
	if made := d.put(by, pod, d.clock.Now()); made.by == by {
		made.attempted = true
	}
	return !known
}

// whenLeaving calls back as soon as one of some pods that have to go is seen to leave, with the time when it will be
// given up.
func (d *decisions) whenLeaving(pods []*v1.Pod, waiting func(overdue time.Time)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, pod := range pods {
		switch known, ok := d.pods[pod.UID]; {
		case !ok:
		case known.overdue.IsZero():
			known.waiting = append(known.waiting, waiting)
		default:
			waiting(known.overdue)
		}
	}
}

// handler watches pods that begin to leave.
func (d *decisions) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, after any) {
		pod, ok := after.(*v1.Pod)
		if !ok || pod.DeletionTimestamp == nil || !isScavenger(pod) {
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		known, ok := d.pods[pod.UID]
		if !ok || !known.overdue.IsZero() {
			return
		}
		known.overdue = overdueAt(pod)
		for _, waiting := range known.waiting {
			waiting(known.overdue)
		}
	}}
}

// fail takes back that a pod has to go for a preemptor, whose removal the API server would not have, and the same of
// all pods whose removal has not begun: with one failure the rest is given up. It returns these pods.
func (d *decisions) fail(by types.UID, pod *v1.Pod) (forgotten []*v1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, known := range d.pods {
		if known.by == by && (!known.attempted || known.pod.UID == pod.UID) {
			d.drop(known)
			forgotten = append(forgotten, known.pod)
		}
	}
	return forgotten
}

func (d *decisions) put(by types.UID, pod *v1.Pod, now time.Time) *decision {
	if known, ok := d.pods[pod.UID]; ok {
		if d.holds(known) {
			return known
		}
		d.drop(known)
	}
	made := &decision{pod: pod, by: by, until: now.Add(decisionMemory)}
	d.pods[pod.UID] = made
	if isScavenger(pod) {
		run := runOf(pod)
		if d.runs[run] == nil {
			d.runs[run] = map[types.UID]*decision{}
		}
		d.runs[run][pod.UID] = made
	}
	return made
}

func (d *decisions) drop(known *decision) {
	run := runOf(known.pod)
	delete(d.pods, known.pod.UID)
	delete(d.runs[run], known.pod.UID)
	if len(d.runs[run]) == 0 {
		delete(d.runs, run)
	}
}

// has tells whether a pod, or a pod of a run, has to go.
func (d *decisions) has(uid types.UID) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if known, ok := d.pods[uid]; ok && d.holds(known) {
		return true
	}
	for _, known := range d.runs[uid] {
		if d.holds(known) {
			return true
		}
	}
	return false
}

func (d *decisions) holds(known *decision) bool {
	return !d.clock.Now().After(known.until)
}

// --- what profiles share ---

// shared is what all profiles of one scheduler know together: they decide about the same pods.
type shared struct {
	jobs     *jobTable
	settings *followedSettings
	decided  *decisions
}

var (
	sharedMutex sync.Mutex
	// sharedBy has one entry in a scheduler, whose profiles share their informers; tests run several.
	sharedBy = map[informers.SharedInformerFactory]*shared{}
)

// sharedOf returns what the plugins on these informers share, until the context ends.
func sharedOf(ctx context.Context, handle fwk.Handle, clock clock.PassiveClock) (*shared, error) {
	factory := handle.SharedInformerFactory()
	sharedMutex.Lock()
	defer sharedMutex.Unlock()
	if known, ok := sharedBy[factory]; ok {
		return known, nil
	}
	jobs, err := newJobTable(factory.Core().V1().Pods().Informer())
	if err != nil {
		return nil, err
	}
	settings, err := followSettings(ctx, handle.ClientSet())
	if err != nil {
		return nil, err
	}
	made := &shared{jobs: jobs, settings: settings, decided: newDecisions(clock)}
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(made.decided.handler()); err != nil {
		return nil, err
	}
	sharedBy[factory] = made
	context.AfterFunc(ctx, func() {
		sharedMutex.Lock()
		defer sharedMutex.Unlock()
		delete(sharedBy, factory)
	})
	return made, nil
}
