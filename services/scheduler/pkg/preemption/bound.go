package preemption

import (
	"cmp"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Trying a node in earnest runs every filter once per job on it; over the whole of a large cluster that would keep the
// preemptor waiting. But what a node must cost at the least is quickly known from its resources, and a node that must
// cost more than the best one found need not be tried. What is left are the few that are better than all before them.

// amounts are quantities per resource: millicores, bytes, pods, or whatever unit an extended resource has.
type amounts map[v1.ResourceName]int64

// shortage is what a node lacks, as it is now, for the preemptor; empty when it is not resources that keep it out.
func (at *attempt) shortage(node fwk.NodeInfo) amounts {
	lacking := amounts{}
	if at.request == nil {
		return lacking
	}
	allocatable, requested := node.GetAllocatable(), node.GetRequested()
	lack := func(name v1.ResourceName, request, allocatable, requested int64) {
		if missing := request + requested - allocatable; request > 0 && missing > 0 {
			lacking[name] = missing
		}
	}
	lack(v1.ResourcePods, 1, int64(allocatable.GetAllowedPodNumber()), int64(len(node.GetPods())))
	lack(v1.ResourceCPU, at.request.GetMilliCPU(), allocatable.GetMilliCPU(), requested.GetMilliCPU())
	lack(v1.ResourceMemory, at.request.GetMemory(), allocatable.GetMemory(), requested.GetMemory())
	lack(v1.ResourceEphemeralStorage, at.request.GetEphemeralStorage(),
		allocatable.GetEphemeralStorage(), requested.GetEphemeralStorage())
	for name, request := range at.request.GetScalarResources() {
		lack(name, request, allocatable.GetScalarResources()[name], requested.GetScalarResources()[name])
	}
	return lacking
}

// amountsOf is what pods leave behind.
func amountsOf(pods []fwk.PodInfo) amounts {
	freed := amounts{}
	for _, pod := range pods {
		resources := pod.CalculateResource().Resource
		freed[v1.ResourcePods]++
		freed[v1.ResourceCPU] += resources.GetMilliCPU()
		freed[v1.ResourceMemory] += resources.GetMemory()
		freed[v1.ResourceEphemeralStorage] += resources.GetEphemeralStorage()
		for name, amount := range resources.GetScalarResources() {
			freed[name] += amount
		}
	}
	return freed
}

// coveredBy tells whether freed amounts end a shortage.
func (a amounts) coveredBy(freed amounts) bool {
	for name, amount := range a {
		if freed[name] < amount {
			return false
		}
	}
	return true
}

// cannotBeBetter returns a status for a node that need not be tried, nil for one that has to be.
func (at *attempt) cannotBeBetter(needed amounts, shares []*share) *fwk.Status {
	best, sampled := at.found()
	if best == nil {
		return nil
	}
	if best.ordinary.count > 0 {
		// Ordinary pods go by DefaultPreemption's rules, and by its sample too; scavengers alone would be better.
		if sampled && len(shares) == 0 {
			return notBetter()
		}
		return nil
	}
	least, possible := atLeast(needed, shares)
	if !possible {
		return notBetter() // ordinary pods would have to go
	}
	found := sum{best.nonPreemptible, best.seconds}
	margin := max(1e-6, found.seconds*1e-9) // for figures added up in another order
	if sampled {
		margin = -margin // of equals, enough were compared
	}
	if least.compare(sum{found.nonPreemptible, found.seconds + margin}) > 0 {
		return notBetter()
	}
	return nil
}

// atLeast returns a lower bound of what ending a shortage by these jobs loses, and whether they can end it at all.
//
// Per resource the smallest loss is that of a knapsack whose items may be cut: cheapest per amount first. No choice of
// whole jobs loses less, and none that also ends the other shortages. Non-preemptible jobs count as needed, once, where
// the preemptible ones together are too small.
func atLeast(needed amounts, shares []*share) (least sum, possible bool) {
	if len(shares) == 0 {
		return sum{}, false
	}
	freed := make([]amounts, len(shares))
	for i, share := range shares {
		freed[i] = amountsOf(share.pods)
	}
	type item struct {
		seconds float64
		amount  int64
	}
	for name, missing := range needed {
		var items []item
		var total, freely int64
		for i, share := range shares {
			amount := freed[i][name]
			if amount <= 0 {
				continue
			}
			total += amount
			if share.job.lost || share.job.class != nonPreemptible {
				freely += amount
			}
			items = append(items, item{share.job.seconds, amount})
		}
		if total < missing {
			return sum{}, false
		}
		if freely < missing {
			least.nonPreemptible = 1
		}
		slices.SortFunc(items, func(a, b item) int {
			return cmp.Compare(a.seconds*float64(b.amount), b.seconds*float64(a.amount))
		})
		seconds, left := 0.0, float64(missing)
		for _, item := range items {
			part := math.Min(1, left/float64(item.amount))
			seconds += part * item.seconds
			if left -= part * float64(item.amount); left <= 0 {
				break
			}
		}
		least.seconds = math.Max(least.seconds, seconds)
	}
	return least, true
}

func notBetter() *fwk.Status {
	return fwk.NewStatus(fwk.Unschedulable, "preemption elsewhere loses no more")
}
