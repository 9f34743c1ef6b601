package preemption

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	tf "k8s.io/kubernetes/pkg/scheduler/testing/framework"
)

// What DefaultPreemption does for ordinary pods, asserted of it and of this plugin alike.
func TestOrdinaryPods(t *testing.T) {
	front := map[string]string{"tier": "front"}
	disrupted := budget("front", 0, front)
	disrupted.Status.DisruptedPods = map[string]metav1.Time{"a": {}}
	for _, tt := range []struct {
		name    string
		world   world
		for_    pod
		victims []string
		node    string // "": nothing is nominated, a previous nomination is taken back
		keeps   bool   // a previous nomination stays as it is
		code    fwk.Code
	}{
		{
			name:    "a lower priority goes",
			world:   world{nodes: nodes(1, "1"), pods: []pod{newPod("a", "node-000", "1").priority(999)}},
			for_:    pending("web", "1"),
			victims: []string{"a"}, node: "node-000",
		},
		{
			name:  "an equal one stays",
			world: world{nodes: nodes(1, "1"), pods: []pod{newPod("a", "node-000", "1").priority(1000)}},
			for_:  pending("web", "1"),
			code:  fwk.Unschedulable,
		},
		{
			name:  "and a higher one",
			world: world{nodes: nodes(1, "1"), pods: []pod{newPod("a", "node-000", "1").priority(1001)}},
			for_:  pending("web", "1"),
			code:  fwk.Unschedulable,
		},
		{
			name:    "without a priority a pod has zero, and below it there is room",
			world:   world{nodes: nodes(2, "1"), pods: []pod{newPod("a", "node-000", "1"), newPod("b", "node-001", "1").priority(-1)}},
			for_:    pending("web", "1").priority(0),
			victims: []string{"b"}, node: "node-001",
		},
		{
			name: "a node that no eviction makes suitable is left alone",
			world: world{
				nodes:        nodes(2, "1"),
				pods:         []pod{newPod("a", "node-000", "1"), newPod("b", "node-001", "1").priority(500)},
				unresolvable: []string{"node-000"},
			},
			for_:    pending("web", "1"),
			victims: []string{"b"}, node: "node-001",
		},
		{
			name:  "a pod larger than the node displaces nobody",
			world: world{nodes: nodes(1, "1"), pods: []pod{newPod("a", "node-000", "1")}},
			for_:  pending("web", "2"),
			code:  fwk.Unschedulable,
		},
		{
			name: "the more important keep their places, and no more go than needed",
			world: world{nodes: nodes(1, "4"), pods: []pod{
				newPod("a", "node-000", "1").priority(5), newPod("b", "node-000", "1").priority(2),
				newPod("c", "node-000", "1").priority(4), newPod("d", "node-000", "1").priority(3),
			}},
			for_:    pending("web", "2"),
			victims: []string{"b", "d"}, node: "node-000",
		},
		{
			name: "among equals the older keeps its place",
			world: world{nodes: nodes(1, "2"), pods: []pod{
				newPod("old", "node-000", "1").running(time.Hour), newPod("young", "node-000", "1").running(time.Minute),
			}},
			for_:    pending("web", "1"),
			victims: []string{"young"}, node: "node-000",
		},
		{
			name: "a small one of higher priority stays where a large one makes the room",
			world: world{nodes: nodes(1, "4"), pods: []pod{
				newPod("large", "node-000", "3").priority(1), newPod("small", "node-000", "1").priority(2),
			}},
			for_:    pending("web", "3"),
			victims: []string{"large"}, node: "node-000",
		},
		{
			name: "a budget keeps a less important pod",
			world: world{
				nodes:   nodes(1, "2"),
				pods:    []pod{newPod("a", "node-000", "1").label("tier", "front"), newPod("b", "node-000", "1").priority(500)},
				objects: []runtime.Object{budget("front", 0, front)},
			},
			for_:    pending("web", "1"),
			victims: []string{"b"}, node: "node-000",
		},
		{
			name: "a budget that has something left does not",
			world: world{
				nodes:   nodes(1, "2"),
				pods:    []pod{newPod("a", "node-000", "1").label("tier", "front"), newPod("b", "node-000", "1").priority(500)},
				objects: []runtime.Object{budget("front", 1, front)},
			},
			for_:    pending("web", "1"),
			victims: []string{"a"}, node: "node-000",
		},
		{
			name: "nor one that has counted the pod already",
			world: world{
				nodes:   nodes(1, "2"),
				pods:    []pod{newPod("a", "node-000", "1").label("tier", "front"), newPod("b", "node-000", "1").priority(500)},
				objects: []runtime.Object{disrupted},
			},
			for_:    pending("web", "1"),
			victims: []string{"a"}, node: "node-000",
		},
		{
			name: "nor one that selects nothing, or in another namespace",
			world: world{
				nodes: nodes(1, "2"),
				pods:  []pod{newPod("a", "node-000", "1").label("tier", "front"), newPod("b", "node-000", "1").priority(500)},
				objects: []runtime.Object{
					budget("nothing", 0, nil),
					func() *policy.PodDisruptionBudget {
						b := budget("front", 0, front)
						b.Namespace = "elsewhere"
						return b
					}(),
				},
			},
			for_:    pending("web", "1"),
			victims: []string{"a"}, node: "node-000",
		},
		{
			name: "a budget is broken before nobody goes",
			world: world{
				nodes:   nodes(1, "1"),
				pods:    []pod{newPod("a", "node-000", "1").label("tier", "front")},
				objects: []runtime.Object{budget("front", 0, front)},
			},
			for_:    pending("web", "1"),
			victims: []string{"a"}, node: "node-000",
		},
		{
			name: "first: the node where no budget is broken",
			world: world{
				nodes:   nodes(2, "1"),
				pods:    []pod{newPod("a", "node-000", "1").label("tier", "front"), newPod("b", "node-001", "1").priority(999)},
				objects: []runtime.Object{budget("front", 0, front)},
			},
			for_:    pending("web", "1"),
			victims: []string{"b"}, node: "node-001",
		},
		{
			name: "second: where the most important victim is the least important",
			world: world{nodes: nodes(2, "3"), pods: []pod{
				newPod("a", "node-000", "3").priority(10),
				newPod("b", "node-001", "1").priority(9), newPod("c", "node-001", "1").priority(9), newPod("d", "node-001", "1").priority(9),
			}},
			for_:    pending("web", "3"),
			victims: []string{"b", "c", "d"}, node: "node-001",
		},
		{
			name: "third: the smaller sum of priorities",
			world: world{nodes: nodes(2, "2"), pods: []pod{
				newPod("a", "node-000", "1").priority(10), newPod("b", "node-000", "1").priority(9),
				newPod("c", "node-001", "1").priority(10), newPod("d", "node-001", "1").priority(8),
			}},
			for_:    pending("web", "2"),
			victims: []string{"c", "d"}, node: "node-001",
		},
		{
			name: "which several of negative priority are not",
			world: world{nodes: nodes(2, "2"), pods: []pod{
				newPod("a", "node-000", "2").priority(-10),
				newPod("b", "node-001", "1").priority(-10), newPod("c", "node-001", "1").priority(-10),
			}},
			for_:    pending("web", "2"),
			victims: []string{"a"}, node: "node-000",
		},
		{
			name: "at last: where the most important victims started latest",
			world: world{nodes: nodes(2, "2"), pods: []pod{
				newPod("a", "node-000", "1").running(30 * time.Minute), newPod("b", "node-000", "1").running(time.Minute),
				newPod("c", "node-001", "1").running(20 * time.Minute), newPod("d", "node-001", "1").running(10 * time.Minute),
			}},
			for_:    pending("web", "2"),
			victims: []string{"c", "d"}, node: "node-001",
		},
		{
			name:  "preemptionPolicy Never is obeyed",
			world: world{nodes: nodes(1, "1"), pods: []pod{newPod("a", "node-000", "1")}},
			for_: func() pod {
				p, never := pending("web", "1"), v1.PreemptNever
				p.Spec.PreemptionPolicy = &never
				return p
			}(),
			code: fwk.Unschedulable, keeps: true,
		},
		{
			name: "a victim on the nominated node is waited for",
			world: world{nodes: nodes(2, "1"), pods: []pod{
				newPod("a", "node-000", "1").terminating(20 * time.Second).preempted(), newPod("b", "node-001", "1"),
			}},
			for_: nominatedTo(pending("web", "1"), "node-000"),
			code: fwk.Unschedulable, keeps: true,
		},
		{
			name: "somebody else who leaves there is not",
			world: world{nodes: nodes(2, "1"), pods: []pod{
				newPod("a", "node-000", "1").priority(900).terminating(20 * time.Second), newPod("b", "node-001", "1"),
			}},
			for_:    nominatedTo(pending("web", "1"), "node-000"),
			victims: []string{"b"}, node: "node-001",
		},
		{
			name: "nor a victim on a node that will not do any more",
			world: world{
				nodes: nodes(2, "1"),
				pods: []pod{
					newPod("a", "node-000", "1").terminating(20 * time.Second).preempted(), newPod("b", "node-001", "1"),
				},
				unresolvable: []string{"node-000"},
			},
			for_:    nominatedTo(pending("web", "1"), "node-000"),
			victims: []string{"b"}, node: "node-001",
		},
		{
			name: "an anti-affinity makes room where there are resources enough",
			world: world{nodes: nodes(1, "8"), pods: []pod{
				newPod("a", "node-000", "1").label("noisy", "yes").priority(500), newPod("b", "node-000", "1"),
			}},
			for_:    antiAffinity(pending("web", "1"), "noisy", "yes"),
			victims: []string{"a"}, node: "node-000",
		},
		{
			name: "an error on one node does not keep another from being taken",
			world: world{nodes: []*v1.Node{broken(node("node-000", "1")), node("node-001", "1")}, pods: []pod{
				newPod("a", "node-000", "1"), newPod("b", "node-001", "1").priority(500),
			}},
			for_:    pending("web", "1"),
			victims: []string{"b"}, node: "node-001",
		},
		{
			name:  "an error on all of them is an error",
			world: world{nodes: []*v1.Node{broken(node("node-000", "1"))}, pods: []pod{newPod("a", "node-000", "1")}},
			for_:  pending("web", "1"),
			code:  fwk.Error, keeps: true,
		},
		{
			name: "an extender turns a node down",
			world: world{
				nodes: []*v1.Node{node("node1", "1"), node("node2", "1")},
				pods:  []pod{newPod("a", "node1", "1"), newPod("b", "node2", "1").priority(500)},
				extender: &tf.FakeExtender{
					ExtenderName: "second", Predicates: []tf.FitPredicate{tf.Node2PredicateExtender},
				},
			},
			for_:    pending("web", "1"),
			victims: []string{"b"}, node: "node2",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.world.pods = append(tt.world.pods, tt.for_)
			for name, s := range map[string]*scheduler{
				"DefaultPreemption": tt.world.startStock(t), Name: tt.world.start(t),
			} {
				result, status := s.preempt(tt.for_)
				if status.Code() != tt.code {
					t.Errorf("%s: status %v, want %v", name, status, tt.code)
				}
				checkVictims(t, tt.victims, s.victims())
				switch {
				case tt.keeps && result != nil:
					t.Errorf("%s: result %+v, want none", name, result)
				case !tt.keeps && (result == nil || result.NominatedNodeName != tt.node):
					t.Errorf("%s: result %+v, want node %q", name, result, tt.node)
				}
			}
		})
	}
}

func nominatedTo(p pod, nodeName string) pod {
	p.Status.NominatedNodeName = nodeName
	return p
}

func broken(n *v1.Node) *v1.Node {
	n.Labels["broken"] = ""
	return n
}

// While victims are being removed in the background the preemptor is kept out of the queue.
func TestPreEnqueue(t *testing.T) {
	web := pending("web", "1")
	w := world{
		nodes: nodes(1, "1"), pods: []pod{web, newPod("a", "node-000", "1")},
		features: feature.Features{EnableAsyncPreemption: true},
	}
	s := w.start(t)
	held, release := make(chan struct{}), make(chan struct{})
	onRemoval(s.plugin.DefaultPreemption, func(_ *v1.Pod, preempt func() error) error {
		close(held)
		<-release
		return preempt()
	})
	if status := s.plugin.PreEnqueue(s.ctx, web.Pod); !status.IsSuccess() {
		t.Fatalf("before: %v", status)
	}
	s.preempt(web)
	<-held
	if status := s.plugin.PreEnqueue(s.ctx, web.Pod); status.IsSuccess() {
		t.Error("the preemptor may be tried while its victim is being removed")
	}
	close(release)
	s.eventually("the preemptor may be tried again", func() bool {
		return s.plugin.PreEnqueue(s.ctx, web.Pod).IsSuccess()
	})
}

// Random clusters without scavenger pods: what is given up is as good by every criterion of DefaultPreemption.
func TestOrdinaryPodsAtRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		w := randomOrdinary(random)
		web := pending("web", fmt.Sprint(1+random.IntN(4))).priority(int32(random.IntN(20)))
		w.pods = append(w.pods, web)
		ours, stock := w.start(t), w.startStock(t)
		_, ourStatus := ours.preempt(web)
		_, stockStatus := stock.preempt(web)
		if ourStatus.Code() != stockStatus.Code() || ourStatus.Message() != stockStatus.Message() {
			t.Fatalf("round %d: status %v, DefaultPreemption: %v", round, ourStatus, stockStatus)
		}
		got, want := w.worth(ours.victims()), w.worth(stock.victims())
		if got != want {
			t.Fatalf("round %d: victims worth %+v, DefaultPreemption's %+v", round, got, want)
		}
	}
}

func randomOrdinary(random *rand.Rand) world {
	w := world{nodes: nodes(1+random.IntN(8), "4")}
	for i := range w.nodes {
		for j, left := 0, 4; left > 0; j++ {
			cpu := 1 + random.IntN(left)
			left -= cpu
			p := newPod(fmt.Sprintf("p-%d-%d", i, j), w.nodes[i].Name, fmt.Sprint(cpu)).
				priority(int32(random.IntN(20) - 5)).running(time.Duration(random.IntN(9)) * time.Minute)
			w.pods = append(w.pods, p.label("tier", fmt.Sprint(random.IntN(3))))
		}
	}
	for tier := range 2 {
		w.objects = append(w.objects, budget(fmt.Sprint("tier-", tier), int32(random.IntN(2)),
			map[string]string{"tier": fmt.Sprint(tier)}))
	}
	return w
}

// worth is what the criteria see of victims.
type worth struct {
	highest, sum, number int64
	since                time.Time
}

func (w world) worth(victims []string) (v worth) {
	var chosen []pod
	for _, p := range w.pods {
		if slices.Contains(victims, p.Name) {
			chosen = append(chosen, p)
		}
	}
	for i, p := range slices.SortedFunc(slices.Values(chosen), func(a, b pod) int {
		return cmp.Or(cmp.Compare(*b.Spec.Priority, *a.Spec.Priority), a.Status.StartTime.Compare(b.Status.StartTime.Time))
	}) {
		if i == 0 {
			v.highest, v.since = int64(*p.Spec.Priority), p.Status.StartTime.Time
		}
		v.sum += int64(*p.Spec.Priority)
		v.number++
	}
	return v
}
