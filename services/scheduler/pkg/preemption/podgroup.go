//go:build !kubernetes_1_36 && !kubernetes_1_35

package preemption

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// A pod group is scheduled as a whole (gate GenericWorkload), and makes room as a whole. Upstream takes every pod of
// lower priority off the cluster, lets the scheduler place the group wherever it likes best, and gives those pods their
// places back that are not in the way: whoever happens to be there goes. Here the pods of the group are given the nodes
// one after the other where the least is lost, and the scheduler is asked whether the group fits then.

// triesOfAll bounds how often a group is placed to find out which job on several nodes to break: a group of ten in a
// cluster of 5,000 nodes three times.
const triesOfAll = 20_000

// podGroup is one attempt to make room for a pod group.
type podGroup struct {
	pl       *Plugin
	ctx      context.Context
	at       *attempt
	info     fwk.PodGroupInfo
	schedule fwk.PodGroupSchedulingFunc
	snapshot fwk.MutableSnapshotSharedLister
	nodes    []fwk.NodeInfo
}

// groupPlan is what an attempt comes to: who goes, and where the group's pods will be.
type groupPlan struct {
	victims     []*v1.Pod
	violations  int
	disruptions int
	assignments []fwk.ProposedAssignment
}

var _ fwk.PodGroupPostFilterPlugin = &Plugin{}

// PodGroupPostFilter looks for victims for a pod group that does not fit, and starts to remove them.
func (pl *Plugin) PodGroupPostFilter(
	ctx context.Context, state fwk.PodGroupCycleState, info fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc,
) (result *fwk.PodGroupPostFilterResult, status *fwk.Status) {
	if pl.jobs.empty() {
		return pl.DefaultPreemption.PodGroupPostFilter(ctx, state, info, schedule)
	}
	began := pl.clock.Now()
	defer func() {
		metrics.WorkloadPreemptionAttempts.WithLabelValues(status.Code().String()).Inc()
		decisionSeconds.Observe(pl.clock.Since(began).Seconds())
		if message := status.Message(); message != "" {
			status = fwk.NewStatus(status.Code(), "pod group preemption: "+message)
		}
	}()
	members := info.GetUnscheduledPods()
	switch {
	case slices.ContainsFunc(members, isScavenger):
		attempts.WithLabelValues(resultRefused).Inc()
		return nil, fwk.NewStatus(fwk.Unschedulable, "scavenger pods never preempt")
	case len(members) == 0 || pl.groupNeverPreempts(info):
		attempts.WithLabelValues(resultRefused).Inc()
		return nil, fwk.NewStatus(fwk.Unschedulable, "not eligible due to preemptionPolicy=Never.")
	}
	g := pl.newPodGroup(ctx, info, schedule)
	if g.awaits() {
		attempts.WithLabelValues(resultAwaiting).Inc()
		return &fwk.PodGroupPostFilterResult{NominatingInfos: nominationsOf(members)},
			fwk.NewStatus(fwk.Success, "ongoing preemption on nominated nodes")
	}
	plan, status := g.plan()
	if plan == nil {
		pl.failGroup(g, status)
		return nil, status
	}
	if status := pl.decideGroup(g, plan); !status.IsSuccess() {
		attempts.WithLabelValues(resultError).Inc()
		return nil, status
	}
	return &fwk.PodGroupPostFilterResult{NominatingInfos: plan.nominations()},
		fwk.NewStatus(fwk.Success, fmt.Sprintf("found a placement for podgroup, preempting %d victims", len(plan.victims)))
}

func (pl *Plugin) newPodGroup(
	ctx context.Context, info fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc,
) *podGroup {
	now, members := pl.clock.Now(), info.GetUnscheduledPods()
	// What keeps a group out is not told: each attempt that fails counts as one for capacity.
	for _, pod := range members {
		pl.noteFailure(pl.latest(pod), true, now)
	}
	// Who of the group is entitled to non-preemptible jobs is so for all of it.
	entitled := slices.ContainsFunc(members, func(pod *v1.Pod) bool { return pl.entitle.has(pl.latest(pod), now) })
	at := newAttempt(pl, members[0], now, entitled, pl.sample())
	at.priority = groupPriority(info)
	return &podGroup{
		pl: pl, ctx: withAttempt(ctx, at), at: at, info: info, schedule: schedule,
		snapshot: pl.handle.MutableSnapshotSharedLister(),
	}
}

func groupPriority(info fwk.PodGroupInfo) int32 {
	if composite := info.GetCompositePodGroup(); composite != nil {
		return util.CompositePodGroupPriority(composite)
	}
	return util.PodGroupPriority(info.GetPodGroup())
}

func groupUID(info fwk.PodGroupInfo) types.UID {
	if composite := info.GetCompositePodGroup(); composite != nil {
		return composite.UID
	}
	return info.GetPodGroup().UID
}

// groupNeverPreempts tells what a group's policy is: its own where there is such a field, else that of its pods.
func (pl *Plugin) groupNeverPreempts(info fwk.PodGroupInfo) bool {
	if !pl.features.EnablePodGroupPreemptionPolicy {
		return slices.ContainsFunc(info.GetUnscheduledPods(), neverPreempts)
	}
	if composite := info.GetCompositePodGroup(); composite != nil {
		policy := composite.Spec.PreemptionPolicy
		return policy != nil && *policy == schedulingv1alpha3.PreemptNever
	}
	policy := info.GetPodGroup().Spec.PreemptionPolicy
	return policy != nil && *policy == schedulingv1beta1.PreemptNever
}

// awaits tells whether victims of this group are still going where its pods are nominated to.
func (g *podGroup) awaits() bool {
	for _, member := range g.info.GetUnscheduledPods() {
		for _, pod := range g.pl.podsOn(member.Status.NominatedNodeName) {
			if g.priorityOf(pod) < g.at.priority && preemption.PodTerminatingByPreemption(pod) &&
				g.pl.isForEmbedded(pod) {
				return true
			}
		}
	}
	return false
}

// priorityOf is a pod's, or that of the group it belongs to.
func (g *podGroup) priorityOf(pod *v1.Pod) int32 {
	var composites fwk.CompositePodGroupLister
	if g.pl.features.EnableCompositePodGroup {
		composites = g.snapshot.CompositePodGroups()
	}
	return preemption.GetPodPriority(pod, g.snapshot.PodGroups(), composites)
}

func nominationsOf(members []*v1.Pod) map[types.NamespacedName]*fwk.NominatingInfo {
	infos := make(map[types.NamespacedName]*fwk.NominatingInfo, len(members))
	for _, pod := range members {
		infos[nameOf(pod)] = nomination(pod.Status.NominatedNodeName)
	}
	return infos
}

func (p *groupPlan) nominations() map[types.NamespacedName]*fwk.NominatingInfo {
	infos := make(map[types.NamespacedName]*fwk.NominatingInfo, len(p.assignments))
	for _, assignment := range p.assignments {
		infos[nameOf(assignment.GetPod())] = nomination(assignment.GetNodeName())
	}
	return infos
}

func nomination(node string) *fwk.NominatingInfo {
	return &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// --- the plan ---

// plan says who has to go; nil with the reason when nobody who may go makes enough room. The order is that for one pod:
// scavenger jobs that may go, then ordinary pods as well, but non-preemptible jobs before any of these.
func (g *podGroup) plan() (*groupPlan, *fwk.Status) {
	plan, status := g.tryOnce()
	if plan != nil && plan.ordinary() && g.at.refused.Load() && !g.at.entitled {
		g.at.entitle()
		return g.tryOnce()
	}
	return plan, status
}

func (p *groupPlan) ordinary() bool {
	return slices.ContainsFunc(p.victims, func(pod *v1.Pod) bool { return !isScavenger(pod) })
}

func (g *podGroup) tryOnce() (plan *groupPlan, status *fwk.Status) {
	if err := g.snapshot.StartMutations(); err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("failed to start mutations: %w", err))
	}
	defer func() {
		if err := g.snapshot.EndMutations(); err != nil {
			plan, status = nil, fwk.AsStatus(fmt.Errorf("failed to end mutations: %w", err))
		}
	}()
	nodes, err := g.snapshot.NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	g.nodes = nodes
	plan, status, err = g.victims()
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	return plan, status
}

func (g *podGroup) victims() (*groupPlan, *fwk.Status, error) {
	budgets, err := g.pl.Evaluator.PdbLister.List(labels.Everything())
	if err != nil {
		return nil, nil, err
	}
	ordinary, err := g.ordinaryVictims() // as long as all pods are there
	if err != nil {
		return nil, nil, err
	}
	shares := g.shares()
	if len(shares) > 0 {
		if err := g.take(podsOf(shares)...); err != nil {
			return nil, nil, err
		}
		placed, status := g.schedule(g.ctx)
		if status.IsSuccess() {
			plan, err := g.cheapest(shares, assigned(placed))
			return plan, status, err
		}
		if status.IsError() || len(ordinary) == 0 {
			return nil, status, nil
		}
	}
	if len(ordinary) == 0 {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "No preemption victims found for incoming preemptor"), nil
	}
	for _, victim := range ordinary {
		if err := g.take(victim.Pods()...); err != nil {
			return nil, nil, err
		}
	}
	placed, status := g.schedule(g.ctx)
	if !status.IsSuccess() {
		return nil, status, nil
	}
	plan, err := g.reprieve(shares, ordinary, budgets, assigned(placed))
	return plan, status, err
}

// shares returns the jobs that may go, with their pods, node by node.
func (g *podGroup) shares() (shares []*share) {
	for _, node := range g.nodes {
		shares = append(shares, g.at.sharesOn(node)...)
	}
	return shares
}

// ordinaryVictims returns what DefaultPreemption may take: pods of lower priority, or groups of them that go together.
func (g *podGroup) ordinaryVictims() (victims []*preemption.DomainVictim, err error) {
	seen := map[types.UID]bool{}
	for _, node := range g.nodes {
		candidates, err := g.pl.candidatesOn(g.ctx, node)
		if err != nil {
			return nil, err
		}
		for _, victim := range candidates {
			first := victim.Pods()[0].GetPod().UID
			if seen[first] || victim.Priority() >= g.at.priority || hasScavenger(victim) {
				continue
			}
			seen[first] = true
			victims = append(victims, victim)
		}
	}
	return victims, nil
}

func assigned(placed *fwk.PodGroupAssignments) (assignments []fwk.ProposedAssignment) {
	for _, assignment := range placed.ProposedAssignments {
		if assignment.GetNodeName() != "" {
			assignments = append(assignments, assignment)
		}
	}
	return assignments
}

func (g *podGroup) take(pods ...fwk.PodInfo) error {
	for _, pod := range pods {
		if err := g.snapshot.RemovePod(klog.FromContext(g.ctx), pod.GetPod(), pod.GetPod().Spec.NodeName); err != nil {
			return err
		}
	}
	return nil
}

func (g *podGroup) put(pods ...fwk.PodInfo) error {
	for _, pod := range pods {
		if err := g.snapshot.AddPod(pod, pod.GetPod().Spec.NodeName); err != nil {
			return err
		}
	}
	return nil
}

// --- the least loss ---

// cheapest returns the plan that loses the least, all of these jobs being off their nodes: the group's pods are given
// the nodes, one after the other, where the least is lost, which is right but for what filters say of several pods
// together. So the scheduler is asked whether the group fits; if it does not, it is placed where the scheduler had it.
func (g *podGroup) cheapest(shares []*share, assignments []fwk.ProposedAssignment) (*groupPlan, error) {
	all := podsOf(shares)
	if err := g.put(all...); err != nil {
		return nil, err
	}
	chosen, err := g.leastLoss(shares, assignments)
	if err != nil {
		return nil, err
	}
	if chosen != nil {
		if err := g.take(chosen...); err != nil {
			return nil, err
		}
		placed, status := g.schedule(g.ctx)
		if status.IsSuccess() {
			return g.reprieve(sharesOf(shares, chosen), nil, nil, assigned(placed))
		}
		if status.IsError() {
			return nil, status.AsError()
		}
		if err := g.put(chosen...); err != nil {
			return nil, err
		}
	}
	if err := g.take(all...); err != nil {
		return nil, err
	}
	return g.reprieve(shares, nil, nil, assignments)
}

// sharesOf cuts shares down to some pods.
func sharesOf(shares []*share, pods []fwk.PodInfo) (cut []*share) {
	chosen := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		chosen[pod.GetPod().UID] = true
	}
	for _, s := range shares {
		kept := *s
		kept.pods = slices.DeleteFunc(slices.Clone(s.pods), func(pod fwk.PodInfo) bool { return !chosen[pod.GetPod().UID] })
		if len(kept.pods) > 0 {
			cut = append(cut, &kept)
		}
	}
	return cut
}

// leastLoss is who has to go by the greedy placement, or by one that has broken a job on several nodes before it begins:
// taken pod by pod, such a job is dear for the first of the group's pods, and costs nothing more for the others.
func (g *podGroup) leastLoss(shares []*share, assignments []fwk.ProposedAssignment) ([]fwk.PodInfo, error) {
	best, err := g.greedy(assignments, nil)
	if err != nil || best == nil {
		return nil, err
	}
	var broken []*share
	worth := g.at.weigh(podsAlone(best), 0)
	for _, s := range g.onSeveralNodes(shares) {
		if s.job.seconds >= worth.seconds {
			break
		}
		other, err := g.greedy(assignments, append(broken, s))
		if err != nil {
			return nil, err
		}
		if other == nil {
			continue
		}
		if l := g.at.weigh(podsAlone(other), 0); l.lessThan(worth) {
			best, worth, broken = other, l, append(broken, s)
		}
	}
	return best, nil
}

// onSeveralNodes returns jobs with pods on several nodes that may go, those with the least at risk first: as many as are
// worth trying in a cluster of this size, with a group of this size.
func (g *podGroup) onSeveralNodes(shares []*share) []*share {
	number := map[jobKey]int{}
	for _, s := range shares {
		number[s.key]++
	}
	several := slices.DeleteFunc(whole(shares), func(s *share) bool { return s.job.lost || number[s.key] < 2 })
	slices.Reverse(several)
	limit := min(maxTries, triesOfAll/(len(g.nodes)+10*len(g.info.GetUnscheduledPods())))
	return several[:min(len(several), limit)]
}

func podsAlone(infos []fwk.PodInfo) (pods []*v1.Pod) {
	for _, info := range infos {
		pods = append(pods, info.GetPod())
	}
	return pods
}

// greedy places pods where the least is lost, one after the other, some jobs being broken already, and returns who has
// to go; nil: one finds no place. It leaves the snapshot as it was.
func (g *podGroup) greedy(assignments []fwk.ProposedAssignment, broken []*share) (chosen []fwk.PodInfo, err error) {
	s := &search{podGroup: g}
	defer func() { err = errors.Join(err, s.undo()) }()
	for _, b := range broken {
		g.at.breakJob(b.key, b.pods[0].GetPod())
	}
	chosen = []fwk.PodInfo{}
	for _, assignment := range assignments {
		best, err := s.place(assignment)
		if err != nil || best == nil {
			return nil, err
		}
		chosen = append(chosen, best.victims...)
	}
	return chosen, nil
}

// search is a greedy placement in the making.
type search struct {
	*podGroup
	// kinds are those of the pods looked for so far, each with what is known of the nodes.
	kinds []*kind
	// begun is how the snapshot was changed.
	begun []func() error
}

// kind are pods that are the same to the scheduler.
type kind struct {
	spec     *v1.PodSpec
	outlooks map[string]*outlook
	// unfit are the nodes where such a pod does not fit, whoever goes; unmet is what NodeResourcesFit complains of.
	unfit, unmet map[string]bool
}

// place is where a pod goes, and who has to go for it.
type place struct {
	node    string
	victims []fwk.PodInfo
	loss    *loss
}

// place finds the node where the least is lost, and changes the snapshot as if it had happened.
func (s *search) place(assignment fwk.ProposedAssignment) (*place, error) {
	s.at.preemptor = assignment.GetPod()
	k := s.kindOf(assignment)
	s.at.unmet = k.unmet
	s.look(k)
	var best *place
	for _, o := range slices.SortedStableFunc(s.inOrder(k), (*outlook).compare) {
		if best != nil && best.loss.sum().compare(o.least) <= 0 {
			break
		}
		found, err := s.try(k, o, assignment)
		if err != nil {
			return nil, err
		}
		if found != nil && (best == nil || found.loss.lessThan(best.loss)) {
			best = found
		}
	}
	if best == nil {
		return nil, nil
	}
	return best, s.settle(best, assignment.GetPodInfo())
}

// kindOf finds the pods like this one, or begins with them: what NodeResourcesFit turns nodes down for says what counts.
func (s *search) kindOf(assignment fwk.ProposedAssignment) *kind {
	pod := assignment.GetPod()
	spec := asFiltered(&pod.Spec)
	for _, k := range s.kinds {
		if equality.Semantic.DeepEqual(k.spec, spec) {
			return k
		}
	}
	k := &kind{spec: spec, outlooks: map[string]*outlook{}, unfit: map[string]bool{}, unmet: map[string]bool{}}
	s.kinds = append(s.kinds, k)
	statuses := make([]*fwk.Status, len(s.nodes))
	s.pl.handle.Parallelizer().Until(s.ctx, len(statuses), func(i int) {
		state := assignment.GetCycleState().Clone()
		statuses[i] = s.pl.handle.RunFilterPluginsWithNominatedPods(s.ctx, state, pod, s.nodes[i])
	}, Name)
	s.at.unmet = k.unmet
	for _, status := range statuses {
		s.at.listen(status)
	}
	return k
}

// asFiltered is what of a pod's specification the filters look at: pods of one template may differ in the rest, as in
// their host names and the volume with their token.
func asFiltered(spec *v1.PodSpec) *v1.PodSpec {
	seen := &v1.PodSpec{
		NodeSelector: spec.NodeSelector, Affinity: spec.Affinity, Tolerations: spec.Tolerations, NodeName: spec.NodeName,
		TopologySpreadConstraints: spec.TopologySpreadConstraints, ResourceClaims: spec.ResourceClaims,
		Overhead: spec.Overhead, Resources: spec.Resources, HostNetwork: spec.HostNetwork,
	}
	for _, containers := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			seen.Containers = append(seen.Containers, v1.Container{
				Ports: c.Ports, Resources: c.Resources, RestartPolicy: c.RestartPolicy,
			})
		}
	}
	for _, volume := range spec.Volumes {
		if volume.Projected == nil {
			seen.Volumes = append(seen.Volumes, volume)
		}
	}
	return seen
}

// look sees to it that the outlook of every node is known.
func (s *search) look(k *kind) {
	var unknown []fwk.NodeInfo
	for _, node := range s.nodes {
		if name := node.Node().Name; k.outlooks[name] == nil && !k.unfit[name] {
			unknown = append(unknown, node)
		}
	}
	outlooks := make([]*outlook, len(unknown))
	s.pl.handle.Parallelizer().Until(s.ctx, len(unknown), func(i int) {
		o := s.at.lookAt(unknown[i])
		if len(o.shares) == 0 { // there may be room without anybody's going
			o.needed = s.at.shortage(o.node)
			o.possible = len(o.needed) == 0
		}
		outlooks[i] = o
	}, Name)
	for i, o := range outlooks {
		if o != nil {
			k.outlooks[unknown[i].Node().Name] = o
		}
	}
}

// inOrder yields what is known of the nodes that may do, in the order of the nodes.
func (s *search) inOrder(k *kind) func(yield func(*outlook) bool) {
	return func(yield func(*outlook) bool) {
		for _, node := range s.nodes {
			o := k.outlooks[node.Node().Name]
			if o != nil && o.possible && !k.unfit[node.Node().Name] && !yield(o) {
				return
			}
		}
	}
}

// try chooses the victims on a node in earnest; nil: the pod does not fit there, whoever goes.
func (s *search) try(k *kind, o *outlook, assignment fwk.ProposedAssignment) (*place, error) {
	// The state is that of a cluster without any job that may go; so it is with the copy of the node.
	node, name := o.node.Snapshot(), o.node.Node().Name
	for _, pod := range podsOf(o.shares) {
		if err := node.RemovePod(klog.FromContext(s.ctx), pod.GetPod()); err != nil {
			return nil, err
		}
	}
	room := &room{s.pl, s.ctx, assignment.GetCycleState().Clone(), assignment.GetPod(), node}
	if !room.fits().IsSuccess() {
		k.unfit[name] = true
		return nil, nil
	}
	shares := slices.SortedFunc(slices.Values(o.shares), moreImportant)
	broken, err := room.choose(shares, o.needed)
	if err != nil {
		return nil, err
	}
	pods, err := room.neededOf(broken)
	if err != nil {
		return nil, err
	}
	return &place{node: name, victims: infosOf(o.node, pods), loss: s.at.weigh(pods, 0)}, nil
}

// settle takes the victims off, puts the pod in, and has looked at again what that changes.
func (s *search) settle(at *place, pod fwk.PodInfo) error {
	stale := map[string]bool{at.node: true}
	for _, victim := range at.victims {
		key := keyOf(victim.GetPod())
		for _, sibling := range s.pl.jobs.podsOf(key, victim.GetPod()) {
			stale[sibling.Spec.NodeName] = true
		}
		s.at.breakJob(key, victim.GetPod())
		if err := s.take(victim); err != nil {
			return err
		}
		s.begun = append(s.begun, func() error { return s.put(victim) })
	}
	if err := s.snapshot.AddPod(pod, at.node); err != nil {
		return err
	}
	s.begun = append(s.begun, func() error {
		return s.snapshot.RemovePod(klog.FromContext(s.ctx), pod.GetPod(), at.node)
	})
	for _, k := range s.kinds {
		for name := range stale {
			delete(k.outlooks, name)
		}
	}
	return nil
}

// undo leaves the snapshot, and what is known of jobs, as they were.
func (s *search) undo() (err error) {
	for _, undo := range slices.Backward(s.begun) {
		err = errors.Join(err, undo())
	}
	s.at.mendJobs()
	s.at.preemptor = s.info.GetUnscheduledPods()[0]
	return err
}

// --- who may stay ---

// reprieve gives places back that the group's pods leave free: to ordinary pods first, as DefaultPreemption would, then
// to jobs, the most important first, whole; then to the pods of broken jobs. All of them are off their nodes.
func (g *podGroup) reprieve(
	shares []*share, ordinary []*preemption.DomainVictim, budgets []*policy.PodDisruptionBudget,
	assignments []fwk.ProposedAssignment,
) (*groupPlan, error) {
	r := &reprieval{
		podGroup: g, assignments: assignments, plan: &groupPlan{assignments: assignments},
		byName: make(map[string]fwk.NodeInfo, len(g.nodes)),
	}
	for _, node := range g.nodes {
		r.byName[node.Node().Name] = node
	}
	// Most of them are nowhere near the group.
	shares, ordinary, err := r.elsewhere(shares, ordinary)
	if err != nil {
		return nil, err
	}
	if err := r.ordinary(ordinary, budgets); err != nil {
		return nil, err
	}
	return r.plan, r.jobs(shares)
}

type reprieval struct {
	*podGroup
	assignments []fwk.ProposedAssignment
	byName      map[string]fwk.NodeInfo
	plan        *groupPlan
}

// elsewhere gives all those their places back at once that are on nodes without a pod of the group, and returns the
// others; should the group no longer fit, nobody gets it that way.
func (r *reprieval) elsewhere(
	shares []*share, ordinary []*preemption.DomainVictim,
) ([]*share, []*preemption.DomainVictim, error) {
	taken := map[string]bool{}
	for _, assignment := range r.assignments {
		taken[assignment.GetNodeName()] = true
	}
	near := func(pods []fwk.PodInfo) bool {
		return slices.ContainsFunc(pods, func(pod fwk.PodInfo) bool { return taken[pod.GetPod().Spec.NodeName] })
	}
	var far []fwk.PodInfo
	nearShares, nearOrdinary := []*share{}, []*preemption.DomainVictim{}
	for _, s := range shares {
		if near(s.pods) {
			nearShares = append(nearShares, s)
		} else {
			far = append(far, s.pods...)
		}
	}
	for _, victim := range ordinary {
		if near(victim.Pods()) {
			nearOrdinary = append(nearOrdinary, victim)
		} else {
			far = append(far, victim.Pods()...)
		}
	}
	stay, err := r.stay(far)
	if err != nil || !stay {
		return shares, ordinary, err
	}
	return nearShares, nearOrdinary, nil
}

func (r *reprieval) ordinary(victims []*preemption.DomainVictim, budgets []*policy.PodDisruptionBudget) error {
	slices.SortStableFunc(victims, byImportance)
	violating, others := preemption.FilterVictimsWithPDBViolation(victims, budgets)
	for _, v := range violating {
		gone, err := r.orGo(v.Victim)
		if err != nil {
			return err
		}
		if gone {
			r.plan.violations += v.ViolateCount
		}
	}
	for _, victim := range others {
		if _, err := r.orGo(victim); err != nil {
			return err
		}
	}
	return nil
}

// byImportance puts the more important victim first, by upstream's rules.
func byImportance(a, b *preemption.DomainVictim) int {
	switch {
	case preemption.MoreImportantVictim(a, b):
		return -1
	case preemption.MoreImportantVictim(b, a):
		return 1
	}
	return 0
}

// orGo gives a victim its place back, or has it go.
func (r *reprieval) orGo(victim *preemption.DomainVictim) (gone bool, err error) {
	stay, err := r.stay(victim.Pods())
	if err != nil || stay {
		return false, err
	}
	if victim.IsGroup() {
		r.plan.disruptions++
	}
	for _, pod := range victim.Pods() {
		r.plan.victims = append(r.plan.victims, pod.GetPod())
	}
	return true, nil
}

func (r *reprieval) jobs(shares []*share) error {
	var broken []*share
	for _, s := range whole(shares) {
		stay, err := r.stay(s.pods)
		if err != nil {
			return err
		}
		if !stay {
			broken = append(broken, s)
		}
	}
	for _, pod := range podsOf(broken) {
		stay, err := r.stay([]fwk.PodInfo{pod})
		if err != nil {
			return err
		}
		if !stay {
			r.plan.victims = append(r.plan.victims, pod.GetPod())
		}
	}
	return nil
}

// whole puts together what jobs have on several nodes, the most important job first.
func whole(shares []*share) []*share {
	byJob := map[jobKey]*share{}
	for _, s := range shares {
		if known, ok := byJob[s.key]; ok {
			known.pods = append(known.pods, s.pods...)
			known.staying += s.staying
			continue
		}
		joined := *s
		joined.pods = slices.Clone(s.pods)
		byJob[s.key] = &joined
	}
	return slices.SortedFunc(maps.Values(byJob), moreImportant)
}

// stay gives pods their places back, unless the group would no longer fit; then they are off their nodes as before.
func (r *reprieval) stay(pods []fwk.PodInfo) (stay bool, err error) {
	if len(pods) == 0 {
		return true, nil
	}
	if err := r.change(pods, r.put, r.pl.handle.RunPreFilterExtensionAddPod); err != nil {
		return false, err
	}
	stay, err = r.fits()
	if err != nil || stay {
		return stay, err
	}
	return false, r.change(pods, r.take, r.pl.handle.RunPreFilterExtensionRemovePod)
}

// change takes pods off or puts them in, and has the filters know.
func (r *reprieval) change(
	pods []fwk.PodInfo, change func(...fwk.PodInfo) error,
	tell func(context.Context, fwk.CycleState, *v1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status,
) error {
	for _, pod := range pods {
		if err := change(pod); err != nil {
			return err
		}
		node := r.byName[pod.GetPod().Spec.NodeName]
		for _, assignment := range r.assignments {
			status := tell(r.ctx, assignment.GetCycleState(), assignment.GetPod(), pod, node)
			if !status.IsSuccess() {
				return status.AsError()
			}
		}
	}
	return nil
}

// fits tells whether every pod of the group fits where it was placed, those before it being there.
func (r *reprieval) fits() (fits bool, err error) {
	var undo []func() error
	defer func() {
		for _, u := range slices.Backward(undo) {
			err = errors.Join(err, u())
		}
	}()
	for _, a := range r.assignments {
		name, state, pod := a.GetNodeName(), a.GetCycleState(), a.GetPod()
		status := r.pl.handle.RunFilterPluginsWithNominatedPods(r.ctx, state, pod, r.byName[name])
		if !status.IsSuccess() {
			return false, nil
		}
		if err := r.snapshot.AddPod(a.GetPodInfo(), name); err != nil {
			return false, err
		}
		r.pl.handle.RunReservePluginsReserve(r.ctx, state, pod, name)
		undo = append(undo, func() error {
			r.pl.handle.RunReservePluginsUnreserve(r.ctx, state, pod, name)
			return r.snapshot.RemovePod(klog.FromContext(r.ctx), pod, name)
		})
	}
	return true, nil
}
