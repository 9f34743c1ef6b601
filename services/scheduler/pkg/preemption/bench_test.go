package preemption

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// One decision on 1,000 full nodes with two jobs each, a third of them preemptible; and DefaultPreemption's.
func BenchmarkDecision(b *testing.B) {
	random := rand.New(rand.NewPCG(9, 9))
	w := world{nodes: nodes(1000, "4")}
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
	web := pending("web", "2")
	w.pods = append(w.pods, web)
	b.Run("plugin, jobs unchanged", func(b *testing.B) { benchmark(b, w.start(b), web, false) })
	b.Run("plugin, all jobs changed", func(b *testing.B) { benchmark(b, w.start(b), web, true) })
	b.Run("DefaultPreemption", func(b *testing.B) { benchmark(b, w.startStock(b), web, false) })
}

func benchmark(b *testing.B, s *scheduler, web pod, changed bool) {
	s.dry()
	state := s.filter(web)
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
}
