package preemption

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	tf "k8s.io/kubernetes/pkg/scheduler/testing/framework"
	testingclock "k8s.io/utils/clock/testing"
)

func objects(list ...runtime.Object) []runtime.Object { return list }

func names(format string, count int) (made []string) {
	for i := range count {
		made = append(made, fmt.Sprintf(format, i))
	}
	return made
}

// Each case is a cluster with no room left for the pod; who has to go, and where to.
func TestVictims(t *testing.T) {
	for _, tt := range []struct {
		name    string
		nodes   []*v1.Node
		pods    []pod
		objects []runtime.Object
		for_    pod
		victims []string // none: the pod has to wait
		node    string   // empty: any
		nothing bool     // the pod is nominated, but there is nobody left to remove
	}{
		{
			name:    "least at risk on the node goes",
			nodes:   nodes(1, "3"),
			pods:    []pod{scavenger("a", "node-000", "1", "30"), scavenger("b", "node-000", "1", "10"), scavenger("c", "node-000", "1", "20")},
			for_:    pending("web", "1"),
			victims: []string{"b"},
		},
		{
			name:    "least at risk in the cluster goes, whoever is younger",
			nodes:   nodes(2, "1"),
			pods:    []pod{scavenger("a", "node-000", "1", "11").running(time.Minute), scavenger("b", "node-001", "1", "10").running(time.Hour)},
			for_:    pending("web", "1"),
			victims: []string{"b"},
			node:    "node-001",
		},
		{
			name:    "of equals the youngest goes",
			nodes:   nodes(1, "2"),
			pods:    []pod{scavenger("a", "node-000", "1", "10").running(time.Minute), scavenger("b", "node-000", "1", "10").running(time.Hour)},
			for_:    pending("web", "1"),
			victims: []string{"a"},
		},
		{
			name:  "no more go than have to",
			nodes: nodes(1, "4"),
			pods: []pod{
				scavenger("a", "node-000", "1", "1"), scavenger("b", "node-000", "1", "2"),
				scavenger("c", "node-000", "1", "3"), scavenger("d", "node-000", "1", "4"),
			},
			for_:    pending("web", "2"),
			victims: []string{"a", "b"},
		},
		{
			name:    "one small loss instead of two that are more together",
			nodes:   nodes(1, "4"),
			pods:    []pod{scavenger("big", "node-000", "2", "10"), scavenger("b", "node-000", "1", "6"), scavenger("c", "node-000", "1", "6")},
			for_:    pending("web", "2"),
			victims: []string{"big"},
		},
		{
			name:    "two small losses instead of a big one",
			nodes:   nodes(1, "4"),
			pods:    []pod{scavenger("big", "node-000", "2", "13"), scavenger("b", "node-000", "1", "6"), scavenger("c", "node-000", "1", "6")},
			for_:    pending("web", "2"),
			victims: []string{"b", "c"},
		},
		{
			name:  "two larger losses instead of ten that are more together",
			nodes: nodes(1, "20"),
			pods: func() []pod {
				pods := []pod{scavenger("x", "node-000", "5", "100"), scavenger("y", "node-000", "5", "100")}
				for i := range 10 {
					pods = append(pods, scavenger(fmt.Sprint("small-", i), "node-000", "1", "99"))
				}
				return pods
			}(),
			for_:    pending("web", "10"),
			victims: []string{"x", "y"},
		},
		{
			name:    "an ordinary pod outranks every scavenger job",
			nodes:   nodes(2, "1"),
			pods:    []pod{newPod("low", "node-000", "1").priority(0), scavenger("a", "node-001", "1", "99999999")},
			for_:    pending("web", "1"),
			victims: []string{"a"},
		},
		{
			name:    "and on the same node",
			nodes:   nodes(1, "2"),
			pods:    []pod{newPod("low", "node-000", "1").priority(-1500), scavenger("a", "node-000", "1", "99999999")},
			for_:    pending("web", "1"),
			victims: []string{"a"},
		},
		{
			name:  "even one whose job is non-preemptible and protected by a budget",
			nodes: nodes(1, "2"),
			pods: []pod{
				newPod("low", "node-000", "1").priority(0),
				scavenger("a", "node-000", "1", "99").nonPreemptible(),
			},
			objects: objects(budget("protected", 0, map[string]string{labelClass: string(nonPreemptible)})),
			for_:    pending("web", "1").interactive(),
			victims: []string{"a"},
		},
		{
			name:    "ordinary pods go where scavenger jobs are not enough",
			nodes:   nodes(1, "3"),
			pods:    []pod{newPod("low", "node-000", "1").priority(0), newPod("lower", "node-000", "1").priority(-5), scavenger("a", "node-000", "1", "9")},
			for_:    pending("web", "2"),
			victims: []string{"a", "lower"},
		},
		{
			name:  "and no scavenger job goes with them for nothing",
			nodes: nodes(1, "4"),
			pods: []pod{
				newPod("low", "node-000", "3").priority(0), scavenger("a", "node-000", "1", "9"),
			},
			for_:    pending("web", "3"),
			victims: []string{"low"},
		},
		{
			name:    "a node without ordinary victims is better than one with",
			nodes:   nodes(2, "2"),
			pods:    []pod{newPod("low", "node-000", "2").priority(-5), scavenger("a", "node-001", "1", "900"), scavenger("b", "node-001", "1", "900")},
			for_:    pending("web", "2"),
			victims: []string{"a", "b"},
		},
		{
			name:  "a gang loses what is written on each of its pods, once",
			nodes: nodes(9, "1"),
			pods: append(gang("gang", names("node-%03d", 8), "1", "80"),
				scavenger("single", "node-008", "1", "75")),
			for_:    pending("web", "1"),
			victims: []string{"single"},
		},
		{
			name:  "and goes when that is less",
			nodes: nodes(9, "1"),
			pods: append(gang("gang", names("node-%03d", 8), "1", "80"),
				scavenger("single", "node-008", "1", "85")),
			for_:    pending("web", "1"),
			victims: []string{"gang-*"},
		},
		{
			name:    "one gang of eight against eight single jobs with slightly more each",
			nodes:   nodes(16, "1"),
			pods:    gangAndSingles("800", 801),
			for_:    pending("web", "1"),
			victims: []string{"gang-*"},
		},
		{
			name:    "and with slightly less each",
			nodes:   nodes(16, "1"),
			pods:    gangAndSingles("800", 792),
			for_:    pending("web", "1"),
			victims: []string{"single-0"},
		},
		{
			name:  "while a gang's figures are being written, the largest counts",
			nodes: nodes(4, "1"),
			pods: func() []pod {
				pods := gang("gang", names("node-%03d", 3), "1", "10")
				pods[1].annotate(annotationRisk, "40")
				pods[2].unannotate(annotationRisk)
				return append(pods, scavenger("single", "node-003", "1", "30"))
			}(),
			for_:    pending("web", "1"),
			victims: []string{"single"},
		},
		{
			name:  "the same without annotations, from requests and start times",
			nodes: nodes(9, "1"),
			pods: func() (pods []pod) {
				for _, p := range append(gang("gang", names("node-%03d", 8), "1", ""), scavenger("single", "node-008", "1", "")) {
					pods = append(pods, p.unannotate(annotationRisk).running(10*time.Minute))
				}
				return pods
			}(),
			for_:    pending("web", "1"),
			victims: []string{"single"},
		},
		{
			name:  "two pods of one gang on a node are one job",
			nodes: nodes(1, "4"),
			pods: append(gang("gang", []string{"node-000", "node-000"}, "1", "20"),
				scavenger("a", "node-000", "1", "15"), scavenger("b", "node-000", "1", "30")),
			for_:    pending("web", "2"),
			victims: []string{"gang-0", "gang-1"},
		},
		{
			name:  "and only as many of them are removed as have to be",
			nodes: nodes(1, "3"),
			pods: append(gang("gang", []string{"node-000", "node-000"}, "1", "20"),
				scavenger("a", "node-000", "1", "25")),
			for_:    pending("web", "1"),
			victims: []string{"gang-1"},
		},
		{
			name:  "of equal losses, the node where fewer jobs break",
			nodes: nodes(2, "2"),
			pods: append(gang("gang", []string{"node-000", "node-000"}, "1", "20"),
				scavenger("a", "node-001", "1", "10"), scavenger("b", "node-001", "1", "10")),
			for_:    pending("web", "2"),
			victims: []string{"gang-0", "gang-1"},
		},
		{
			name:  "a gang broken already costs nothing more",
			nodes: nodes(3, "1"),
			pods: append(gang("gang", []string{"node-000"}, "1", "500"),
				func() []pod {
					sibling := gang("gang", []string{"node-001"}, "1", "500")[0].terminating(20 * time.Second)
					sibling.Name, sibling.UID = "gang-1", "gang-1"
					return []pod{sibling, newPod("web-0", "", "1").priority(1000), scavenger("a", "node-002", "1", "1")}
				}()...),
			for_:    pending("web", "1"),
			victims: nil, node: "node-001", nothing: true,
		},
		{
			name:  "non-preemptible jobs are left alone",
			nodes: nodes(2, "1"),
			pods: []pod{
				scavenger("a", "node-000", "1", "1").nonPreemptible(), scavenger("b", "node-001", "1", "1000"),
			},
			for_:    pending("web", "1"),
			victims: []string{"b"},
		},
		{
			name:  "though nothing else is left",
			nodes: nodes(1, "1"),
			pods:  []pod{scavenger("a", "node-000", "1", "1").nonPreemptible()},
			for_:  pending("web", "1"),
		},
		{
			name:    "but not by an interactive pod",
			nodes:   nodes(1, "1"),
			pods:    []pod{scavenger("a", "node-000", "1", "1").nonPreemptible()},
			for_:    pending("web", "1").interactive(),
			victims: []string{"a"},
		},
		{
			name:  "interactive means that word",
			nodes: nodes(1, "1"),
			pods:  []pod{scavenger("a", "node-000", "1", "1").nonPreemptible()},
			for_:  pending("web", "1").annotate(annotationLatency, "Interactive"),
		},
		{
			name:    "nor by one that has waited long enough",
			nodes:   nodes(1, "1"),
			pods:    []pod{scavenger("a", "node-000", "1", "1").nonPreemptible()},
			for_:    pending("web", "1").waiting(5*time.Minute + time.Second),
			victims: []string{"a"},
		},
		{
			name:    "nor by one of system-critical priority",
			nodes:   nodes(1, "1"),
			pods:    []pod{scavenger("a", "node-000", "1", "1").nonPreemptible()},
			for_:    pending("web", "1").priority(scheduling.SystemCriticalPriority),
			victims: []string{"a"},
		},
		{
			name:  "which no other priority is, be it the highest a user can have",
			nodes: nodes(1, "1"),
			pods:  []pod{scavenger("a", "node-000", "1", "1").nonPreemptible()},
			for_:  pending("web", "1").priority(scheduling.HighestUserDefinablePriority),
		},
		{
			name:    "they go before any ordinary pod on the node",
			nodes:   nodes(1, "2"),
			pods:    []pod{newPod("low", "node-000", "1"), scavenger("a", "node-000", "1", "99").nonPreemptible()},
			for_:    pending("web", "1").priority(5000),
			victims: []string{"a"},
		},
		{
			name:    "and before one on another node",
			nodes:   nodes(2, "1"),
			pods:    []pod{newPod("low", "node-000", "1"), scavenger("a", "node-001", "1", "99").nonPreemptible()},
			for_:    pending("web", "1"),
			victims: []string{"a"}, node: "node-001",
		},
		{
			name:  "of them the least at risk, on any node",
			nodes: nodes(3, "1"),
			pods: []pod{
				newPod("low", "node-000", "1"),
				scavenger("a", "node-001", "1", "99").nonPreemptible(), scavenger("b", "node-002", "1", "98").nonPreemptible(),
			},
			for_:    pending("web", "1"),
			victims: []string{"b"},
		},
		{
			name:  "and none for nothing beside an ordinary pod that has to go all the same",
			nodes: nodes(1, "3"),
			pods: []pod{
				newPod("low", "node-000", "2"), scavenger("a", "node-000", "1", "99").nonPreemptible(),
			},
			for_:    pending("web", "2"),
			victims: []string{"low"},
		},
		{
			name:  "but not where preemptible ones make the room",
			nodes: nodes(3, "1"),
			pods: []pod{
				newPod("low", "node-000", "1"), scavenger("a", "node-001", "1", "1").nonPreemptible(),
				scavenger("b", "node-002", "1", "1000"),
			},
			for_:    pending("web", "1"),
			victims: []string{"b"},
		},
		{
			name:  "nor where no ordinary pod would go without them",
			nodes: nodes(1, "2"),
			pods:  []pod{newPod("low", "node-000", "1"), scavenger("a", "node-000", "1", "1").nonPreemptible()},
			for_:  pending("web", "2"),
		},
		{
			name:  "which is not a second less",
			nodes: nodes(1, "1"),
			pods:  []pod{scavenger("a", "node-000", "1", "1").nonPreemptible()},
			for_:  pending("web", "1").waiting(5 * time.Minute),
		},
		{
			name:  "the entitled take preemptible jobs first all the same",
			nodes: nodes(2, "1"),
			pods: []pod{
				scavenger("a", "node-000", "1", "1").nonPreemptible(), scavenger("b", "node-001", "1", "1000"),
			},
			for_:    pending("web", "1").interactive(),
			victims: []string{"b"},
		},
		{
			name:  "and among the non-preemptible the least at risk, budget or not",
			nodes: nodes(3, "1"),
			pods: []pod{
				scavenger("a", "node-000", "1", "30").nonPreemptible(), scavenger("b", "node-001", "1", "10").nonPreemptible(),
				scavenger("c", "node-002", "1", "20").nonPreemptible(),
			},
			objects: objects(budget("protected", 0, map[string]string{labelClass: string(nonPreemptible)})),
			for_:    pending("web", "1").interactive(),
			victims: []string{"b"},
		},
		{
			name:  "a researcher's own budget protects nothing",
			nodes: nodes(1, "2"),
			pods: []pod{
				scavenger("clever", "node-000", "1", "1").label("app", "clever"), scavenger("b", "node-000", "1", "1000"),
			},
			objects: objects(budget("clever", 0, map[string]string{"app": "clever"})),
			for_:    pending("web", "1"),
			victims: []string{"clever"},
		},
		{
			name:    "without a class label a pod is what it was born as",
			nodes:   nodes(1, "1"),
			pods:    []pod{scavenger("a", "node-000", "1", "1").unlabel(labelClass)},
			for_:    pending("web", "1"),
			victims: []string{"a"},
		},
		{
			name:    "also with a label that says nothing",
			nodes:   nodes(1, "1"),
			pods:    []pod{scavenger("a", "node-000", "1", "1").label(labelClass, "¿?")},
			for_:    pending("web", "1"),
			victims: []string{"a"},
		},
		{
			name:  "or as its siblings are",
			nodes: nodes(2, "1"),
			pods: func() []pod {
				pods := gang("gang", []string{"node-000", "node-001"}, "1", "1")
				return []pod{pods[0].unlabel(labelClass), pods[1].nonPreemptible()}
			}(),
			for_: pending("web", "1"),
		},
		{
			name:  "labels make no scavenger of an ordinary pod",
			nodes: nodes(1, "1"),
			pods: []pod{
				newPod("posing", "node-000", "1").priority(0).label(labelJob, "j").label(labelClass, string(nonPreemptible)),
			},
			for_:    pending("web", "1"),
			victims: []string{"posing"},
		},
		{
			name:  "neither to its disadvantage",
			nodes: nodes(2, "1"),
			pods: []pod{
				newPod("posing", "node-000", "1").priority(0).label(labelJob, "j").label(labelClass, string(preemptible)),
				scavenger("a", "node-001", "1", "99999"),
			},
			for_:    pending("web", "1"),
			victims: []string{"a"},
		},
		{
			name:  "nor a part of somebody's gang",
			nodes: nodes(3, "1"),
			pods: append(gang("gang", []string{"node-000"}, "1", "10"),
				newPod("posing", "node-001", "1").priority(2000).label(labelJob, "gang").label(labelClass, string(nonPreemptible)).
					annotate(annotationRisk, "99999"),
				scavenger("a", "node-002", "1", "20")),
			for_:    pending("web", "1"),
			victims: []string{"gang-0"},
		},
		{
			name:    "and keep none from preempting",
			nodes:   nodes(1, "1"),
			pods:    []pod{scavenger("a", "node-000", "1", "1")},
			for_:    pending("web", "1").label(labelJob, "j").label(labelClass, string(preemptible)),
			victims: []string{"a"},
		},
		{
			name:    "without a job label a pod is a job of its own",
			nodes:   nodes(2, "1"),
			pods:    []pod{scavenger("a", "node-000", "1", "1").unlabel(labelJob), scavenger("b", "node-001", "1", "2").unlabel(labelJob)},
			for_:    pending("web", "1"),
			victims: []string{"a"},
		},
		{
			name:  "annotations that say nothing are computed",
			nodes: nodes(5, "1"),
			pods: []pod{
				scavenger("a", "node-000", "1", "NaN").running(40 * time.Second),
				scavenger("b", "node-001", "1", "-3").running(30 * time.Second),
				scavenger("c", "node-002", "1", "+Inf").running(20 * time.Second),
				scavenger("d", "node-003", "1", "gar bage").running(10 * time.Second),
				scavenger("e", "node-004", "1", "75"),
			},
			for_:    pending("web", "1"),
			victims: []string{"d"},
		},
		{
			name:    "a gang is one within a namespace only",
			nodes:   nodes(3, "1"),
			pods:    []pod{scavenger("a", "node-000", "1", "10"), inNamespace("other", scavenger("a", "node-001", "1", "10")), scavenger("b", "node-002", "1", "15")},
			for_:    pending("web", "1"),
			victims: []string{"a"},
		},
		{
			name:    "effective priority counts, not the pod's own",
			nodes:   nodes(1, "1"),
			pods:    []pod{scavenger("a", "node-000", "1", "1").nonPreemptible()},
			for_:    pending("web", "1").priority(-1500).interactive(),
			objects: objects(priorityClass(priorityClassNonPreemptible, -1000)),
		},
		{
			name:    "and is read from the PriorityClass",
			nodes:   nodes(1, "1"),
			pods:    []pod{scavenger("a", "node-000", "1", "1").nonPreemptible()},
			for_:    pending("web", "1").priority(-1500).interactive(),
			objects: objects(priorityClass(priorityClassNonPreemptible, -1600)),
			victims: []string{"a"},
		},
		{
			name:  "a pod of the same priority is no victim, whatever its labels say",
			nodes: nodes(1, "1"),
			pods:  []pod{scavenger("a", "node-000", "1", "1").priority(1000)},
			for_:  pending("web", "1"),
		},
		{
			name:    "a victim slow to go is waited for",
			nodes:   nodes(2, "1"),
			pods:    []pod{scavenger("a", "node-000", "1", "900").terminating(25 * time.Second), scavenger("b", "node-001", "1", "1")},
			for_:    pending("web", "1"),
			victims: nil, node: "node-000", nothing: true,
		},
		{
			name:    "whatever became of its class",
			nodes:   nodes(2, "1"),
			pods:    []pod{scavenger("a", "node-000", "1", "900").nonPreemptible().terminating(25 * time.Second), scavenger("b", "node-001", "1", "1")},
			for_:    pending("web", "1"),
			victims: nil, node: "node-000", nothing: true,
		},
		{
			name:    "but not one that hangs",
			nodes:   nodes(2, "1"),
			pods:    []pod{scavenger("a", "node-000", "1", "900").terminating(-2 * time.Minute), scavenger("b", "node-001", "1", "1")},
			for_:    pending("web", "1"),
			victims: []string{"b"},
		},
		{
			name:  "pods on reclaimed capacity hold no CPU and need not go for it",
			nodes: nodes(1, "2"),
			pods: []pod{
				scavenger("a", "node-000", "0", "1"), scavenger("b", "node-000", "2", "500"),
			},
			for_:    pending("web", "1"),
			victims: []string{"b"},
		},
		{
			name:  "nor memory",
			nodes: nodes(1, "8"),
			pods: []pod{
				reclaimed(scavenger("a", "node-000", "0", "1"), "2000"),
				scavenger("b", "node-000", "1", "500").memory("40Gi"), newPod("db", "node-000", "1").priority(1000).memory("24Gi"),
			},
			for_:    pending("web", "1").memory("8Gi"),
			victims: []string{"b"},
		},
		{
			name:  "where only they could go, nobody goes",
			nodes: nodes(2, "2"),
			pods: []pod{
				newPod("x", "node-000", "2").priority(1000), newPod("y", "node-001", "2").priority(1000),
				reclaimed(scavenger("a", "node-000", "0", "1"), "2000"), reclaimed(scavenger("b", "node-001", "0", "1"), "2000"),
			},
			for_: pending("web", "1"),
		},
		{
			name:  "nor are they looked for on another node because they are cheap",
			nodes: nodes(2, "2"),
			pods: []pod{
				newPod("x", "node-000", "2").priority(1000), reclaimed(scavenger("a", "node-000", "0", "1"), "2000"),
				scavenger("b", "node-001", "2", "900"), reclaimed(scavenger("c", "node-001", "0", "1"), "2000"),
			},
			for_:    pending("web", "1"),
			victims: []string{"b"}, node: "node-001",
		},
		{
			name:  "and one of them that is leaving is not waited for",
			nodes: nodes(1, "1"),
			pods: []pod{
				reclaimed(scavenger("a", "node-000", "0", "1"), "1000").terminating(25 * time.Second), scavenger("b", "node-000", "1", "900"),
			},
			for_:    pending("web", "1"),
			victims: []string{"b"},
		},
		{
			name:  "a place among a node's pods is all they hold",
			nodes: []*v1.Node{crowded(node("node-000", "8"), "2")},
			pods: []pod{
				reclaimed(scavenger("a", "node-000", "0", "1"), "1000"), scavenger("b", "node-000", "1", "900"),
			},
			for_:    pending("web", "1"),
			victims: []string{"a"},
		},
		{
			name:    "room another filter asks for: an anti-affinity to the scavenger pods",
			nodes:   nodes(1, "8"),
			pods:    []pod{scavenger("a", "node-000", "1", "500").label("noisy", "yes"), scavenger("b", "node-000", "1", "1")},
			for_:    antiAffinity(pending("web", "1"), "noisy", "yes"),
			victims: []string{"a"},
		},
		{
			name:  "one scavenger job does not preempt another",
			nodes: nodes(1, "1"),
			pods:  []pod{scavenger("a", "node-000", "1", "1")},
			for_:  unbound(scavenger("b", "", "1", "0").priority(5000)),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := world{nodes: tt.nodes, pods: append(tt.pods, tt.for_), objects: tt.objects}.start(t)
			s.waitForPriorities()
			result, status := s.preempt(tt.for_)
			checkVictims(t, tt.victims, s.victims())
			if wanted := len(tt.victims) > 0 || tt.nothing; wanted != status.IsSuccess() {
				t.Errorf("status %v, want success: %t", status, wanted)
			}
			if tt.node != "" && (result == nil || result.NominatedNodeName != tt.node) {
				t.Errorf("nominated to %+v, want %s", result, tt.node)
			}
		})
	}
}

// checkVictims compares by name; `gang-*` stands for any one pod of that gang.
func checkVictims(t *testing.T, want, got []string) {
	t.Helper()
	if len(want) == 1 && strings.HasSuffix(want[0], "*") {
		if len(got) == 1 && strings.HasPrefix(got[0], strings.TrimSuffix(want[0], "*")) {
			return
		}
	} else if slices.Equal(want, got) {
		return
	}
	t.Errorf("victims are %v, want %v", got, want)
}

// gangAndSingles are one gang of eight and eight single jobs, each on a node of its own.
func gangAndSingles(risk string, least int) []pod {
	pods := gang("gang", names("node-%03d", 8), "1", risk)
	for i := range 8 {
		pods = append(pods, scavenger(fmt.Sprint("single-", i), fmt.Sprintf("node-%03d", 8+i), "1", fmt.Sprint(least+i)))
	}
	return pods
}

func inNamespace(namespace string, p pod) pod {
	p.Namespace = namespace
	p.UID = p.UID + "-elsewhere"
	return p
}

// crowded lets a node take so many pods only.
func crowded(n *v1.Node, pods string) *v1.Node {
	n.Status.Capacity[v1.ResourcePods] = resource.MustParse(pods)
	n.Status.Allocatable[v1.ResourcePods] = resource.MustParse(pods)
	return n
}

func unbound(p pod) pod {
	p.Status = v1.PodStatus{}
	return p
}

func antiAffinity(p pod, key, value string) pod {
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}},
			TopologyKey:   v1.LabelHostname,
		}},
	}}
	return p
}

// 50 times: 100 full nodes, one preemptible and one non-preemptible job on each, figures at random.
func TestLeastAtRiskOfAHundredNodes(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for range 50 {
		checkLeastAtRisk(t, random, 100)
	}
}

// DefaultPreemption would look at 100 of them, starting anywhere.
func TestLeastAtRiskBeyondTheSample(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	for range 5 {
		checkLeastAtRisk(t, random, 1000)
	}
}

// The preemptor also asks for what NodeResourcesFit leaves to somebody else: its arguments say so, or a DeviceClass does.
func TestLeastAtRiskBesideResourcesThatFitSkips(t *testing.T) {
	for name, w := range map[string]world{
		"ignored": {fit: &config.NodeResourcesFitArgs{
			ScoringStrategy: leastAllocated(), IgnoredResources: []string{"example.com/gpu"},
		}},
		"a group ignored": {fit: &config.NodeResourcesFitArgs{
			ScoringStrategy: leastAllocated(), IgnoredResourceGroups: []string{"example.com"},
		}},
		"devices": {byDRA: []v1.ResourceName{"example.com/gpu"}, features: feature.Features{EnableDRAExtendedResource: true}},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(2, 20))
			for range 20 {
				checkLeastAtRiskFor(t, random, w, 30, pending("web", "1").request("example.com/gpu", "1"))
			}
		})
	}
}

func leastAllocated() *config.ScoringStrategy {
	return &config.ScoringStrategy{
		Type: config.LeastAllocated, Resources: []config.ResourceSpec{{Name: "cpu", Weight: 1}},
	}
}

func checkLeastAtRisk(t *testing.T, random *rand.Rand, size int) {
	t.Helper()
	checkLeastAtRiskFor(t, random, world{}, size, pending("web", "1"))
}

func checkLeastAtRiskFor(t *testing.T, random *rand.Rand, w world, size int, web pod) {
	t.Helper()
	w.nodes = nodes(size, "2")
	least, who := 2e6, ""
	for i, n := range w.nodes {
		risk := random.Float64() * 1e6
		name := fmt.Sprintf("yes-%03d", i)
		w.pods = append(w.pods, scavenger(name, n.Name, "1", fmt.Sprint(risk)),
			scavenger(fmt.Sprintf("no-%03d", i), n.Name, "1", "0").nonPreemptible())
		if risk < least {
			least, who = risk, name
		}
	}
	w.pods = append(w.pods, web)
	s := w.start(t)
	if _, status := s.preempt(web); !status.IsSuccess() {
		t.Fatal(status)
	}
	checkVictims(t, []string{who}, s.victims())
}

// Two preemptors one after the other, before the API server has confirmed anything.
func TestTwoPreemptorsAtOnce(t *testing.T) {
	first, second := pending("web-1", "1"), pending("web-2", "1")
	t.Run("take two jobs, the two with the least at risk", func(t *testing.T) {
		s := world{nodes: nodes(3, "1"), pods: []pod{
			first, second,
			scavenger("a", "node-000", "1", "30"), scavenger("b", "node-001", "1", "10"), scavenger("c", "node-002", "1", "20"),
		}}.start(t)
		result, _ := s.preempt(first)
		s.nominate(first, result.NominatedNodeName)
		s.preempt(second)
		checkVictims(t, []string{"b", "c"}, s.victims())
	})
	t.Run("take two pods of one gang, which is broken once", func(t *testing.T) {
		s := world{nodes: nodes(3, "1"), pods: append(
			gang("gang", []string{"node-000", "node-001"}, "1", "20"),
			first, second, scavenger("a", "node-002", "1", "25"))}.start(t)
		before := s.lostSeconds(preemptible)
		result, _ := s.preempt(first)
		s.nominate(first, result.NominatedNodeName)
		s.preempt(second)
		checkVictims(t, []string{"gang-0", "gang-1"}, s.victims())
		if lost := s.lostSeconds(preemptible) - before; lost != 20 {
			t.Errorf("%v CPU-seconds counted as lost, want 20", lost)
		}
	})
}

// The profiles of one scheduler decide about the same pods: a gang that one of them has broken is broken for all.
func TestTwoProfiles(t *testing.T) {
	first, second := pending("web-1", "1"), pending("web-2", "1")
	pods := gang("gang", []string{"node-000", "node-001"}, "1", "20")
	s := world{nodes: nodes(3, "1"), pods: append(pods, first, second, scavenger("a", "node-002", "1", "25"))}.start(t)
	args := Args{}
	args.setDefaults()
	other, err := newPlugin(s.ctx, &args, s.framework, feature.Features{}, s.clock)
	if err != nil {
		t.Fatal(err)
	}
	s.dry()
	onRemoval(other.DefaultPreemption, func(*v1.Pod, func() error) error { return nil })
	for _, plugin := range []*Plugin{s.plugin, other} {
		if j := plugin.newAttempt(second.Pod, noon).job(keyOf(pods[0].Pod), pods[0].Pod); j.seconds != 20 {
			t.Fatalf("the gang is taken for %+v", j)
		}
	}
	before := s.lostSeconds(preemptible)
	result, _ := s.preempt(first)
	s.nominate(first, result.NominatedNodeName)
	if _, status := other.PostFilter(s.ctx, s.filter(second), second.Pod, s.statuses); !status.IsSuccess() {
		t.Fatal(status)
	}
	if lost := s.lostSeconds(preemptible) - before; lost != 20 {
		t.Errorf("%v CPU-seconds counted as lost, want 20", lost)
	}
}

// Victims whose removal fails, or is not even tried after that, are as they were.
func TestFailedRemoval(t *testing.T) {
	web := pending("web", "3")
	for _, async := range []bool{false, true} {
		t.Run(fmt.Sprint("asynchronous: ", async), func(t *testing.T) {
			jobs := []pod{
				scavenger("a", "node-000", "1", "10"), scavenger("b", "node-000", "1", "10"), scavenger("c", "node-000", "1", "10"),
			}
			s := world{
				nodes: nodes(1, "3"), pods: append(slices.Clone(jobs), web),
				features: feature.Features{EnableAsyncPreemption: async}, patching: errors.New("the API server is tired"),
			}.start(t)
			s.preempt(web)
			s.eventually("the removal is over", func() bool { return !runsPreemption(s.plugin.DefaultPreemption, web) })
			if len(s.victims()) == 0 {
				t.Fatal("no removal was tried")
			}
			for _, p := range jobs {
				if s.plugin.decided.has(p.UID) {
					t.Errorf("%s counts as going", p.Name)
				}
				if j := s.plugin.newAttempt(web.Pod, noon).job(keyOf(p.Pod), p.Pod); j.lost || j.seconds != 10 {
					t.Errorf("%s is taken for %+v", p.Name, j)
				}
			}
		})
	}
}

// One victim's failure says nothing of those that are going, nor of a gang that one of them belongs to.
func TestFailedRemovalOfSome(t *testing.T) {
	d := newDecisions(testingclock.NewFakeClock(noon))
	pods := gang("gang", names("node-%03d", 3), "1", "10")
	single := scavenger("single", "node-003", "1", "10")
	d.add("web", []*v1.Pod{pods[0].Pod, pods[1].Pod, pods[2].Pod, single.Pod})
	d.attempt("web", pods[0].Pod)
	d.attempt("web", pods[1].Pod)
	forgotten := d.fail("web", pods[1].Pod)
	if len(forgotten) != 3 || d.has("gang-1") || d.has("gang-2") || d.has("single") {
		t.Errorf("%d forgotten", len(forgotten))
	}
	if !d.has("gang-0") || !d.has("gang-run") {
		t.Error("the pod whose removal was tried, or its run, is forgotten")
	}
	d.add("web", []*v1.Pod{single.Pod})
	d.fail("another", single.Pod)
	if !d.has("single") {
		t.Error("a decision was taken back by somebody else's failure")
	}
}

// No victim is removed before the decision is remembered: its failure would be forgotten first and remembered then.
func TestRemovalWaitsForTheDecision(t *testing.T) {
	web := pending("web", "1")
	s := world{
		nodes: nodes(1, "1"), pods: []pod{web, scavenger("a", "node-000", "1", "10")},
		features: feature.Features{EnableAsyncPreemption: true},
	}.start(t)
	begin, removed := make(chan struct{}), make(chan struct{})
	onRemoval(s.plugin.DefaultPreemption, func(_ *v1.Pod, preempt func() error) error {
		<-begin
		defer close(removed)
		return preempt()
	})
	s.preempt(web)
	conclude := s.plugin.decided.deciding(web.UID)
	close(begin)
	select {
	case <-removed:
		t.Error("removed before the decision")
	case <-time.After(20 * time.Millisecond):
		conclude()
		<-removed
	}
}

// The preemptor comes by again while its victim is still going, and is not to take another.
func TestWaitsForItsVictim(t *testing.T) {
	for _, tt := range []struct {
		name    string
		victim  pod
		status  *fwk.Status
		victims []string
	}{
		{name: "slow to go", victim: scavenger("a", "node-000", "1", "5").terminating(20 * time.Second).preempted()},
		{name: "protected since", victim: scavenger("a", "node-000", "1", "5").nonPreemptible().terminating(20 * time.Second).preempted()},
		{name: "labels lost", victim: scavenger("a", "node-000", "1", "5").unlabel(labelClass).unlabel(labelJob).terminating(20 * time.Second).preempted()},
		{
			name:    "its node is lost",
			victim:  scavenger("a", "node-000", "1", "5").terminating(20 * time.Second).preempted(),
			status:  fwk.NewStatus(fwk.UnschedulableAndUnresolvable),
			victims: []string{"b"},
		},
		{
			name:    "it hangs",
			victim:  scavenger("a", "node-000", "1", "5").terminating(-5 * time.Minute).preempted(),
			victims: []string{"b"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			web := pending("web", "1")
			web.Status.NominatedNodeName = "node-000"
			s := world{nodes: nodes(2, "1"), pods: []pod{web, tt.victim, scavenger("b", "node-001", "1", "1")}}.start(t)
			if tt.status != nil {
				s.setStatus("node-000", tt.status)
			}
			s.preempt(web)
			checkVictims(t, tt.victims, s.victims())
		})
	}
}

func TestEventNamesThePreemptor(t *testing.T) {
	web := pending("web", "1")
	s := world{nodes: nodes(2, "1"), pods: append(gang("a", names("node-%03d", 2), "1", "42"), web)}.start(t)
	s.preempt(web)
	s.eventually("an event", func() bool { return len(s.recorder.Events) >= 2 })
	var seen []string
	for range len(s.recorder.Events) {
		seen = append(seen, <-s.recorder.Events)
	}
	if !slices.ContainsFunc(seen, func(e string) bool {
		return strings.Contains(e, eventReason) && strings.Contains(e, "default/web") &&
			strings.Contains(e, "on node node-00") && strings.Contains(e, "42 CPU-seconds")
	}) {
		t.Errorf("no event names the preemptor: %q", seen)
	}
}

func TestMetrics(t *testing.T) {
	web, batch, meek := pending("web", "1"), unbound(scavenger("z", "", "1", "0")), pending("meek", "1")
	meek.Spec.PreemptionPolicy = new(v1.PreemptNever)
	s := world{nodes: nodes(2, "1"), pods: append(gang("gang", names("node-%03d", 2), "1", "40"), web, batch, meek)}.start(t)
	lost, chosen, refused := s.lostSeconds(preemptible), s.attempts(resultPreempted), s.attempts(resultRefused)
	removed := s.victimsOf(preemptible)
	waits, none := s.attempts(resultAwaiting), s.attempts(resultNoCandidate)
	s.preempt(web)
	s.preempt(batch)
	s.preempt(meek)
	for what, figures := range map[string][2]float64{
		"CPU-seconds lost": {s.lostSeconds(preemptible) - lost, 40},
		"preempted":        {s.attempts(resultPreempted) - chosen, 1},
		"refused":          {s.attempts(resultRefused) - refused, 2},
		"awaiting":         {s.attempts(resultAwaiting) - waits, 0},
		"no candidate":     {s.attempts(resultNoCandidate) - none, 0},
		"victims":          {s.victimsOf(preemptible) - removed, 1},
	} {
		if figures[0] != figures[1] {
			t.Errorf("%s: counted %v, want %v", what, figures[0], figures[1])
		}
	}
}

// A pod that waits for its victim is told from one whose nodes an extender turned down.
func TestMetricsOfWaiting(t *testing.T) {
	for _, tt := range []struct {
		name  string
		world world
		for_  pod
		want  string
	}{
		{
			name: "its victim is leaving",
			world: world{nodes: nodes(1, "1"), pods: []pod{
				scavenger("a", "node-000", "1", "1").terminating(20 * time.Second).preempted(),
			}},
			for_: nominatedTo(pending("web", "1"), "node-000"),
			want: resultAwaiting,
		},
		{
			name: "somebody else is",
			world: world{nodes: nodes(1, "1"), pods: []pod{
				scavenger("a", "node-000", "1", "1").terminating(20 * time.Second),
			}},
			for_: pending("web", "1"),
			want: resultAwaiting,
		},
		{
			name: "an extender turns all nodes down",
			world: world{nodes: nodes(1, "1"), pods: []pod{scavenger("a", "node-000", "1", "1")}, extender: &tf.FakeExtender{
				ExtenderName: "picky", Predicates: []tf.FitPredicate{tf.FalsePredicateExtender},
			}},
			for_: pending("web", "1"),
			want: resultNoCandidate,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.world.pods = append(tt.world.pods, tt.for_)
			s := tt.world.start(t)
			before := s.attempts(tt.want)
			s.preempt(tt.for_)
			if got := s.attempts(tt.want) - before; got != 1 {
				t.Errorf("%v attempts counted as %s, want 1", got, tt.want)
			}
		})
	}
}
