// Command scavenger-scheduler is kube-scheduler with the plugin ScavengerPreemption compiled in.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // request metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"scavenger.dev/scheduler/pkg/preemption"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(preemption.Name, preemption.New))))
}
