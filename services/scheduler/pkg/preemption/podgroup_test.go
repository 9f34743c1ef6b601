//go:build !kubernetes_1_36 && !kubernetes_1_35

package preemption

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
)

// band is a pod group of ordinary pods that wait, all alike.
func band(size int, cpu string) (members []pod) {
	for i := range size {
		member := pending(fmt.Sprintf("band-%d", i), cpu)
		name := "band"
		member.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
		members = append(members, member)
	}
	return members
}

// withBand adds a band to a world, and the gate that has it scheduled as one.
func (w world) withBand(members []pod) world {
	w.features.EnableGenericWorkload = true
	w.pods = append(slices.Clone(w.pods), members...)
	w.groups = append(w.groups,
		st.MakePodGroup().Namespace("default").Name("band").UID("band").MinCount(int32(len(members))).Priority(1000).Obj())
	return w
}

// info is what the queue says of the band in a world.
func (w world) info(members []pod) *framework.PodGroupInfo {
	group := w.groups[len(w.groups)-1].(*schedulingv1beta1.PodGroup)
	info := &framework.PodGroupInfo{Namespace: "default", Name: group.Name, Type: fwk.PodGroupKeyType, PodGroup: group}
	for _, member := range members {
		info.UnscheduledPods = append(info.UnscheduledPods, member.Pod)
	}
	return info
}

// preemptFor runs PodGroupPostFilter for a band; `sites` is where its pods may be together, none: anywhere.
func (s *scheduler) preemptFor(w world, members []pod, sites ...[]string) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	s.t.Helper()
	schedule := func(ctx context.Context) (*fwk.PodGroupAssignments, *fwk.Status) {
		return s.placeAll(ctx, members, sites)
	}
	return s.plugin.PodGroupPostFilter(s.ctx, framework.NewCycleState(), w.info(members), schedule)
}

// placement is where the scheduler puts a pod of a group.
type placement struct {
	info  fwk.PodInfo
	node  string
	state fwk.CycleState
}

func (p *placement) GetPod() *v1.Pod               { return p.info.GetPod() }
func (p *placement) GetPodInfo() fwk.PodInfo       { return p.info }
func (p *placement) GetNodeName() string           { return p.node }
func (p *placement) GetCycleState() fwk.CycleState { return p.state }

// placeAll is the scheduler's part: pods go where most is free, one after the other, on the nodes of one site.
func (s *scheduler) placeAll(ctx context.Context, members []pod, sites [][]string) (*fwk.PodGroupAssignments, *fwk.Status) {
	if len(sites) == 0 {
		sites = [][]string{nil}
	}
	for _, site := range sites {
		if placed := s.placeOn(ctx, members, site); placed != nil {
			return placed, nil
		}
	}
	return nil, fwk.NewStatus(fwk.Unschedulable, "the band fits nowhere")
}

func (s *scheduler) placeOn(ctx context.Context, members []pod, site []string) *fwk.PodGroupAssignments {
	snapshot := s.plugin.handle.MutableSnapshotSharedLister()
	placed := &fwk.PodGroupAssignments{}
	defer func() {
		for _, p := range placed.ProposedAssignments {
			if err := snapshot.RemovePod(klog.FromContext(ctx), p.GetPod(), p.GetNodeName()); err != nil {
				s.t.Fatal(err)
			}
		}
	}()
	for _, member := range members {
		info, err := framework.NewPodInfo(member.Pod)
		if err != nil {
			s.t.Fatal(err)
		}
		p := &placement{info: info, state: framework.NewCycleState()}
		if _, status, _ := s.framework.RunPreFilterPlugins(ctx, p.state, member.Pod); !status.IsSuccess() {
			s.t.Fatal(status)
		}
		nodes, err := snapshot.NodeInfos().List()
		if err != nil {
			s.t.Fatal(err)
		}
		most := int64(math.MinInt64)
		for _, n := range nodes {
			name, free := n.Node().Name, n.GetAllocatable().GetMilliCPU()-n.GetRequested().GetMilliCPU()
			if len(site) > 0 && !slices.Contains(site, name) || free < most || free == most && name > p.node ||
				!s.framework.RunFilterPluginsWithNominatedPods(ctx, p.state, member.Pod, n).IsSuccess() {
				continue
			}
			p.node, most = name, free
		}
		if p.node == "" {
			return nil
		}
		if err := snapshot.AddPod(info, p.node); err != nil {
			s.t.Fatal(err)
		}
		placed.ProposedAssignments = append(placed.ProposedAssignments, p)
	}
	return placed
}

// A group of pods makes room as one: each case is a cluster with no room for all of it.
func TestVictimsOfAPodGroup(t *testing.T) {
	for _, tt := range []struct {
		name    string
		nodes   []*v1.Node
		pods    []pod
		band    []pod
		sites   [][]string
		victims []string // none: the group has to wait
	}{
		{
			name:  "the jobs with the least at risk go, wherever they are",
			nodes: nodes(4, "1"),
			pods: []pod{
				scavenger("a", "node-000", "1", "40"), scavenger("b", "node-001", "1", "10"),
				scavenger("c", "node-002", "1", "30"), scavenger("d", "node-003", "1", "20"),
			},
			band:    band(2, "1"),
			victims: []string{"b", "d"},
		},
		{
			name:    "where there is room nobody goes",
			nodes:   nodes(3, "1"),
			pods:    []pod{scavenger("a", "node-000", "1", "10"), scavenger("b", "node-002", "1", "5")},
			band:    band(2, "1"),
			victims: []string{"b"},
		},
		{
			name:  "two pods of the group take a node together, where that is less",
			nodes: nodes(3, "2"),
			pods: []pod{
				scavenger("a", "node-000", "2", "30"), scavenger("b", "node-001", "2", "25"), scavenger("c", "node-002", "2", "28"),
			},
			band:    band(2, "1"),
			victims: []string{"b"},
		},
		{
			name:  "a broken job's other pods go for nothing more",
			nodes: nodes(4, "1"),
			pods: append(gang("gang", names("node-%03d", 2), "1", "25"),
				scavenger("a", "node-002", "1", "20"), scavenger("b", "node-003", "1", "30")),
			band:    band(2, "1"),
			victims: []string{"gang-0", "gang-1"},
		},
		{
			name:  "also where a single job is less than such a job, and two are more",
			nodes: nodes(4, "1"),
			pods: append(gang("gang", names("node-%03d", 2), "1", "25"),
				scavenger("a", "node-002", "1", "15"), scavenger("b", "node-003", "1", "20")),
			band:    band(2, "1"),
			victims: []string{"gang-0", "gang-1"},
		},
		{
			name:  "of a broken job stay the pods whose room is not needed",
			nodes: nodes(3, "1"),
			pods: append(gang("gang", names("node-%03d", 2), "1", "5"),
				scavenger("a", "node-002", "1", "20")),
			band:    band(1, "1"),
			victims: []string{"gang-*"},
		},
		{
			name:    "no ordinary pod goes where jobs are enough",
			nodes:   nodes(2, "2"),
			pods:    []pod{newPod("low", "node-000", "1").priority(-5), scavenger("a", "node-000", "1", "9"), scavenger("b", "node-001", "1", "900"), scavenger("c", "node-001", "1", "900")},
			band:    band(3, "1"),
			victims: []string{"a", "b", "c"},
		},
		{
			name:    "ordinary pods go with them where they are not, by upstream's order",
			nodes:   nodes(1, "3"),
			pods:    []pod{newPod("low", "node-000", "1").priority(0), newPod("lower", "node-000", "1").priority(-5), scavenger("a", "node-000", "1", "9")},
			band:    band(2, "1"),
			victims: []string{"a", "lower"},
		},
		{
			name:    "protected jobs stay",
			nodes:   nodes(2, "1"),
			pods:    []pod{scavenger("a", "node-000", "1", "1").nonPreemptible(), scavenger("b", "node-001", "1", "9")},
			band:    band(1, "1"),
			victims: []string{"b"},
		},
		{
			name:  "even if the group has to wait for them",
			nodes: nodes(2, "1"),
			pods:  []pod{scavenger("a", "node-000", "1", "1").nonPreemptible(), scavenger("b", "node-001", "1", "9")},
			band:  band(2, "1"),
		},
		{
			name:    "but not for an interactive pod of the group",
			nodes:   nodes(2, "1"),
			pods:    []pod{scavenger("a", "node-000", "1", "1").nonPreemptible(), scavenger("b", "node-001", "1", "9")},
			band:    append(band(1, "1"), band(2, "1")[1].interactive()),
			victims: []string{"a", "b"},
		},
		{
			name:    "nor where an ordinary pod would go instead",
			nodes:   nodes(2, "1"),
			pods:    []pod{scavenger("a", "node-000", "1", "1").nonPreemptible(), newPod("low", "node-001", "1").priority(0)},
			band:    band(1, "1"),
			victims: []string{"a"},
		},
		{
			name:  "where the scheduler wants the group together, it is put where the scheduler has it, for the least there",
			nodes: nodes(4, "2"),
			pods: []pod{
				scavenger("a", "node-000", "1", "1"), scavenger("b", "node-000", "1", "50"), scavenger("c", "node-001", "2", "60"),
				scavenger("d", "node-002", "1", "1"), scavenger("e", "node-002", "1", "50"), scavenger("f", "node-003", "2", "60"),
			},
			band:    band(2, "1"),
			sites:   [][]string{{"node-000", "node-001"}, {"node-002", "node-003"}},
			victims: []string{"a", "c"},
		},
		{
			name:  "a group too large for the cluster takes nobody",
			nodes: nodes(2, "1"),
			pods:  []pod{scavenger("a", "node-000", "1", "1"), scavenger("b", "node-001", "1", "9")},
			band:  band(3, "1"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := world{nodes: tt.nodes, pods: tt.pods}.withBand(tt.band)
			s := w.start(t)
			result, status := s.preemptFor(w, tt.band, tt.sites...)
			if status.IsSuccess() != (len(tt.victims) > 0) {
				t.Fatalf("%v", status)
			}
			checkVictims(t, tt.victims, s.victims())
			if !status.IsSuccess() {
				return
			}
			if len(result.NominatingInfos) != len(tt.band) {
				t.Errorf("nominated are %v", result.NominatingInfos)
			}
		})
	}
}

// Once a job is broken for one pod of the group it costs nothing more for the next, also where what it has is not enough.
func TestGreedyPlacement(t *testing.T) {
	members := band(2, "2")
	w := world{nodes: nodes(3, "2"), pods: append(gang("gang", names("node-%03d", 2), "1", "25"),
		scavenger("a", "node-000", "1", "0"), scavenger("b", "node-001", "1", "10"), scavenger("c", "node-002", "2", "30"),
	)}.withBand(members)
	s := w.start(t)
	schedule := func(ctx context.Context) (*fwk.PodGroupAssignments, *fwk.Status) {
		return s.placeAll(ctx, members, nil)
	}
	g := s.plugin.newPodGroup(s.ctx, w.info(members), schedule)
	if err := g.snapshot.StartMutations(); err != nil {
		t.Fatal(err)
	}
	g.nodes, _ = g.snapshot.NodeInfos().List()
	all := podsOf(g.shares())
	if err := g.take(all...); err != nil {
		t.Fatal(err)
	}
	placed, status := g.schedule(g.ctx)
	if !status.IsSuccess() {
		t.Fatal(status)
	}
	if err := g.put(all...); err != nil {
		t.Fatal(err)
	}
	chosen, err := g.greedy(assigned(placed), nil)
	if err != nil {
		t.Fatal(err)
	}
	if l := g.at.weigh(podsAlone(chosen), 0); l.seconds != 35 {
		t.Errorf("%d pods go, %v CPU-seconds are lost", len(chosen), l.seconds)
	}
}

// A group that only non-preemptible jobs keep out is tried again when it may take them.
func TestPodGroupTriedAgainWhenEntitled(t *testing.T) {
	members := band(2, "1")
	w := world{nodes: nodes(2, "1"), pods: []pod{
		scavenger("a", "node-000", "1", "1").nonPreemptible(), scavenger("b", "node-001", "1", "9").nonPreemptible(),
	}}.withBand(members)
	s := w.start(t)
	if _, status := s.preemptFor(w, members); status.IsSuccess() {
		t.Fatal("entitled too early")
	}
	s.clock.Step(5*time.Minute + time.Second)
	s.eventually("the group is tried again", func() bool { return len(s.activated()) == 1 })
	if _, status := s.preemptFor(w, members); !status.IsSuccess() {
		t.Fatal(status)
	}
	checkVictims(t, []string{"a", "b"}, s.victims())
}

// Who may not preempt does not: scavenger pods never, and groups whose policy says so.
func TestPodGroupsThatNeverPreempt(t *testing.T) {
	never, groupNever := v1.PreemptNever, schedulingv1beta1.PreemptNever
	for _, tt := range []struct {
		name    string
		change  func(members []pod, group *schedulingv1beta1.PodGroup)
		policy  bool // groups have a policy of their own
		refused bool
	}{
		{name: "an ordinary group", change: func([]pod, *schedulingv1beta1.PodGroup) {}},
		{
			name: "a pod that never preempts", refused: true,
			change: func(members []pod, _ *schedulingv1beta1.PodGroup) { members[1].Spec.PreemptionPolicy = &never },
		},
		{
			name: "such a pod in a group with a policy of its own", policy: true,
			change: func(members []pod, _ *schedulingv1beta1.PodGroup) { members[1].Spec.PreemptionPolicy = &never },
		},
		{
			name: "a group that never preempts", policy: true, refused: true,
			change: func(_ []pod, group *schedulingv1beta1.PodGroup) { group.Spec.PreemptionPolicy = &groupNever },
		},
		{
			name: "scavenger pods", refused: true,
			change: func(members []pod, _ *schedulingv1beta1.PodGroup) {
				for _, member := range members {
					member.Spec.PriorityClassName = priorityClassPreemptible
				}
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			members := band(2, "1")
			w := world{
				nodes: nodes(2, "1"), features: feature.Features{EnablePodGroupPreemptionPolicy: tt.policy},
				pods: []pod{scavenger("a", "node-000", "1", "1"), scavenger("b", "node-001", "1", "9")},
			}.withBand(members)
			tt.change(members, w.groups[0].(*schedulingv1beta1.PodGroup))
			s := w.start(t)
			_, status := s.preemptFor(w, members)
			if status.IsSuccess() == tt.refused {
				t.Errorf("%v", status)
			}
			if got := len(s.victims()); (got == 0) != tt.refused {
				t.Errorf("%d victims", got)
			}
		})
	}
}

// A group whose victims are still going waits for them where it is nominated to, and takes nobody else; one of its victims
// that hangs is waited for no longer.
func TestPodGroupWaitsForItsVictims(t *testing.T) {
	for _, tt := range []struct {
		name    string
		victim  pod
		victims []string
	}{
		{"still going", scavenger("a", "node-000", "1", "1").terminating(20 * time.Second), nil},
		{"an ordinary one, still going", newPod("a", "node-000", "1").priority(0).terminating(20 * time.Second), nil},
		{"a minute beyond its grace period", scavenger("a", "node-000", "1", "1").terminating(-2 * time.Minute), []string{"b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			members := band(1, "1")
			members[0].Status.NominatedNodeName = "node-000"
			w := world{nodes: nodes(2, "1"), pods: []pod{tt.victim.preempted(), scavenger("b", "node-001", "1", "9")}}.
				withBand(members)
			s := w.start(t)
			result, status := s.preemptFor(w, members)
			if !status.IsSuccess() {
				t.Fatal(status)
			}
			checkVictims(t, tt.victims, s.victims())
			if tt.victims == nil && result.NominatingInfos[nameOf(members[0].Pod)].NominatedNodeName != "node-000" {
				t.Errorf("nominated are %v", result.NominatingInfos)
			}
		})
	}
}

// What one group has decided counts for the next preemptor, and is counted once.
func TestPodGroupAndThenAPod(t *testing.T) {
	members, web := band(1, "1"), pending("web", "1")
	w := world{nodes: nodes(3, "1"), pods: append(
		gang("gang", names("node-%03d", 2), "1", "20"), scavenger("a", "node-002", "1", "25"), web)}.withBand(members)
	s := w.start(t)
	before := s.lostSeconds(preemptible)
	result, _ := s.preemptFor(w, members)
	s.nominate(members[0], result.NominatingInfos[nameOf(members[0].Pod)].NominatedNodeName)
	if _, status := s.preempt(web); !status.IsSuccess() {
		t.Fatal(status)
	}
	checkVictims(t, []string{"gang-0", "gang-1"}, s.victims())
	if lost := s.lostSeconds(preemptible) - before; lost != 20 {
		t.Errorf("%v CPU-seconds counted as lost, want 20", lost)
	}
}

// While its victims are being removed in the background, no pod of a group is tried, until the last one is seen to leave.
func TestPodGroupIsKeptOutOfTheQueue(t *testing.T) {
	members := band(2, "1")
	w := world{
		nodes: nodes(2, "1"), features: feature.Features{EnableAsyncPreemption: true},
		pods: []pod{scavenger("a", "node-000", "1", "1"), scavenger("b", "node-001", "1", "9")},
	}.withBand(members)
	s := w.start(t)
	begin, removed, over := make(chan struct{}), make(chan struct{}, 2), make(chan struct{})
	onRemoval(s.plugin.DefaultPreemption, func(_ *v1.Pod, preempt func() error) error {
		<-begin
		err := preempt()
		removed <- struct{}{}
		<-over
		return err
	})
	tried := func() bool {
		return !slices.ContainsFunc(members, func(m pod) bool { return !s.plugin.PreEnqueue(s.ctx, m.Pod).IsSuccess() })
	}
	if _, status := s.preemptFor(w, members); !status.IsSuccess() {
		t.Fatal(status)
	}
	for _, member := range members {
		if s.plugin.PreEnqueue(s.ctx, member.Pod).IsSuccess() {
			t.Errorf("%s may be tried while its victims are being removed", member.Name)
		}
	}
	close(begin)
	<-removed
	time.Sleep(20 * time.Millisecond)
	if tried() {
		t.Error("the group may be tried while its last victim runs")
	}
	over <- struct{}{}
	<-removed
	s.eventually("the group may be tried again", tried)
	close(over)
	time.Sleep(20 * time.Millisecond)
	if got := s.activated(); len(got) != 0 {
		t.Errorf("%v are put to the head of the queue: the end of the victims is enough", got)
	}
	checkVictims(t, []string{"a", "b"}, s.victims())
}

// Victims of a group whose removal fails are as they were, and the group is tried again.
func TestFailedRemovalForAPodGroup(t *testing.T) {
	for _, async := range []bool{false, true} {
		t.Run(fmt.Sprint("asynchronous: ", async), func(t *testing.T) {
			members := band(2, "1")
			jobs := []pod{scavenger("a", "node-000", "1", "10"), scavenger("b", "node-001", "1", "10")}
			w := world{
				nodes: nodes(2, "1"), features: feature.Features{EnableAsyncPreemption: async}, pods: jobs,
				patching: errors.New("the API server is tired"),
			}.withBand(members)
			s := w.start(t)
			_, status := s.preemptFor(w, members)
			if status.IsSuccess() != async {
				t.Errorf("%v", status)
			}
			if async {
				s.eventually("the group is tried again", func() bool { return len(s.activated()) == 2 })
			}
			if status := s.plugin.PreEnqueue(s.ctx, members[0].Pod); !status.IsSuccess() {
				t.Errorf("%v", status)
			}
			for _, p := range jobs {
				if s.plugin.decided.has(p.UID) {
					t.Errorf("%s counts as going", p.Name)
				}
			}
		})
	}
}

// The choice leaves the scheduler's picture of the cluster as it was, and so what is known of jobs.
func TestPodGroupLeavesNoTrace(t *testing.T) {
	members := band(2, "1")
	w := world{nodes: nodes(3, "1"), pods: append(
		gang("gang", names("node-%03d", 2), "1", "20"), scavenger("a", "node-002", "1", "25"))}.withBand(members)
	s := w.start(t)
	s.dry()
	for range 2 {
		if _, status := s.preemptFor(w, members); !status.IsSuccess() {
			t.Fatal(status)
		}
		for _, n := range w.nodes {
			info, err := s.framework.SnapshotSharedLister().NodeInfos().Get(n.Name)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(info.GetPods()); got != 1 {
				t.Errorf("%d pods on %s", got, n.Name)
			}
		}
		s.plugin.decided.reset()
	}
}

// On random clusters of up to 12 jobs, some on several nodes, a group's victims are compared with all there could be.
func TestPodGroupVictimsAgainstBruteForce(t *testing.T) {
	cases := 400
	if testing.Short() {
		cases = 50
	}
	t.Logf("seed %d; a case is its seed and its number", fuzzSeed)
	mean, worst := groupLossOverOptimum(t, fuzzSeed, cases)
	t.Logf("lost / smallest possible: %.4f on average, %.4f at worst", mean, worst)
	if mean > 1.02 || worst > 1.6 {
		t.Errorf("lost / smallest possible: %.4f on average, %.4f at worst", mean, worst)
	}
}

func groupLossOverOptimum(t testing.TB, seed uint64, cases int) (mean, worst float64) {
	t.Helper()
	for i := range cases {
		ratio := chooseForGroup(t, rand.New(rand.NewPCG(seed, uint64(i))), fmt.Sprintf("seed %d, case %d", seed, i))
		mean += ratio / float64(cases)
		worst = max(worst, ratio)
	}
	return mean, worst
}

// chooseForGroup makes up a cluster and a group, and returns what its victims lose over the smallest possible loss.
func chooseForGroup(t testing.TB, random *rand.Rand, name string) float64 {
	t.Helper()
	w := world{nodes: nodes(2+random.IntN(5), "8")}
	free := slices.Repeat([]int{8}, len(w.nodes))
	jobs := map[string]*brutalJob{}
	for i := range 1 + random.IntN(12) {
		job := &brutalJob{risk: float64(1 + random.IntN(1000)), cores: make([]int, len(w.nodes))}
		var on []string
		cpu := 1 + random.IntN(4)
		for _, n := range random.Perm(len(w.nodes))[:1+random.IntN(2)*random.IntN(2)*random.IntN(len(w.nodes))] {
			if free[n] >= cpu {
				free[n] -= cpu
				job.cores[n] = cpu
				on = append(on, w.nodes[n].Name)
			}
		}
		if len(on) > 0 {
			id := fmt.Sprint("job-", i)
			jobs[id] = job
			w.pods = append(w.pods, gang(id, on, fmt.Sprint(cpu), fmt.Sprint(job.risk))...)
		}
	}
	size, cpu := 1+random.IntN(4), 1+random.IntN(4)
	if len(jobs) == 0 || fitsOn(free, size, cpu) {
		return 1
	}
	members := band(size, fmt.Sprint(cpu))
	w = w.withBand(members)
	s := w.start(t)
	s.dry()
	optimum := optimumOf(jobs, free, size, cpu)
	before := s.lostSeconds(preemptible)
	_, status := s.preemptFor(w, members)
	if status.IsSuccess() == math.IsInf(optimum, 1) {
		t.Fatalf("%s: %v, the optimum is %v", name, status, optimum)
	}
	if !status.IsSuccess() {
		return 1
	}
	lost := s.lostSeconds(preemptible) - before
	if lost < optimum-1e-6 {
		t.Fatalf("%s: lost %v, less than the optimum %v", name, lost, optimum)
	}
	return lost / optimum
}

// brutalJob is a job as the exhaustive search sees it: what it has on each node.
type brutalJob struct {
	risk  float64
	cores []int
}

func fitsOn(free []int, size, cpu int) bool {
	for _, cores := range free {
		size -= cores / cpu
	}
	return size <= 0
}

func optimumOf(jobs map[string]*brutalJob, free []int, size, cpu int) float64 {
	var all []*brutalJob
	for _, job := range jobs {
		all = append(all, job)
	}
	best := math.Inf(1)
	for set := range 1 << len(all) {
		left, lost := slices.Clone(free), 0.0
		for i, job := range all {
			if set>>i&1 == 0 {
				continue
			}
			lost += job.risk
			for n, cores := range job.cores {
				left[n] += cores
			}
		}
		if lost < best && fitsOn(left, size, cpu) {
			best = lost
		}
	}
	return best
}
