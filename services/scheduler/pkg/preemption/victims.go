package preemption

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// share is what one job has on one node.
type share struct {
	job *job
	key jobKey
	// priority is the job's effective one.
	priority int32
	pods     []fwk.PodInfo
	started  time.Time
	// staying is how many of the pods, the first ones, are not on their way out.
	staying int
}

// selectOn chooses what has to leave a node so that the preemptor fits, in four steps:
//
//  1. All scavenger pods that may go are taken off.
//  2. If that is not enough, DefaultPreemption adds ordinary pods, by its own rules and with their budgets.
//  3. All jobs are given their places back, whole, but those that lose the least and leave enough room (choice.go).
//     PodDisruptionBudgets of scavenger pods play no part: they only carry to other schedulers what the label says here.
//  4. The pods of a broken job that need not be removed for the room's sake are left to whoever cancels the job.
//
// `candidates` are what DefaultPreemption may take. The number returned counts violated budgets of ordinary pods.
func (pl *Plugin) selectOn(
	ctx context.Context, state fwk.CycleState, preemptor *v1.Pod, node fwk.NodeInfo, candidates candidates,
	pdbs []*policy.PodDisruptionBudget,
) ([]*v1.Pod, int, *fwk.Status) {
	at := pl.attemptFrom(ctx, preemptor)
	if known := at.lossOn(node.Node().Name); known != nil {
		return known.victims, int(known.ordinary.violations), nil
	}
	if status := at.refusal(node.Node().Name); status != nil {
		return nil, 0, status
	}
	outlook := at.outlookOf(node)
	if status := at.cannotBeBetter(outlook); status != nil {
		return nil, 0, status
	}
	room := &room{pl, ctx, state, preemptor, node}
	victims, violations, status := pl.selectVictims(at, room, outlook, candidates, pdbs)
	switch {
	case !status.IsSuccess():
		at.refuse(node.Node().Name, status)
	case len(victims) > 0:
		at.record(node.Node().Name, victims, violations)
	}
	return victims, violations, status
}

func (pl *Plugin) selectVictims(
	at *attempt, room *room, outlook *outlook, candidates candidates, pdbs []*policy.PodDisruptionBudget,
) ([]*v1.Pod, int, *fwk.Status) {
	shares := outlook.shares
	if len(shares) == 0 {
		return room.selectOrdinary(candidates, pdbs)
	}
	for _, share := range shares {
		if err := room.take(share.pods...); err != nil {
			return nil, 0, fwk.AsStatus(err)
		}
	}
	var victims []*v1.Pod
	violations, needed := 0, outlook.needed
	if status := room.fits(); !status.IsSuccess() {
		if best, _ := at.found(); best != nil && best.ordinary.count == 0 {
			return nil, 0, notBetter()
		}
		var default_ *fwk.Status
		victims, violations, default_ = room.selectOrdinary(candidates, pdbs)
		if !default_.IsSuccess() {
			if default_.Code() == fwk.UnschedulableAndUnresolvable {
				return nil, 0, status // no ordinary pod may go: what the filters said without the scavengers is the reason
			}
			return nil, 0, default_
		}
		needed = needed.without(infosOf(outlook.node, victims))
	}
	slices.SortFunc(shares, moreImportant)
	broken, err := room.choose(shares, needed)
	if err != nil {
		return nil, 0, fwk.AsStatus(err)
	}
	pods, err := room.neededOf(broken)
	if err != nil {
		return nil, 0, fwk.AsStatus(err)
	}
	return append(victims, pods...), violations, fwk.NewStatus(fwk.Success)
}

// infosOf returns what a node knows of some of its pods.
func infosOf(node fwk.NodeInfo, pods []*v1.Pod) (infos []fwk.PodInfo) {
	for _, info := range node.GetPods() {
		if slices.ContainsFunc(pods, func(pod *v1.Pod) bool { return pod.UID == info.GetPod().UID }) {
			infos = append(infos, info)
		}
	}
	return infos
}

// sharesOn returns the jobs with pods on a node that may go, with these pods.
func (at *attempt) sharesOn(node fwk.NodeInfo) []*share {
	var shares []*share
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		if !isScavenger(pod) || priorityOf(pod) >= at.priority {
			continue
		}
		key := keyOf(pod)
		job := at.job(key, pod)
		if !at.eligible(pod, job) {
			continue
		}
		i := slices.IndexFunc(shares, func(s *share) bool { return s.key == key })
		if i < 0 {
			i = len(shares)
			shares = append(shares, &share{job: job, key: key, priority: at.priorities[job.class]})
		}
		s := shares[i]
		if pod.DeletionTimestamp != nil || at.pl.decided.has(pod.UID) {
			s.pods = append(s.pods, info)
		} else {
			s.pods = slices.Insert(s.pods, s.staying, info)
			s.staying++
		}
		if start, ok := startOf(pod); ok && start.After(s.started) {
			s.started = start
		}
	}
	return shares
}

// eligible tells whether a scavenger pod of lower priority may go for the preemptor. One that is on its way out may,
// whatever its class has become: the room it leaves is what a preemptor waits for. One that should be gone by now cannot
// give its room.
func (at *attempt) eligible(pod *v1.Pod, job *job) bool {
	if pod.DeletionTimestamp != nil {
		return leaving(pod, at.now)
	}
	if at.priorities[job.class] >= at.priority {
		return false
	}
	if job.class == nonPreemptible && !job.lost && !at.entitled {
		at.refused.Store(true)
		return false
	}
	return true
}

// moreImportant orders the jobs on a node by who keeps its place:
//
//  1. jobs that still have something to lose before broken ones, and these before what is leaving already,
//  2. higher effective priority,
//  3. more CPU time at risk over the whole gang,
//  4. started earlier,
//  5. by name, so that the answer is always the same.
func moreImportant(a, b *share) int {
	return cmp.Or(
		falseFirst(a.job.lost, b.job.lost),
		falseFirst(a.staying == 0, b.staying == 0),
		cmp.Compare(b.priority, a.priority),
		cmp.Compare(b.job.seconds, a.job.seconds),
		a.started.Compare(b.started),
		cmp.Compare(a.key.namespace, b.key.namespace),
		cmp.Compare(a.key.job, b.key.job),
	)
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// room is a copy of a node on which pods are taken off and put back.
type room struct {
	pl        *Plugin
	ctx       context.Context
	state     fwk.CycleState
	preemptor *v1.Pod
	node      fwk.NodeInfo
}

func (r *room) take(pods ...fwk.PodInfo) error {
	for _, pod := range pods {
		if err := r.node.RemovePod(klog.FromContext(r.ctx), pod.GetPod()); err != nil {
			return err
		}
		status := r.pl.handle.RunPreFilterExtensionRemovePod(r.ctx, r.state, r.preemptor, pod, r.node)
		if !status.IsSuccess() {
			return status.AsError()
		}
	}
	return nil
}

func (r *room) put(pods ...fwk.PodInfo) error {
	for _, pod := range pods {
		r.node.AddPodInfo(pod)
		status := r.pl.handle.RunPreFilterExtensionAddPod(r.ctx, r.state, r.preemptor, pod, r.node)
		if !status.IsSuccess() {
			return status.AsError()
		}
	}
	return nil
}

func (r *room) fits() *fwk.Status {
	return r.pl.handle.RunFilterPluginsWithNominatedPods(r.ctx, r.state, r.preemptor, r.node)
}

// putIfFits puts pods back, unless the preemptor would no longer fit.
func (r *room) putIfFits(pods ...fwk.PodInfo) (bool, error) {
	if err := r.put(pods...); err != nil {
		return false, err
	}
	if r.fits().IsSuccess() {
		return true, nil
	}
	return false, r.take(pods...)
}

// choose gives jobs their places back, all of which are off, and returns the others: those that lose the least, in
// the same order.
//
// Most often it is resources alone that are short. Then the choice follows from what NodeResourcesFit misses, and the
// filters are asked once. Otherwise jobs that stand in the way by themselves, such as those with a host port or an
// anti-affinity, are found one by one; choices beyond that are shown to the filters, a limited number, and the jobs
// are given their places back by importance if none of these will do.
func (r *room) choose(shares []*share, needed amounts) ([]*share, error) {
	a := &arrangement{room: r, shares: shares, off: slices.Repeat([]bool{true}, len(shares))}
	s := newSelection(needed, shares)
	if !a.works(s.cheapest()) && a.err == nil {
		must := a.inTheWay()
		best := s.cheapestOf(a.byImportance(), must, a.works)
		a.set(best)
	}
	return a.broken(), a.err
}

// arrangement is which jobs are off a node.
type arrangement struct {
	room   *room
	shares []*share
	off    []bool
	err    error
}

// set takes jobs off and puts the others back.
func (a *arrangement) set(off []bool) {
	for i, share := range a.shares {
		if a.err != nil || a.off[i] == off[i] {
			continue
		}
		a.off[i] = off[i]
		if off[i] {
			a.err = a.room.take(share.pods...)
		} else {
			a.err = a.room.put(share.pods...)
		}
	}
}

// works tells whether the preemptor fits with these jobs off.
func (a *arrangement) works(off []bool) bool {
	a.set(off)
	return a.err == nil && a.room.fits().IsSuccess()
}

// inTheWay returns the jobs that keep the preemptor out each by itself.
func (a *arrangement) inTheWay() []bool {
	off, found := slices.Repeat([]bool{true}, len(a.shares)), make([]bool, len(a.shares))
	for i := range off {
		off[i] = false
		found[i] = !a.works(off)
		off[i] = true
	}
	return found
}

// byImportance lets jobs keep their places, the most important first, as long as the preemptor fits.
func (a *arrangement) byImportance() []bool {
	off := slices.Repeat([]bool{true}, len(a.shares))
	for i := range off {
		off[i] = false
		off[i] = !a.works(off)
	}
	return off
}

func (a *arrangement) broken() (broken []*share) {
	for i, share := range a.shares {
		if a.off[i] {
			broken = append(broken, share)
		}
	}
	return broken
}

// neededOf returns the pods of broken jobs that have to go for the preemptor to fit.
func (r *room) neededOf(broken []*share) ([]*v1.Pod, error) {
	pods := podsOf(broken)
	if len(pods) == 1 {
		return []*v1.Pod{pods[0].GetPod()}, nil
	}
	var victims []*v1.Pod
	for _, pod := range pods {
		stays, err := r.putIfFits(pod)
		if err != nil {
			return nil, err
		}
		if !stays {
			victims = append(victims, pod.GetPod())
		}
	}
	return victims, nil
}

// sum is what jobs lose together, as far as the choice on one node depends on it: whether one of them is
// non-preemptible, and the CPU-seconds.
type sum struct {
	protected bool
	seconds   float64
}

func (s sum) compare(other sum) int {
	return cmp.Or(falseFirst(s.protected, other.protected), compareFigures(s.seconds, other.seconds))
}

func podsOf(shares []*share) (pods []fwk.PodInfo) {
	for _, share := range shares {
		pods = append(pods, share.pods...)
	}
	return pods
}
