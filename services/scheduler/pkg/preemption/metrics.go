package preemption

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const subsystem = "scavenger_scheduler"

// Results of an attempt.
const (
	resultPreempted   = "preempted"    // victims were chosen
	resultAwaiting    = "awaiting"     // what is leaving anyway makes room
	resultNoCandidate = "no_candidate" // nothing that may go would make room
	resultRefused     = "refused"      // the pending pod never preempts: a scavenger pod, or preemptionPolicy Never
	resultError       = "error"
)

var (
	attempts = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem:      subsystem,
		Name:           "preemption_attempts_total",
		Help:           "Attempts to free capacity for a pending pod, by result.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
	victimsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem:      subsystem,
		Name:           "preemption_victims_total",
		Help:           "Pods removed for a pending pod, by class: ordinary, preemptible, non-preemptible.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"class"})
	lostSeconds = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem,
		Name:      "preemption_lost_cpu_seconds_total",
		Help: "CPU time since the last checkpoint of the scavenger jobs broken for a pending pod, whole gangs, " +
			"by class.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"class"})
	invalidSettings = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem:      subsystem,
		Name:           "settings_invalid",
		Help:           "1 where a key of the ConfigMap scavenger-settings has a value that cannot be used.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"key"})
	decisionSeconds = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem:      subsystem,
		Name:           "preemption_decision_duration_seconds",
		Help:           "Time from a pod's failure to fit until victims were chosen, or none were found.",
		Buckets:        metrics.ExponentialBuckets(0.0005, 2, 14),
		StabilityLevel: metrics.ALPHA,
	})
)

// registerMetrics adds them to what the scheduler serves at /metrics.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(attempts, victimsTotal, lostSeconds, decisionSeconds, invalidSettings)
	for _, key := range []string{keyWeights, keyStartupCost} {
		invalidSettings.WithLabelValues(key)
	}
	for _, result := range []string{resultPreempted, resultAwaiting, resultNoCandidate, resultRefused, resultError} {
		attempts.WithLabelValues(result)
	}
	for _, class := range []class{ordinary, preemptible, nonPreemptible} {
		victimsTotal.WithLabelValues(string(class))
	}
	for _, class := range []class{preemptible, nonPreemptible} {
		lostSeconds.WithLabelValues(string(class))
	}
})
