package preemption

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// simulatorCase is a full cluster and a pod, as the simulator's tests make them up. Amounts are millicores and bytes.
type simulatorCase struct {
	Nodes []struct {
		Name        string
		CPU, Memory int64
		Pods        int64
	}
	Pods []struct {
		Name, Job, Node    string
		CPU, Memory        int64
		Risk               float64
		Protected, Leaving bool
		RunningSeconds     float64
	}
	CPU, Memory int64
	Interactive bool
	// Waited is how many seconds the pod has waited.
	Waited int
}

// simulatorAnswer is where room is made; no node where none can be.
type simulatorAnswer struct {
	Node    string   `json:"node"`
	Victims []string `json:"victims"`
}

// The simulator has the choice of victims in Python (simulator/src/scavenger_simulator/victims.py); its tests run this one
// on their random cases, and compare: SCAVENGER_CASES is the file with the cases, SCAVENGER_ANSWERS the one to write.
func TestCasesOfSimulator(t *testing.T) {
	from, to := os.Getenv("SCAVENGER_CASES"), os.Getenv("SCAVENGER_ANSWERS")
	if from == "" || to == "" {
		t.Skip("run by tests/simulation/test_victims_against_go.py")
	}
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	var cases []simulatorCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	answers := make([]simulatorAnswer, len(cases))
	for i := range cases {
		t.Run(fmt.Sprint(i), func(t *testing.T) { answers[i] = cases[i].answer(t) })
	}
	text, err = json.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (c *simulatorCase) answer(t *testing.T) simulatorAnswer {
	w := world{args: Args{FullWaitFrom: &metav1.Duration{Duration: 5 * time.Hour}}}
	for _, n := range c.Nodes {
		made := node(n.Name, fmt.Sprint(n.CPU, "m"))
		made.Status.Allocatable[v1.ResourceMemory] = *resource.NewQuantity(n.Memory, resource.BinarySI)
		made.Status.Allocatable[v1.ResourcePods] = *resource.NewQuantity(n.Pods, resource.DecimalSI)
		w.nodes = append(w.nodes, made)
	}
	for _, p := range c.Pods {
		made := gang(p.Job, []string{p.Node}, fmt.Sprint(p.CPU, "m"), fmt.Sprint(p.Risk))[0].memory(fmt.Sprint(p.Memory)).
			running(time.Duration(p.RunningSeconds * float64(time.Second)))
		made.Name, made.UID = p.Name, types.UID(p.Name)
		if p.Protected {
			made = made.nonPreemptible()
		}
		if p.Leaving {
			made = made.terminating(30 * time.Second)
		}
		w.pods = append(w.pods, made)
	}
	web := pending("web", fmt.Sprint(c.CPU, "m")).memory(fmt.Sprint(c.Memory)).
		waiting(time.Duration(c.Waited+1) * time.Second)
	if c.Interactive {
		web = web.interactive()
	}
	w.pods = append(w.pods, web)
	s := w.start(t)
	result, status := s.preempt(web)
	if !status.IsSuccess() {
		t.Log(status)
		return simulatorAnswer{Victims: []string{}}
	}
	return simulatorAnswer{Node: result.NominatedNodeName, Victims: append([]string{}, s.victims()...)}
}
