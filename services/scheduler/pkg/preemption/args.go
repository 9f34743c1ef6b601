package preemption

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"sigs.k8s.io/yaml"
)

const (
	defaultNonPreemptibleWait          = 5 * time.Minute
	defaultMinCandidateNodesPercentage = 10
	defaultMinCandidateNodesAbsolute   = 100
)

// Args are the plugin's arguments, `pluginConfig[].args` in a KubeSchedulerConfiguration.
type Args struct {
	metav1.TypeMeta `json:",inline"`

	// NonPreemptibleWait is how long an ordinary pod waits at most before it may take the place of a non-preemptible
	// scavenger job. Pods annotated `scavenger.dev/latency: interactive` never wait. Zero: nobody does. Default: 5m.
	NonPreemptibleWait *metav1.Duration `json:"nonPreemptibleWait,omitempty"`
	// FullWaitFrom is the unsaved work, for each core that the pod requests, from which it waits that long; for less work
	// it waits proportionally less. Zero, which is the default: it always waits that long.
	FullWaitFrom *metav1.Duration `json:"fullWaitFrom,omitempty"`
	// MinCandidateNodesPercentage and MinCandidateNodesAbsolute mean what they mean for DefaultPreemption where it is
	// ordinary pods that go, or where nodes are equally good: how many are compared before one is taken. The scavenger
	// job with the least at risk is looked for on every node whatever they say. Defaults: 10 percent, 100 nodes.
	MinCandidateNodesPercentage *int32 `json:"minCandidateNodesPercentage,omitempty"`
	MinCandidateNodesAbsolute   *int32 `json:"minCandidateNodesAbsolute,omitempty"`
}

// decodeArgs reads, completes and checks the arguments; a misspelled one is an error, not a default.
func decodeArgs(configuration runtime.Object) (*Args, error) {
	args := &Args{}
	if err := decodeStrict(configuration, args); err != nil {
		return nil, fmt.Errorf("%s: reading args: %w", Name, err)
	}
	args.setDefaults()
	if err := args.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	return args, nil
}

func decodeStrict(configuration runtime.Object, args *Args) error {
	if configuration == nil {
		return nil
	}
	unknown, ok := configuration.(*runtime.Unknown)
	if !ok {
		return fmt.Errorf("got %T, want what a KubeSchedulerConfiguration holds", configuration)
	}
	raw := unknown.Raw
	if len(raw) == 0 {
		return nil
	}
	if unknown.ContentType == runtime.ContentTypeYAML {
		var err error
		if raw, err = yaml.YAMLToJSONStrict(raw); err != nil {
			return err
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	return decoder.Decode(args)
}

func (a *Args) setDefaults() {
	if a.NonPreemptibleWait == nil {
		a.NonPreemptibleWait = &metav1.Duration{Duration: defaultNonPreemptibleWait}
	}
	if a.FullWaitFrom == nil {
		a.FullWaitFrom = &metav1.Duration{}
	}
	if a.MinCandidateNodesPercentage == nil {
		a.MinCandidateNodesPercentage = new(int32(defaultMinCandidateNodesPercentage))
	}
	if a.MinCandidateNodesAbsolute == nil {
		a.MinCandidateNodesAbsolute = new(int32(defaultMinCandidateNodesAbsolute))
	}
}

func (a *Args) validate() error {
	if a.NonPreemptibleWait.Duration < 0 {
		return field.Invalid(field.NewPath("nonPreemptibleWait"), a.NonPreemptibleWait.Duration.String(),
			"must not be negative; 0s lets every pod take non-preemptible jobs at once")
	}
	if a.FullWaitFrom.Duration < 0 {
		return field.Invalid(field.NewPath("fullWaitFrom"), a.FullWaitFrom.Duration.String(),
			"must not be negative; 0s lets all pods wait for nonPreemptibleWait")
	}
	return validation.ValidateDefaultPreemptionArgs(nil, a.defaultPreemption())
}

func (a *Args) defaultPreemption() *config.DefaultPreemptionArgs {
	return &config.DefaultPreemptionArgs{
		MinCandidateNodesPercentage: *a.MinCandidateNodesPercentage,
		MinCandidateNodesAbsolute:   *a.MinCandidateNodesAbsolute,
	}
}
