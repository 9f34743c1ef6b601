package preemption

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func TestArgs(t *testing.T) {
	for _, tt := range []struct {
		name string
		args runtime.Object
		want string // wait, full wait from, percentage, absolute, or part of the error
	}{
		{name: "none", want: "5m0s 0s 10 100"},
		{name: "empty", args: &runtime.Unknown{}, want: "5m0s 0s 10 100"},
		{
			name: "all",
			args: jsonArgs(`{"nonPreemptibleWait":"90s","fullWaitFrom":"1h","minCandidateNodesPercentage":50,"minCandidateNodesAbsolute":7}`),
			want: "1m30s 1h0m0s 50 7",
		},
		{name: "with a kind", args: jsonArgs(`{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"ScavengerPreemptionArgs"}`), want: "5m0s 0s 10 100"},
		{name: "yaml", args: &runtime.Unknown{Raw: []byte("nonPreemptibleWait: 2m\n"), ContentType: runtime.ContentTypeYAML}, want: "2m0s 0s 10 100"},
		{name: "no wait", args: jsonArgs(`{"nonPreemptibleWait":"0s"}`), want: "0s 0s 10 100"},
		{name: "misspelled", args: jsonArgs(`{"nonPreemptableWait":"1m"}`), want: "nonPreemptableWait"},
		{name: "not a duration", args: jsonArgs(`{"nonPreemptibleWait":"soon"}`), want: "soon"},
		{name: "negative", args: jsonArgs(`{"nonPreemptibleWait":"-1s"}`), want: "nonPreemptibleWait"},
		{name: "from less than nothing", args: jsonArgs(`{"fullWaitFrom":"-1s"}`), want: "fullWaitFrom"},
		{name: "percentage", args: jsonArgs(`{"minCandidateNodesPercentage":101}`), want: "minCandidateNodesPercentage"},
		{name: "absolute", args: jsonArgs(`{"minCandidateNodesAbsolute":-1}`), want: "minCandidateNodesAbsolute"},
		{name: "neither", args: jsonArgs(`{"minCandidateNodesPercentage":0,"minCandidateNodesAbsolute":0}`), want: "cannot be zero at the same time"},
		{name: "something else", args: &v1.Pod{}, want: "*v1.Pod"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args, err := decodeArgs(tt.args)
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = fmt.Sprintf("%v %v %d %d", args.NonPreemptibleWait.Duration, args.FullWaitFrom.Duration,
					*args.MinCandidateNodesPercentage, *args.MinCandidateNodesAbsolute)
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func jsonArgs(text string) *runtime.Unknown {
	return &runtime.Unknown{Raw: []byte(text), ContentType: runtime.ContentTypeJSON}
}

func TestRiskOfOnePod(t *testing.T) {
	at := func(ago time.Duration) string { return noon.Add(-ago).Format(time.RFC3339) }
	minute := func(cpu string) pod { return newPod("a", "n", cpu).running(time.Minute) }
	for _, tt := range []struct {
		name string
		pod  pod
		want float64
	}{
		{"as annotated", minute("2").annotate(annotationRisk, "12.5"), 12.5},
		{"zero is a figure", minute("2").annotate(annotationRisk, "0"), 0},
		{"none: request times time since the start and its cost", minute("2"), 240},
		{"half a core", minute("500m"), 60},
		{"empty", minute("2").annotate(annotationRisk, ""), 240},
		{"not a number", minute("2").annotate(annotationRisk, "NaN"), 240},
		{"infinite", minute("2").annotate(annotationRisk, "Inf"), 240},
		{"negative", minute("2").annotate(annotationRisk, "-1"), 240},
		{"with a unit", minute("2").annotate(annotationRisk, "5s"), 240},
		{"out of range", minute("2").annotate(annotationRisk, "1e999"), 240},
		{"beyond reason", minute("2").annotate(annotationRisk, "1e300"), maxRisk},
		{"since the last checkpoint", minute("2").annotate(annotationCheckpoint, at(10*time.Second)), 20},
		{"not one of an earlier run", minute("2").annotate(annotationCheckpoint, at(time.Hour)), 240},
		{"nor of the future", minute("2").annotate(annotationCheckpoint, at(-time.Hour)), 240},
		{"nor nonsense", minute("2").annotate(annotationCheckpoint, "yesterday"), 240},
		{"not started", func() pod { p := minute("2"); p.Status.ContainerStatuses = nil; return p }(), 0},
		{"started in the future, by another clock", minute("2").running(-time.Minute), 120},
		{"on reclaimed capacity", reclaimed(minute("0"), "1500"), 180},
		{"on reclaimed capacity, as annotated", reclaimed(minute("0"), "1500").annotate(annotationRisk, "3"), 3},
		{"on reclaimed capacity, which has been idle", reclaimed(minute("0"), "1500").annotate(annotationRisk, "0"), 0},
		{
			"on reclaimed capacity, since the last checkpoint",
			reclaimed(minute("0"), "1500").annotate(annotationCheckpoint, at(10*time.Second)), 15,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, _ := riskOf([]*v1.Pod{tt.pod.Pod}, noon, defaultSettings); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// readTable reads a table of cases that the services are tested against, too.
func readTable(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// TestTableOfGangs compares with the services, which are tested against the same table (scavenger_domain.gang).
func TestTableOfGangs(t *testing.T) {
	var cases []struct {
		Name      string
		Reclaimed bool
		Weights   string
		Pods      []struct {
			Phase      v1.PodPhase
			CPU        int64
			GPU        int64
			Memory     int64
			Init       int64
			Overhead   int64
			Started    int64
			Checkpoint *int64
			Task       string
			Created    int64
			Resized    [][2]int64
		}
		Estimate float64
		Units    map[string]struct{ Estimate float64 }
	}
	readTable(t, "gang_cases.json", &cases)
	for _, tt := range cases {
		t.Run(tt.Name, func(t *testing.T) {
			w, err := weightsOf(tt.Weights)
			if err != nil {
				t.Fatal(err)
			}
			set := settings{weights: w, startupCost: defaultSettings.startupCost}
			var pods []*v1.Pod
			for i, member := range tt.Pods {
				if member.Phase != v1.PodRunning {
					continue // newPodInformer of kube-scheduler leaves them out
				}
				p := scavenger("gang", fmt.Sprintf("node-%d", i), fmt.Sprintf("%dm", member.CPU), "")
				if tt.Reclaimed {
					p = reclaimed(scavenger("gang", fmt.Sprintf("node-%d", i), "0", ""), fmt.Sprint(member.CPU))
				}
				p = p.unannotate(annotationRisk).running(time.Duration(member.Started) * time.Second)
				if member.Checkpoint != nil {
					p = p.annotate(annotationCheckpoint, noon.Add(-time.Duration(*member.Checkpoint)*time.Second).Format(time.RFC3339))
				}
				p.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = *resource.NewQuantity(member.GPU, resource.DecimalSI)
				if !tt.Reclaimed {
					p.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = *resource.NewQuantity(member.Memory<<30, resource.BinarySI)
				}
				if member.Resized != nil {
					note := fmt.Sprintf("%dm", member.Created)
					for _, change := range member.Resized {
						note += fmt.Sprintf(",%s=%dm", noon.Add(-time.Duration(change[0])*time.Second).Format(time.RFC3339), change[1])
					}
					p = p.annotate(annotationSizes, note)
				}
				p.Spec.InitContainers = []v1.Container{{Name: "fetch", Resources: v1.ResourceRequirements{Requests: milliCPU(member.Init)}}}
				p.Spec.Overhead = milliCPU(member.Overhead)
				if member.Task != "" {
					p = p.label(labelTask, member.Task)
				}
				pods = append(pods, p.Pod)
			}
			byKey := map[jobKey][]*v1.Pod{}
			for _, p := range pods {
				byKey[keyOf(p)] = append(byKey[keyOf(p)], p)
			}
			for task, want := range tt.Units {
				key := keyOf(pods[0])
				key.job = "gang[" + task + "]"
				if got, annotated := riskOf(byKey[key], noon, set); got != want.Estimate || annotated {
					t.Errorf("task %s: got %v, annotated %t; want %v", task, got, annotated, want.Estimate)
				}
			}
			if tt.Units != nil {
				return
			}
			if got, annotated := riskOf(pods, noon, set); got != tt.Estimate || annotated {
				t.Errorf("got %v, annotated %t; want %v", got, annotated, tt.Estimate)
			}
		})
	}
}

// TestTableOfSizes compares how the note on a resized pod is read with the services (scavenger_domain.sizes).
func TestTableOfSizes(t *testing.T) {
	var cases []struct {
		Name  string
		Note  string
		Sizes [][2]int64
	}
	readTable(t, "size_cases.json", &cases)
	for _, tt := range cases {
		t.Run(tt.Name, func(t *testing.T) {
			got := [][2]int64{}
			for _, one := range sizesOf(tt.Note) {
				got = append(got, [2]int64{one.since.Unix(), one.cpu})
			}
			if !slices.Equal(got, tt.Sizes) {
				t.Errorf("got %v, want %v", got, tt.Sizes)
			}
		})
	}
}

// TestTableOfUnits compares what is read off whole pods with the services (scavenger_domain.pod_reading).
func TestTableOfUnits(t *testing.T) {
	var cases []struct {
		Name     string
		Pod      *v1.Pod
		Unit     string
		Started  *metav1.Time
		Estimate float64
	}
	readTable(t, "unit_cases.json", &cases)
	for _, tt := range cases {
		t.Run(tt.Name, func(t *testing.T) {
			if key := keyOf(tt.Pod); key.namespace+"/"+key.job != tt.Unit {
				t.Errorf("unit %s, want %s", key, tt.Unit)
			}
			start, ok := startOf(tt.Pod)
			if ok != (tt.Started != nil) || ok && !start.Equal(tt.Started.Time) {
				t.Errorf("started %v, %t; want %v", start, ok, tt.Started)
			}
			if got := estimatedRisk(tt.Pod, noon, defaultSettings); got != tt.Estimate {
				t.Errorf("estimate %v, want %v", got, tt.Estimate)
			}
		})
	}
}

func milliCPU(amount int64) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(amount, resource.DecimalSI)}
}

// TestTableOfWeights compares with the services, which are tested against the same table (scavenger_api.weights).
func TestTableOfWeights(t *testing.T) {
	var shared struct {
		Table weights
		Cases []struct {
			Weights     string
			Resource    v1.ResourceName
			Thousandths int64
		}
	}
	readTable(t, "weight_cases.json", &shared)
	if !maps.Equal(defaultWeights, shared.Table) {
		t.Errorf("the table is %v, want %v", defaultWeights, shared.Table)
	}
	for _, tt := range shared.Cases {
		w, err := weightsOf(tt.Weights)
		if err != nil {
			t.Fatal(err)
		}
		if got := int64(math.Round(1000 * w.of(tt.Resource))); got != tt.Thousandths {
			t.Errorf("%s with %q: %d thousandths, want %d", tt.Resource, tt.Weights, got, tt.Thousandths)
		}
	}
}

// A pod of an earlier run that does not go is no member of the gang.
func TestPodOfAnEarlierRun(t *testing.T) {
	run := func(p pod, run string) pod { return p.annotate(annotationRun, run) }
	stuck := run(scavenger("gang", "node-000", "1", "5").terminating(0), "1")
	stuck.Name = "stuck"
	members := gang("gang", []string{"node-001", "node-002"}, "1", "10")
	for i, p := range members {
		members[i] = run(p, "2")
	}
	s := world{nodes: nodes(3, "1"), pods: append(slices.Clone(members), stuck)}.start(t)
	for range 2 { // the second time from memory
		at := s.plugin.newAttempt(pending("web", "1").Pod, noon)
		if j := at.job(keyOf(stuck.Pod), stuck.Pod); !j.lost {
			t.Errorf("the stuck pod is taken for %+v", j)
		}
		for _, p := range members {
			if j := at.job(keyOf(p.Pod), p.Pod); j.lost || j.seconds != 10 {
				t.Errorf("%s is taken for %+v", p.Name, j)
			}
		}
	}
}

// A task of an array goes alone, though all of them have one batch Job.
func TestTaskGoesAlone(t *testing.T) {
	tasks := gang("array", []string{"node-000", "node-001"}, "1", "10")
	for i, p := range tasks {
		tasks[i] = p.label(labelTask, fmt.Sprint(i))
	}
	tasks[1] = tasks[1].annotate(annotationRisk, "30")
	web := pending("web", "1")
	s := world{nodes: nodes(2, "1"), pods: append(slices.Clone(tasks), web)}.start(t)
	before := s.lostSeconds(preemptible)
	s.preempt(web)
	checkVictims(t, []string{"array-0"}, s.victims())
	if lost := s.lostSeconds(preemptible) - before; lost != 10 {
		t.Errorf("%v CPU-seconds counted as lost, want 10", lost)
	}
	if j := s.plugin.newAttempt(web.Pod, noon).job(keyOf(tasks[1].Pod), tasks[1].Pod); j.lost || j.seconds != 30 {
		t.Errorf("the other task is taken for %+v", j)
	}
}

func TestRiskOfAGang(t *testing.T) {
	for _, tt := range []struct {
		name      string
		written   []string // on each pod; "-": nothing. Each has run for a minute on two cores.
		want      float64
		annotated bool
	}{
		{"the same on every pod: once", []string{"70", "70", "70"}, 70, true},
		{"being written, up", []string{"90", "70", "70"}, 90, true},
		{"being written, down", []string{"0", "70", "70"}, 70, true},
		{"being written for the first time", []string{"70", "-", "-"}, 70, true},
		{"garbage beside a figure", []string{"NaN", "70", "lots"}, 70, true},
		{"zero is a figure for all of them", []string{"-", "0", "-"}, 0, true},
		{"none: the estimates of all pods", []string{"-", "-", "-"}, 720, false},
		{"garbage only", []string{"NaN", "-1", "5s"}, 720, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var pods []*v1.Pod
			for _, p := range gang("gang", names("node-%03d", len(tt.written)), "2", "") {
				p = p.running(time.Minute).annotate(annotationRisk, tt.written[len(pods)])
				if tt.written[len(pods)] == "-" {
					p = p.unannotate(annotationRisk)
				}
				pods = append(pods, p.Pod)
			}
			if got, annotated := riskOf(pods, noon, defaultSettings); got != tt.want || annotated != tt.annotated {
				t.Errorf("got %v, annotated %t; want %v, %t", got, annotated, tt.want, tt.annotated)
			}
		})
	}
}

// written reads a figure that a test has written.
func written(p pod) float64 {
	seconds, _ := annotatedRisk(p.Pod)
	return seconds
}

func reclaimed(p pod, millicores string) pod {
	p.Spec.Containers[0].Resources.Requests[resourceReclaimedCPU] = resource.MustParse(millicores)
	return p
}

// A pod that waits is tried again at the moment it becomes entitled.
func TestTriedAgainWhenEntitled(t *testing.T) {
	web := pending("web", "1")
	s := world{nodes: nodes(1, "1"), pods: []pod{web, scavenger("a", "node-000", "1", "1").nonPreemptible()}}.start(t)
	if _, status := s.preempt(web); status.IsSuccess() {
		t.Fatal("entitled too early")
	}
	s.preempt(web) // for whatever reason; no second timer
	s.clock.Step(5*time.Minute - time.Second)
	time.Sleep(20 * time.Millisecond)
	if got := s.activated(); len(got) != 0 {
		t.Fatalf("%v tried again a second too early", got)
	}
	s.clock.Step(time.Second)
	s.eventually("web is tried again", func() bool { return slices.Equal(s.activated(), []string{"web"}) })
	if _, status := s.preempt(web); !status.IsSuccess() {
		t.Fatal(status)
	}
	checkVictims(t, []string{"a"}, s.victims())
}

// With fullWaitFrom, how long a pod waits before it takes non-preemptible jobs follows what they would lose. With 5h that
// is a second for each minute of unsaved work and each core that it requests. It is tried again at that moment.
func TestWaitFollowsWhatIsUnsaved(t *testing.T) {
	protected := func(name, node, risk string) pod { return scavenger(name, node, "1", risk).nonPreemptible() }
	from := func(d time.Duration) Args { return Args{FullWaitFrom: &metav1.Duration{Duration: d}} }
	one := []pod{protected("a", "node-000", "1200")}
	two := gang("a", []string{"node-000", "node-001"}, "1", "2400")
	for _, tt := range []struct {
		name    string
		args    Args
		nodes   []*v1.Node
		pods    []pod
		web     pod
		want    time.Duration
		victims []string
	}{
		{name: "twenty minutes", args: from(5 * time.Hour), pods: one, want: 20 * time.Second, victims: []string{"a"}},
		{name: "from an hour on", args: from(time.Hour), pods: one, want: 100 * time.Second, victims: []string{"a"}},
		{name: "the same for all", args: from(0), pods: one, want: 5 * time.Minute, victims: []string{"a"}},
		{
			name: "a shorter one", args: Args{NonPreemptibleWait: &metav1.Duration{Duration: time.Minute}, FullWaitFrom: from(time.Hour).FullWaitFrom},
			pods: one, want: 20 * time.Second, victims: []string{"a"},
		},
		{
			name: "never longer than the whole", args: from(5 * time.Hour), pods: []pod{protected("a", "node-000", "90000")},
			want: 5 * time.Minute, victims: []string{"a"},
		},
		{
			name: "of two jobs the one with less", args: from(5 * time.Hour), nodes: nodes(2, "1"),
			pods: []pod{protected("a", "node-000", "90000"), protected("b", "node-001", "600")},
			want: 10 * time.Second, victims: []string{"b"},
		},
		{
			name: "what both lose that go, for each core", args: from(5 * time.Hour), nodes: nodes(1, "2"), web: pending("web", "2"),
			pods: []pod{protected("a", "node-000", "1200"), protected("b", "node-000", "600")},
			want: 15 * time.Second, victims: []string{"a", "b"},
		},
		{
			name: "a whole gang's", args: from(5 * time.Hour), nodes: nodes(2, "1"),
			pods: []pod{two[0].nonPreemptible().running(time.Minute), two[1].nonPreemptible()}, // the newer one goes
			want: 40 * time.Second, victims: []string{"a-0"},
		},
		{
			name: "the whole for a pod without a core", args: from(5 * time.Hour), web: pending("web", "0").memory("4Gi"),
			pods: []pod{protected("a", "node-000", "1200").memory("64Gi")}, want: 5 * time.Minute, victims: []string{"a"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.nodes == nil {
				tt.nodes = nodes(1, "1")
			}
			if tt.web.Pod == nil {
				tt.web = pending("web", "1")
			}
			s := world{args: tt.args, nodes: tt.nodes, pods: append(tt.pods, tt.web)}.start(t)
			if _, status := s.preempt(tt.web); status.IsSuccess() {
				t.Fatal("entitled at once")
			}
			s.clock.Step(tt.want - time.Second)
			time.Sleep(20 * time.Millisecond)
			if got := s.activated(); len(got) != 0 {
				t.Fatalf("%v tried again a second too early", got)
			}
			s.clock.Step(time.Second)
			s.eventually("web is tried again", func() bool { return slices.Equal(s.activated(), []string{"web"}) })
			if _, status := s.preempt(tt.web); !status.IsSuccess() {
				t.Fatal(status)
			}
			checkVictims(t, tt.victims, s.victims())
		})
	}
}

// Preemptible jobs go first all the same, whatever they lose, and nothing is taken for a pod that finds room beside them.
func TestWaitForLittleTakesPreemptibleJobsFirst(t *testing.T) {
	web := pending("web", "1").waiting(time.Minute)
	s := world{
		args:  Args{FullWaitFrom: &metav1.Duration{Duration: 5 * time.Hour}},
		nodes: nodes(2, "1"),
		pods: []pod{
			scavenger("a", "node-000", "1", "1").nonPreemptible(), scavenger("b", "node-001", "1", "90000"), web,
		},
	}.start(t)
	if _, status := s.preempt(web); !status.IsSuccess() {
		t.Fatal(status)
	}
	checkVictims(t, []string{"b"}, s.victims())
}

// A preemptor that waits for a pod to leave is tried again when that pod is given up, and takes another.
func TestTriedAgainWhenAVictimHangs(t *testing.T) {
	slow := func() pod { return scavenger("a", "node-000", "1", "9").terminating(25 * time.Second) }
	for _, tt := range []struct {
		name  string
		web   pod
		slow  pod
		later bool // the victim is chosen first, and is seen to leave then
	}{
		{name: "one that was leaving when it came", web: pending("web", "1"), slow: slow()},
		{name: "its own victim, seen again", web: nominatedTo(pending("web", "1"), "node-000"), slow: slow().preempted()},
		{name: "its own victim", web: pending("web", "1"), slow: scavenger("a", "node-000", "1", "0"), later: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := scavenger("b", "node-001", "1", "1")
			s := world{nodes: nodes(2, "1"), pods: []pod{tt.web, tt.slow, b}}.start(t)
			if tt.later {
				s.dry()
			}
			s.preempt(tt.web)
			checkVictims(t, nil, s.victims())
			if tt.later {
				s.update(tt.slow.terminating(25 * time.Second))
			}
			s.eventually("a timer is set", s.clock.HasWaiters)
			s.preempt(tt.web) // for whatever reason; it goes on waiting
			s.clock.Step(25*time.Second + overdueAfter - time.Millisecond)
			time.Sleep(20 * time.Millisecond)
			if got := s.activated(); len(got) != 0 {
				t.Fatalf("%v tried again too early", got)
			}
			s.clock.Step(time.Millisecond)
			s.eventually("web is tried again", func() bool { return slices.Equal(s.activated(), []string{"web"}) })
			result, status := s.preempt(tt.web)
			if !status.IsSuccess() || result.NominatedNodeName != "node-001" {
				t.Fatalf("nominated to %+v: %v", result, status)
			}
		})
	}
}

// Two preemptors that wait for the pods of one gang are both tried again.
func TestBothTriedAgainWhenAGangHangs(t *testing.T) {
	first, second := pending("web-1", "1"), pending("web-2", "1")
	pods := gang("gang", []string{"node-000", "node-000"}, "1", "9")
	s := world{nodes: nodes(1, "2"), pods: append(pods, first, second)}.start(t)
	s.dry()
	for _, web := range []pod{first, second} {
		result, _ := s.preempt(web)
		s.nominate(web, result.NominatedNodeName)
	}
	for _, p := range pods {
		s.update(p.terminating(25 * time.Second))
	}
	seen := map[string]bool{}
	s.eventually("the pods are seen to leave", func() bool { return len(s.plugin.waiting.laterPods()) == 2 })
	s.clock.Step(25*time.Second + overdueAfter)
	s.eventually("both are tried again", func() bool {
		for _, name := range s.activated() {
			seen[name] = true
		}
		return len(seen) == 2
	})
}

func (w *waiting) laterPods() (uids []types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.later))
}

// A preemptor whose node takes no more pods is tried again, a moment after everybody has seen it.
func TestTriedAgainWhenItsNodeIsLost(t *testing.T) {
	taint := func(effect v1.TaintEffect) func(*v1.Node) {
		return func(n *v1.Node) { n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: "gone", Effect: effect}) }
	}
	for _, tt := range []struct {
		name   string
		change func(*v1.Node)
		again  bool
	}{
		{"cordoned", func(n *v1.Node) { n.Spec.Unschedulable = true }, true},
		{"tainted", taint(v1.TaintEffectNoExecute), true},
		{"deleted", nil, true},
		{"tainted for those who can choose", taint(v1.TaintEffectPreferNoSchedule), false},
		{"labelled", func(n *v1.Node) { n.Labels["new"] = "" }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			web, other := pending("web", "1"), pending("other", "1")
			s := world{nodes: nodes(2, "1"), pods: []pod{web, other, scavenger("a", "node-000", "1", "1")}}.start(t)
			s.nominate(web, "node-000")
			s.nominate(other, "node-001")
			if tt.change == nil {
				if err := s.client.CoreV1().Nodes().Delete(s.ctx, "node-000", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			} else {
				n := node("node-000", "1")
				tt.change(n)
				if _, err := s.client.CoreV1().Nodes().Update(s.ctx, n, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if !tt.again {
				time.Sleep(20 * time.Millisecond)
				s.clock.Step(nodeLossDelay)
				time.Sleep(20 * time.Millisecond)
				if got := s.activated(); len(got) != 0 {
					t.Errorf("%v are tried again", got)
				}
				return
			}
			s.eventually("it is going to be tried again", s.clock.HasWaiters)
			s.clock.Step(nodeLossDelay - time.Millisecond)
			time.Sleep(20 * time.Millisecond)
			if got := s.activated(); len(got) != 0 {
				t.Errorf("%v are tried again before the scheduler can know", got)
			}
			s.clock.Step(time.Millisecond)
			s.eventually("web is tried again", func() bool { return slices.Equal(s.activated(), []string{"web"}) })
		})
	}
}

func TestNotTriedAgain(t *testing.T) {
	for name, p := range map[string]pod{
		"nothing to gain by waiting": newPod("a", "node-000", "1").priority(2000),
		"it has found its victim":    scavenger("a", "node-000", "1", "1"),
	} {
		t.Run(name, func(t *testing.T) {
			web := pending("web", "1")
			s := world{nodes: nodes(1, "1"), pods: []pod{web, p}}.start(t)
			s.preempt(web)
			if s.clock.HasWaiters() {
				t.Error("a timer was set")
			}
		})
	}
}

// It is also tried again when a job becomes preemptible, once for a whole batch, and when it becomes interactive itself.
func TestTriedAgainWhenClassesChange(t *testing.T) {
	web := pending("web", "1")
	jobs := []pod{scavenger("a", "node-000", "1", "1").nonPreemptible(), scavenger("b", "node-000", "1", "1").nonPreemptible()}
	s := world{nodes: nodes(1, "2"), pods: append(jobs, web)}.start(t)
	s.preempt(web)
	for _, job := range jobs {
		s.update(job.label(labelClass, string(preemptible)))
	}
	s.eventually("a retry is due", func() bool {
		s.plugin.waiting.mu.Lock()
		defer s.plugin.waiting.mu.Unlock()
		return s.plugin.waiting.awake
	})
	s.clock.Step(classChangeDelay)
	s.eventually("web is tried again", func() bool { return slices.Equal(s.activated(), []string{"web"}) })

	stale := pod{web.DeepCopy()}
	s.update(web.interactive())
	s.eventually("web is tried again", func() bool { return slices.Equal(s.activated(), []string{"web"}) })
	for _, job := range jobs { // those two are preemptible by now in the API, but not in this scheduler's snapshot
		s.update(job.nonPreemptible())
	}
	s.eventually("the jobs are protected again", func() bool {
		known := s.plugin.jobs.addUp(keyOf(jobs[0].Pod), jobs[0].Pod, noon, defaultSettings, s.plugin.decided.has)
		return known.class == nonPreemptible
	})
	if _, status := s.preempt(stale); !status.IsSuccess() {
		t.Errorf("the queue's copy of the pod is believed, which is not interactive yet: %v", status)
	}
}

// A pod that is bound or gone by then is left alone.
func TestNotTriedAgainWhenGone(t *testing.T) {
	web := pending("web", "1")
	s := world{nodes: nodes(1, "1"), pods: []pod{web, scavenger("a", "node-000", "1", "1").nonPreemptible()}}.start(t)
	s.preempt(web)
	if err := s.client.CoreV1().Pods("default").Delete(s.ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually("web is gone", func() bool {
		_, err := s.plugin.waiting.lister.Pods("default").Get("web")
		return err != nil
	})
	s.clock.Step(time.Hour)
	s.eventually("the timer is over", func() bool {
		s.plugin.waiting.mu.Lock()
		defer s.plugin.waiting.mu.Unlock()
		return len(s.plugin.waiting.pods) == 0
	})
	if got := s.activated(); len(got) != 0 {
		t.Errorf("%v tried again", got)
	}
}

// The bound never exceeds the smallest loss an exhaustive search finds.
func TestAtLeast(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 2000 {
		shares, needed := randomShares(random)
		best, possible := exhaustive(shares, needed)
		least, can := atLeast(needed, shares)
		if possible && !can {
			t.Fatalf("round %d: said to be impossible", round)
		}
		if possible && (least.protected && !best.protected || least.seconds > best.seconds+1e-9) {
			t.Fatalf("round %d: at least %+v, but %+v does", round, least, best)
		}
	}
}

// Room that was promised to pods of the same or a higher priority is no room for another.
func TestShortageBesideNominatedPods(t *testing.T) {
	for _, tt := range []struct {
		name      string
		nominated pod
		want      int64 // millicores
	}{
		{"of the same priority", pending("web-1", "1"), 2000},
		{"of a higher one", pending("web-1", "1").priority(2000), 2000},
		{"of a lower one", pending("web-1", "1").priority(999), 1000},
		{"its own", pending("web-2", "1"), 1000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			web := pending("web-2", "1")
			pods := []pod{web, scavenger("a", "node-000", "1", "10"), scavenger("b", "node-000", "1", "20")}
			if tt.nominated.UID != web.UID {
				pods = append(pods, tt.nominated)
			}
			s := world{nodes: nodes(1, "2"), pods: pods}.start(t)
			s.nominate(tt.nominated, "node-000")
			at := s.plugin.newAttempt(web.Pod, noon)
			s.filter(web)
			at.listen(s.statuses.Get("node-000"))
			info, _ := s.framework.SnapshotSharedLister().NodeInfos().Get("node-000")
			o := at.lookAt(info)
			if want := (amounts{{v1.ResourceCPU, tt.want}}); !slices.Equal(o.needed, want) {
				t.Errorf("%v needed, want %v", o.needed, want)
			}
			if want := map[int64]float64{1000: 10, 2000: 30}[tt.want]; o.least.seconds != want {
				t.Errorf("at least %v CPU-seconds are lost, want %v", o.least.seconds, want)
			}
		})
	}
}

func randomShares(random *rand.Rand) (shares []*share, needed amounts) {
	for i := range 1 + random.IntN(8) {
		p := scavenger(fmt.Sprint("j", i), "n", fmt.Sprint(1+random.IntN(4)), "0")
		info, _ := framework.NewPodInfo(p.Pod)
		j := &job{class: preemptible, seconds: math.Floor(random.Float64() * 100), lost: random.IntN(10) == 0}
		if random.IntN(3) == 0 {
			j.class = nonPreemptible
		}
		if j.lost {
			j.seconds = 0
		}
		shares = append(shares, &share{job: j, pods: []fwk.PodInfo{info}})
	}
	return shares, amounts{{v1.ResourceCPU, int64(1000 * (1 + random.IntN(10)))}, {v1.ResourcePods, int64(random.IntN(3))}}
}

func sumOf(shares []*share) (s sum) {
	for _, share := range shares {
		p := priceOf(share)
		s.protected = s.protected || p[protected] > 0
		s.seconds += p[atRisk]
	}
	return s
}

func exhaustive(shares []*share, needed amounts) (best sum, possible bool) {
	for mask := range 1 << len(shares) {
		var chosen []*share
		for i, share := range shares {
			if mask>>i&1 == 1 {
				chosen = append(chosen, share)
			}
		}
		if len(needed.without(podsOf(chosen))) > 0 {
			continue
		}
		if s := sumOf(chosen); !possible || s.compare(best) < 0 {
			best, possible = s, true
		}
	}
	return best, possible
}

// On full nodes of mixed jobs the CPU time lost is the smallest possible, and nobody goes for nothing.
func TestLossAgainstExhaustiveSearch(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	lost, smallest := 0.0, 0.0
	for range 150 {
		var w world
		var all []*share
		for i := range 4 {
			n := node(fmt.Sprintf("node-%03d", i), "8")
			w.nodes = append(w.nodes, n)
			for j, left := 0, 8; left > 0; j++ {
				cpu := 1 + random.IntN(min(4, left))
				left -= cpu
				w.pods = append(w.pods, scavenger(fmt.Sprintf("j-%d-%d", i, j), n.Name, fmt.Sprint(cpu),
					fmt.Sprint(1+random.IntN(1000))))
			}
		}
		size := 1 + random.IntN(6)
		web := pending("web", fmt.Sprint(size))
		best := math.Inf(1)
		for _, n := range w.nodes {
			all = nil
			for _, p := range w.pods {
				if p.Spec.NodeName == n.Name {
					info, _ := framework.NewPodInfo(p.Pod)
					all = append(all, &share{pods: []fwk.PodInfo{info}, job: &job{class: preemptible, seconds: written(p)}})
				}
			}
			if s, ok := exhaustive(all, amounts{{v1.ResourceCPU, int64(size) * 1000}}); ok {
				best = min(best, s.seconds)
			}
		}
		w.pods = append(w.pods, web)
		s := w.start(t)
		if _, status := s.preempt(web); !status.IsSuccess() {
			t.Fatal(status)
		}
		gone, freed, smallestFreed := 0.0, int64(0), int64(math.MaxInt64)
		victims := s.victims()
		for _, p := range w.pods {
			if slices.Contains(victims, p.Name) {
				gone += written(p)
				cpu := p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
				freed, smallestFreed = freed+cpu, min(smallestFreed, cpu)
			}
		}
		if freed-smallestFreed >= int64(size)*1000 {
			t.Errorf("%v free %dm for %d cores: one less would do", victims, freed, size)
		}
		lost, smallest = lost+gone, smallest+best
	}
	t.Logf("CPU time lost / smallest possible: %.3f", lost/smallest)
	if lost > smallest*(1+1e-9) {
		t.Errorf("lost %.0f CPU-seconds where %.0f would do", lost, smallest)
	}
}

// TestTableOfCheckpoints compares what programs write with the services (checkpoint_time in scavenger_api.times).
func TestTableOfCheckpoints(t *testing.T) {
	var cases []struct {
		Text, Who string
		Micros    *int64
	}
	readTable(t, "checkpoint_cases.json", &cases)
	for _, tt := range cases {
		t.Run(tt.Who, func(t *testing.T) {
			at, ok := checkpointTime(tt.Text)
			if ok != (tt.Micros != nil) || ok && at.UnixMicro() != *tt.Micros {
				t.Errorf("%q is %v, %t", tt.Text, at, ok)
			}
		})
	}
}
