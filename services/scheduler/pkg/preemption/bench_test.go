package preemption

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"
)

// fullCluster is full of nodes with two jobs each, a third of them preemptible.
func fullCluster(size int) world {
	random := rand.New(rand.NewPCG(9, 9))
	w := world{nodes: nodes(size, "4")}
	for i, n := range w.nodes {
		for j := range 2 {
			risk := random.IntN(3600)
			p := scavenger(fmt.Sprintf("j-%d-%d", i, j), n.Name, "2", fmt.Sprint(risk))
			if risk > 1200 {
				p = p.nonPreemptible()
			}
			w.pods = append(w.pods, p)
		}
	}
	return w
}

// One decision on 1,000 nodes; and DefaultPreemption's.
func BenchmarkDecision(b *testing.B) {
	w, web := fullCluster(1000), pending("web", "2")
	w.pods = append(w.pods, web)
	b.Run("plugin, jobs unchanged", func(b *testing.B) { benchmark(b, w.start(b), web, false) })
	b.Run("plugin, all jobs changed", func(b *testing.B) { benchmark(b, w.start(b), web, true) })
	b.Run("DefaultPreemption", func(b *testing.B) { benchmark(b, w.startStock(b), web, false) })
}

func benchmark(b *testing.B, s *scheduler, web pod, changed bool) {
	s.dry()
	state := s.filter(web)
	began := processorTime()
	for b.Loop() {
		if _, status := s.postFilter(state, web); !status.IsSuccess() {
			b.Fatal(status)
		}
		if s.plugin == nil {
			continue
		}
		s.plugin.decided.reset()
		if changed {
			clear(s.plugin.jobs.jobs)
		}
	}
	b.ReportMetric(float64(processorTime()-began)/float64(b.N)/1e6, "cpu-ms/op")
}

// 200 pending pods at once on 5,000 nodes: all of them are decided about before the first victim is gone.
func BenchmarkBurst(b *testing.B) {
	const size, burst = 5000, 200
	for _, stock := range []bool{false, true} {
		name := Name
		if stock {
			name = "DefaultPreemption"
		}
		b.Run(name, func(b *testing.B) {
			w := fullCluster(size)
			var webs []pod
			for i := range burst {
				webs = append(webs, pending(fmt.Sprint("web-", i), "2"))
			}
			w.pods = append(w.pods, webs...)
			start := w.start
			if stock {
				start = w.startStock
			}
			s := start(b)
			s.dry()
			var took, cost []float64
			for b.Loop() {
				for _, web := range webs {
					state := s.filter(web)
					began, beganCPU := time.Now(), processorTime()
					result, status := s.postFilter(state, web)
					cost = append(cost, float64(processorTime()-beganCPU)/1e6)
					took = append(took, float64(time.Since(began))/1e6)
					if !status.IsSuccess() {
						b.Fatal(status)
					}
					s.nominate(web, result.NominatedNodeName)
				}
			}
			b.ReportMetric(percentile(took, 50), "p50-ms")
			b.ReportMetric(percentile(took, 99), "p99-ms")
			b.ReportMetric(percentile(cost, 50), "p50-cpu-ms")
			b.ReportMetric(percentile(cost, 99), "p99-cpu-ms")
		})
	}
}

// What victims lose over the smallest possible loss, on random nodes of up to 16 jobs with CPU and memory.
func BenchmarkLossOverOptimum(b *testing.B) {
	for b.Loop() {
		mean, worst := lossOverOptimum(b, fuzzSeed, fuzzCases)
		b.ReportMetric(mean, "mean-ratio")
		b.ReportMetric(worst, "worst-ratio")
	}
}

// processorTime is what this process has had of processors until now: on a busy machine the clock on the wall says more
// about the others.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func percentile(values []float64, percent int) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[min(len(values)-1, len(values)*percent/100)]
}
