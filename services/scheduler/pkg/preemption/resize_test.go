//go:build !kubernetes_1_36 && !kubernetes_1_35

package preemption

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// growing is an ordinary pod that runs, and has wanted so much CPU for a while, for which its node has no room.
func growing(name, nodeName, cpu string, since time.Duration) pod {
	p := newPod(name, nodeName, cpu).priority(1000)
	p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{
		Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonDeferred,
		LastTransitionTime: metav1.NewTime(noon.Add(-since)),
	})
	return p
}

// resizing is a world in which the scheduler makes room for pods that grow, on their own node alone.
func resizing(pods ...pod) world {
	return world{
		nodes: nodes(2, "4"), pods: pods, unresolvable: []string{"node-001"},
		features: feature.Features{EnableInPlacePodVerticalScalingSchedulerPreemption: true},
	}
}

// A pod whose resize is deferred takes the job with the least at risk on its own node, and no more than it lacks: what it
// has already is no part of that.
func TestResize(t *testing.T) {
	db := growing("db", "node-000", "2", time.Second)
	s := resizing(
		db, scavenger("a", "node-000", "1", "30"), scavenger("b", "node-000", "1", "10"),
		scavenger("c", "node-000", "1", "20"), scavenger("elsewhere", "node-001", "1", "1"),
	).start(t)
	if _, status := s.preempt(db); !status.IsSuccess() {
		t.Fatal(status)
	}
	checkVictims(t, []string{"b"}, s.victims())
}

// What is short beside what the pod has is what the bound is made of: with the whole request no job would seem enough.
func TestShortageOfAResize(t *testing.T) {
	db := growing("db", "node-000", "3", time.Second)
	s := resizing(db, scavenger("a", "node-000", "2", "30")).start(t)
	s.filter(db)
	at := s.plugin.newAttempt(db.Pod, noon)
	at.listen(s.statuses.Get("node-000"))
	info, err := s.framework.SnapshotSharedLister().NodeInfos().Get("node-000")
	if err != nil {
		t.Fatal(err)
	}
	needed := at.shortage(info)
	if len(needed) != 1 || needed[0].name != v1.ResourceCPU || needed[0].quantity != 1000 {
		t.Errorf("%v is short, want one CPU", needed)
	}
}

// Its wait for non-preemptible jobs begins when the kubelet defers the resize, not when the pod was made; and when it is
// over, the pod is tried again, though it has a node.
func TestResizeWaitsForNonPreemptibleJobs(t *testing.T) {
	db := growing("db", "node-000", "3", 2*time.Minute)
	s := resizing(db, scavenger("a", "node-000", "2", "30").nonPreemptible()).start(t)
	if _, status := s.preempt(db); status.IsSuccess() {
		t.Fatal("entitled too early")
	}
	s.clock.Step(3 * time.Minute)
	time.Sleep(20 * time.Millisecond)
	if got := s.activated(); len(got) != 0 {
		t.Fatalf("%v tried again too early", got)
	}
	s.clock.Step(time.Second)
	s.eventually("db is tried again", func() bool { return len(s.activated()) == 1 })
	if _, status := s.preempt(db); !status.IsSuccess() {
		t.Fatal(status)
	}
	checkVictims(t, []string{"a"}, s.victims())
}
