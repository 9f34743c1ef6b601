package preemption

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// These keep the figures, and what has to be read, within reason.
const (
	maxWeight      = 1e6
	maxWeights     = 64
	maxWeightsText = 8192
)

// weights say how many cores a unit of a resource is worth: a core, a GiB, a device (scavenger_api.weights). A name that
// ends with * stands for all that begin so, but for amounts of memory; the longest one counts.
type weights map[v1.ResourceName]float64

// defaultWeights is the table of scavenger_api.names; testdata/weight_cases.json holds both to it.
var defaultWeights = weights{
	v1.ResourceCPU:              1,
	v1.ResourceMemory:           0,
	"nvidia.com/*":              16,
	"amd.com/*":                 16,
	"gpu.intel.com/*":           16,
	"habana.ai/*":               16,
	"google.com/tpu*":           16,
	"aws.amazon.com/neuron*":    16,
	"huawei.com/*":              16,
	"cambricon.com/*":           16,
	"nvidia.com/mig-1g.6gb*":    4,
	"nvidia.com/mig-2g.12gb*":   8,
	"nvidia.com/mig-4g.24gb*":   16,
	"nvidia.com/gpucores":       0.16,
	"volcano.sh/vgpu-cores":     0.16,
	"gpu.intel.com/millicores":  0.016,
	"aws.amazon.com/neuroncore": 8,
}

// migSlices are those of a GPU that a MIG device has: of a compute instance, or of all of it.
var migSlices = regexp.MustCompile(`^mig-(?:([1-7])c\.)?([1-7])g\.`)

// migSlicesOfAll is how many a whole GPU has. Those with fewer have names of their own in the table.
const migSlicesOfAll = 7

// of is what a unit of a resource is worth, in cores: by its own name; a slice of a GPU by its part of the whole; else by
// how the name begins.
func (w weights) of(resource v1.ResourceName) float64 {
	if weight, ok := w[resource]; ok {
		return weight
	}
	longest := v1.ResourceName("")
	for name := range w {
		begin, wild := strings.CutSuffix(string(name), "*")
		if wild && len(name) > len(longest) && strings.HasPrefix(string(resource), begin) {
			longest = name
		}
	}
	domain, name, _ := strings.Cut(string(resource), "/")
	if part := migSlices.FindStringSubmatch(name); part != nil && (longest == "" || string(longest) == domain+"/*") {
		number, _ := strconv.Atoi(cmp.Or(part[1], part[2]))
		return w.of(v1.ResourceName(domain+"/gpu")) * float64(number) / migSlicesOfAll
	}
	if longest == "" || strings.Contains(name, "mem") {
		return 0
	}
	return w[longest]
}

// weightsOf reads weights such as "cpu=1,nvidia.com/gpu=16"; those that are not named have their defaults.
func weightsOf(text string) (weights, error) {
	if len(text) > maxWeightsText {
		return nil, fmt.Errorf("more than %d characters", maxWeightsText)
	}
	found := maps.Clone(defaultWeights)
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.Trim(part, blanks); part == "" {
			continue
		}
		name, number, _ := strings.Cut(part, "=")
		name = strings.Trim(name, blanks)
		weight, ok := numberOf(number)
		if !ok || name == "" || weight > maxWeight {
			return nil, fmt.Errorf("%.80q is no weight: write RESOURCE=NUMBER from 0 to 1000000, as in cpu=1", part)
		}
		found[v1.ResourceName(name)] = weight
	}
	if len(found) > maxWeights {
		return nil, fmt.Errorf("more than %d resources", maxWeights)
	}
	return found, nil
}

// cost is what a pod's requests count as, in cores: the dominant resource decides, as in the services.
func (w weights) cost(requests v1.ResourceList) float64 {
	found := 0.0
	for name, quantity := range requests {
		if weight := w.of(name); weight > 0 {
			found = max(found, weight*quantity.AsApproximateFloat64()/unit(name))
		}
	}
	return found
}

// unit is how much of a resource a weight is for.
func unit(name v1.ResourceName) float64 {
	text := string(name)
	if name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage || strings.HasPrefix(text, v1.ResourceHugePagesPrefix) {
		return 1 << 30
	}
	return 1
}

// computesWith is what a pod requests while it runs: neither an init container that has ended nor the overhead of the
// runtime computes anything. A pod on reclaimed capacity requests no CPU and memory, but says what it was placed for.
func computesWith(pod *v1.Pod) v1.ResourceList {
	running := v1.Pod{Spec: pod.Spec, Status: pod.Status}
	running.Spec.InitContainers = nil
	for _, container := range pod.Spec.InitContainers {
		if container.RestartPolicy != nil && *container.RestartPolicy == v1.ContainerRestartPolicyAlways {
			running.Spec.InitContainers = append(running.Spec.InitContainers, container)
		}
	}
	requests := resourcehelper.PodRequests(&running, resourcehelper.PodResourcesOptions{
		ExcludeOverhead:    true,
		UseStatusResources: true,
	})
	if cpu, ok := requests[resourceReclaimedCPU]; ok {
		total := requests[v1.ResourceCPU].DeepCopy()
		total.Add(*resource.NewMilliQuantity(cpu.Value(), resource.DecimalSI))
		requests[v1.ResourceCPU] = total
	}
	if memory, ok := requests[resourceReclaimedMemory]; ok {
		total := requests[v1.ResourceMemory].DeepCopy()
		total.Add(*resource.NewQuantity(memory.Value()<<20, resource.BinarySI))
		requests[v1.ResourceMemory] = total
	}
	return requests
}
