package preemption

import (
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// size is what the program of a pod requested of CPU, in millicores, from a moment on; of the first, since it was created.
type size struct {
	since time.Time
	cpu   int64
}

const (
	maxSizes       = 16
	maxSizesLength = maxSizes * 48
)

var sizeEntry = regexp.MustCompile(`^(?:([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)=)?([0-9]{1,9})m$`)

// sizesOf reads what the admitter has noted on a pod that was resized in place, oldest first, such as
// "1000m,2026-01-02T03:04:05Z=4000m"; nothing where that cannot be read as a whole (parse_sizes in
// scavenger_domain.sizes; both are tested against testdata/size_cases.json).
func sizesOf(text string) []size {
	if text == "" || len(text) > maxSizesLength {
		return nil
	}
	var found []size
	for i, part := range strings.Split(text, ",") {
		entry := sizeEntry.FindStringSubmatch(part)
		if entry == nil || (entry[1] == "") != (i == 0) || i >= maxSizes {
			return nil
		}
		since := time.Unix(0, 0)
		if i > 0 {
			at, err := time.Parse(time.RFC3339, entry[1])
			if err != nil || !at.After(found[i-1].since) {
				return nil
			}
			since = at
		}
		cpu, _ := strconv.ParseInt(entry[2], 10, 64)
		found = append(found, size{since, cpu})
	}
	return found
}

// costOver is what a pod has cost between two moments, in CPU-seconds. requests: what it computes with now. What its
// program does not request of that is taken for what it always was.
func costOver(pod *v1.Pod, requests v1.ResourceList, since, now time.Time, w weights) float64 {
	if !now.After(since) {
		return 0
	}
	sizes := sizesOf(pod.Annotations[annotationSizes])
	if _, reclaimed := requests[resourceReclaimedCPU]; sizes == nil || reclaimed {
		return w.cost(requests) * now.Sub(since).Seconds()
	}
	beside := max(0, requests.Cpu().MilliValue()-sizes[len(sizes)-1].cpu)
	had, total, end := maps.Clone(requests), 0.0, now
	for i := len(sizes) - 1; i >= 0; i-- {
		begin := sizes[i].since
		if begin.Before(since) {
			begin = since
		}
		if begin.Before(end) {
			had[v1.ResourceCPU] = *resource.NewMilliQuantity(sizes[i].cpu+beside, resource.DecimalSI)
			total += w.cost(had) * end.Sub(begin).Seconds()
			end = begin
		}
	}
	return total
}
