//go:build ignore

// This file takes part in Kubernetes' own tests, as one of pkg/preemption.

package preemption

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/utils/clock"
)

// InPlace makes the plugin where DefaultPreemption is asked for, with what that is given.
func InPlace(
	ctx context.Context, arguments runtime.Object, handle fwk.Handle, features feature.Features,
) (fwk.Plugin, error) {
	given, ok := arguments.(*config.DefaultPreemptionArgs)
	if !ok {
		return nil, fmt.Errorf("got %T", arguments)
	}
	args := &Args{
		MinCandidateNodesPercentage: &given.MinCandidateNodesPercentage,
		MinCandidateNodesAbsolute:   &given.MinCandidateNodesAbsolute,
	}
	args.setDefaults()
	fmt.Println(Name, "in the place of DefaultPreemption")
	return newPlugin(ctx, args, handle, features, clock.RealClock{})
}
