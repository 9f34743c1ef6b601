package preemption

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
)

// attempt is what one call of PostFilter knows and finds out. The nodes are tried in parallel; all of them share it.
type attempt struct {
	pl        *Plugin
	preemptor *v1.Pod
	now       time.Time
	// settings are those of its beginning.
	settings settings
	// unmet are the reasons that NodeResourcesFit gave for turning down nodes: what else a node may lack of the
	// preemptor's requests does not keep it out.
	unmet map[string]bool
	// entitled: non-preemptible jobs may be taken. refused: one was left alone, as the preemptor is not entitled.
	// wait is how long it waits in all until it is.
	entitled bool
	refused  atomic.Bool
	wait     time.Duration
	// awaits: the preemptor has a victim that is still going.
	awaits bool
	// sample is how many candidates are tried before only a better one is of interest.
	sample int

	// priority is the preemptor's, priorities those of the classes.
	priority   int32
	priorities map[class]int32

	jobsMutex sync.RWMutex
	jobs      map[jobKey]*job
	// broken are jobs that count as such while victims are being chosen for several pods, one after the other.
	broken map[jobKey]*job
	// outlooks are what a survey saw of the nodes that are tried.
	outlooks map[string]*outlook

	mu       sync.Mutex
	losses   map[string]*loss
	refusals map[string]*fwk.Status
	best     *loss
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
	return &attempt{
		pl: pl, preemptor: preemptor, now: now, entitled: entitled, wait: pl.entitle.wait, sample: sample,
		priority: priorityOf(preemptor), priorities: pl.priorities.values(),
		jobs: map[jobKey]*job{}, losses: map[string]*loss{}, refusals: map[string]*fwk.Status{},
		unmet: map[string]bool{}, settings: pl.settings.now(),
	}
}

// listenTo notes what the filters said of the nodes that pods could make room on, and since when the preemptor has
// waited for capacity.
func (at *attempt) listenTo(statuses fwk.NodeToStatusReader) {
	nodes, err := statuses.NodesForStatusCode(at.pl.handle.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return // the dry run proper meets the same, and reports it
	}
	for _, node := range nodes {
		at.listen(statuses.Get(node.Node().Name))
	}
	at.pl.noteFailure(at.preemptor, len(at.unmet) > 0, at.now)
	at.entitled = at.pl.entitle.has(at.preemptor, at.now)
}

// noteFailure notes that a pod found no node. Of a pod that is deleted meanwhile nothing is kept: no event of it follows.
func (pl *Plugin) noteFailure(pod *v1.Pod, lacksCapacity bool, now time.Time) {
	pl.entitle.tried(pod, lacksCapacity, now)
	if known, err := pl.waiting.lister.Pods(pod.Namespace).Get(pod.Name); err != nil || known.UID != pod.UID {
		pl.entitle.forget(pod.UID)
	}
}

// listen notes what NodeResourcesFit said of a node.
func (at *attempt) listen(status *fwk.Status) {
	if status == nil || status.Plugin() != noderesources.Name {
		return
	}
	for _, reason := range status.Reasons() {
		if !at.unmet[reason] {
			at.unmet[reason] = true
		}
	}
}

// job returns what the job of a pod would lose: as the table has it, or added up once an attempt where it depends on the
// time.
func (at *attempt) job(key jobKey, pod *v1.Pod) *job {
	if broken := at.broken[key]; broken != nil {
		return broken
	}
	if known := at.pl.jobs.get(key); known != nil {
		return known
	}
	at.jobsMutex.RLock()
	found, ok := at.jobs[key]
	at.jobsMutex.RUnlock()
	if ok {
		return found
	}
	made := at.pl.jobs.addUp(key, pod, at.now, at.settings, at.pl.decided.has)
	at.jobsMutex.Lock()
	defer at.jobsMutex.Unlock()
	at.jobs[key] = made
	return made
}

// breakJob lets a job count as broken for the rest of the choice; `pod` is one of its pods.
func (at *attempt) breakJob(key jobKey, pod *v1.Pod) {
	if at.broken == nil {
		at.broken = map[jobKey]*job{}
	}
	at.broken[key] = &job{class: at.job(key, pod).class, lost: true}
}

// mendJobs is the end of that.
func (at *attempt) mendJobs() {
	at.broken = nil
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
	// victims are all that have to go, pods those of them that nobody is removing yet.
	victims, pods []*v1.Pod
}

// sum is the part of a loss that a bound is known of.
func (l *loss) sum() sum {
	return sum{l.nonPreemptible > 0, l.seconds}
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
	l := &loss{ordinary: noOrdinaryLoss(), victims: victims, secondsByClass: map[class]float64{}}
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
		key := keyOf(pod)
		job := at.job(key, pod)
		if job.lost {
			continue
		}
		if job.class == nonPreemptible {
			l.nonPreemptible++
		}
		if !broken[key] {
			broken[key] = true
			l.jobs++
			l.seconds += job.seconds
			l.secondsByClass[job.class] += job.seconds
		}
	}
	return l
}

// entitle lets the attempt take non-preemptible jobs from here on, and forgets what was found without them.
func (at *attempt) entitle() {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.entitled = true
	at.refused.Store(false)
	at.losses, at.refusals = map[string]*loss{}, map[string]*fwk.Status{}
	at.best, at.compliant, at.outlooks = nil, 0, nil
}

// refuse keeps why a node will not do.
func (at *attempt) refuse(node string, status *fwk.Status) {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.refusals[node] = status
}

// refusal returns why a node will not do; nil when it was not tried, or will.
func (at *attempt) refusal(node string) *fwk.Status {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.refusals[node]
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

// lossOn returns what the victims on a node cost; nil when none were found there.
func (at *attempt) lossOn(node string) *loss {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.losses[node]
}
