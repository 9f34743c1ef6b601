package preemption

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
)

// Trying a node in earnest copies it and runs every filter once per job on it; over the whole of a large cluster that
// would keep the preemptor waiting. But what a node must cost at the least is quickly known from its resources. So the
// nodes are put in that order, the first one that will do says what has to be beaten, and only those that might beat it
// are tried: the result is that of trying all of them.

// maxFirstTries is how many nodes are tried one after the other before the rest is left to the parallel dry run: those
// that look cheapest may be turned down by a filter that is not about resources.
const maxFirstTries = 16

// promising hands the dry run the nodes that are worth trying.
type promising struct {
	fwk.NodeToStatusReader
	at    *attempt
	ctx   context.Context
	state fwk.CycleState
}

func (p promising) NodesForStatusCode(lister fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	nodes, err := p.NodeToStatusReader.NodesForStatusCode(lister, code)
	if err != nil || code != fwk.Unschedulable {
		return nodes, err
	}
	budgets, err := p.at.pl.Evaluator.PdbLister.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	kept, found := p.worthTrying(nodes, budgets)
	if found == nil && p.mayTakeMore(kept, nodes, budgets) {
		p.at.entitle()
		kept, _ = p.worthTrying(nodes, budgets)
	}
	return kept, nil
}

// mayTakeMore tells whether the attempt may take non-preemptible jobs, of which it has left some alone: ordinary pods
// would go in their place, each of which outranks every scavenger job, or the preemptor has waited for as long as the
// unsaved work is worth. `kept` are the nodes worth trying without these jobs.
func (p promising) mayTakeMore(kept, nodes []fwk.NodeInfo, budgets []*policy.PodDisruptionBudget) bool {
	if p.at.entitled || !p.at.refused.Load() {
		return false
	}
	if best := p.try(kept, budgets); best != nil {
		return best.ordinary.count > 0
	}
	return p.hasWaited(nodes, budgets)
}

// hasWaited tells whether the preemptor has waited for as long as the unsaved work of the jobs is worth that would go if
// it might take all, and notes how long that is.
func (p promising) hasWaited(nodes []fwk.NodeInfo, budgets []*policy.PodDisruptionBudget) bool {
	pl, cores := p.at.pl, p.at.settings.weights.cost(computesWith(p.at.preemptor))
	if pl.entitle.fullFrom == 0 || cores == 0 {
		return false
	}
	all := newAttempt(pl, p.at.preemptor, p.at.now, true, p.at.sample)
	all.unmet, all.settings = p.at.unmet, p.at.settings
	other := promising{p.NodeToStatusReader, all, withAttempt(p.ctx, all), p.state}
	kept, _ := other.worthTrying(nodes, budgets)
	best := other.try(kept, budgets)
	if best == nil || best.ordinary.count > 0 {
		return false
	}
	p.at.wait = pl.entitle.waitFor(best.seconds, cores)
	return pl.entitle.waited(p.at.preemptor, p.at.now) >= p.at.wait
}

// try tries nodes and returns the least loss, nil: none will do. What is found, and what is not, is remembered: the dry
// run proper has nothing left to do. It also reports errors.
func (p promising) try(nodes []fwk.NodeInfo, budgets []*policy.PodDisruptionBudget) *loss {
	_, _, _ = p.at.pl.Evaluator.DryRunPreemption(p.ctx, p.state, p.at.preemptor, nodes, budgets, 0, int32(len(nodes)))
	best, _ := p.at.found()
	return best
}

// worthTrying returns the nodes to try; found is the loss on the first one that will do without the loss of an
// ordinary pod, nil when none of the first few does.
func (p promising) worthTrying(
	nodes []fwk.NodeInfo, budgets []*policy.PodDisruptionBudget,
) (kept []fwk.NodeInfo, found *loss) {
	outlooks := p.at.survey(p.ctx, nodes)
	first := cheapest(outlooks, maxFirstTries)
	p.at.remember(first)
	found = p.firstSuitable(first, budgets)
	equals := 0
	worth := slices.DeleteFunc(outlooks, func(o *outlook) bool {
		if found == nil {
			return false
		}
		difference := 1
		if o.possible {
			difference = o.least.compare(found.sum())
		}
		if difference == 0 {
			equals++
		}
		return difference > 0 || difference == 0 && equals > p.at.sample
	})
	slices.SortStableFunc(worth, (*outlook).compare)
	p.at.remember(worth)
	for _, o := range worth {
		kept = append(kept, o.node)
	}
	return kept, found
}

// firstSuitable tries nodes until one will do without the loss of an ordinary pod, and returns its loss; nil: none did.
func (p promising) firstSuitable(outlooks []*outlook, budgets []*policy.PodDisruptionBudget) *loss {
	for _, o := range outlooks {
		if !o.possible {
			return nil
		}
		candidates, err := p.at.pl.candidatesOn(p.ctx, o.node)
		if err != nil {
			return nil // the dry run proper meets the same, and reports it
		}
		p.at.pl.selectOn(p.ctx, p.state.Clone(), p.at.preemptor, o.node.Snapshot(), candidates, budgets)
		if found := p.at.lossOn(o.node.Node().Name); found != nil && found.ordinary.count == 0 {
			return found
		}
	}
	return nil
}

// outlook is what can be said of a node without trying it.
type outlook struct {
	node   fwk.NodeInfo
	shares []*share
	needed amounts
	// least is what the loss of scavenger jobs that makes room comes to at the least; possible: they can make room.
	least    sum
	possible bool
}

// survey looks at nodes in parallel and remembers what it saw.
func (at *attempt) survey(ctx context.Context, nodes []fwk.NodeInfo) []*outlook {
	outlooks := make([]*outlook, len(nodes))
	at.pl.handle.Parallelizer().Until(ctx, len(nodes), func(i int) { outlooks[i] = at.lookAt(nodes[i]) }, Name)
	if slices.Contains(outlooks, nil) {
		return nil // cancelled
	}
	return outlooks
}

// remember keeps what was seen of nodes that are going to be tried.
func (at *attempt) remember(outlooks []*outlook) {
	if at.outlooks == nil {
		at.outlooks = make(map[string]*outlook, len(outlooks))
	}
	for _, o := range outlooks {
		at.outlooks[o.node.Node().Name] = o
	}
}

func (at *attempt) lookAt(node fwk.NodeInfo) *outlook {
	o := &outlook{node: node, shares: at.sharesOn(node)}
	if len(o.shares) > 0 {
		o.needed = at.shortage(node)
		o.least, o.possible = atLeast(o.needed, o.shares)
	}
	return o
}

// compare puts nodes that scavenger jobs can make room on first, and of these the one that loses less at the least.
func (o *outlook) compare(other *outlook) int {
	return cmp.Or(falseFirst(!o.possible, !other.possible), o.least.compare(other.least))
}

// cheapest returns so many of the nodes, in order, without putting all of them in order.
func cheapest(outlooks []*outlook, number int) []*outlook {
	first := make([]*outlook, 0, number+1)
	for _, o := range outlooks {
		if len(first) == number && o.compare(first[number-1]) >= 0 {
			continue
		}
		i := len(first)
		for i > 0 && o.compare(first[i-1]) < 0 {
			i--
		}
		first = slices.Insert(first, i, o)
		first = first[:min(number, len(first))]
	}
	return first
}

// outlookOf returns what the survey saw of a node, or looks now.
func (at *attempt) outlookOf(node fwk.NodeInfo) *outlook {
	if o, ok := at.outlooks[node.Node().Name]; ok {
		return o
	}
	return at.lookAt(node)
}

// amounts are quantities by resource: millicores, bytes, pods, or whatever unit an extended resource has.
type amounts []amount

type amount struct {
	name     v1.ResourceName
	quantity int64
}

// shortage is what NodeResourcesFit misses for the preemptor on a node as it is now; empty when it is not resources
// that keep it out.
//
// How much is missing is asked of that plugin, and so is what counts: extended resources may be named in its
// arguments as somebody else's business (ignoredResources), and a DeviceClass may stand for them
// (DRAExtendedResource), which are then the concern of other filters. A resource it has not complained of on any node
// is left out: no bound is derived from it.
func (at *attempt) shortage(node fwk.NodeInfo) amounts {
	var lacking amounts
	for _, unmet := range noderesources.Fits(at.preemptor, at.withNominated(node), at.pl.devices, at.pl.fit) {
		if at.unmet[unmet.Reason] {
			requested := unmet.Requested - at.holds(node, unmet)
			lacking = append(lacking, amount{unmet.ResourceName, requested + unmet.Used - unmet.Capacity})
		}
	}
	if len(lacking) > 1 { // extended resources come in any order
		slices.SortFunc(lacking, func(a, b amount) int { return cmp.Compare(a.name, b.name) })
	}
	return lacking
}

// holds is what a preemptor that runs, and wants more, has already of what it requests: the node counts it as used.
func (at *attempt) holds(node fwk.NodeInfo, unmet noderesources.InsufficientResource) int64 {
	if at.preemptor.Spec.NodeName == "" || unmet.ResourceName == v1.ResourcePods {
		return 0
	}
	for _, pod := range node.GetPods() {
		if pod.GetPod().UID == at.preemptor.UID {
			return min(unmet.Requested, amountOf(pod, unmet.ResourceName))
		}
	}
	return 0
}

// withNominated is a node as the filters see it: room was promised to pods of at least the preemptor's priority,
// whose victims may be leaving yet.
func (at *attempt) withNominated(node fwk.NodeInfo) fwk.NodeInfo {
	seen := node
	for _, nominated := range at.pl.handle.NominatedPodsForNode(node.Node().Name) {
		if pod := nominated.GetPod(); priorityOf(pod) < priorityOf(at.preemptor) || pod.UID == at.preemptor.UID {
			continue
		}
		if seen == node {
			seen = node.Snapshot()
		}
		seen.AddPodInfo(nominated)
	}
	return seen
}

// amountOf is what a pod leaves behind of one resource.
func amountOf(pod fwk.PodInfo, name v1.ResourceName) int64 {
	resources := pod.CalculateResource().Resource
	switch name {
	case v1.ResourcePods:
		return 1
	case v1.ResourceCPU:
		return resources.GetMilliCPU()
	case v1.ResourceMemory:
		return resources.GetMemory()
	case v1.ResourceEphemeralStorage:
		return resources.GetEphemeralStorage()
	}
	return resources.GetScalarResources()[name]
}

func amountOfAll(pods []fwk.PodInfo, name v1.ResourceName) (amount int64) {
	for _, pod := range pods {
		amount += amountOf(pod, name)
	}
	return amount
}

// without is what is missing after pods have left.
func (a amounts) without(pods []fwk.PodInfo) (left amounts) {
	for _, missing := range a {
		if missing.quantity -= amountOfAll(pods, missing.name); missing.quantity > 0 {
			left = append(left, missing)
		}
	}
	return left
}

// cannotBeBetter returns a status for a node that need not be tried, nil for one that has to be.
func (at *attempt) cannotBeBetter(o *outlook) *fwk.Status {
	best, sampled := at.found()
	if best == nil {
		return nil
	}
	if best.ordinary.count > 0 {
		// Ordinary pods go by DefaultPreemption's rules, and by its sample too; scavengers alone would be better.
		if sampled && len(o.shares) == 0 {
			return notBetter()
		}
		return nil
	}
	if !o.possible {
		return notBetter() // ordinary pods would have to go
	}
	difference := o.least.compare(best.sum())
	if difference > 0 || difference == 0 && sampled {
		return notBetter()
	}
	return nil
}

// atLeast returns a lower bound of what ending a shortage by these jobs loses, and whether they can end it at all.
func atLeast(needed amounts, shares []*share) (least sum, possible bool) {
	if len(shares) == 0 {
		return sum{}, false
	}
	s := newSelection(needed, shares)
	least.protected = s.needsProtected() > 0
	least.seconds, possible = s.atLeast(atRisk, 0, s.missing, 1)
	return least, possible
}

func notBetter() *fwk.Status {
	return fwk.NewStatus(fwk.Unschedulable, "preemption elsewhere loses no more")
}
