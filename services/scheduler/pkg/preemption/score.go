package preemption

import (
	"cmp"
	"math"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// secondsResolution is what scores resolve of a CPU-second, being integers.
const secondsResolution = 1e-3

func noOrdinaryLoss() ordinaryLoss {
	return ordinaryLoss{highest: math.MinInt32}
}

func (o *ordinaryLoss) add(pod *v1.Pod) {
	o.count++
	o.highest = max(o.highest, priorityOf(pod))
	o.sum += positive(priorityOf(pod))
}

// positive moves a priority above zero, so that two victims of negative priority are more than one.
func positive(priority int32) int64 {
	return int64(priority) - math.MinInt32 + 1
}

// lessThan compares by what is exact: the criteria before DefaultPreemption's own.
func (l *loss) lessThan(other *loss) bool {
	return cmp.Or(
		cmp.Compare(l.ordinary.violations, other.ordinary.violations),
		cmp.Compare(l.ordinary.highest, other.ordinary.highest),
		cmp.Compare(l.ordinary.sum, other.ordinary.sum),
		cmp.Compare(l.ordinary.count, other.ordinary.count),
		falseFirst(l.nonPreemptible > 0, other.nonPreemptible > 0),
		cmp.Compare(l.seconds, other.seconds),
		cmp.Compare(l.jobs, other.jobs),
	) < 0
}

// orderedScores returns the criteria by which a node is chosen; a higher score is better, and the next criterion only
// decides between equals:
//
//  1. Ordinary victims, compared as DefaultPreemption does: violated budgets, then the highest priority, then the sum of
//     priorities, then their number. A node without any is better than every node with one.
//  2. Whether a non-preemptible job is broken. How many of its pods are here says nothing of what it loses.
//  3. CPU time at risk of all jobs broken, siblings on other nodes included.
//  4. Jobs broken, then pods that are not on their way out already.
//  5. What is left of DefaultPreemption's order: sum of priorities and number of all victims, and the node whose most
//     important victims started last.
func orderedScores(losses map[string]*loss, victims map[string]*extenderv1.Victims) []func(node string) int64 {
	less := func(figure func(l *loss) int64) func(node string) int64 {
		return func(node string) int64 { return -figure(losses[node]) }
	}
	return []func(node string) int64{
		less(func(l *loss) int64 { return l.ordinary.violations }),
		less(func(l *loss) int64 { return int64(l.ordinary.highest) }),
		less(func(l *loss) int64 { return l.ordinary.sum }),
		less(func(l *loss) int64 { return l.ordinary.count }),
		less(func(l *loss) int64 { return min(1, int64(l.nonPreemptible)) }),
		less(func(l *loss) int64 { return int64(math.Round(l.seconds / secondsResolution)) }),
		less(func(l *loss) int64 { return int64(l.jobs) }),
		less(func(l *loss) int64 { return int64(len(l.pods)) }),
		func(node string) int64 {
			var sum int64
			for _, pod := range victims[node].Pods {
				sum += positive(priorityOf(pod))
			}
			return -sum
		},
		func(node string) int64 { return -int64(len(victims[node].Pods)) },
		func(node string) int64 {
			if start := util.GetEarliestPodStartTime(victims[node]); start != nil {
				return start.UnixNano()
			}
			return math.MinInt64
		},
	}
}
