//go:build upstream

// Package upstream names what Kubernetes' own tests of preemption are built from, so that go.mod has it; run.sh runs them.
package upstream

import (
	_ "k8s.io/kubernetes/test/integration/framework"
	_ "k8s.io/kubernetes/test/integration/util"
	_ "k8s.io/kubernetes/test/utils/ktesting"
)
