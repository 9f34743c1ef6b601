package preemption

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// jobIndex is the name of an index of the pod informer: pods by job.
const jobIndex = "scavenger.dev/job"

// jobKey names one run of a job, or of one task of an array: pods of an earlier run that do not go are no members of the
// gang. A scavenger pod without the label is a job of its own.
type jobKey struct {
	namespace, job, run string
}

func keyOf(pod *v1.Pod) jobKey {
	if job := pod.Labels[labelJob]; job != "" {
		if pod.Labels[labelKind] == kindJob {
			job = "job.batch/" + job // an adopted Job may have the name of a ScavengerJob (scavenger_api.job_keys)
		}
		if task := pod.Labels[labelTask]; task != "" {
			job += "[" + task + "]"
		}
		return jobKey{pod.Namespace, job, pod.Annotations[annotationRun]}
	}
	return jobKey{pod.Namespace, "/" + pod.Name, ""}
}

// String is the key in the informer's index.
func (k jobKey) String() string {
	return k.namespace + "/" + k.job + "/" + k.run
}

// runOf identifies one run of a job: the batch Job it has for this run, or the pod itself where there is none. All tasks
// of an array have one Job, and the pod of each is a run.
func runOf(pod *v1.Pod) types.UID {
	if owner := metav1.GetControllerOf(pod); owner != nil && pod.Labels[labelTask] == "" {
		return owner.UID
	}
	return pod.UID
}

// job is what one scavenger job would lose.
type job struct {
	class class
	// seconds is the CPU time at risk in CPU-seconds of the whole job, wherever its pods are.
	seconds float64
	// lost says that a pod of it is going already: the whole gang goes with it, and nothing is left to lose.
	lost bool
}

// newJob says what a job's pods come to. It is non-preemptible when one of its pods says so: the labels of a gang are
// written one after the other, and one may be missing. lasting tells that the answer holds until one of the
// pods changes, whatever the time and the settings are.
func newJob(pods []*v1.Pod, now time.Time, set settings, decided func(types.UID) bool) (j *job, lasting bool) {
	j = &job{class: preemptible}
	j.seconds, lasting = riskOf(pods, now, set)
	for _, pod := range pods {
		if decided(runOf(pod)) {
			j.lost, lasting = true, false
		}
		j.lost = j.lost || pod.DeletionTimestamp != nil
		if classOf(pod) == nonPreemptible {
			j.class = nonPreemptible
		}
	}
	if j.lost {
		j.seconds = 0
	}
	return j, lasting
}

// jobTable finds the pods of a job wherever they run, and remembers what they came to until one of them changes.
type jobTable struct {
	pods cache.Indexer

	mu   sync.RWMutex
	jobs map[jobKey]*job
	// changes counts what was forgotten: what was added up meanwhile may be from before.
	changes atomic.Int64
	number  atomic.Int64
}

// newJobTable follows an informer, to which it adds an index.
func newJobTable(informer cache.SharedIndexInformer) (*jobTable, error) {
	if err := informer.AddIndexers(cache.Indexers{jobIndex: indexByJob}); err != nil {
		return nil, err
	}
	t := &jobTable{pods: informer.GetIndexer(), jobs: map[jobKey]*job{}}
	_, err := informer.AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: func(object any) bool {
			pod, ok := podOf(object)
			return ok && isScavenger(pod)
		},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(object any) { t.number.Add(1); t.changed(object) },
			UpdateFunc: func(before, after any) {
				t.changed(before)
				t.changed(after)
			},
			DeleteFunc: func(object any) { t.number.Add(-1); t.changed(object) },
		},
	})
	return t, err
}

func indexByJob(object any) ([]string, error) {
	pod, ok := object.(*v1.Pod)
	if !ok {
		return nil, errors.New("not a pod")
	}
	if !isScavenger(pod) {
		return nil, nil
	}
	return []string{keyOf(pod).String()}, nil
}

// podOf reads what an informer hands out, the last known state of a pod whose deletion was missed included.
func podOf(object any) (*v1.Pod, bool) {
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	pod, ok := object.(*v1.Pod)
	return pod, ok
}

// podUpdates hands on what an informer tells of pods that have changed, as such.
func podUpdates(handle func(old, pod *v1.Pod)) func(before, after any) {
	return func(before, after any) {
		old, wasPod := before.(*v1.Pod)
		pod, isPod := after.(*v1.Pod)
		if wasPod && isPod {
			handle(old, pod)
		}
	}
}

// empty tells whether there are no scavenger pods at all.
func (t *jobTable) empty() bool {
	return t.number.Load() == 0
}

func (t *jobTable) changed(object any) {
	if pod, ok := podOf(object); ok {
		t.forget(keyOf(pod))
	}
}

// forget has a job added up anew.
func (t *jobTable) forget(key jobKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changes.Add(1)
	delete(t.jobs, key)
}

// get returns what a job came to; nil when it has to be added up.
func (t *jobTable) get(key jobKey) *job {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.jobs[key]
}

// podsOf returns the pods of a job; `pod` is one of them, which the informer may have lost already.
func (t *jobTable) podsOf(key jobKey, pod *v1.Pod) []*v1.Pod {
	objects, err := t.pods.ByIndex(jobIndex, key.String())
	if err != nil || len(objects) == 0 {
		return []*v1.Pod{pod}
	}
	pods := make([]*v1.Pod, 0, len(objects))
	for _, object := range objects {
		pods = append(pods, object.(*v1.Pod))
	}
	return pods
}

// addUp adds up a job; `pod` is one of its pods.
func (t *jobTable) addUp(
	key jobKey, pod *v1.Pod, now time.Time, set settings, decided func(types.UID) bool,
) *job {
	before := t.changes.Load()
	made, lasting := newJob(t.podsOf(key, pod), now, set, decided)
	if lasting {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.changes.Load() == before {
			t.jobs[key] = made
		}
	}
	return made
}
