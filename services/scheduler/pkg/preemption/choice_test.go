package preemption

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

const (
	fuzzSeed  = 14
	fuzzCases = 10_000
)

// On 10,000 random nodes of up to 16 jobs nobody finds cheaper victims, and none of them goes for nothing.
func TestVictimsAgainstBruteForce(t *testing.T) {
	t.Logf("seed %d; a case is its seed and its number", fuzzSeed)
	cases := fuzzCases
	if testing.Short() {
		cases = 1000
	}
	mean, worst := lossOverOptimum(t, fuzzSeed, cases)
	t.Logf("lost / smallest possible: %.4f on average, %.4f at worst", mean, worst)
}

// lossOverOptimum chooses victims on random nodes, and returns what they lose over the smallest possible loss.
func lossOverOptimum(t testing.TB, seed uint64, cases int) (mean, worst float64) {
	t.Helper()
	s := world{}.start(t)
	for i := range cases {
		ratio := s.chooseAtRandom(rand.New(rand.NewPCG(seed, uint64(i))), fmt.Sprintf("seed %d, case %d", seed, i))
		mean += ratio / float64(cases)
		worst = max(worst, ratio)
	}
	return mean, worst
}

// chooseAtRandom makes up a full node and a pod, and compares the victims chosen for it with all there could be.
func (s *scheduler) chooseAtRandom(random *rand.Rand, name string) (lostOverOptimum float64) {
	s.t.Helper()
	info, web := randomFullNode(random, name)
	state := framework.NewCycleState()
	if _, status, _ := s.framework.RunPreFilterPlugins(s.ctx, state, web.Pod); !status.IsSuccess() {
		s.t.Fatalf("%s: PreFilter: %v", name, status)
	}
	at := s.plugin.newAttempt(web.Pod, noon)
	at.listen(s.framework.RunFilterPluginsWithNominatedPods(s.ctx, state, web.Pod, info))
	needed := at.shortage(info)
	optimum, possible := exhaustive(at.sharesOn(info), needed)
	victims, _, status := s.plugin.selectOn(withAttempt(s.ctx, at), state, web.Pod, info.Snapshot(), nil, nil)
	if possible != status.IsSuccess() {
		s.t.Fatalf("%s: status %v, possible: %t", name, status, possible)
	}
	if !possible {
		return 1
	}
	chosen := at.lossOn(info.Node().Name).sum()
	if chosen.protected != optimum.protected || chosen.seconds > optimum.seconds*(1+1e-9) {
		s.t.Errorf("%s: lost %+v where %+v would do", name, chosen, optimum)
	}
	for i, victim := range victims {
		others := append(append([]*v1.Pod{}, victims[:i]...), victims[i+1:]...)
		if len(needed.without(infosOf(info, others))) == 0 {
			s.t.Errorf("%s: %s goes for nothing", name, victim.Name)
		}
	}
	if optimum.seconds == 0 {
		return 1
	}
	return chosen.seconds / optimum.seconds
}

// randomFullNode is a node of 4 to 32 cores with up to 16 jobs, some of them gangs, some non-preemptible, some leaving, and
// a pod for which there is no room.
func randomFullNode(random *rand.Rand, name string) (fwk.NodeInfo, pod) {
	mebibytes := func(amount int64) string { return fmt.Sprint(amount, "Mi") }
	cores, memory := int64(1000*(4+random.IntN(29))), int64(1024*(8+random.IntN(120)))
	freeCores, freeMemory := cores, memory
	protectedPercent, jobs := random.IntN(2)*random.IntN(60), 1+random.IntN(16)
	var pods []*v1.Pod
	for i := range jobs {
		size := 1 + random.IntN(8)/7
		risk := math.Exp(random.Float64() * math.Log(float64(10+random.IntN(1_000_000))))
		class := preemptible
		if random.IntN(100) < protectedPercent {
			class = nonPreemptible
		}
		for j := range size {
			cpu := min(freeCores, int64(100*(1+random.IntN(80))))
			mem := min(freeMemory, int64(64*(1+random.IntN(256))))
			if cpu <= 0 || mem <= 0 {
				break
			}
			freeCores, freeMemory = freeCores-cpu, freeMemory-mem
			p := scavenger(fmt.Sprintf("%s, job %d", name, i), name, fmt.Sprint(cpu, "m"), fmt.Sprint(risk)).
				memory(mebibytes(mem)).label(labelClass, string(class))
			p.Name = fmt.Sprintf("%s, job %d, pod %d", name, i, j)
			p.UID = types.UID(p.Name)
			p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(p.Labels[labelJob]), Controller: new(true)}}
			if random.IntN(40) == 0 {
				p = p.terminating(30e9)
			}
			pods = append(pods, p.Pod)
		}
	}
	web := pending("web", fmt.Sprint(freeCores+int64(100*(1+random.IntN(160))), "m")).
		memory(mebibytes(int64(64 * (1 + random.IntN(512)))))
	if random.IntN(2) == 0 {
		web = web.interactive()
	}
	info := framework.NewNodeInfo(pods...)
	n := node(name, fmt.Sprint(cores, "m"))
	n.Status.Allocatable[v1.ResourceMemory] = resource.MustParse(mebibytes(memory))
	info.SetNode(n)
	return info, web
}

// The greedy beginning of the search keeps its bound: at most twice the least price for every resource that is short.
func TestGreedyBound(t *testing.T) {
	random := rand.New(rand.NewPCG(14, 1))
	worst := 0.0
	for round := range 3000 {
		resources := 1 + random.IntN(3)
		s := randomSelection(random, 1+random.IntN(12), resources)
		greedy := s.priceOf(s.byDensity())
		least := s.priceOf(s.cheapest())
		limit := 2 * float64(resources)
		if greedy[protected] != least[protected] || greedy[atRisk] > limit*least[atRisk]+1e-6 {
			t.Fatalf("round %d: %v, the least is %v", round, greedy, least)
		}
		if least[atRisk] > 0 {
			worst = max(worst, greedy[atRisk]/least[atRisk])
		}
	}
	t.Logf("greedy / smallest possible: %.3f at worst", worst)
}

// However many jobs there are, the search ends, with something that is no worse than where it began.
func TestManyJobs(t *testing.T) {
	random := rand.New(rand.NewPCG(14, 2))
	for _, jobs := range []int{16, 20, 30, 60, 250} {
		most := 0
		for range 200 {
			s := randomSelection(random, jobs, 2)
			greedy := s.priceOf(s.byDensity())
			least := s.priceOf(s.cheapest())
			if least.compare(greedy) > 0 {
				t.Errorf("%d jobs: %v, greedy: %v", jobs, least, greedy)
			}
			most = max(most, s.visits)
		}
		t.Logf("%d jobs: at most %d visits", jobs, most)
		if jobs <= exactUpTo && most >= maxVisits || jobs > exactUpTo && most > maxVisitsBeyond {
			t.Errorf("%d jobs: the search did not come to its end in time", jobs)
		}
	}
}

// Sizes and prices alike, and a shortage that no choice meets exactly: no bound helps, and it ends all the same.
func TestHardestJobs(t *testing.T) {
	for _, jobs := range []int{16, 24, 100} {
		s := &selection{missing: []int64{int64(jobs/2)*1000 + 1}, amounts: [][]int64{nil}}
		for i := range jobs {
			amount := int64(1000 + 2*i)
			s.amounts[0] = append(s.amounts[0], amount)
			s.prices = append(s.prices, price{atRisk: float64(amount), newlyBroken: 1, removals: 1})
		}
		broken := s.cheapest()
		var freed int64
		for i, gone := range broken {
			if gone {
				freed += s.amounts[0][i]
			}
		}
		t.Logf("%d jobs: %d visits", jobs, s.visits)
		if freed < s.missing[0] || float64(freed) > 2*float64(s.missing[0]) {
			t.Errorf("%d jobs: %d freed for %d", jobs, freed, s.missing[0])
		}
		if s.visits > maxVisits {
			t.Errorf("%d jobs: %d visits", jobs, s.visits)
		}
	}
}

func randomSelection(random *rand.Rand, jobs, resources int) *selection {
	s := &selection{}
	for range resources {
		amounts, total := make([]int64, jobs), int64(0)
		for i := range amounts {
			amounts[i] = int64(random.IntN(9) * random.IntN(1000))
			total += amounts[i]
		}
		s.amounts = append(s.amounts, amounts)
		s.missing = append(s.missing, int64(random.Float64()*float64(total)))
	}
	withProtected := random.IntN(3) == 0
	for range jobs {
		p := price{atRisk: math.Floor(random.Float64() * 1000), newlyBroken: 1, removals: 1}
		if withProtected && random.IntN(2) == 0 {
			p[protected] = 1
		}
		s.prices = append(s.prices, p)
	}
	return s
}

// Of a protected job with several pods on a node one may be enough: the node does not cost more than it loses.
func TestOnePodOfAProtectedGang(t *testing.T) {
	guarded := func(index int, cpu string) pod {
		return gang("guarded", []string{"node-000", "node-000"}, cpu, "9")[index].nonPreemptible()
	}
	web := pending("web", "16").interactive()
	s := world{
		nodes: nodes(1, "18"),
		pods:  []pod{guarded(0, "5"), guarded(1, "1"), scavenger("x", "node-000", "4", "4"), web},
	}.start(t)
	if _, status := s.preempt(web); !status.IsSuccess() {
		t.Fatal(status)
	}
	checkVictims(t, []string{"guarded-0", "x"}, s.victims())
}

// Of protected jobs those go that lose least, however many pods they have: on one node, and between nodes.
func TestOfProtectedJobsTheOnesThatLoseLeast(t *testing.T) {
	guarded := func(nodes ...string) []pod {
		return []pod{
			gang("guarded", nodes, "1", "10")[0].nonPreemptible(), gang("guarded", nodes, "1", "10")[1].nonPreemptible(),
		}
	}
	for _, tt := range []struct {
		name    string
		nodes   int
		pods    []pod
		victims []string
	}{
		{
			"on one node", 1,
			append(guarded("node-000", "node-000"), scavenger("costly", "node-000", "2", "9000").nonPreemptible()),
			[]string{"guarded-0", "guarded-1"},
		},
		{
			"between nodes", 2,
			append(guarded("node-001", "node-001"), scavenger("costly", "node-000", "4", "9000").nonPreemptible(),
				newPod("web-1", "node-001", "2").priority(5000)),
			[]string{"guarded-0", "guarded-1"},
		},
		{
			"no protected job where others are enough", 1,
			append(guarded("node-000", "node-000"), scavenger("costly", "node-000", "2", "9000")),
			[]string{"costly"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			web := pending("web", "2").interactive()
			s := world{nodes: nodes(tt.nodes, "4"), pods: append(tt.pods, web)}.start(t)
			if _, status := s.preempt(web); !status.IsSuccess() {
				t.Fatal(status)
			}
			checkVictims(t, tt.victims, s.victims())
		})
	}
}

// What has to go for the sake of another filter counts for the resources as well.
func TestVictimsForOtherFilters(t *testing.T) {
	noisy := func(p pod) pod { return p.label("noisy", "yes") }
	for _, tt := range []struct {
		name    string
		nodes   []*v1.Node
		pods    []pod
		for_    pod
		victims []string
	}{
		{
			name:  "one job is in the way by itself",
			nodes: nodes(1, "5"),
			pods: []pod{
				noisy(scavenger("noisy", "node-000", "1", "5")), scavenger("x", "node-000", "1", "6"),
				scavenger("y", "node-000", "1", "6"), scavenger("z", "node-000", "2", "10"),
			},
			for_:    antiAffinity(pending("web", "3"), "noisy", "yes"),
			victims: []string{"noisy", "z"},
		},
		{
			name:  "several are together",
			nodes: []*v1.Node{quiet(node("node-000", "8"), "2")},
			pods: []pod{
				noisy(gang("gang", []string{"node-000", "node-000"}, "1", "30")[0]),
				noisy(gang("gang", []string{"node-000", "node-000"}, "1", "30")[1]),
				noisy(scavenger("a", "node-000", "1", "20")), noisy(scavenger("b", "node-000", "1", "20")),
			},
			for_:    pending("web", "1"),
			victims: []string{"gang-0", "gang-1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := world{nodes: tt.nodes, pods: append(tt.pods, tt.for_)}.start(t)
			if _, status := s.preempt(tt.for_); !status.IsSuccess() {
				t.Fatal(status)
			}
			checkVictims(t, tt.victims, s.victims())
		})
	}
}

// quiet lets a node have so many noisy pods only.
func quiet(n *v1.Node, noisy string) *v1.Node {
	n.Labels["noisy"] = noisy
	return n
}
