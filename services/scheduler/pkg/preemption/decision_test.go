package preemption

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

const (
	wholeDecisions = 300
	gpu            = v1.ResourceName("nvidia.com/gpu")
)

// cost is what a decision loses: whether a non-preemptible job goes, the CPU-seconds of all jobs, and their number.
type cost struct {
	protected bool
	seconds   float64
	jobs      int
}

func (c cost) compare(other cost) int {
	return cmp.Or(
		falseFirst(c.protected, other.protected), compareFigures(c.seconds, other.seconds), cmp.Compare(c.jobs, other.jobs),
	)
}

// costOf adds up jobs, each once, as a gang goes as a whole.
func costOf(pods []pod) (c cost) {
	seen := map[string]bool{}
	for _, p := range pods {
		if job := p.Labels[labelJob]; !seen[job] {
			seen[job] = true
			c.protected = c.protected || p.Labels[labelClass] == string(nonPreemptible)
			c.seconds += written(p)
			c.jobs++
		}
	}
	return c
}

var counted = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, gpu}

// requests are what a pod asks for, in the order of `counted`.
func requests(p pod) (found [3]int64) {
	for i, name := range counted {
		quantity := p.Spec.Containers[0].Resources.Requests[name]
		found[i] = quantity.MilliValue()
	}
	return found
}

// left is what is left of a node beside these pods, in the order of `counted`.
func left(n *v1.Node, pods []pod) (found [3]int64) {
	for i, name := range counted {
		quantity := n.Status.Allocatable[name]
		found[i] = quantity.MilliValue()
		for _, p := range pods {
			found[i] -= requests(p)[i]
		}
	}
	return found
}

func fitsInto(p pod, free [3]int64) bool {
	for i, asked := range requests(p) {
		if asked > free[i] {
			return false
		}
	}
	return true
}

// cheapestDecision looks at every set of pods on every node, and shares nothing with the plugin. Protected jobs go only
// where `all` is true.
func cheapestDecision(w world, web pod, all bool) (best cost, possible bool) {
	for _, n := range w.nodes {
		var here []pod
		for _, p := range w.pods {
			if p.Spec.NodeName == n.Name {
				here = append(here, p)
			}
		}
		for mask := range 1 << len(here) {
			var gone, stay []pod
			for i, p := range here {
				if mask>>i&1 == 1 {
					gone = append(gone, p)
				} else {
					stay = append(stay, p)
				}
			}
			if c := costOf(gone); (all || !c.protected) && fitsInto(web, left(n, stay)) {
				if !possible || c.compare(best) < 0 {
					best, possible = c, true
				}
			}
		}
	}
	return best, possible
}

// randomCluster is up to four full nodes, some with GPUs, with jobs and with gangs over several of them, some protected;
// and a pod that fits on none, for CPU, memory or GPUs.
func randomCluster(random *rand.Rand) (w world, web pod) {
	for i := range 1 + random.IntN(4) {
		n := node(fmt.Sprintf("node-%03d", i), "8")
		for _, list := range []v1.ResourceList{n.Status.Allocatable, n.Status.Capacity} {
			list[v1.ResourceMemory] = resource.MustParse("32Gi")
			list[gpu] = *resource.NewQuantity(int64(4*random.IntN(2)), resource.DecimalSI)
		}
		w.nodes = append(w.nodes, n)
	}
	on := map[string][]pod{}
	protectedPercent := 60 * random.IntN(2)
	for j := range 2 + random.IntN(4*len(w.nodes)) {
		risk, safe := fmt.Sprint(1+random.IntN(5000)), random.IntN(100) < protectedPercent
		for member := range 1 + random.IntN(2)*random.IntN(3) {
			n := w.nodes[random.IntN(len(w.nodes))]
			p := gang(fmt.Sprintf("job-%02d", j), []string{n.Name}, fmt.Sprint(1+random.IntN(4)), risk)[0].
				memory(fmt.Sprint(1+random.IntN(12), "Gi"))
			if random.IntN(3) == 0 {
				p = p.request(gpu, fmt.Sprint(1+random.IntN(2)))
			}
			p.Name = fmt.Sprintf("job-%02d-%d", j, member)
			p.UID = types.UID(p.Name)
			if safe {
				p = p.nonPreemptible()
			}
			if len(on[n.Name]) < 8 && fitsInto(p, left(n, on[n.Name])) {
				on[n.Name], w.pods = append(on[n.Name], p), append(w.pods, p)
			}
		}
	}
	web = pending("web", fmt.Sprint(1+random.IntN(7))).memory(fmt.Sprint(1+random.IntN(24), "Gi"))
	if random.IntN(3) == 0 {
		web = web.request(gpu, fmt.Sprint(1+random.IntN(3)))
	}
	if random.IntN(2) == 0 {
		web = web.interactive()
	}
	return w, web
}

// On small clusters with gangs, GPUs and protected jobs, no set of pods on any node would lose less than what goes, and
// nobody goes for nothing.
func TestWholeDecisionsAgainstAllThereAre(t *testing.T) {
	random := rand.New(rand.NewPCG(75, 7))
	made, none, withProtected, withGangs := 0, 0, 0, 0
	for round := 0; made < wholeDecisions; round++ {
		w, web := randomCluster(random)
		if slices.ContainsFunc(w.nodes, func(n *v1.Node) bool { return fitsBeside(w, n, web) }) {
			continue
		}
		made++
		best, possible := cheapestDecision(w, web, interactive(web.Pod))
		w.pods = append(w.pods, web)
		s := w.start(t)
		result, status := s.preempt(web)
		if possible != status.IsSuccess() {
			t.Fatalf("round %d: status %v, possible: %t", round, status, possible)
		}
		if !possible {
			none++
			continue
		}
		var gone, stay []pod
		victims := s.victims()
		at := slices.IndexFunc(w.nodes, func(n *v1.Node) bool { return n.Name == result.NominatedNodeName })
		for _, p := range w.pods {
			switch {
			case slices.Contains(victims, p.Name):
				gone = append(gone, p)
			case p.Spec.NodeName == w.nodes[at].Name:
				stay = append(stay, p)
			}
		}
		if c := costOf(gone); c.compare(best) != 0 {
			t.Errorf("round %d: %v loses %+v where %+v would do", round, victims, c, best)
		}
		for _, p := range gone {
			if p.Spec.NodeName != w.nodes[at].Name {
				t.Errorf("round %d: %s is on another node than %s", round, p.Name, w.nodes[at].Name)
			}
			if fitsInto(web, left(w.nodes[at], append(slices.Clone(stay), p))) {
				t.Errorf("round %d: %s goes for nothing", round, p.Name)
			}
		}
		if !fitsInto(web, left(w.nodes[at], stay)) {
			t.Errorf("round %d: there is no room without %v", round, victims)
		}
		if best.protected {
			withProtected++
		}
		if best.jobs < len(gone) || len(gone) > 1 {
			withGangs++
		}
	}
	t.Logf("%d decisions: %d impossible, %d take protected jobs, %d take several pods", made, none, withProtected, withGangs)
	if none == 0 || withProtected < wholeDecisions/20 || withGangs < wholeDecisions/20 {
		t.Error("the cases do not say much")
	}
}

func fitsBeside(w world, n *v1.Node, web pod) bool {
	var here []pod
	for _, p := range w.pods {
		if p.Spec.NodeName == n.Name {
			here = append(here, p)
		}
	}
	return fitsInto(web, left(n, here))
}
