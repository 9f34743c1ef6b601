package preemption

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	tf "k8s.io/kubernetes/pkg/scheduler/testing/framework"
	testingclock "k8s.io/utils/clock/testing"
)

// noon is the time in every test.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) {
	metrics.Register()
	m.Run()
}

// --- builders ---

func node(name, cpu string) *v1.Node {
	return st.MakeNode().Name(name).Label(v1.LabelHostname, name).Capacity(map[v1.ResourceName]string{
		v1.ResourceCPU: cpu, v1.ResourceMemory: "64Gi", v1.ResourcePods: "50",
	}).Obj()
}

func nodes(count int, cpu string) (made []*v1.Node) {
	for i := range count {
		made = append(made, node(fmt.Sprintf("node-%03d", i), cpu))
	}
	return made
}

// pod is a pod under construction; a bound one is running, for an hour unless said otherwise.
type pod struct{ *v1.Pod }

func newPod(name, nodeName, cpu string) pod {
	made := st.MakePod().Namespace("default").Name(name).UID(name).Node(nodeName).
		Req(map[v1.ResourceName]string{v1.ResourceCPU: cpu}).Obj()
	made.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
	if nodeName != "" {
		made.Status.Phase = v1.PodRunning
		return pod{made}.running(time.Hour)
	}
	return pod{made}
}

// pending is an ordinary pod that has just been created.
func pending(name, cpu string) pod {
	return newPod(name, "", cpu).priority(1000).created(0)
}

// scavenger is a preemptible pod of a job with so many CPU-seconds at risk.
func scavenger(job, nodeName, cpu, risk string) pod {
	p := newPod(job, nodeName, cpu).priority(-2000).label(labelJob, job).label(labelClass, string(preemptible))
	p.Spec.PriorityClassName = priorityClassPreemptible
	return p.annotate(annotationRisk, risk)
}

// gang is a job with one pod on each of some nodes; as the prioritizer writes it, each says what the whole job would lose.
func gang(job string, nodeNames []string, cpu, risk string) (pods []pod) {
	for i, nodeName := range nodeNames {
		p := scavenger(job, nodeName, cpu, risk)
		p.Name = fmt.Sprintf("%s-%d", job, i)
		p.UID = types.UID(p.Name)
		p.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "batch/v1", Kind: "Job", Name: job, UID: types.UID(job + "-run"), Controller: new(true),
		}}
		pods = append(pods, p)
	}
	return pods
}

func (p pod) memory(amount string) pod { return p.request(v1.ResourceMemory, amount) }
func (p pod) request(name v1.ResourceName, amount string) pod {
	p.Spec.Containers[0].Resources.Requests[name] = resource.MustParse(amount)
	return p
}
func (p pod) priority(value int32) pod { p.Spec.Priority = &value; return p }
func (p pod) label(key, value string) pod {
	metav1.SetMetaDataLabel(&p.ObjectMeta, key, value)
	return p
}
func (p pod) unlabel(key string) pod { delete(p.Labels, key); return p }
func (p pod) nonPreemptible() pod    { return p.label(labelClass, string(nonPreemptible)) }
func (p pod) interactive() pod       { return p.annotate(annotationLatency, latencyInteractive) }
func (p pod) created(ago time.Duration) pod {
	p.CreationTimestamp = metav1.NewTime(noon.Add(-ago))
	return p
}

// waiting is a pod that found no capacity so long ago, as the API server has it from an earlier scheduler.
func (p pod) waiting(ago time.Duration) pod {
	return p.created(ago).failing("0/1 nodes are available: 1 Insufficient cpu.", ago)
}

func (p pod) failing(message string, ago time.Duration) pod {
	p.Status.Conditions = []v1.PodCondition{{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: message,
		LastTransitionTime: metav1.NewTime(noon.Add(-ago)),
	}}
	return p
}

func (p pod) annotate(key, value string) pod {
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value)
	return p
}

func (p pod) unannotate(key string) pod { delete(p.Annotations, key); return p }

func (p pod) running(since time.Duration) pod {
	at := metav1.Time{Time: noon.Add(-since)}
	p.Status.StartTime = &at
	p.Status.ContainerStatuses = []v1.ContainerStatus{
		{Name: mainContainer, State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at}}},
	}
	return p
}

// terminating marks a pod whose grace period ends in `left`.
func (p pod) terminating(left time.Duration) pod {
	p.DeletionTimestamp = &metav1.Time{Time: noon.Add(left)}
	p.Finalizers = []string{"scavenger.dev/interruption-record"}
	return p
}

func (p pod) preempted() pod {
	p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
	})
	return p
}

func budget(name string, allowed int32, selector map[string]string) *policy.PodDisruptionBudget {
	return &policy.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       policy.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: selector}},
		Status:     policy.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

func priorityClass(name string, value int32) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
}

// --- the world a scheduler sees ---

type world struct {
	nodes    []*v1.Node
	pods     []pod
	objects  []runtime.Object
	args     Args
	features feature.Features
	extender fwk.Extender
	// fit are the arguments of NodeResourcesFit; nil: the defaults. byDRA are the extended resources that a DeviceClass
	// stands for.
	fit   *config.NodeResourcesFitArgs
	byDRA []v1.ResourceName
	// groups are PodGroups, for versions that have them.
	groups []runtime.Object
	// patching is what the API server has to say to changes of pods.
	patching error
	// statuses of nodes that another filter turned down for good.
	unresolvable []string
}

// scheduler runs one plugin in that world: ours or the one it replaces.
type scheduler struct {
	t         testing.TB
	ctx       context.Context
	framework framework.Framework
	client    *fake.Clientset
	clock     *testingclock.FakeClock
	statuses  *framework.NodeToStatus
	filtered  []string // nodes whose status the filters say
	plugin    *Plugin
	stock     *defaultpreemption.DefaultPreemption
	recorder  *events.FakeRecorder
	queue     *internalqueue.PriorityQueue

	mu     sync.Mutex
	killed []string
	woken  []string
}

func (w world) start(t testing.TB) *scheduler {
	t.Helper()
	s := w.prepare(t)
	args := w.args
	args.setDefaults()
	plugin, err := newPlugin(s.ctx, &args, s.framework, w.features, s.clock)
	if err != nil {
		t.Fatal(err)
	}
	s.plugin = plugin
	s.watch()
	s.sync()
	return s
}

func (w world) startStock(t testing.TB) *scheduler {
	t.Helper()
	s := w.prepare(t)
	args := w.args
	args.setDefaults()
	stock, err := defaultpreemption.New(s.ctx, args.defaultPreemption(), s.framework, w.features)
	if err != nil {
		t.Fatal(err)
	}
	s.stock = stock
	s.watch()
	s.sync()
	return s
}

func (w world) prepare(t testing.TB) *scheduler {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(2)))
	ctx := klog.NewContext(context.Background(), logger)
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	s := &scheduler{t: t, ctx: ctx, clock: testingclock.NewFakeClock(noon), recorder: events.NewFakeRecorder(100)}

	var running []*v1.Pod
	objects := slices.Clone(w.objects)
	for _, p := range w.pods {
		objects = append(objects, p.Pod)
		if p.Spec.NodeName != "" {
			running = append(running, p.Pod)
		}
	}
	for _, n := range w.nodes {
		objects = append(objects, n)
	}
	s.client = fake.NewClientset(objects...)
	if w.patching != nil {
		s.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, w.patching
		})
	}
	factory := informers.NewSharedInformerFactory(s.client, 0)
	var extenders []fwk.Extender
	if w.extender != nil {
		extenders = append(extenders, w.extender)
	}
	snapshot := w.snapshot(running)
	s.queue = internalqueue.NewPriorityQueue(
		func(a, b queued) bool { return a.GetTimestamp().Before(b.GetTimestamp()) }, factory)
	affinity := frameworkruntime.FactoryAdapter(feature.Features{}, interpodaffinity.New)
	taints := frameworkruntime.FactoryAdapter(feature.Features{}, tainttoleration.New)
	f, err := tf.NewFramework(ctx, []tf.RegisterPluginFunc{
		tf.RegisterQueueSortPlugin(queuesort.Name, queuesort.New),
		tf.RegisterPluginAsExtensions(noderesources.Name, w.newFit, "PreFilter", "Filter"),
		tf.RegisterPluginAsExtensions(interpodaffinity.Name, affinity, "PreFilter", "Filter"),
		tf.RegisterPluginAsExtensions(tainttoleration.Name, taints, "Filter"),
		tf.RegisterPluginAsExtensions("broken-nodes", newBrokenNodes, "PreFilter", "Filter"),
		tf.RegisterBindPlugin(defaultbinder.Name, defaultbinder.New),
	}, "", append(versionOptions(snapshot),
		frameworkruntime.WithClientSet(s.client),
		frameworkruntime.WithEventRecorder(s.recorder),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithPodNominator(s.queue),
		frameworkruntime.WithPodActivator(s),
		frameworkruntime.WithExtenders(extenders),
		frameworkruntime.WithSharedDRAManager(deviceClasses(w.byDRA)),
		frameworkruntime.WithLogger(logger),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
	)...)
	if err != nil {
		t.Fatal(err)
	}
	s.framework = f
	s.statuses = framework.NewNodeToStatus(map[string]*fwk.Status{}, fwk.NewStatus(fwk.UnschedulableAndUnresolvable))
	for _, n := range w.nodes {
		if !slices.Contains(w.unresolvable, n.Name) {
			s.filtered = append(s.filtered, n.Name)
		}
	}
	return s
}

func (w world) newFit(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	if w.fit != nil {
		args = w.fit
	}
	return noderesources.NewFit(ctx, args, handle, w.features)
}

// deviceClasses are DeviceClasses by the extended resource they stand for.
type deviceClasses []v1.ResourceName

func (d deviceClasses) ResourceClaims() fwk.ResourceClaimTracker     { return nil }
func (d deviceClasses) ResourceSlices() fwk.ResourceSliceLister      { return nil }
func (d deviceClasses) DeviceClasses() fwk.DeviceClassLister         { return nil }
func (d deviceClasses) DeviceClassResolver() fwk.DeviceClassResolver { return d }
func (d deviceClasses) GetDeviceClass(n v1.ResourceName) *resourceapi.DeviceClass {
	if slices.Contains(d, n) {
		return &resourceapi.DeviceClass{}
	}
	return nil
}

// watch notes which victims are removed, and lets the call through to the fake API server.
func (s *scheduler) watch() {
	onRemoval(s.embedded(), func(victim *v1.Pod, preempt func() error) error {
		s.mu.Lock()
		s.killed = append(s.killed, victim.Name)
		s.mu.Unlock()
		return preempt()
	})
}

// embedded is DefaultPreemption, as it is or in the plugin.
func (s *scheduler) embedded() *defaultpreemption.DefaultPreemption {
	if s.plugin != nil {
		return s.plugin.DefaultPreemption
	}
	return s.stock
}

func (s *scheduler) sync() {
	factory := s.framework.SharedInformerFactory()
	pods := factory.Core().V1().Pods().Informer()
	budgets := factory.Policy().V1().PodDisruptionBudgets().Informer()
	nodes := factory.Core().V1().Nodes().Informer()
	factory.Start(s.ctx.Done())
	// Not cache.WaitForCacheSync, which looks every 100 ms: that would be most of the time these tests take.
	s.eventually("the informers are filled", func() bool { return pods.HasSynced() && budgets.HasSynced() && nodes.HasSynced() })
	if s.plugin == nil {
		return
	}
	s.eventually("the jobs are known", func() bool {
		var known int64
		for _, object := range pods.GetStore().List() {
			if isScavenger(object.(*v1.Pod)) {
				known++
			}
		}
		return s.plugin.jobs.number.Load() == known
	})
}

// filter runs the filters for a pod, as the scheduler does before it asks for a preemption.
func (s *scheduler) filter(p pod) fwk.CycleState {
	s.t.Helper()
	state := framework.NewCycleState()
	if _, status, _ := s.framework.RunPreFilterPlugins(s.ctx, state, p.Pod); !status.IsSuccess() {
		s.t.Fatalf("PreFilter: %v", status)
	}
	for _, name := range s.filtered {
		info, err := s.framework.SnapshotSharedLister().NodeInfos().Get(name)
		if err != nil {
			s.t.Fatal(err)
		}
		status := s.framework.RunFilterPluginsWithNominatedPods(s.ctx, state, p.Pod, info)
		if status.Code() != fwk.Unschedulable { // what the world says of it is not of concern here: it is full
			status = fwk.NewStatus(fwk.Unschedulable)
		}
		s.statuses.Set(name, status)
	}
	return state
}

// setStatus has the filters say this of a node from here on.
func (s *scheduler) setStatus(nodeName string, status *fwk.Status) {
	s.filtered = slices.DeleteFunc(s.filtered, func(name string) bool { return name == nodeName })
	s.statuses.Set(nodeName, status)
}

// preempt runs PostFilter for a pod; the pod must be in the world.
func (s *scheduler) preempt(p pod) (*fwk.PostFilterResult, *fwk.Status) {
	s.t.Helper()
	return s.postFilter(s.filter(p), p)
}

// postFilter asks for victims after the filters have run.
func (s *scheduler) postFilter(state fwk.CycleState, p pod) (*fwk.PostFilterResult, *fwk.Status) {
	if s.plugin != nil {
		return s.plugin.PostFilter(s.ctx, state, p.Pod, s.statuses)
	}
	return s.stock.PostFilter(s.ctx, state, p.Pod, s.statuses)
}

// victims returns what was removed since the last call, in order of name.
func (s *scheduler) victims() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.killed)
	killed := s.killed
	s.killed = nil
	return killed
}

// nominate lets the scheduler know where a pod will go, as the end of its cycle does.
func (s *scheduler) nominate(p pod, nodeName string) {
	s.t.Helper()
	info, err := framework.NewPodInfo(p.Pod)
	if err != nil {
		s.t.Fatal(err)
	}
	addTo(s.ctx, s.queue, p)
	s.queue.AddNominatedPod(klog.FromContext(s.ctx), info,
		&fwk.NominatingInfo{NominatedNodeName: nodeName, NominatingMode: fwk.ModeOverride})
}

// activated returns the names of the pods that were put to the head of the queue since the last call.
func (s *scheduler) activated() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.woken)
	woken := s.woken
	s.woken = nil
	return woken
}

// Activate stands in for the scheduling queue's.
func (s *scheduler) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range pods {
		s.woken = append(s.woken, pod.Name)
	}
}

// reset forgets all decisions.
func (d *decisions) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.pods)
	clear(d.runs)
}

// dry lets decisions have no consequences.
func (s *scheduler) dry() {
	onRemoval(s.embedded(), func(*v1.Pod, func() error) error { return nil })
}

// update changes a pod in the API, as the informer will see it.
func (s *scheduler) update(p pod) {
	s.t.Helper()
	if _, err := s.client.CoreV1().Pods(p.Namespace).Update(s.ctx, p.Pod.DeepCopy(), metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// eventually waits for what another goroutine does.
func (s *scheduler) eventually(what string, done func() bool) {
	s.t.Helper()
	for range 5000 {
		if done() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	s.t.Fatalf("never: %s", what)
}

// waitForPriorities waits until the plugin knows the PriorityClasses of this world.
func (s *scheduler) waitForPriorities() {
	s.t.Helper()
	list, err := s.client.SchedulingV1().PriorityClasses().List(s.ctx, metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range list.Items {
		s.eventually("PriorityClasses", func() bool {
			_, err := s.plugin.priorities.lister.Get(list.Items[i].Name)
			return err == nil
		})
	}
}

func (s *scheduler) count(m k8smetrics.CounterMetric) float64 {
	s.t.Helper()
	value, err := testutil.GetCounterMetricValue(m)
	if err != nil {
		s.t.Fatal(err)
	}
	return value
}

func (s *scheduler) lostSeconds(c class) float64 {
	return s.count(lostSeconds.WithLabelValues(string(c)))
}
func (s *scheduler) victimsOf(c class) float64 {
	return s.count(victimsTotal.WithLabelValues(string(c)))
}
func (s *scheduler) attempts(result string) float64 { return s.count(attempts.WithLabelValues(result)) }

// brokenNodes fails on nodes labelled `broken`, and turns those down that have more noisy pods than the label `noisy` says.
type brokenNodes struct{}

func newBrokenNodes(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return brokenNodes{}, nil
}

func (brokenNodes) Name() string                                   { return "broken-nodes" }
func (b brokenNodes) PreFilterExtensions() fwk.PreFilterExtensions { return b }

func (brokenNodes) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, nil
}

func (brokenNodes) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, n fwk.NodeInfo) *fwk.Status {
	limit, err := strconv.Atoi(n.Node().Labels["noisy"])
	if err != nil {
		return nil
	}
	for _, p := range n.GetPods() {
		if p.GetPod().Labels["noisy"] != "" {
			limit--
		}
	}
	if limit < 0 {
		return fwk.NewStatus(fwk.Unschedulable, "noisy")
	}
	return nil
}

func (brokenNodes) AddPod(_ context.Context, _ fwk.CycleState, _ *v1.Pod, _ fwk.PodInfo, n fwk.NodeInfo) *fwk.Status {
	return brokenStatus(n)
}

func (brokenNodes) RemovePod(_ context.Context, _ fwk.CycleState, _ *v1.Pod, _ fwk.PodInfo, n fwk.NodeInfo) *fwk.Status {
	return brokenStatus(n)
}

func brokenStatus(n fwk.NodeInfo) *fwk.Status {
	if _, ok := n.Node().Labels["broken"]; ok {
		return fwk.AsStatus(fmt.Errorf("node %s is broken", n.Node().Name))
	}
	return nil
}
