package preemption

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"
)

const (
	noCapacity = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims."
	noVolume   = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
)

// fullWithProtected is a world whose one node is full of a non-preemptible job.
func fullWithProtected(pods ...pod) world {
	return world{nodes: nodes(1, "1"), pods: append(pods, scavenger("a", "node-000", "1", "1").nonPreemptible())}
}

// A pod waits for non-preemptible jobs from the first attempt that fails for lack of capacity: not from its creation, and
// not from an attempt that fails for something that no victim can change.
func TestWaitBeginsWithTheFirstLackOfCapacity(t *testing.T) {
	web := pending("web", "1").created(time.Hour)
	s := fullWithProtected(web).start(t)
	s.setStatus("node-000", fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) didn't match Pod's node affinity"))
	if _, status := s.preempt(web); status.IsSuccess() {
		t.Fatal("took a job of a node that it may not use")
	}
	s.clock.Step(10 * time.Minute) // for a node that takes it
	s.filtered = []string{"node-000"}
	if _, status := s.preempt(web); status.IsSuccess() {
		t.Fatal("entitled at the first lack of capacity")
	}
	s.clock.Step(5*time.Minute - time.Second)
	if _, status := s.preempt(web); status.IsSuccess() {
		t.Fatal("entitled a second too early")
	}
	// That it fails for something else for a while does not begin the wait anew.
	s.setStatus("node-000", fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) were unschedulable"))
	s.preempt(web)
	s.filtered = []string{"node-000"}
	s.clock.Step(time.Second)
	if _, status := s.preempt(web); !status.IsSuccess() {
		t.Fatal(status)
	}
	checkVictims(t, []string{"a"}, s.victims())
}

// A filter that is not about capacity, and that victims could satisfy all the same, begins no wait either.
func TestWaitDoesNotBeginWithOtherFilters(t *testing.T) {
	web := pending("web", "1").created(time.Hour)
	s := fullWithProtected(web).start(t)
	s.setStatus("node-000", fwk.NewStatus(fwk.Unschedulable, "node(s) didn't satisfy existing pods anti-affinity rules").
		WithPlugin("InterPodAffinity"))
	for range 2 {
		if _, status := s.preempt(web); status.IsSuccess() {
			t.Fatal("waiting for a neighbour to leave counts as waiting for capacity")
		}
		s.clock.Step(6 * time.Minute)
	}
}

// A scheduler that takes over goes on from what the API server holds of the attempts before.
func TestWaitAfterAChangeOfTheLeader(t *testing.T) {
	changed := func(p pod) pod { p.Generation = 2; return p }
	gated := func(p pod) pod {
		p.Status.Conditions[0].Reason = v1.PodReasonSchedulingGated
		return p
	}
	timeless := func(p pod) pod {
		p.Status.Conditions[0].LastTransitionTime = metav1.Time{}
		return p
	}
	old := func() pod { return pending("web", "1").created(time.Hour) }
	for _, tt := range []struct {
		name string
		pod  pod
		want time.Duration
	}{
		{"never tried", old(), 5 * time.Minute},
		{"found no capacity an hour ago", old().failing(noCapacity, time.Hour), 0},
		{"two minutes ago, after a wait for something else", old().failing(noCapacity, 2*time.Minute), 3*time.Minute + time.Second},
		{"the limit of pods", old().failing("0/1 nodes are available: 1 Too many pods.", time.Hour), 0},
		{"has waited for a volume", old().failing(noVolume, time.Hour), 5 * time.Minute},
		{"changed after it was tried, by whomever", changed(old().failing(noCapacity, 59*time.Minute)), 0},
		{"gated once: the condition is as old as the pod", changed(old().failing(noCapacity, time.Hour)), 5 * time.Minute},
		{"just ungated", gated(old().failing("", time.Hour)), 5 * time.Minute},
		{"a record from the future", old().failing(noCapacity, -time.Hour), 5 * time.Minute},
		{"a record without a time", timeless(old().failing(noCapacity, time.Hour)), 5 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEntitlement(5*time.Minute, 0, testingclock.NewFakeClock(noon))
			e.tried(tt.pod.Pod, true, noon)
			if got := e.remaining(tt.pod.Pod, 5*time.Minute); got != tt.want {
				t.Errorf("%v left, want %v", got, tt.want)
			}
		})
	}
}

func TestInteractivePodsNeedNotWait(t *testing.T) {
	e := newEntitlement(5*time.Minute, 0, testingclock.NewFakeClock(noon))
	if p := pending("web", "1"); e.has(p.Pod, noon) || !e.has(p.interactive().Pod, noon) {
		t.Error("interactive pods, and only they, are entitled at once")
	}
}

// What is known of a pod goes with it, also where it is deleted while it is tried.
func TestWaitIsForgotten(t *testing.T) {
	web, gone := pending("web", "1"), pending("gone", "1")
	s := fullWithProtected(web).start(t)
	known := func(uid types.UID) bool {
		s.plugin.entitle.mu.Lock()
		defer s.plugin.entitle.mu.Unlock()
		_, ok := s.plugin.entitle.failed[uid]
		return ok
	}
	s.preempt(web)
	s.preempt(gone)
	if !known(web.UID) || known(gone.UID) {
		t.Error("pods that exist are remembered, and they alone")
	}
	if err := s.client.CoreV1().Pods("default").Delete(s.ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually("the pod is forgotten", func() bool { return !known(web.UID) })
}
