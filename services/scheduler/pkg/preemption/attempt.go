package preemption

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// attempt is what one call of PostFilter knows and finds out. The nodes are tried in parallel; all of them share it.
type attempt struct {
	pl        *Plugin
	preemptor *v1.Pod
	request   fwk.Resource
	now       time.Time
	// entitled: non-preemptible jobs may be taken. refused: it would have needed one and was not entitled.
	entitled bool
	refused  atomic.Bool
	// sample is how many candidates are tried before only a better one is of interest.
	sample int

	jobsMutex sync.RWMutex
	jobs      map[jobKey]*job

	mu     sync.Mutex
	losses map[string]*loss
	best   *loss
	// compliant is the number of candidates that violate no budget; without one the search goes on, as upstream's does.
	compliant int
}

type attemptKey struct{}

func withAttempt(ctx context.Context, at *attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, at)
}

// attemptFrom returns the attempt that a dry run belongs to, or a fresh one for a caller who runs a part by itself.
func (pl *Plugin) attemptFrom(ctx context.Context, preemptor *v1.Pod) *attempt {
	if at, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		return at
	}
	if preemptor == nil {
		preemptor = &v1.Pod{}
	}
	return pl.newAttempt(preemptor, pl.clock.Now())
}

func newAttempt(pl *Plugin, preemptor *v1.Pod, now time.Time, entitled bool, sample int) *attempt {
	at := &attempt{
		pl: pl, preemptor: preemptor, now: now, entitled: entitled, sample: sample,
		jobs: map[jobKey]*job{}, losses: map[string]*loss{},
	}
	if info, err := framework.NewPodInfo(preemptor); err == nil {
		at.request = info.CalculateResource().Resource
	}
	return at
}

// job returns what the job of a pod would lose. It is added up once an attempt, from an index by job.
func (at *attempt) job(pod *v1.Pod) *job {
	key := keyOf(pod)
	at.jobsMutex.RLock()
	found, ok := at.jobs[key]
	at.jobsMutex.RUnlock()
	if ok {
		return found
	}
	made := newJob(at.pods(key, pod), at.now, at.pl.priorities, at.pl.decided.has)
	at.jobsMutex.Lock()
	defer at.jobsMutex.Unlock()
	if found, ok := at.jobs[key]; ok {
		return found
	}
	at.jobs[key] = made
	return made
}

// pods returns the pods of a job; `pod` is one of them, which the informer may have lost already.
func (at *attempt) pods(key jobKey, pod *v1.Pod) []*v1.Pod {
	objects, err := at.pl.jobs.ByIndex(jobIndex, key.String())
	if err != nil || len(objects) == 0 {
		return []*v1.Pod{pod}
	}
	pods := make([]*v1.Pod, 0, len(objects))
	for _, object := range objects {
		pods = append(pods, object.(*v1.Pod))
	}
	return pods
}

// loss is what a set of victims costs.
type loss struct {
	ordinary ordinaryLoss
	// scavengers counts the scavenger pods among the victims, the ones on their way out included.
	scavengers int
	// nonPreemptible counts scavenger pods whose job is non-preemptible and not broken yet.
	nonPreemptible int
	// seconds is the CPU time at risk of the jobs newly broken, siblings on other nodes included, and jobs their number.
	seconds        float64
	secondsByClass map[class]float64
	jobs           int
	// pods are the victims that nobody is removing yet.
	pods []*v1.Pod
}

// ordinaryLoss is what DefaultPreemption looks at, over the ordinary victims alone.
type ordinaryLoss struct {
	violations int64
	highest    int32
	sum        int64
	count      int64
}

// weigh adds up what victims cost; violations are those of ordinary pods, as SelectVictimsOnNode reports them.
func (at *attempt) weigh(victims []*v1.Pod, violations int64) *loss {
	l := &loss{ordinary: noOrdinaryLoss(), secondsByClass: map[class]float64{}}
	l.ordinary.violations = violations
	broken := map[jobKey]bool{}
	for _, pod := range victims {
		if pod.DeletionTimestamp == nil && !at.pl.decided.has(pod.UID) {
			l.pods = append(l.pods, pod)
		}
		if !isScavenger(pod) {
			l.ordinary.add(pod)
			continue
		}
		l.scavengers++
		job := at.job(pod)
		if job.lost {
			continue
		}
		if job.class == nonPreemptible {
			l.nonPreemptible++
		}
		if key := keyOf(pod); !broken[key] {
			broken[key] = true
			l.jobs++
			l.seconds += job.seconds
			l.secondsByClass[job.class] += job.seconds
		}
	}
	return l
}

// record keeps what a node's victims cost, and whether they are the best so far.
func (at *attempt) record(node string, victims []*v1.Pod, violations int) {
	l := at.weigh(victims, int64(violations))
	at.mu.Lock()
	defer at.mu.Unlock()
	at.losses[node] = l
	if violations == 0 {
		at.compliant++
	}
	if at.best == nil || l.lessThan(at.best) {
		at.best = l
	}
}

// found returns the best loss so far (nil: none), and whether as many candidates were tried as DefaultPreemption tries.
func (at *attempt) found() (*loss, bool) {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.best, at.compliant > 0 && len(at.losses) >= at.sample
}

// lossOn returns what the victims on a node cost.
func (at *attempt) lossOn(node string) *loss {
	at.mu.Lock()
	defer at.mu.Unlock()
	if l, ok := at.losses[node]; ok {
		return l
	}
	return &loss{ordinary: noOrdinaryLoss()}
}
